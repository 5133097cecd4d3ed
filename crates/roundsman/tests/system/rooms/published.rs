//! What the client `loro-websocket` of npm does, it does here as it is.

use anyhow::{Result, ensure};
use roundsman_testkit::JsonClient;
use serde_json::{Value, json};

use super::npm::NpmClient;
use super::place::{PROJECT, RoomSite, on_both, socket_url};
use crate::site::Backend;

/// More than fits into a frame, and into two.
const LARGE_BYTES: u64 = 700_000;
/// The protocol's words, as the client hands them on.
const PERMISSION_DENIED: i64 = 3;
const RATE_LIMITED: i64 = 6;
const NOT_STORED: i64 = 127;
const EVICTED: i64 = 2;

#[tokio::test]
async fn two_clients_and_http_share_a_document() {
    on_both(async |backend| {
        let place = RoomSite::new(backend).await?;
        let mut node = place.site.start(place.options()).await?;
        let owner = place.owner("ada@example.org").await?;
        let mut one = NpmClient::connect(&place.socket_url()).await?;
        one.call("ping", json!({})).await?;
        ensure!(one.join(PROJECT, &owner.key).await? == json!({}), "a new document is empty");
        let (_, write) = owner.token(&place, "write", 600).await?;
        let mut two = NpmClient::connect(&place.socket_url()).await?;
        two.join(PROJECT, &write).await?;

        one.set(PROJECT, "a", &json!({"x": 1})).await?;
        two.wait(PROJECT, "a", &json!({"x": 1})).await?;
        two.set(PROJECT, "b", &json!({"y": 2})).await?;
        one.wait(PROJECT, "b", &json!({"y": 2})).await?;

        let path = format!("/rooms/{PROJECT}/doc");
        let patch = json!({"nodes": {"a": {"x": 3}, "b": null, "c": {"z": 1}}});
        owner.client.patch(&path, &patch).await?.expect_status(200)?;
        for client in [&mut one, &mut two] {
            client.wait(PROJECT, "a", &json!({"x": 3})).await?;
            client.wait(PROJECT, "c", &json!({"z": 1})).await?;
        }
        let said = json!({"a": {"x": 3}, "c": {"z": 1}});
        ensure!(owner.document().await?["nodes"] == said, "HTTP sees what the clients see");

        one.call("join_presence", json!({"room": PROJECT, "token": owner.key})).await?;
        one.call("say", json!({"room": PROJECT, "key": "ada", "value": {"at": 1}})).await?;
        two.call("join_presence", json!({"room": PROJECT, "token": write})).await?;
        let ada = json!({"room": PROJECT, "key": "ada", "value": {"at": 1}});
        two.call("hear", ada).await?;
        two.call("say", json!({"room": PROJECT, "key": "bob", "value": "here"})).await?;
        one.call("hear", json!({"room": PROJECT, "key": "bob", "value": "here"})).await?;
        node.stop().await
    })
    .await;
}

#[tokio::test]
async fn large_documents_offline_edits_and_a_restart() {
    on_both(async |backend| {
        let place = RoomSite::new(backend).await?;
        let mut node = place.site.start(place.options()).await?;
        let owner = place.owner("ada@example.org").await?;
        let mut one = NpmClient::connect(&place.socket_url()).await?;
        one.join(PROJECT, &owner.key).await?;
        let fill = json!({"room": PROJECT, "key": "large", "bytes": LARGE_BYTES});
        one.call("fill", fill).await?;
        one.set(PROJECT, "a", &json!(1)).await?;

        // Somebody who comes late gets all of it.
        let mut two = NpmClient::connect(&place.socket_url()).await?;
        two.wait_large(&owner.key).await?;

        // What both write while one of them is away is there for both.
        one.call("offline", json!({})).await?;
        one.set(PROJECT, "offline", &json!("one")).await?;
        two.set(PROJECT, "online", &json!("two")).await?;
        one.call("online", json!({})).await?;
        one.wait(PROJECT, "online", &json!("two")).await?;
        two.wait(PROJECT, "offline", &json!("one")).await?;

        // The server goes and comes back; nobody does anything about it.
        node.stop().await?;
        one.set(PROJECT, "during", &json!("the restart")).await?;
        let mut node = place.site.start(place.options()).await?;
        for client in [&mut one, &mut two] {
            client.call("connected", json!({})).await?;
            client.wait(PROJECT, "during", &json!("the restart")).await?;
        }
        let document = owner.document().await?;
        ensure!(document["nodes"]["offline"] == "one", "{}", document["nodes"]["offline"]);
        ensure!(document["nodes"]["during"] == "the restart", "it is stored");
        node.stop().await
    })
    .await;
}

impl NpmClient {
    async fn wait_large(&mut self, token: &str) -> Result<()> {
        self.join(PROJECT, token).await?;
        let length = self.call("length", json!({"room": PROJECT, "key": "large"})).await?;
        ensure!(length == json!(LARGE_BYTES), "{length} of {LARGE_BYTES}");
        self.wait(PROJECT, "a", &json!(1)).await
    }
}

#[tokio::test]
async fn whoever_is_too_fast_loses_nothing() {
    on_both(async |backend| {
        let place = RoomSite::new(backend).await?;
        let mut node = place.site.start(place.options()).await?;
        let owner = place.owner("ada@example.org").await?;
        let mut one = NpmClient::connect(&place.socket_url()).await?;
        let mut two = NpmClient::connect(&place.socket_url()).await?;
        for client in [&mut one, &mut two] {
            client.join(PROJECT, &owner.key).await?;
        }
        // Whoever is too fast is refused for now, and everything arrives in the end.
        let many = json!({"room": PROJECT, "key": "counter", "count": 200});
        one.call("burst", many).await?;
        two.wait(PROJECT, "counter", &json!(200)).await?;
        let refused = one.call("refused", json!({})).await?;
        let limited = |code: &Value| *code == json!(RATE_LIMITED) || *code == json!(NOT_STORED);
        ensure!(refused.as_array().is_some_and(|codes| codes.iter().all(limited)), "{refused}");
        ensure!(owner.document().await?["nodes"]["counter"] == 200, "and is stored");
        node.stop().await
    })
    .await;
}

/// `%EPS`: what a client wants to be kept is there for those who come when it is gone, and after a
/// restart.
#[tokio::test]
async fn presence_that_is_kept_outlives_clients_and_the_server() {
    on_both(async |backend| {
        let place = RoomSite::new(backend).await?;
        let mut node = place.site.start(place.options()).await?;
        let owner = place.owner("ada@example.org").await?;
        let kept = format!("kept {PROJECT}");
        let word = |key: &str, value: Value| json!({"room": kept, "key": key, "value": value});
        let mut one = NpmClient::connect(&place.socket_url()).await?;
        let mut two = NpmClient::connect(&place.socket_url()).await?;
        for client in [&mut one, &mut two] {
            client.call("join_kept", json!({"room": PROJECT, "token": owner.key})).await?;
        }
        one.call("say", word("ada", json!({"at": [1, 2]}))).await?;
        one.call("say", word("gone", json!("soon"))).await?;
        two.call("hear", word("ada", json!({"at": [1, 2]}))).await?;
        two.call("hear", word("gone", json!("soon"))).await?;
        two.call("unsay", json!({"room": kept, "key": "gone"})).await?;
        one.call("hear", word("gone", Value::Null)).await?;
        drop((one, two));

        let (_, read) = owner.token(&place, "read", 600).await?;
        let mut three = NpmClient::connect(&place.socket_url()).await?;
        three.call("join_kept", json!({"room": PROJECT, "token": read})).await?;
        three.call("hear", word("ada", json!({"at": [1, 2]}))).await?;
        three.call("hear", word("gone", Value::Null)).await?;
        drop(three);
        node.stop().await?;
        let mut node = place.site.start(place.options()).await?;
        let mut four = NpmClient::connect(&place.socket_url()).await?;
        four.call("join_kept", json!({"room": PROJECT, "token": owner.key})).await?;
        four.call("hear", word("ada", json!({"at": [1, 2]}))).await?;
        node.stop().await
    })
    .await;
}

#[tokio::test]
async fn rights_are_kept_and_tokens_are_replaced_without_losing_the_socket() {
    on_both(async |backend| {
        let place = RoomSite::new(backend).await?;
        let mut node = place.site.start(place.options()).await?;
        let owner = place.owner("ada@example.org").await?;
        let stranger = place.owner("bob@example.org").await?;
        let mut one = NpmClient::connect(&place.socket_url()).await?;
        one.join(PROJECT, &owner.key).await?;
        one.set(PROJECT, "a", &json!(1)).await?;

        // The project is somebody else's; so is a token of another room.
        let mut two = NpmClient::connect(&place.socket_url()).await?;
        for wrong in [stranger.key.as_str(), "rrt_1_00", "nonsense"] {
            let refused = two.join(PROJECT, wrong).await;
            let words = refused.err().map(|error| error.to_string()).unwrap_or_default();
            ensure!(words.contains("Join failed: 2"), "{wrong}: {words}");
        }
        let refused = stranger.client.get(&format!("/rooms/{PROJECT}/doc")).await?;
        ensure!(refused.status == 404, "{}", refused.status);

        // Whoever may read reads, and is told that they may not write.
        let (_, read) = owner.token(&place, "read", 600).await?;
        two.join(PROJECT, &read).await?;
        two.wait(PROJECT, "a", &json!(1)).await?;
        two.set(PROJECT, "b", &json!("not allowed")).await?;
        let refused = two.call("refused", json!({})).await?;
        ensure!(refused == json!([PERMISSION_DENIED]), "{refused}");
        ensure!(owner.document().await?["nodes"].get("b").is_none(), "nothing was stored");

        // A token ends, the client brings the next one, and goes on over the same socket.
        let (_, short) = owner.token(&place, "write", 10).await?;
        let (last, long) = owner.token(&place, "write", 600).await?;
        let mut three = NpmClient::connect(&place.socket_url()).await?;
        let tokens = json!({"room": PROJECT, "tokens": [short, long]});
        three.call("join", tokens).await?;
        let rejoined = json!({"room": PROJECT, "status": "reconnecting"});
        three.call("status_seen", rejoined).await?;
        three.set(PROJECT, "c", &json!("with the next token")).await?;
        one.wait(PROJECT, "c", &json!("with the next token")).await?;

        // One that is revoked ends at once, and for good.
        let path = format!("/rooms/{PROJECT}/tokens/{last}");
        owner.client.delete(&path).await?.expect_status(204)?;
        three.call("put_out", json!({"room": PROJECT, "code": EVICTED})).await?;
        three.set(PROJECT, "d", &json!("not allowed any more")).await?;
        one.set(PROJECT, "e", &json!("not for everybody")).await?;
        two.wait(PROJECT, "e", &json!("not for everybody")).await?;
        let seen = three.call("json", json!({"room": PROJECT})).await?;
        ensure!(seen["nodes"].get("e").is_none(), "{seen}");
        let stored = owner.document().await?;
        ensure!(stored["nodes"]["e"].is_string() && stored["nodes"].get("d").is_none(), "{stored}");
        node.stop().await
    })
    .await;
}

#[tokio::test]
async fn clients_of_two_nodes_share_a_document() {
    async fn run() -> Result<()> {
        let place = RoomSite::new(Backend::Postgres).await?;
        let mut here = place.site.start(place.options()).await?;
        let mut there = place.site.start(place.options_beside()).await?;
        let owner = place.owner("ada@example.org").await?;
        let mut one = NpmClient::connect(&place.socket_url()).await?;
        let mut two = NpmClient::connect(&socket_url(&there.base_url())).await?;
        for client in [&mut one, &mut two] {
            client.join(PROJECT, &owner.key).await?;
            let presence = json!({"room": PROJECT, "token": owner.key});
            client.call("join_presence", presence).await?;
        }
        for round in 0..10 {
            let key = format!("n{round}");
            let (from, to) =
                if round % 2 == 0 { (&mut one, &mut two) } else { (&mut two, &mut one) };
            from.set(PROJECT, &key, &json!(round)).await?;
            to.wait(PROJECT, &key, &json!(round)).await?;
        }
        one.call("say", json!({"room": PROJECT, "key": "ada", "value": 1})).await?;
        two.call("hear", json!({"room": PROJECT, "key": "ada", "value": 1})).await?;
        // What a request changes at one node is seen at the other.
        let beside = JsonClient::new(there.base_url())?.with_header("x-api-key", &owner.key)?;
        let patch = json!({"nodes": {"patched": true}});
        beside.patch(&format!("/rooms/{PROJECT}/doc"), &patch).await?.expect_status(200)?;
        one.wait(PROJECT, "patched", &Value::Bool(true)).await?;
        two.wait(PROJECT, "patched", &Value::Bool(true)).await?;
        there.stop().await?;
        here.stop().await
    }
    run().await.unwrap();
}
