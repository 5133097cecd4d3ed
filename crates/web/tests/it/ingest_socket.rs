//! What producers send over a WebSocket.

use roundsman_core::ports::Database;
use serde_json::{Value, json};

use crate::app::App;
use crate::app_transcripts::{AT_MEET, said, texts};

#[tokio::test]
async fn messages_are_answered_in_order_once_they_are_stored() {
    let app = App::new();
    let running = app.serve();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let mut socket = running.socket("/ingest/ws", &[]).await;
    let message = |text: &str| producer.message(json!({"segments": [said(1.0, "Ada", text)]}));
    let first = socket.ask(message("one")).await;
    assert_eq!((&first["type"], &first["n"]), (&json!("ack"), &json!(1)));
    assert_eq!((&first["accepted"], &first["changed"]), (&json!(1), &json!(1)));
    assert!(first["seq"].is_number());
    assert_eq!(texts(&ada.get(AT_MEET).await.expect(200).body), ["one"]);

    // More than are stored at once.
    for round in 0..200 {
        socket.send(message(&format!("version {round}"))).await;
    }
    socket.send_text("nope").await;
    socket.send(json!({"uid": "u", "segments": []})).await;
    socket.send(producer.message(json!({"type": "dance"}))).await;
    for n in 2..202 {
        let ack = socket.next().await;
        assert_eq!(
            (&ack["type"], &ack["n"], &ack["changed"]),
            (&json!("ack"), &json!(n), &json!(1))
        );
    }
    for (n, error) in [(202, "invalid_json"), (203, "unauthorized"), (204, "invalid_request")] {
        let refused = socket.next().await;
        assert_eq!((&refused["type"], &refused["n"]), (&json!("error"), &json!(n)));
        assert_eq!(refused["error"], error);
        assert!(refused["detail"].is_string());
    }
    assert_eq!(texts(&ada.get(AT_MEET).await.expect(200).body), ["version 199"]);
}

#[tokio::test]
async fn a_token_may_be_in_the_handshake() {
    let app = App::new();
    let running = app.serve();
    let (_, _, producer) = app.meeting_of("ada@example.org").await;
    let bearer = format!("Bearer {}", producer.token);
    let mut socket = running.socket("/ingest/ws", &[("authorization", &bearer)]).await;
    let message = json!({"uid": producer.uid, "segments": [said(1.0, "Ada", "one")]});
    assert_eq!(socket.ask(message.clone()).await["changed"], 1);
    let mut other = message;
    other["token"] = json!("wrong");
    assert_eq!(socket.ask(other).await["error"], "unauthorized");
}

#[tokio::test]
async fn strangers_are_not_kept() {
    let app = App::new();
    let running = app.serve();
    let mut socket = running.socket("/ingest/ws", &[]).await;
    for n in 1..=10 {
        let refused = socket.ask(json!({"token": "x", "segments": []})).await;
        assert_eq!((&refused["n"], &refused["error"]), (&json!(n), &json!("unauthorized")));
    }
    assert_eq!(socket.closed().await.0, 4401);
    let plain = app.client().get("/ingest/ws").await;
    plain.expect_problem(426, "invalid_request");
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_connection() {
    let app = App::new();
    let running = app.serve();
    let (_, _, producer) = app.meeting_of("ada@example.org").await;
    let mut socket = running.socket("/ingest/ws", &[]).await;
    let long: Vec<Value> = (0..3).map(|n| said(f64::from(n), "Ada", &"x".repeat(15_000))).collect();
    assert_eq!(socket.ask(producer.message(json!({"segments": long}))).await["accepted"], 3);
    socket.send_text(&"x".repeat(crate::app::BODY_BYTES_MAX + 1)).await;
    assert_eq!(socket.closed().await.0, 1009);
}

#[tokio::test]
async fn what_cannot_be_stored_is_told() {
    let app = App::new();
    let running = app.serve();
    let (_, _, producer) = app.meeting_of("ada@example.org").await;
    let mut socket = running.socket("/ingest/ws", &[]).await;
    app.store.close().await;
    let refused =
        socket.ask(producer.message(json!({"segments": [said(1.0, "Ada", "one")]}))).await;
    assert_eq!(
        (&refused["type"], &refused["error"]),
        (&json!("error"), &json!("storage_unavailable"))
    );
}
