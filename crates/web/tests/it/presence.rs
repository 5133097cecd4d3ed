//! Meetings in video rooms: making, finding and ending them, and who says to come and to go.

use std::time::Duration;

use axum::http::Method;
use roundsman_core::ports::{Clock, Database, RoomsError};
use serde_json::{Value, json};

use crate::app::App;
use crate::app_presence::ROOM;

const MEETINGS: &str = "/presence/meetings";

fn at(id: i64, rest: &str) -> String {
    format!("{MEETINGS}/{id}{rest}")
}

#[tokio::test]
async fn a_meeting_is_made_found_and_ended() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let url = "https://example.daily.co/weekly-sync";
    let made = ada.post(MEETINGS, json!({"room": ROOM, "room_url": url})).await.expect(201).body;
    let id = made["id"].as_i64().unwrap();
    assert_eq!(
        made,
        json!({"id": id, "user_id": made["user_id"], "platform": "daily", "room": ROOM,
            "room_url": url, "status": "open", "is_active": true, "num_clients": 0,
            "starts_at": null, "ends_at": null, "created_at": "2026-01-01T00:00:00.000000Z",
            "started_at": null, "ended_at": null, "end_reason": null, "last_left_at": null,
            "fresh_at": null, "stale_since": null, "stale_reason": null})
    );
    assert_eq!(ada.get(&at(id, "")).await.expect(200).body, made);
    app.look().await;
    let fresh = ada.get(&at(id, "")).await.expect(200).body;
    assert_eq!(fresh["fresh_at"], "2026-01-01T00:00:00.000000Z");
    app.see(id, vec![app.person("s1", "Ada")]).await;
    let full = ada.get(&at(id, "")).await.expect(200).body;
    assert_eq!((&full["num_clients"], &full["is_active"]), (&json!(1), &json!(true)));

    let over = ada.call(Method::POST, &at(id, "/deactivate")).await.expect(200).body;
    assert_eq!((&over["status"], &over["is_active"]), (&json!("completed"), &json!(false)));
    assert_eq!((&over["num_clients"], &over["end_reason"]), (&json!(0), &json!("deactivated")));
    let again = ada.call(Method::PATCH, &at(id, "/deactivate")).await.expect(200).body;
    assert_eq!(again["ended_at"], over["ended_at"], "ending it again changes nothing");
    let next = ada.post(MEETINGS, json!({"room": ROOM})).await.expect(201).body;
    assert_ne!(next["id"], made["id"], "the room is free");
}

#[tokio::test]
async fn what_the_provider_does_not_say_is_told() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = app.open(&ada, ROOM).await;
    app.see(id, vec![app.person("s1", "Ada")]).await;
    app.rooms.answer_with(Some(RoomsError::Unavailable("no route".to_owned())));
    app.clock.advance(Duration::from_secs(60));
    ada.post(&at(id, "/joined"), json!({"connection_id": "c"})).await.expect(202);
    app.clock.advance(Duration::from_secs(5));
    app.look().await;
    let stale = ada.get(&at(id, "")).await.expect(200).body;
    assert!(stale["stale_since"].is_string() && stale["stale_reason"].is_string(), "{stale}");
    assert_eq!(stale["num_clients"], 1, "an error closes nothing");
    assert!(stale["fresh_at"].as_str() < stale["stale_since"].as_str());
}

#[tokio::test]
async fn one_meeting_is_open_in_a_room() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let id = app.open(&ada, ROOM).await;
    let own = ada.post(MEETINGS, json!({"room": ROOM})).await;
    own.expect_problem(409, "room_taken");
    assert_eq!(own.body["meeting_id"], id);
    let others = bob.post(MEETINGS, json!({"room": ROOM})).await;
    others.expect_problem(409, "room_taken");
    assert!(others.body.get("meeting_id").is_none(), "{}", others.text);
    let made = bob.post(MEETINGS, json!({"room": ROOM, "create_room": {}})).await;
    made.expect_problem(409, "room_taken");
    assert_eq!(app.rooms.made(), vec![], "no room was made for nothing");
}

#[tokio::test]
async fn a_wish_is_checked() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let cases: Vec<(Value, &[&str])> = vec![
        (json!({}), &["room"]),
        (json!({"room": ""}), &["room"]),
        (json!({"room": "a b"}), &["room"]),
        (json!({"room": "a/b"}), &["room"]),
        (json!({"room": "r".repeat(129)}), &["room"]),
        (json!({"room": 7}), &["room"]),
        (json!({"room": "r", "rooom": 1}), &["rooom"]),
        (json!({"room": "r", "room_url": "javascript:alert(1)"}), &["room_url"]),
        (json!({"room": "r", "starts_at": "soon"}), &["starts_at"]),
        (json!({"room": "r", "starts_at": "2026-01-31T12:00:00Z"}), &["ends_at"]),
        (
            json!({"room": "r", "starts_at": "2026-01-31T12:00:00Z",
                "ends_at": "2026-01-31T12:00:00Z"}),
            &["ends_at"],
        ),
        (json!({"room": "r", "create_room": true}), &["create_room"]),
        (
            json!({"room": "r", "create_room": {"expires_at": "2020-01-01T00:00:00Z",
                "recording": "cloud; rm"}}),
            &["create_room.expires_at", "create_room.recording"],
        ),
    ];
    for (body, fields) in cases {
        let refused = ada.post(MEETINGS, body.clone()).await;
        refused.expect_problem(422, "invalid_request");
        let errors = refused.body["errors"].as_array().unwrap();
        let told: Vec<&str> = errors.iter().map(|error| error["field"].as_str().unwrap()).collect();
        assert_eq!(told, fields, "{body}: {}", refused.text);
    }
    ada.post_text(MEETINGS, "nope").await.expect_problem(400, "invalid_json");
    assert_eq!(ada.get(MEETINGS).await.expect(200).body["meetings"], json!([]));
    app.admin().post(MEETINGS, json!({"room": "r"})).await.expect_problem(403, "forbidden");
}

#[tokio::test]
async fn the_provider_makes_a_room() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let wish = json!({"create_room": {"is_private": true, "recording": "raw-tracks",
        "expires_at": "2026-02-01T00:00:00Z"}});
    let made = ada.post(MEETINGS, wish).await.expect(201).body;
    assert_eq!(made["room"], "chosen-by-daily");
    assert_eq!(made["room_url"], "https://example.daily.co/chosen-by-daily");
    let asked = app.rooms.made().pop().unwrap();
    assert!(asked.is_private && asked.name.is_none() && asked.expires_at.is_some());
    assert_eq!(asked.recording.as_deref(), Some("raw-tracks"));

    let create = json!({"room": "mine", "create_room": {}});
    for (trouble, status, code) in [
        (RoomsError::NotConfigured, 503, "not_configured"),
        (RoomsError::Refused("400 a room of this name exists".to_owned()), 502, "provider_refused"),
        (RoomsError::Unavailable("10.0.0.7".to_owned()), 503, "provider_unavailable"),
        (RoomsError::Odd("10.0.0.7".to_owned()), 503, "provider_unavailable"),
        (RoomsError::RateLimited { after: None }, 503, "provider_unavailable"),
    ] {
        app.rooms.answer_with(Some(trouble));
        let refused = ada.post(MEETINGS, create.clone()).await;
        refused.expect_problem(status, code);
        assert!(!refused.text.contains("10.0.0.7"), "{}", refused.text);
        let waits = refused.header("retry-after");
        assert_eq!(waits.is_empty(), code != "provider_unavailable", "{code}");
    }
    app.rooms.answer_with(None);
    assert_eq!(ada.get(MEETINGS).await.expect(200).body["meetings"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn meetings_are_listed_in_pages() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.insert(0, app.open(&ada, &format!("room-{number}")).await);
    }
    let of_bob = app.open(&bob, "of-bob").await;
    ada.call(Method::POST, &at(ids[1], "/deactivate")).await.expect(200);
    let list = async |client: &crate::app::Client, query: &str| -> (Vec<i64>, Value) {
        let listed = client.get(&format!("{MEETINGS}{query}")).await.expect(200).body;
        let meetings = listed["meetings"].as_array().unwrap();
        let ids = meetings.iter().map(|meeting| meeting["id"].as_i64().unwrap()).collect();
        (ids, listed["next_before"].clone())
    };
    assert_eq!(list(&ada, "").await, (ids.clone(), Value::Null));
    let (first, next) = list(&ada, "?limit=2").await;
    assert_eq!((first.as_slice(), &next), (&ids[..2], &json!(ids[1])));
    let (rest, next) = list(&ada, &format!("?limit=3&before={next}")).await;
    assert_eq!((rest.as_slice(), &next), (&ids[2..], &json!(ids[4])));
    assert_eq!(list(&ada, &format!("?before={next}")).await, (vec![], Value::Null));
    assert_eq!(list(&ada, "?active=false").await.0, [ids[1]]);
    assert_eq!(list(&ada, "?active=true").await.0.len(), 4);
    assert_eq!(list(&ada, "?room=room-4").await.0, [ids[0]]);
    assert_eq!(list(&ada, "?room=of-bob").await.0, Vec::<i64>::new());
    let all = list(&app.admin(), "").await.0;
    assert_eq!((all.len(), all[0]), (6, of_bob), "the operator sees everybody's");
    for (query, field) in [
        ("active=perhaps", "active"),
        ("room=a%20b", "room"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("before=x", "before"),
    ] {
        let refused = ada.get(&format!("{MEETINGS}?{query}")).await;
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], field, "{query}");
    }
}

#[tokio::test]
async fn another_users_meeting_is_not_there() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let id = app.open(&ada, ROOM).await;
    app.see(id, vec![app.person("s1", "Ada")]).await;
    let missing = at(id + 100, "");
    for path in ["", "/sessions", "/timeline", "/export.csv", "/export.json", "/consents"] {
        bob.get(&at(id, path)).await.expect_detail(404, "not_found", "Meeting not found");
        ada.get(&format!("{missing}{path}")).await.expect_problem(404, "not_found");
        ada.get(&format!("{MEETINGS}/x{path}")).await.expect_problem(422, "invalid_request");
        app.admin().get(&at(id, path)).await.expect(200);
    }
    let connection = json!({"connection_id": "c-1"});
    for (path, body) in [
        ("/joining", connection.clone()),
        ("/joined", connection.clone()),
        ("/leave", connection),
        ("/tokens", json!({})),
        ("/consent", json!({"person": "bob", "given": false})),
    ] {
        let refused = bob.post(&at(id, path), body.clone()).await;
        refused.expect_detail(404, "not_found", "Meeting not found");
        ada.post(&format!("{missing}{path}"), body).await.expect_problem(404, "not_found");
    }
    for method in [Method::POST, Method::PATCH] {
        bob.call(method, &at(id, "/deactivate")).await.expect_problem(404, "not_found");
    }
    let shown = ada.get(&at(id, "")).await.expect(200).body;
    assert_eq!((&shown["num_clients"], &shown["is_active"]), (&json!(1), &json!(true)));
    assert_eq!(app.rooms.tokens(), vec![]);
    // The meeting of a bot is in no room.
    let bot = app.start_bot(&ada, crate::app_bots::MEET).await;
    ada.get(&at(bot.meeting_id, "")).await.expect_problem(404, "not_found");
}

#[tokio::test]
async fn whoever_comes_and_goes_says_so() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = app.open(&ada, ROOM).await;
    app.look().await;
    let connection = json!({"connection_id": "tab-7f3a"});
    let coming = ada.post(&at(id, "/joining"), connection.clone()).await.expect(200).body;
    assert_eq!(coming, json!({"meeting_id": id, "joining_until": "2026-01-01T00:00:30.000000Z"}));
    app.rooms.put(ROOM, vec![app.person("s1", "Ada")]);
    let there = ada.post(&at(id, "/joined"), connection.clone()).await.expect(202).body;
    assert_eq!(there, json!({"status": "ok"}));
    app.clock.advance(Duration::from_secs(4));
    app.look().await;
    assert_eq!(ada.get(&at(id, "")).await.expect(200).body["num_clients"], 1);
    ada.post(&at(id, "/leave"), connection.clone()).await.expect(202);

    for path in ["/joining", "/joined", "/leave"] {
        for (body, field) in [
            (json!({}), "body"),
            (json!({"connection_id": ""}), "connection_id"),
            (json!({"connection_id": 7}), "connection_id"),
            (json!({"connection_id": "a\0"}), "connection_id"),
            (json!({"connection_id": "c".repeat(129)}), "connection_id"),
            (json!({"connection_id": "c", "user": "x"}), "user"),
        ] {
            let refused = ada.post(&at(id, path), body).await;
            refused.expect_problem(422, "invalid_request");
            assert_eq!(refused.body["errors"][0]["field"], field, "{path}");
        }
    }
    ada.call(Method::POST, &at(id, "/deactivate")).await.expect(200);
    for path in ["/joining", "/joined", "/leave"] {
        let refused = ada.post(&at(id, path), connection.clone()).await;
        refused.expect_problem(409, "wrong_state");
        assert_eq!(refused.body["state"], "completed");
    }
}

#[tokio::test]
async fn a_token_lets_one_person_in() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = app.open(&ada, ROOM).await;
    let wish = json!({"user_id": "ada", "user_name": "Ada", "is_owner": true,
        "expires_at": "2026-01-01T01:00:00Z"});
    let made = ada.post(&at(id, "/tokens"), wish).await.expect(201).body;
    assert_eq!(made, json!({"meeting_id": id, "token": format!("token-0-for-{ROOM}")}));
    ada.post(&at(id, "/tokens"), json!({})).await.expect(201);
    let asked = app.rooms.tokens();
    assert_eq!((asked[0].user_id.as_deref(), asked[0].is_owner), (Some("ada"), true));
    assert_eq!(asked[0].expires_at, Some(app.clock.now() + Duration::from_secs(3600)));
    assert_eq!((asked[1].user_id.as_deref(), asked[1].is_owner), (None, false));
    for (body, field) in [
        (json!({"user_id": "a\0"}), "user_id"),
        (json!({"user_name": "n".repeat(513)}), "user_name"),
        (json!({"expires_at": "2020-01-01T00:00:00Z"}), "expires_at"),
        (json!({"room": "another"}), "room"),
    ] {
        let refused = ada.post(&at(id, "/tokens"), body).await;
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], field);
    }
    for (trouble, status, code) in [
        (RoomsError::NotConfigured, 503, "not_configured"),
        (RoomsError::NotFound, 502, "provider_refused"),
        (RoomsError::Unavailable("away".to_owned()), 503, "provider_unavailable"),
    ] {
        app.rooms.answer_with(Some(trouble));
        ada.post(&at(id, "/tokens"), json!({})).await.expect_problem(status, code);
    }
    app.rooms.answer_with(None);
    ada.call(Method::POST, &at(id, "/deactivate")).await.expect(200);
    ada.post(&at(id, "/tokens"), json!({})).await.expect_problem(409, "wrong_state");
}

#[tokio::test]
async fn a_database_that_is_away_is_told() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = app.open(&ada, ROOM).await;
    ada.get(&at(id, "")).await.expect(200);
    app.store.close().await;
    for path in [MEETINGS.to_owned(), at(id, ""), at(id, "/sessions"), at(id, "/export.csv")] {
        ada.get(&path).await.expect_problem(503, "storage_unavailable");
    }
    let wish = json!({"room": "other"});
    ada.post(MEETINGS, wish).await.expect_problem(503, "storage_unavailable");
    ada.call(Method::POST, &at(id, "/deactivate")).await.expect_problem(503, "storage_unavailable");
}
