//! What Daily sends: who is believed, and that whoever is believed is answered 200.

use std::time::Duration;

use axum::http::Method;
use roundsman_core::ports::{Clock, Database};
use serde_json::{Value, json};

use crate::app::{Answer, App, BODY_BYTES_MAX, Setup};
use crate::app_presence::{DAILY_SECRET, OTHER_SECRET, ROOM, WEBHOOK, event, joined, sign};
use crate::app_recordings::Fault;

const PING: &str = r#"{"test":"test"}"#;
const AS_KNOWN: &str = "/v1/daily/webhook";

/// Sends exactly this.
async fn send(app: &App, path: &str, stamp: Option<&str>, sig: Option<&str>, body: &str) -> Answer {
    let mut client = app.client();
    for (name, value) in [("x-webhook-timestamp", stamp), ("x-webhook-signature", sig)] {
        if let Some(value) = value {
            client = client.header(name, value);
        }
    }
    client.post_text(path, body.to_owned()).await
}

/// What was kept, newest first: the kind, the outcome and the reason.
async fn inbox(app: &App) -> Vec<(String, String, Value)> {
    app.clock.advance(Duration::from_secs(5));
    app.look().await;
    let listed = app.admin().get("/presence/inbox?limit=200").await.expect(200);
    let events = listed.body["events"].as_array().unwrap().clone();
    let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    events.iter().map(|e| (text(e, "type"), text(e, "outcome"), e["reason"].clone())).collect()
}

#[tokio::test]
async fn what_is_signed_is_taken_on_both_paths() {
    let app = App::new();
    // Made once by another program, from the secret, this body and this stamp.
    let (stamp, signature) = ("1708972279961", "eToyXiKmH2NT47y9e/gGWFLg6wXheSg9S3k6yX14UuI=");
    assert_eq!(sign(DAILY_SECRET, stamp, PING.as_bytes()), signature);
    app.clock.set_wall(roundsman_core::Timestamp::from_micros(1_708_972_280_000_000));
    for path in [WEBHOOK, AS_KNOWN] {
        let answer = send(&app, path, Some(stamp), Some(signature), PING).await.expect(200);
        assert_eq!(answer.body, json!({"status": "ok"}));
        assert_eq!(answer.header("content-type"), "application/json");
    }
    // Whether the body says that it is JSON is not looked at.
    let client = app.signed(DAILY_SECRET, PING);
    client.send(Method::POST, WEBHOOK, PING.into()).await.expect(200);
    app.client().get(WEBHOOK).await.expect_problem(405, "method_not_allowed");
}

#[tokio::test]
async fn nobody_else_is_believed() {
    let app = App::new();
    let now_ms = app.clock.now().as_micros() / 1000;
    let stamp = now_ms.to_string();
    let good = sign(DAILY_SECRET, &stamp, PING.as_bytes());
    let other = sign(OTHER_SECRET, &stamp, PING.as_bytes());
    let at = |shift_secs: i64| {
        let stamp = (now_ms + shift_secs * 1000).to_string();
        let signature = sign(DAILY_SECRET, &stamp, PING.as_bytes());
        (stamp, signature)
    };
    let (old, ahead) = (at(-3601), at(3601));
    let later = (now_ms + 1).to_string();
    let cases: Vec<(&str, Option<&str>, Option<&str>, &str)> = vec![
        ("nothing", None, None, PING),
        ("no stamp", None, Some(&good), PING),
        ("no signature", Some(&stamp), None, PING),
        ("empty", Some(""), Some(""), PING),
        ("a wrong signature", Some(&stamp), Some("AAAA"), PING),
        ("no base64", Some(&stamp), Some("not base64!"), PING),
        ("another's secret", Some(&stamp), Some(&other), PING),
        ("another stamp", Some(&later), Some(&good), PING),
        ("a changed body", Some(&stamp), Some(&good), r#"{"test": "test"}"#),
        ("a longer body", Some(&stamp), Some(&good), "{\"test\":\"test\"}\n"),
        ("no body", Some(&stamp), Some(&good), ""),
        ("an old one", Some(&old.0), Some(&old.1), PING),
        ("one from the future", Some(&ahead.0), Some(&ahead.1), PING),
    ];
    let mut told = Vec::new();
    for path in [WEBHOOK, AS_KNOWN] {
        for (what, stamp, signature, body) in &cases {
            let answer = send(&app, path, *stamp, *signature, body).await;
            assert_eq!(answer.status, 401, "{what}: {}", answer.text);
            answer.expect_problem(401, "unauthorized");
            told.push((answer.body["detail"].clone(), answer.body["title"].clone()));
        }
    }
    told.dedup();
    assert_eq!(told.len(), 1, "a forger learns nothing");
    assert_eq!(inbox(&app).await, vec![], "nothing of it is kept");
    for shift_secs in [-3590, 3590] {
        let (stamp, signature) = at(shift_secs);
        send(&app, WEBHOOK, Some(&stamp), Some(&signature), PING).await.expect(200);
    }
}

#[tokio::test]
async fn a_secret_is_replaced_without_a_gap() {
    let app =
        App::with(Setup { daily_secrets: vec![OTHER_SECRET, DAILY_SECRET], ..Setup::default() });
    for secret in [DAILY_SECRET, OTHER_SECRET] {
        app.signed(secret, PING).post_text(WEBHOOK, PING).await.expect(200);
    }
    let app = App::with(Setup { daily_secrets: vec![OTHER_SECRET], ..Setup::default() });
    app.signed(OTHER_SECRET, PING).post_text(WEBHOOK, PING).await.expect(200);
    let refused = app.signed(DAILY_SECRET, PING).post_text(WEBHOOK, PING).await;
    refused.expect_problem(401, "unauthorized");
}

#[tokio::test]
async fn without_a_secret_the_door_is_closed() {
    let app = App::with(Setup { daily_secrets: vec![], ..Setup::default() });
    for path in [WEBHOOK, AS_KNOWN] {
        let empty_key = app.signed("", PING).post_text(path, PING).await;
        empty_key.expect_problem(503, "not_configured");
        app.client().post_text(path, PING).await.expect_problem(503, "not_configured");
        let huge = "x".repeat(2 * 1024 * 1024);
        app.client().post_text(path, huge).await.expect_problem(503, "not_configured");
    }
    assert_eq!(inbox(&app).await, vec![]);
}

#[tokio::test]
async fn a_forger_is_slowed_down_and_daily_is_not() {
    let app = App::new();
    let mut explained = 0;
    let held_back = loop {
        let answer = app.signed(OTHER_SECRET, PING).post_text(WEBHOOK, PING).await;
        if answer.status != 401 {
            break answer;
        }
        explained += 1;
        assert!(explained <= 1000, "nothing holds anybody back");
    };
    held_back.expect_problem(429, "too_many_refusals");
    assert!(held_back.header("retry-after").parse::<u32>().unwrap() >= 1);
    for _ in 0..200 {
        app.daily_sends(PING).await.expect(200);
    }
    let other_path = app.client().post_text(AS_KNOWN, PING).await;
    other_path.expect_problem(429, "too_many_refusals");
    let metrics = app.admin().get("/metrics").await.expect(200).text;
    let counted =
        format!("roundsman_limit_hits_total{{limit=\"daily_refused\"}} {}", explained + 2);
    assert!(metrics.contains(&counted), "{metrics}");
}

/// What Daily, or somebody with its secret, might send.
#[rustfmt::skip] // One line each, so that it reads as the table it is.
fn odd_bodies() -> Vec<(&'static str, String)> {
    let long = "ü".repeat(100_000);
    let deep = format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000));
    // Each has a name of its own, or it would be taken for a repetition.
    let of = |kind: &str, payload: Value| event(kind, &format!("{kind} {payload}"), &payload).to_string();
    let (came, left, ready) = ("participant.joined", "participant.left", "recording.ready-to-download");
    let recorded = |room: &str, id: &str| json!({"room_name": room, "recording_id": id,
        "start_ts": 1_767_225_600, "duration": 1.5, "tracks": null, "type": "hologram"});
    vec![
        ("a ping", PING.to_owned()),
        ("an empty body", String::new()),
        ("no JSON", "<html>".to_owned()),
        ("half of it", r#"{"type":"participant.joined","payl"#.to_owned()),
        ("null", "null".to_owned()),
        ("a list", "[]".to_owned()),
        ("a number", "7".to_owned()),
        ("nothing in it", "{}".to_owned()),
        ("too deep", deep),
        ("a type of another sort", r#"{"type":7,"id":7}"#.to_owned()),
        ("an unknown type", of("dialin.ready", json!({"room": ROOM}))),
        ("a type of the future", of("hologram.started", json!(null))),
        ("a waiting one", of("waiting-participant.joined", json!({"room": ROOM}))),
        ("an error of a recording", of("recording.error", json!({"timestamp": "1693402871"}))),
        ("no payload", r#"{"type":"participant.joined","id":"x"}"#.to_owned()),
        ("a payload that is a list", of(left, json!([1]))),
        ("no room", of(came, json!({"session_id": "s"}))),
        ("a room of null", of(came, json!({"room": null}))),
        ("an impossible room", of(came, json!({"room": "a b/../c"}))),
        ("a room that is nobody's", of(came, json!({"room": "elsewhere"}))),
        ("the other name of a room", of(came, json!({"room_name": ROOM, "session_id": "t"}))),
        ("no session", of(came, json!({"room": ROOM}))),
        ("a session with a NUL", of(left, json!({"room": ROOM, "session_id": "\0"}))),
        ("odd times", of(left, json!({"room": ROOM, "session_id": "s", "joined_at": "soon", "duration": -5}))),
        ("no name", of(left, json!({"room": ROOM, "session_id": "s", "user_name": null, "user_id": {}}))),
        ("a long name", of(came, json!({"room": ROOM, "session_id": "s", "user_name": long}))),
        ("a recording of nothing", of(ready, json!({"room_name": ROOM}))),
        ("a recording in no room", of(ready, json!({"recording_id": "rec-0"}))),
        ("an odd recording", of(ready, recorded(ROOM, "rec-1"))),
        ("a recording of nobody's", of(ready, recorded("elsewhere", "rec-2"))),
    ]
}

#[tokio::test]
async fn whatever_is_signed_is_answered_200() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    app.open(&ada, ROOM).await;
    for (what, body) in odd_bodies() {
        let answer = app.daily_sends(&body).await;
        assert_eq!((answer.status, &answer.body), (200, &json!({"status": "ok"})), "{what}");
    }
    let raw: Vec<u8> = vec![0xff, 0x00, 0xfe];
    let stamp = (app.clock.now().as_micros() / 1000).to_string();
    let client = app.client().header("x-webhook-timestamp", &stamp);
    let client = client.header("x-webhook-signature", &sign(DAILY_SECRET, &stamp, &raw));
    client.post_text(WEBHOOK, raw).await.expect(200);
    assert_eq!(app.kept_recordings.count(), 1, "those of others are not ours");
    let kept = inbox(&app).await;
    assert_eq!(kept.len(), odd_bodies().len() + 1, "and all can be looked at");
    assert!(kept.iter().all(|(_, outcome, reason)| (outcome == "taken") == reason.is_null()));
    assert!(kept.iter().filter(|(_, outcome, _)| outcome == "odd").count() > 10, "{kept:?}");
    assert!(kept.iter().any(|(kind, outcome, _)| kind == "test" && outcome == "ignored"));
}

#[tokio::test]
async fn an_event_is_a_reason_to_look_and_nothing_more() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = app.open(&ada, ROOM).await;
    app.look().await;
    let shown = async || ada.get(&format!("/presence/meetings/{id}")).await.expect(200).body;
    app.rooms.put(ROOM, vec![app.person("s1", "Ada")]);
    for _ in 0..3 {
        app.daily_tells(&joined(ROOM, "s1")).await;
    }
    assert_eq!(shown().await["num_clients"], 0, "nobody has looked");
    app.clock.advance(Duration::from_secs(1));
    app.look().await;
    assert_eq!(shown().await["num_clients"], 1);
    let kept = inbox(&app).await;
    assert_eq!(kept, [("participant.joined".to_owned(), "taken".to_owned(), Value::Null)]);
    // The word of whoever joined is believed by nobody but a look.
    app.daily_tells(&joined(ROOM, "ghost")).await;
    app.clock.advance(Duration::from_secs(5));
    app.look().await;
    assert_eq!(shown().await["num_clients"], 1);
}

#[tokio::test]
async fn people_are_heard_while_the_database_is_away() {
    let app = App::new();
    app.store.close().await;
    app.daily_tells(&joined(ROOM, "s1")).await;
    app.daily_tells(&event("meeting.ended", "e", &json!({"room": ROOM}))).await;
    app.daily_sends("{}").await.expect(200);
    app.daily_sends(PING).await.expect(200);
}

#[tokio::test]
async fn a_recording_is_stored_before_daily_is_answered() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    app.open(&ada, ROOM).await;
    let ready = |id: &str| {
        let payload = json!({"type": "cloud", "room_name": ROOM, "recording_id": id,
            "start_ts": 1_767_225_600, "status": "finished", "duration": 60, "s3_key": "d/r/1"});
        event("recording.ready-to-download", &format!("rec-rtd-{id}"), &payload).to_string()
    };
    for fault in [Fault::Away, Fault::Full] {
        app.kept_recordings.break_with(Some(fault));
        app.daily_sends(&ready("rec-1")).await.expect_problem(503, "storage_unavailable");
    }
    app.kept_recordings.break_with(None);
    app.daily_sends(&ready("rec-1")).await.expect(200);
    let known = ada.get("/recordings/rec-1").await.expect(200).body;
    assert_eq!((&known["status"], &known["repeats"]), (&json!("pending"), &json!(0)));
    app.daily_sends(&ready("rec-1")).await.expect(200);
    let known = ada.get("/recordings/rec-1").await.expect(200).body;
    assert_eq!((app.kept_recordings.count(), &known["repeats"]), (1, &json!(1)));

    // What can never be stored is no reason for Daily to stop telling.
    app.kept_recordings.break_with(Some(Fault::Broken));
    app.daily_sends(&ready("rec-2")).await.expect(200);
    app.kept_recordings.break_with(None);
    let kept = inbox(&app).await;
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert_eq!((kept[0].1.as_str(), kept[1].1.as_str()), ("odd", "taken"), "{kept:?}");
    assert!(kept[0].2.as_str().unwrap().contains("database"), "{kept:?}");
}

#[tokio::test]
async fn a_body_has_a_limit_of_its_own() {
    let app = App::new();
    let padded = |bytes: usize| {
        let body = joined(ROOM, "s1").to_string();
        body + &" ".repeat(bytes)
    };
    app.daily_sends(&padded(4 * BODY_BYTES_MAX)).await.expect(200);
    let refused = app.daily_sends(&padded(1024 * 1024)).await;
    refused.expect_problem(413, "too_large");
    assert!(refused.text.contains("1048576"), "{}", refused.text);
}

#[tokio::test]
async fn a_users_token_is_no_signature() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    for client in [ada, app.admin()] {
        client.post_text(WEBHOOK, PING).await.expect_problem(401, "unauthorized");
    }
}
