//! What the operator sees of the provider: its events, and how it comes to send them.

use std::time::Duration;

use axum::http::Method;
use roundsman_core::ports::{NewSubscription, RoomsError};
use serde_json::{Value, json};

use crate::app::{App, Setup};
use crate::app_presence::{DAILY_SECRET, ROOM, event, joined};

const INBOX: &str = "/presence/inbox";
const SUBSCRIPTION: &str = "/presence/subscription";

#[tokio::test]
async fn events_are_kept_with_what_became_of_them() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    app.open(&ada, ROOM).await;
    app.daily_tells(&joined(ROOM, "s1")).await;
    app.daily_tells(&joined("elsewhere", "s2")).await;
    app.daily_tells(&event("participant.left", "e-odd", &json!({"session_id": "x"}))).await;
    app.daily_tells(&event("hologram.started", "e-new", &json!({"room": ROOM}))).await;
    for _ in 0..2 {
        app.clock.advance(Duration::from_secs(5));
        app.look().await;
    }
    let admin = app.admin();
    let listed = admin.get(INBOX).await.expect(200).body;
    assert_eq!(listed["next_before"], Value::Null);
    let events = listed["events"].as_array().unwrap();
    let find = |id: &str| events.iter().find(|event| event["event_id"] == id).unwrap();
    assert_eq!(events.len(), 4);
    let taken = find("ptcpt-join-s1");
    assert_eq!((&taken["outcome"], &taken["reason"]), (&json!("taken"), &Value::Null));
    assert_eq!((&taken["service"], &taken["room"]), (&json!("daily"), &json!(ROOM)));
    assert_eq!((&taken["type"], &taken["payload"]), (&json!("participant.joined"), &Value::Null));
    let unknown = find("ptcpt-join-s2");
    assert_eq!(
        (&unknown["outcome"], &unknown["reason"]),
        (&json!("ignored"), &json!("unknown_room"))
    );
    let odd = find("e-odd");
    assert_eq!((&odd["outcome"], &odd["reason"]), (&json!("odd"), &json!("it names no room")));
    assert_eq!(find("e-new")["outcome"], "ignored");

    let shown = admin.get(&format!("{INBOX}/{}", odd["id"])).await.expect(200).body;
    let payload: Value = serde_json::from_str(shown["payload"].as_str().unwrap()).unwrap();
    assert_eq!(payload["payload"], json!({"session_id": "x"}));
    assert_eq!(shown["event_id"], "e-odd");

    let count = async |query: &str| {
        let page = admin.get(&format!("{INBOX}?{query}")).await.expect(200).body;
        page["events"].as_array().unwrap().len()
    };
    assert_eq!(count("outcome=odd").await, 1);
    assert_eq!(count("outcome=ignored").await, 2);
    assert_eq!(count("room=elsewhere").await, 1);
    assert_eq!(count("room=weekly-sync&outcome=taken").await, 1);
    let page = admin.get(&format!("{INBOX}?limit=3")).await.expect(200).body;
    assert_eq!(count(&format!("before={}", page["next_before"])).await, 1);
}

#[tokio::test]
async fn only_the_operator_looks_into_the_inbox() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    for path in [INBOX.to_owned(), format!("{INBOX}/1")] {
        ada.get(&path).await.expect_problem(403, "forbidden");
        app.client().get(&path).await.expect_problem(401, "unauthorized");
    }
    ada.call(Method::POST, SUBSCRIPTION).await.expect_problem(403, "forbidden");
    app.admin().get(&format!("{INBOX}/1")).await.expect_problem(404, "not_found");
    app.admin().get(&format!("{INBOX}/x")).await.expect_problem(422, "invalid_request");
    for (query, field) in [
        ("outcome=lost", "outcome"),
        ("room=", "room"),
        ("room=%00", "room"),
        ("limit=0", "limit"),
        ("before=x", "before"),
    ] {
        let refused = app.admin().get(&format!("{INBOX}?{query}")).await;
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], field, "{query}");
    }
}

#[tokio::test]
async fn the_operator_has_the_events_sent_here() {
    let url = "https://meetings.example.org/webhooks/daily";
    let subscription = Some(NewSubscription {
        url: url.to_owned(),
        event_types: vec!["participant.joined".to_owned()],
        secret: DAILY_SECRET.to_owned(),
    });
    let app = App::with(Setup { subscription, ..Setup::default() });
    let subscribe = async || app.admin().call(Method::POST, SUBSCRIPTION).await;
    let made = subscribe().await.expect(200).body;
    assert_eq!(
        made,
        json!({"id": "subscription-0", "url": url, "state": "ACTIVE", "is_active": true,
            "event_types": ["participant.joined"]})
    );
    app.rooms.give_up_subscriptions();
    let renewed = subscribe().await.expect(200);
    assert_eq!(renewed.body, made, "the same one, on again");
    assert!(!renewed.text.contains(DAILY_SECRET));
    for (trouble, status, code) in [
        (RoomsError::NotConfigured, 503, "not_configured"),
        (RoomsError::Refused("400 non-200 status code".to_owned()), 502, "provider_refused"),
        (RoomsError::Unavailable("away".to_owned()), 503, "provider_unavailable"),
    ] {
        app.rooms.answer_with(Some(trouble));
        subscribe().await.expect_problem(status, code);
    }
    let nowhere = App::new().admin().call(Method::POST, SUBSCRIPTION).await;
    nowhere.expect_problem(503, "not_configured");
}
