//! The WebSocket `/ws`: what clients of Vexa say there and hear.

use futures_util::SinkExt;
use roundsman_core::ports::Database;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::app::{ADMIN_TOKEN, App};
use crate::app_bots::MEET;
use crate::app_live::meet;
use crate::app_transcripts::said;

fn subscribe(meetings: &Value) -> Value {
    json!({"action": "subscribe", "meetings": meetings})
}

fn unsubscribe(meetings: &Value) -> Value {
    json!({"action": "unsubscribe", "meetings": meetings})
}

fn error(word: &str, details: &Value) -> Value {
    json!({"type": "error", "error": word, "details": details})
}

#[tokio::test]
async fn whoever_has_no_valid_key_is_told_and_closed() {
    let app = App::new();
    let running = app.serve();
    let forged = format!("rmt_1_{}", "0".repeat(64));
    let bearer = format!("Bearer {forged}");
    let cases = [
        ("/ws", ("x-other", ""), "missing_api_key"),
        ("/ws", ("x-api-key", ""), "missing_api_key"),
        ("/ws?api_key=", ("x-other", ""), "missing_api_key"),
        ("/ws", ("x-api-key", "wrong"), "invalid_api_key"),
        ("/ws?api_key=wrong", ("x-other", ""), "invalid_api_key"),
        ("/ws", ("authorization", bearer.as_str()), "invalid_api_key"),
        ("/ws", ("x-api-key", ADMIN_TOKEN), "invalid_api_key"),
    ];
    for (path, header, word) in cases {
        let mut socket = running.socket(path, &[header]).await;
        assert_eq!(socket.next().await, json!({"type": "error", "error": word}), "{path}");
        assert_eq!(socket.closed().await, (4401, word.to_owned()));
    }
    app.store.close().await;
    let mut socket = running.socket("/ws", &[("x-api-key", &forged)]).await;
    assert_eq!(socket.next().await["error"], "auth_unavailable");
    assert_eq!(socket.closed().await.0, 4503);
}

#[tokio::test]
async fn a_key_may_be_in_a_header_or_in_the_address() {
    let app = App::new();
    let running = app.serve();
    let key = app.token("ada@example.org", &["read"]).await;
    let bearer = format!("Bearer {key}");
    let in_address = format!("/ws?api_key={key}");
    let cases: [(&str, &[(&str, &str)]); 4] = [
        ("/ws", &[("x-api-key", &key)]),
        ("/ws", &[("authorization", &bearer)]),
        (&in_address, &[]),
        (&in_address, &[("origin", "https://somewhere.example.org")]),
    ];
    for (path, headers) in cases {
        let mut socket = running.socket(path, headers).await;
        assert_eq!(socket.ask(json!({"action": "ping"})).await, json!({"type": "pong"}));
    }
    let plain = app.client().header("x-api-key", &key).get("/ws").await;
    plain.expect_problem(426, "invalid_request");
    assert_eq!(plain.header("upgrade"), "websocket");
}

#[tokio::test]
async fn a_subscriber_hears_what_is_said_and_how_the_meeting_is() {
    let app = App::new();
    let running = app.serve();
    let (_, bot, producer) = app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let mut socket = running.listen(&key).await;
    let subscribed = socket.ask(subscribe(&json!([meet()]))).await;
    let id = bot.meeting_id;
    let seq = subscribed["meetings"][0]["seq"].as_i64().unwrap();
    let meeting =
        json!({"platform": "google_meet", "native_id": MEET, "meeting_id": id, "seq": seq});
    assert_eq!(subscribed, json!({"type": "subscribed", "meetings": [meeting]}));

    producer.say(&[said(1.0, "Ada", "one"), said(3.0, "Ada", "two")]).await;
    let frame = socket.next().await;
    assert_eq!((&frame["type"], &frame["seq"]), (&json!("transcript.mutable"), &json!(seq + 1)));
    assert_eq!(frame["meeting"], json!({"id": id}));
    let segments = frame["payload"]["segments"].as_array().unwrap();
    assert_eq!(segments.len(), 2);
    assert_eq!((&segments[0]["text"], &segments[0]["end_time"]), (&json!("one"), &json!(2.5)));
    producer.say(&[said(1.0, "Ada", "one"), said(3.0, "Ada", "two")]).await;
    producer.say(&[said(1.0, "Ada", "one"), said(3.0, "Ada", "two or three")]).await;
    let frame = socket.next().await;
    assert_eq!(frame["seq"], seq + 2, "what changes nothing is not told");
    assert_eq!(frame["payload"]["segments"].as_array().unwrap().len(), 1);

    bot.report("started", json!({"meeting_id": id})).await.expect(200);
    let status = socket.next().await;
    assert_eq!((&status["type"], &status["seq"]), (&json!("meeting.status"), &json!(seq + 3)));
    assert_eq!(status["meeting"], json!({"id": id, "platform": "google_meet", "native_id": MEET}));
}

#[tokio::test]
async fn frames_and_rest_write_an_instant_alike() {
    let app = App::new();
    let running = app.serve();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let mut socket = running.listen(&app.token("ada@example.org", &[]).await).await;
    socket.subscribe().await;
    producer.say(&[said(1.234, "Ada", "hello everybody")]).await;
    let frame = socket.next().await;
    let read = ada.get("/transcripts/google_meet/abc-defg-hij").await.expect(200).body;
    let (told, shown) = (&frame["payload"]["segments"][0], &read["segments"][0]);
    for member in ["absolute_start_time", "absolute_end_time", "updated_at", "text", "speaker"] {
        assert_eq!(told[member], shown[member], "{member}");
    }
    assert_eq!(read["seq"], frame["seq"]);
}

#[tokio::test]
async fn nobody_hears_anybody_elses_meeting() {
    let app = App::new();
    let running = app.serve();
    let (_, bot, producer) = app.meeting_of("ada@example.org").await;
    let mut bob = running.listen(&app.token("bob@example.org", &[]).await).await;
    let not_theirs =
        |index: usize| format!("meetings[{index}] not authorized or not found for user");
    bob.send(subscribe(&json!([meet(), {"meeting_id": bot.meeting_id, "since": 0}]))).await;
    let details = json!([not_theirs(0), not_theirs(1)]);
    assert_eq!(bob.next().await, error("invalid_subscribe_payload", &details));
    assert_eq!(bob.next().await, json!({"type": "subscribed", "meetings": []}));
    producer.say(&[said(1.0, "Ada", "for me alone")]).await;
    bob.is_silent().await;
}

#[tokio::test]
async fn what_is_wrong_with_some_meetings_does_not_stop_the_others() {
    let app = App::new();
    let running = app.serve();
    let (_, bot, _) = app.meeting_of("ada@example.org").await;
    let mut socket = running.listen(&app.token("ada@example.org", &[]).await).await;
    let meetings = json!([
        {"platform": "google_meet", "native_id": "zzz-zzzz-zzz"},
        {"platform": "google_meet", "native_id": "x"},
        {"platform": "webex", "native_id": "x"},
        7,
        meet(),
        {"meeting_id": bot.meeting_id},
    ]);
    socket.send(subscribe(&meetings)).await;
    let details = json!([
        "meetings[3] must be an object",
        "meetings[0] not authorized or not found for user",
        "meetings[1] invalid native_meeting_id for platform 'google_meet'",
        "meetings[2] invalid native_meeting_id for platform 'webex'",
    ]);
    assert_eq!(socket.next().await, error("invalid_subscribe_payload", &details));
    let subscribed = socket.next().await;
    let ids: Vec<_> =
        subscribed["meetings"].as_array().unwrap().iter().map(|m| &m["meeting_id"]).collect();
    assert_eq!(ids, [bot.meeting_id, bot.meeting_id], "the same one twice is one");

    app.store.close().await;
    let failed = socket.ask(subscribe(&json!([meet()]))).await;
    assert_eq!(failed, error("authorization_call_failed", &json!("the database is unavailable")));
    assert_eq!(socket.ask(json!({"action": "ping"})).await["type"], "pong", "it stays open");
}

#[tokio::test]
async fn a_client_that_unsubscribes_hears_no_more() {
    let app = App::new();
    let running = app.serve();
    let (_, bot, producer) = app.meeting_of("ada@example.org").await;
    let mut socket = running.listen(&app.token("ada@example.org", &[]).await).await;
    socket.subscribe().await;
    let details = json!([
        "meetings[1] must be an object",
        "meetings[2] missing 'platform' or 'native_id'",
        "meetings[0] not currently subscribed",
    ]);
    let strange = json!([{"platform": "zoom", "native_id": "1"}, 7, {"platform": "zoom"}]);
    let refused = socket.ask(unsubscribe(&strange)).await;
    assert_eq!(refused, error("invalid_unsubscribe_payload", &details));
    assert_eq!(socket.ask(unsubscribe(&json!([]))).await["meetings"], json!([]));
    let left = socket.ask(unsubscribe(&json!([7, meet()]))).await;
    assert_eq!(
        (&left["type"], &left["meetings"][0]["meeting_id"]),
        (&json!("unsubscribed"), &json!(bot.meeting_id))
    );
    producer.say(&[said(1.0, "Ada", "unheard")]).await;
    socket.is_silent().await;
    socket.subscribe().await;
    let left = socket.ask(unsubscribe(&json!([{"meeting_id": bot.meeting_id}]))).await;
    assert_eq!(left["meetings"][0]["native_id"], MEET);
}

#[tokio::test]
async fn what_is_no_command_is_answered_and_the_socket_stays_open() {
    let app = App::new();
    let running = app.serve();
    let mut socket = running.listen(&app.token("ada@example.org", &[]).await).await;
    let cases = [
        ("", json!({"type": "error", "error": "invalid_json"})),
        ("[1]", json!({"type": "error", "error": "invalid_json"})),
        (r#"{"action":"dance"}"#, json!({"type": "error", "error": "unknown_action"})),
        (
            r#"{"action":"subscribe"}"#,
            error("invalid_subscribe_payload", &json!("'meetings' must be a non-empty list")),
        ),
        (
            r#"{"action":"subscribe","meetings":[]}"#,
            error("invalid_subscribe_payload", &json!("'meetings' list cannot be empty")),
        ),
        (
            r#"{"action":"subscribe","meetings":[{}]}"#,
            error("invalid_subscribe_payload", &json!("no valid meeting objects")),
        ),
        (
            r#"{"action":"unsubscribe"}"#,
            error("invalid_unsubscribe_payload", &json!("'meetings' must be a list")),
        ),
    ];
    for (text, answer) in cases {
        socket.send_text(text).await;
        assert_eq!(socket.next().await, answer, "{text}");
    }
    socket.stream.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(socket.next().await["error"], "invalid_json");
    assert_eq!(socket.ask(json!({"action": "ping"})).await["type"], "pong");
}
