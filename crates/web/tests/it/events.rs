//! Transcripts as server-sent events.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use http_body_util::BodyExt;
use roundsman_core::ports::Database;
use roundsman_web::LiveLimits;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::app::{App, Setup};
use crate::app_live::SOON;
use crate::app_transcripts::{AT_MEET, said};

/// One client's end of a stream of events.
pub(crate) struct Events {
    body: Body,
    text: String,
}

/// One event, field by field.
pub(crate) type Event = BTreeMap<String, String>;

impl App {
    pub(crate) async fn events(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let response = self.ask(path, headers).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Events { body: response.into_body(), text: String::new() }
    }

    /// What a stream of events, which is then not listened to, is answered.
    pub(crate) async fn opens(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.ask(path, headers).await.status().as_u16()
    }

    async fn ask(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }
}

impl Events {
    /// The next event or comment; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.text.clone().split_once("\n\n") {
                let fields = event.lines().filter_map(|line| line.split_once(':'));
                let fields = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
                let event = fields.collect();
                rest.clone_into(&mut self.text);
                return Some(event);
            }
            let frame = timeout(SOON, self.body.frame()).await.expect("something comes")?;
            let data = frame.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    pub(crate) async fn data(&mut self) -> (Event, Value) {
        let event = self.next().await.expect("an event");
        let data = serde_json::from_str(&event["data"]).unwrap_or_else(|_| panic!("{event:?}"));
        (event, data)
    }
}

#[tokio::test]
async fn a_meeting_is_heard_as_events_and_resumed() {
    let app = App::new();
    let (_, bot, producer) = app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &["read"]).await;
    let mut events = app.events(&format!("{AT_MEET}/events"), &[("x-api-key", &key)]).await;
    let (hello, body) = events.data().await;
    assert_eq!((hello["event"].as_str(), &body["type"]), ("subscribed", &json!("subscribed")));
    assert_eq!(body["meetings"][0]["meeting_id"], bot.meeting_id);
    let seq: i64 = hello["id"].parse().unwrap();
    assert_eq!(body["meetings"][0]["seq"], seq);
    assert_eq!(hello["retry"], "2000");

    producer.say(&[said(1.0, "Ada", "line\nbreak\r\nhere")]).await;
    let (event, frame) = events.data().await;
    assert_eq!(event["event"], "transcript.mutable");
    assert_eq!(event["id"], (seq + 1).to_string());
    assert_eq!(frame["seq"], seq + 1);
    assert_eq!(frame["payload"]["segments"][0]["text"], "line\nbreak\r\nhere");
    drop(events);

    producer.say(&[said(3.0, "Ada", "two")]).await;
    bot.report("started", json!({"meeting_id": bot.meeting_id})).await.expect(200);
    let by_id = format!("/transcripts/by-id/{}/events", bot.meeting_id);
    let last = (seq + 1).to_string();
    for (path, header) in [
        (by_id.clone(), vec![("x-api-key", key.as_str()), ("last-event-id", last.as_str())]),
        (format!("{by_id}?since={last}"), vec![("x-api-key", key.as_str())]),
        (
            format!("{by_id}?since=0"),
            vec![("x-api-key", key.as_str()), ("last-event-id", last.as_str())],
        ),
    ] {
        let mut events = app.events(&path, &header).await;
        assert_eq!(events.data().await.0["id"], last, "{path}");
        let (event, _) = events.data().await;
        assert_eq!(
            (event["event"].as_str(), event["id"].clone()),
            ("transcript.mutable", (seq + 2).to_string())
        );
        let (event, _) = events.data().await;
        assert_eq!(
            (event["event"].as_str(), event["id"].clone()),
            ("meeting.status", (seq + 3).to_string())
        );
    }
}

#[tokio::test]
async fn wrong_places_and_keys_are_refused() {
    let app = App::new();
    let (ada, ..) = app.meeting_of("ada@example.org").await;
    let path = format!("{AT_MEET}/events");
    ada.get(&format!("{path}?since=-1")).await.expect_invalid(&json!(["query", "since"]), "");
    let strange = ada.clone().header("last-event-id", "x").get(&path).await;
    strange.expect_invalid(&json!(["query", "Last-Event-ID"]), "whole number");
    let key = app.token("ada@example.org", &[]).await;
    app.client().get(&format!("{path}?api_key={key}")).await.expect_problem(403, "forbidden");
    ada.get("/transcripts/zoom/1/events").await.expect_problem(404, "not_found");
    app.store.close().await;
    ada.get(&path).await.expect_problem(503, "storage_unavailable");
}

#[tokio::test]
async fn a_stream_is_kept_alive_and_ends_with_its_key() {
    let live = LiveLimits {
        ping_every: Duration::from_millis(50),
        recheck_every: Duration::from_millis(200),
        connections_per_key_max: 1,
        ..LiveLimits::default()
    };
    let app = App::with(Setup { live, ..Setup::default() });
    app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let path = format!("{AT_MEET}/events");
    let mut events = app.events(&path, &[("x-api-key", &key)]).await;
    events.data().await;
    let beat = events.next().await.unwrap();
    assert!(beat.contains_key("") && !beat.contains_key("data"), "a comment: {beat:?}");
    let client = app.client().header("x-api-key", &key);
    let refused = client.get(&path).await;
    refused.expect_problem(429, "too_many_connections");
    assert_eq!(refused.header("retry-after"), "2");

    let id = key.split('_').nth(1).unwrap();
    app.admin().delete(&format!("/admin/tokens/{id}")).await.expect(204);
    while let Some(event) = events.next().await {
        assert!(!event.contains_key("data"), "{event:?}");
    }
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams() {
    let app = App::new();
    app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let mut events = app.events(&format!("{AT_MEET}/events"), &[("x-api-key", &key)]).await;
    events.data().await;
    app.stopping.cancel();
    assert_eq!(events.next().await, None);
}
