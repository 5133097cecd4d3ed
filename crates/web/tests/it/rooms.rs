//! Rooms over HTTP and over their sockets: what is answered, and in which of the protocol's words.

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use roundsman_documents::Document;
use roundsman_documents::protocol::{
    AckStatus, BatchId, Crdt, Frame, JoinErrorCode, Message, RoomErrorCode, update_frames,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message as Packet;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::app::App;
use crate::app_live::{Running, SOON};

const DOC: &str = "/rooms/storyboard/doc";
pub(crate) const ROOM: &str = "storyboard";

#[tokio::test]
async fn a_document_is_read_patched_and_brought_back() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    assert_eq!(ada.get(DOC).await.status, 404, "reading makes no room");
    let patch = json!({"nodes": {"a": {"x": 1}}, "edges": {"e": {"source": "a"}}});
    let patched = ada.patch(DOC, patch.clone()).await.expect(200).body;
    assert_eq!(patched, json!({"changed": true, "seq": 1}));
    let again = ada.patch(DOC, patch).await.expect(200).body;
    assert_eq!(again, json!({"changed": false, "seq": null}));
    let document = ada.get(DOC).await.expect(200).body;
    let said = json!({"nodes": {"a": {"x": 1}}, "edges": {"e": {"source": "a"}}, "tasks": {}});
    assert_eq!((&document["doc"], &document["seq"]), (&said, &json!(1)));
    for wrong in [json!({"other": {}}), json!({"nodes": []})] {
        assert_eq!(ada.patch(DOC, wrong).await.status, 422);
    }
    let version = ada.post("/rooms/storyboard/versions", json!({"name": "one"})).await.expect(200);
    assert_eq!((&version.body["seq"], &version.body["name"]), (&json!(1), &json!("one")));
    ada.patch(DOC, json!({"nodes": {"a": null, "b": 2}})).await.expect(200);
    let then = ada.get("/rooms/storyboard/versions/1").await.expect(200).body;
    assert_eq!(then["doc"]["nodes"], json!({"a": {"x": 1}}));
    let diff = ada.get("/rooms/storyboard/versions/1/diff").await.expect(200).body;
    assert_eq!(diff["patch"], json!({"nodes": {"a": null, "b": 2}}));
    ada.post("/rooms/storyboard/versions/1/restore", json!({})).await.expect(200);
    let now = ada.get(DOC).await.expect(200).body;
    assert_eq!(now["doc"]["nodes"], json!({"a": {"x": 1}}));
    assert_eq!(ada.get("/rooms/storyboard/versions/9").await.status, 404);
    let listed = ada.get("/rooms/storyboard/versions").await.expect(200).body;
    assert_eq!(listed["versions"].as_array().unwrap().len(), 1);
    let rooms = ada.get("/rooms").await.expect(200).body;
    assert_eq!(rooms["rooms"][0]["project_id"], "storyboard");
    let mut copy = Document::new(9);
    let update = copy.patch(&json!({"nodes": {"c": 3}})).unwrap().unwrap();
    let import = format!("{DOC}/import");
    let bytes = ada.clone().header("content-type", "application/octet-stream");
    bytes.post_text(&import, update).await.expect(200);
    assert_eq!(bytes.post_text(&import, "garbage").await.status, 422);
    let now = ada.get(DOC).await.expect(200).body;
    assert_eq!(now["doc"]["nodes"], json!({"a": {"x": 1}, "c": 3}));
    assert_eq!(ada.get(&format!("{DOC}/export")).await.status, 200);
}

#[tokio::test]
async fn a_project_is_its_owners_and_of_those_with_a_token() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    ada.patch(DOC, json!({"nodes": {"a": 1}})).await.expect(200);
    assert_eq!(bob.get(DOC).await.status, 404);
    assert_eq!(bob.patch(DOC, json!({"nodes": {"a": 2}})).await.status, 404);
    let tokens = "/rooms/storyboard/tokens";
    assert_eq!(bob.post(tokens, json!({"permission": "write"})).await.status, 404);
    for wrong in [
        json!({}),
        json!({"permission": "own"}),
        json!({"permission": "read", "expires_in_secs": 1}),
    ] {
        assert_eq!(ada.post(tokens, wrong).await.status, 422);
    }
    let made =
        ada.post(tokens, json!({"permission": "read", "name": "guest"})).await.expect(201).body;
    let guest = app
        .client()
        .header("authorization", &format!("Bearer {}", made["token"].as_str().unwrap()));
    assert_eq!(guest.get(DOC).await.expect(200).body["doc"]["nodes"], json!({"a": 1}));
    assert_eq!(guest.patch(DOC, json!({"nodes": {}})).await.status, 403);
    assert_eq!(guest.get(tokens).await.status, 403);
    assert_eq!(guest.get("/rooms/other/doc").await.status, 401, "it is a token of one room");
    let listed = ada.get(tokens).await.expect(200);
    assert_eq!(listed.body["tokens"][0]["name"], "guest");
    assert!(!listed.text.contains("rrt_"), "the secret is shown once");
    ada.post(&format!("{tokens}/{}/refresh", made["id"]), json!({})).await.expect(200);
    ada.delete(&format!("{tokens}/{}", made["id"])).await.expect(204);
    assert_eq!(guest.get(DOC).await.status, 401);
    assert_eq!(ada.delete(&format!("{tokens}/{}", made["id"])).await.status, 404);
}

/// A client that speaks the protocol by hand.
pub(crate) struct Wire {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
}

impl Wire {
    pub(crate) async fn connect(running: &Running, path: &str) -> Wire {
        let url = format!("ws://{}{path}", running.address);
        Wire { socket: connect_async(url).await.expect("the socket is accepted").0 }
    }

    pub(crate) async fn send(&mut self, crdt: Crdt, message: Message) {
        let frame = Frame { crdt, room: ROOM.to_owned(), message };
        self.socket.send(Packet::Binary(frame.encode())).await.unwrap();
    }

    pub(crate) async fn join(&mut self, token: &str) -> Message {
        let auth = Bytes::copy_from_slice(token.as_bytes());
        self.send(Crdt::Loro, Message::JoinRequest { auth, version: Bytes::new() }).await;
        self.next().await
    }

    pub(crate) async fn packet(&mut self) -> Packet {
        timeout(SOON, self.socket.next()).await.expect("something comes").unwrap().unwrap()
    }

    pub(crate) async fn next(&mut self) -> Message {
        loop {
            match self.packet().await {
                Packet::Binary(bytes) => return Frame::decode(bytes).unwrap().message,
                Packet::Ping(_) | Packet::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits for one update, in however many pieces.
    async fn whole(&mut self) {
        match self.next().await {
            Message::Update { .. } => {}
            Message::FragmentHeader { fragments, .. } => {
                for _ in 0..fragments {
                    assert!(matches!(self.next().await, Message::Fragment { .. }));
                }
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn closed(&mut self) -> u16 {
        loop {
            if let Packet::Close(frame) = self.packet().await {
                return frame.expect("a reason").code.into();
            }
        }
    }

    pub(crate) async fn update(&mut self, update: Bytes, number: u8) -> AckStatus {
        let batch = BatchId([number; 8]);
        for frame in update_frames(Crdt::Loro, ROOM, &update, batch) {
            self.socket.send(Packet::Binary(frame)).await.unwrap();
        }
        match self.next().await {
            Message::Ack { batch: acked, status } if acked == batch => status,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn change(key: &str, value: impl Into<Value>) -> Bytes {
    let value = value.into();
    let mut document = Document::new(77);
    document.patch(&json!({"nodes": {key: value}})).unwrap().unwrap()
}

#[tokio::test]
async fn every_batch_is_answered_in_the_protocols_words() {
    let app = App::new();
    let running = app.serve();
    let key = app.token("ada@example.org", &[]).await;
    let mut wire = Wire::connect(&running, "/ws/rooms").await;
    wire.socket.send(Packet::text("ping")).await.unwrap();
    assert_eq!(wire.packet().await, Packet::text("pong"));
    assert_eq!(wire.update(change("a", 1), 1).await, AckStatus::PermissionDenied);
    let refused = wire.join("nonsense").await;
    assert!(
        matches!(refused, Message::JoinError(ref why) if why.code == JoinErrorCode::AuthFailed)
    );
    assert!(matches!(wire.join(&key).await, Message::JoinOk { .. }));
    assert_eq!(wire.update(change("a", 1), 2).await, AckStatus::Ok);
    assert_eq!(wire.update("garbage".into(), 3).await, AckStatus::InvalidUpdate);
    let large = change("large", "x".repeat(600_000));
    assert_eq!(wire.update(large, 4).await, AckStatus::Ok, "in pieces");
    let batch = BatchId([5; 8]);
    let header = Message::FragmentHeader { batch, fragments: 2, bytes: 1 << 40 };
    wire.send(Crdt::Loro, header).await;
    let too_large = Message::Ack { batch, status: AckStatus::PayloadTooLarge };
    assert_eq!(wire.next().await, too_large);
    let mut statuses = Vec::new();
    while statuses.last().is_none_or(|status| *status == AckStatus::Ok) && statuses.len() < 60 {
        statuses.push(wire.update(change("a", 1), 6).await);
    }
    assert_eq!(statuses.last(), Some(&AckStatus::RateLimited), "there is a limit within a second");
    let again = wire.next().await;
    assert!(
        matches!(again, Message::RoomError { code: RoomErrorCode::RejoinSuggested, .. }),
        "what was refused for now is to be brought by a join: {again:?}"
    );
    assert_eq!(wire.update(change("a", 1), 7).await, AckStatus::App, "it has not joined yet");
    assert!(matches!(wire.join(&key).await, Message::JoinOk { .. }));
    wire.whole().await;
    // The version that is none, and a sort of document that is not kept here.
    let auth = Bytes::copy_from_slice(key.as_bytes());
    let version = Bytes::from_static(b"\xff\xff\xff\xff\xff");
    wire.send(Crdt::Loro, Message::JoinRequest { auth: auth.clone(), version }).await;
    let unknown = wire.next().await;
    assert!(
        matches!(unknown, Message::JoinError(ref why) if why.code == JoinErrorCode::VersionUnknown && why.version.is_some())
    );
    wire.send(Crdt::Yjs, Message::JoinRequest { auth, version: Bytes::new() }).await;
    let unknown = wire.next().await;
    assert!(
        matches!(unknown, Message::JoinError(ref why) if why.app_code.as_deref() == Some("unsupported"))
    );
    wire.socket.send(Packet::binary("no frame")).await.unwrap();
    assert_eq!(wire.closed().await, 4400);
}

#[tokio::test]
async fn a_revoked_token_is_out_at_once_and_an_expired_one_may_come_back() {
    let app = App::new();
    let running = app.serve();
    let ada = app.user("ada@example.org").await;
    ada.patch(DOC, json!({"nodes": {"a": 1}})).await.expect(200);
    let tokens = "/rooms/storyboard/tokens";
    let made = ada.post(tokens, json!({"permission": "read"})).await.expect(201).body;
    let mut wire = Wire::connect(&running, "/ws/rooms").await;
    assert!(matches!(wire.join(made["token"].as_str().unwrap()).await, Message::JoinOk { .. }));
    assert!(matches!(wire.next().await, Message::Update { .. }), "what it lacks");
    assert_eq!(wire.update(change("b", 1), 1).await, AckStatus::PermissionDenied);
    ada.delete(&format!("{tokens}/{}", made["id"])).await.expect(204);
    let out = wire.next().await;
    assert!(matches!(out, Message::RoomError { code: RoomErrorCode::Evicted, .. }), "{out:?}");

    let wish = json!({"permission": "read", "expires_in_secs": 10});
    let made = ada.post(tokens, wish).await.expect(201).body;
    assert!(matches!(wire.join(made["token"].as_str().unwrap()).await, Message::JoinOk { .. }));
    assert!(matches!(wire.next().await, Message::Update { .. }));
    app.clock.advance(std::time::Duration::from_secs(11));
    let out = wire.next().await;
    assert!(
        matches!(out, Message::RoomError { code: RoomErrorCode::RejoinSuggested, .. }),
        "{out:?}"
    );
}

#[tokio::test]
async fn the_raw_mode_sends_the_document_and_then_updates() {
    let app = App::new();
    let running = app.serve();
    let ada = app.user("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    ada.patch(DOC, json!({"nodes": {"a": 1}})).await.expect(200);
    assert_eq!(app.client().get("/sync/storyboard").await.status, 426);
    let path = format!("/sync/storyboard?token={key}");
    let mut one = Wire::connect(&running, &path).await;
    let mut two = Wire::connect(&running, &path).await;
    let mut document = Document::new(5);
    for wire in [&mut one, &mut two] {
        let Packet::Binary(whole) = wire.packet().await else { panic!("the whole comes first") };
        document.import(&whole).unwrap();
    }
    assert_eq!(document.to_json()["nodes"], json!({"a": 1}));
    let update = document.patch(&json!({"nodes": {"b": 2}})).unwrap().unwrap();
    one.socket.send(Packet::Binary(update.clone())).await.unwrap();
    assert_eq!(two.packet().await, Packet::Binary(update));
    let now = ada.get(DOC).await.expect(200).body;
    assert_eq!(now["doc"]["nodes"], json!({"a": 1, "b": 2}));
    one.socket.send(Packet::binary("garbage")).await.unwrap();
    assert_eq!(one.closed().await, 1007);
}

#[tokio::test]
async fn presence_that_is_kept_is_there_for_whoever_comes_later() {
    // One key, a text, and a time that is later than that of any machine: as Loro writes it.
    const SAID: &[u8] = b"\x01\x03ada\x01\x04\x04here\x80\x80\xa2\xa9\xea\xe8\x01";
    let app = App::new();
    let running = app.serve();
    let ada = app.user("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    ada.patch(DOC, json!({"nodes": {"a": 1}})).await.expect(200);
    let wish = json!({"permission": "read"});
    let made = ada.post("/rooms/storyboard/tokens", wish).await.expect(201).body;
    let crdt = Crdt::PersistedEphemeral;
    let auth = |token: &str| Message::JoinRequest {
        auth: Bytes::copy_from_slice(token.as_bytes()),
        version: Bytes::new(),
    };
    let update = |number: u8, said: &'static [u8]| Message::Update {
        updates: vec![Bytes::from_static(said)],
        batch: BatchId([number; 8]),
    };
    let ack = |number: u8, status| Message::Ack { batch: BatchId([number; 8]), status };
    let mut one = Wire::connect(&running, "/ws/rooms").await;
    one.send(crdt, auth(&key)).await;
    assert!(matches!(one.next().await, Message::JoinOk { .. }));
    // What the published client sends when it has nothing to say.
    one.send(crdt, update(1, b"\x00")).await;
    assert_eq!(one.next().await, ack(1, AckStatus::Ok));
    one.send(crdt, update(2, SAID)).await;
    assert_eq!(one.next().await, ack(2, AckStatus::Ok));
    one.send(crdt, update(3, b"garbage")).await;
    assert_eq!(one.next().await, ack(3, AckStatus::InvalidUpdate));
    drop(one);
    // Who may only read hears it, and keeps nothing.
    let mut two = Wire::connect(&running, "/ws/rooms").await;
    two.send(crdt, auth(made["token"].as_str().unwrap())).await;
    assert!(matches!(two.next().await, Message::JoinOk { .. }));
    let all = two.next().await;
    assert!(matches!(all, Message::Update { ref updates, .. } if updates[0] == SAID), "{all:?}");
    two.send(crdt, update(1, SAID)).await;
    assert_eq!(two.next().await, ack(1, AckStatus::PermissionDenied));
}
