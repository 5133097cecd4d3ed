//! R-18: who is believed at the route for Daily's events, and that whoever is believed is answered
//! 200 and can be looked up.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use roundsman_core::daily::WebhookSecret;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::JsonClient;
use roundsman_testkit::daily::Guest;
use roundsman_testkit::http::JsonResponse;
use serde_json::{Value, json};

use super::on_both;
use super::place::{NEVER, PresenceSite, RECONCILE, SECRET, WEBHOOK, WEBHOOK_SECRET};
use crate::site::Backend;

/// `canary-of-older-webhooks`, in base64.
const OLD_SECRET: &str = "Y2FuYXJ5LW9mLW9sZGVyLXdlYmhvb2tz";
const ACCEPTED: &str = "ROUNDSMAN_DAILY_WEBHOOK_SECRETS_ACCEPTED";
const AS_KNOWN: &str = "/v1/daily/webhook";
const PING: &str = r#"{"test":"test"}"#;
const ROOM: &str = "weekly-sync";

on_both! {
    who_does_not_sign_is_not_believed
    whatever_is_signed_is_taken_and_can_be_looked_up
}

/// Sends a body as Daily would, signed with this secret.
async fn send(client: &JsonClient, path: &str, secret: &str, body: &str) -> Result<JsonResponse> {
    let stamp = (DatabaseClock::start().now().as_micros() / 1000).to_string();
    let secret = WebhookSecret::parse(secret).ok().context("no secret")?;
    let signature = secret.sign(&stamp, body.as_bytes());
    let request = client.request(Method::POST, path).body(body.to_owned());
    let request = request.header("x-webhook-timestamp", stamp);
    client.send(request.header("x-webhook-signature", signature)).await
}

fn event(kind: &str, id: &str, payload: &Value) -> String {
    json!({"version": "1.0.0", "type": kind, "id": id, "payload": payload, "event_ts": 1.5})
        .to_string()
}

async fn who_does_not_sign_is_not_believed(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let mut node = site.start(site.options().env(RECONCILE, NEVER)).await?;
    site.site.keep_secret(OLD_SECRET);
    let client = node.client()?;
    let meeting = site.meeting_of(ROOM, &[]).await?;
    let looks = site.looks();
    let joined = event("participant.joined", "e-1", &json!({"room": ROOM, "session_id": "s"}));
    for path in [WEBHOOK, AS_KNOWN] {
        let unsigned = client.request(Method::POST, path).body(joined.clone());
        let unsigned = client.send(unsigned).await?.expect_status(401)?;
        ensure!(unsigned.body["code"] == "unauthorized", "{}", unsigned.text);
        send(&client, path, OLD_SECRET, &joined).await?.expect_status(401)?;
        send(&client, path, SECRET, PING).await?.expect_status(200)?;
    }
    let inbox = site.admin()?.get("/presence/inbox").await?.expect_status(200)?;
    ensure!(!inbox.text.contains("participant.joined"), "{}", inbox.text);
    ensure!(site.looks() == looks, "somebody looked");
    node.stop().await?;

    // Without a secret nobody is.
    let mut node = site.start(site.options().env(WEBHOOK_SECRET, "")).await?;
    for path in [WEBHOOK, AS_KNOWN] {
        let closed = send(&client, path, SECRET, PING).await?.expect_status(503)?;
        ensure!(closed.body["code"] == "not_configured", "{}", closed.text);
    }
    let subscribe = site.admin()?.post("/presence/subscription", &json!({})).await?;
    ensure!(subscribe.expect_status(503)?.body["code"] == "not_configured", "subscribed");
    // What is not heard is found.
    site.daily.join(ROOM, Guest::named("ada"));
    meeting.wait_inside(&site.daily.present(ROOM)).await?;
    node.stop().await
}

async fn whatever_is_signed_is_taken_and_can_be_looked_up(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let node = site.start(site.options()).await?;
    let client = node.client()?;
    site.meeting_of(ROOM, &[]).await?;
    let of_room = json!({"room": ROOM, "session_id": "s1"});
    let elsewhere = json!({"room": "of-others", "session_id": "s2"});
    let bodies = [
        ("participant.joined", "taken", Value::Null, event("participant.joined", "e-1", &of_room)),
        (
            "participant.left",
            "ignored",
            json!("unknown_room"),
            event("participant.left", "e-2", &elsewhere),
        ),
        (
            "hologram.started",
            "ignored",
            json!("not_acted_on"),
            event("hologram.started", "e-3", &of_room),
        ),
        (
            "meeting.ended",
            "odd",
            json!("it names no room"),
            event("meeting.ended", "e-4", &json!({})),
        ),
        ("", "odd", json!("it has no type"), "{}".to_owned()),
        ("test", "ignored", json!("ping"), PING.to_owned()),
    ];
    for (_, _, _, body) in &bodies {
        for path in [WEBHOOK, AS_KNOWN] {
            let answer = send(&client, path, SECRET, body).await?.expect_status(200)?;
            ensure!(answer.body == json!({"status": "ok"}), "{}", answer.text);
        }
    }
    for (kind, outcome, reason, body) in &bodies {
        let kept = site.wait_inbox(kind, 1).await?;
        let [kept] = &kept[..] else { anyhow::bail!("{kind} is kept twice: {kept:?}") };
        ensure!(kept["outcome"] == *outcome && kept["reason"] == *reason, "{kept}");
        let whole = site.admin()?.get(&format!("/presence/inbox/{}", kept["id"])).await?;
        ensure!(whole.expect_status(200)?.body["payload"] == *body, "{kept}");
    }
    site.end(vec![node]).await
}

/// A secret is replaced without a gap: the server knows both, then Daily has the new one, then the
/// old one is forgotten.
#[tokio::test]
async fn a_secret_is_replaced_while_events_come() {
    async fn run() -> Result<()> {
        let site = PresenceSite::new(Backend::Sqlite).await?;
        site.site.keep_secret(OLD_SECRET);
        let mut node = site.start(site.options().env(WEBHOOK_SECRET, OLD_SECRET)).await?;
        let meeting = site.meeting_of(ROOM, &[]).await?;
        site.subscribe().await?;
        comes(&site, "ada", 1).await.context("the old one")?;
        node.stop().await?;

        let mut node = site.start(site.options().env(ACCEPTED, OLD_SECRET)).await?;
        comes(&site, "bob", 2).await.context("both are known")?;
        site.subscribe().await?;
        comes(&site, "eve", 3).await.context("the new one")?;
        node.stop().await?;

        let node = site.start(site.options()).await?;
        comes(&site, "joe", 4).await.context("it alone")?;
        send(&node.client()?, WEBHOOK, OLD_SECRET, PING).await?.expect_status(401)?;
        meeting.wait_inside(&site.daily.present(ROOM)).await?;
        site.end(vec![node]).await
    }
    run().await.unwrap();
}

/// Somebody joins, as the so-many-th, and the event is taken.
async fn comes(site: &PresenceSite, name: &str, number: usize) -> Result<()> {
    site.daily.join(ROOM, Guest::named(name));
    let answer = site.wait_delivered("participant.joined", number).await?;
    ensure!(answer == Some(200), "{name} was answered {answer:?}");
    Ok(())
}
