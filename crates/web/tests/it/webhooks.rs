//! Where users are told, and what they were told.

use async_trait::async_trait;
use roundsman_core::ports::{NotSent, WebhookAnswer, WebhookRequest, WebhookSender};
use serde_json::{Value, json};

use crate::app::App;
use crate::app_bots::MEET;

const HOOK: &str = "https://hooks.example.org/roundsman";

/// The world outside: the edge only asks whether an address may be named at all.
pub(crate) struct Mailbox;

#[async_trait]
impl WebhookSender for Mailbox {
    async fn post(&self, _request: WebhookRequest) -> Result<WebhookAnswer, NotSent> {
        Ok(WebhookAnswer { status: 200 })
    }

    fn check_url(&self, url: &str) -> Result<(), NotSent> {
        if url.contains("//127.") {
            return Err(NotSent::BlockedTarget("loopback".to_owned()));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_secret_that_is_made_is_shown_once() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let nothing = json!({"webhook_url": null, "webhook_events": {}, "has_secret": false,
        "disabled_at": null});
    assert_eq!(ada.get("/user/webhook").await.expect(200).body, nothing);
    let first = ada.put("/user/webhook", json!({"webhook_url": HOOK})).await.expect(200);
    let secret = first.body["webhook_secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_"));
    assert_eq!(first.body["email"], "ada@example.org");
    assert_eq!(first.body["data"]["webhook_url"], HOOK);

    let events = json!({"meeting.status_change": false});
    let body = json!({"webhook_url": HOOK, "webhook_events": events});
    let again = ada.put("/user/webhook", body).await.expect(200);
    let shown = ada.get("/user/webhook").await.expect(200);
    assert_eq!(
        shown.body,
        json!({"webhook_url": HOOK, "webhook_events": events,
        "has_secret": true, "disabled_at": null})
    );
    let admin = app.admin().get("/admin/users/1").await.expect(200);
    for answer in [again, shown, admin] {
        assert!(answer.body.get("webhook_secret").is_none(), "{}", answer.text);
        assert!(!answer.text.contains(&secret), "{}", answer.text);
    }
    let gone = ada.put("/user/webhook", json!({"webhook_url": null})).await.expect(200);
    assert!(gone.body.get("webhook_secret").is_none(), "{}", gone.text);
    assert_eq!(ada.get("/user/webhook").await.expect(200).body["webhook_url"], Value::Null);
}

#[tokio::test]
async fn a_secret_of_the_users_own_is_never_shown() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let secret = "a secret of some length, really";
    let body = json!({"webhook_url": HOOK, "webhook_secret": secret});
    let set = ada.put("/user/webhook", body).await.expect(200);
    assert!(set.body.get("webhook_secret").is_none() && !set.text.contains(secret));
    assert_eq!(ada.get("/user/webhook").await.expect(200).body["has_secret"], true);
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_is_refused() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let cases = [
        (json!({}), "webhook_url", "field required"),
        (json!({"webhook_url": ""}), "webhook_url", "http"),
        (json!({"webhook_url": "ftp://x"}), "webhook_url", "http"),
        (json!({"webhook_url": 7}), "webhook_url", ""),
        (json!({"webhook_url": "http://127.0.0.1/"}), "webhook_url", "refused"),
        (json!({"webhook_url": HOOK, "webhook_secret": "short"}), "webhook_secret", "24"),
        (json!({"webhook_url": HOOK, "webhook_events": {"x": true}}), "webhook_events", "type"),
    ];
    for (body, field, message) in cases {
        let refused = ada.put("/user/webhook", body).await;
        refused.expect_invalid(&json!(["body", field]), message);
    }
    assert_eq!(ada.get("/user/webhook").await.expect(200).body["webhook_url"], Value::Null);
}

#[tokio::test]
async fn events_are_listed_and_repeated_for_their_user_only() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    ada.put("/user/webhook", json!({"webhook_url": HOOK})).await.expect(200);
    let bot = app.start_bot(&ada, MEET).await;
    bot.join().await;
    bot.exit().await;
    let listed = ada.get("/user/webhook/deliveries").await.expect(200);
    let events = listed.body["deliveries"].as_array().unwrap();
    assert!(events.len() >= 2, "{}", listed.text);
    assert!(events.iter().all(|event| event["state"] == "pending" && event["tries"] == json!([])));
    let newest = &events[0];
    assert!(newest["id"].as_i64() > events[1]["id"].as_i64(), "newest first");
    let page = ada.get("/user/webhook/deliveries?limit=1").await.expect(200);
    assert_eq!(page.body["deliveries"], json!([newest]));
    let path = format!("/user/webhook/deliveries?limit=1&before={}", page.body["next_before"]);
    assert_eq!(ada.get(&path).await.expect(200).body["deliveries"], json!([events[1]]));

    let replay =
        format!("/user/webhook/deliveries/{}/replay", newest["event_id"].as_str().unwrap());
    let taken = ada.post(&replay, json!({})).await.expect(202);
    assert_eq!(taken.body["event_id"], newest["event_id"]);
    bob.post(&replay, json!({})).await.expect_detail(404, "not_found", "Event not found");
    ada.post("/user/webhook/deliveries/evt_no/replay", json!({}))
        .await
        .expect_problem(404, "not_found");
    let listed = bob.get("/user/webhook/deliveries").await.expect(200);
    assert_eq!(listed.body, json!({"deliveries": [], "next_before": null}));
}

#[tokio::test]
async fn who_may_not_ask_is_refused_in_vexas_words() {
    let app = App::new();
    let missing = app.client();
    let wrong = app.client().header("x-api-key", "wrong");
    let replay = "/user/webhook/deliveries/evt_no/replay";
    for (client, status, code, words) in [
        (missing, 401, "unauthorized", "Missing API Key"),
        (wrong, 403, "forbidden", "Invalid API Key"),
    ] {
        for refused in [
            client.put("/user/webhook", json!({})).await,
            client.get("/user/webhook").await,
            client.get("/user/webhook/deliveries").await,
            client.post(replay, json!({})).await,
        ] {
            refused.expect_detail(status, code, words);
        }
    }
    let reader = app.client().header("x-api-key", &app.token("ada@example.org", &["read"]).await);
    reader.get("/user/webhook").await.expect(200);
    for refused in
        [reader.put("/user/webhook", json!({})).await, reader.post(replay, json!({})).await]
    {
        refused.expect_detail(403, "forbidden", "Insufficient scope for this endpoint");
    }
}
