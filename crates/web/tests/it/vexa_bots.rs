//! Bots as clients of the Vexa API ask for them: its statuses, bodies and words.

use serde_json::{Value, json};

use crate::app::{App, Client};
use crate::app_bots::MEET;

const AT_MEET: &str = "/bots/google_meet/abc-defg-hij";

fn wish(native_id: &str) -> Value {
    json!({"platform": "google_meet", "native_meeting_id": native_id})
}

#[tokio::test]
async fn a_bot_is_requested() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let body = json!({"platform": "teams", "native_meeting_id": "1234567890",
        "passcode": "abcd1234", "bot_name": null, "language": null, "task": null});
    let made = ada.post("/bots", body).await.expect(201);
    assert_eq!(
        (&made.body["status"], &made.body["state"]),
        (&json!("requested"), &json!("reserved"))
    );
    assert_eq!(made.body["data"]["passcode"], "abcd1234");
    let url = "https://teams.live.com/meet/1234567890?p=abcd1234";
    assert_eq!(made.body["constructed_meeting_url"], url);
    assert_eq!(made.body["created_at"], "2026-01-01T00:00:00.000000");
}

#[tokio::test]
async fn a_request_is_refused_in_vexas_words() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    app.allow_bots("ada@example.org", 2).await;
    let bot = app.start_bot(&ada, MEET).await;
    bot.join().await;
    let twice = ada.post("/bots", wish(MEET)).await;
    let words = "An active or requested meeting already exists for this platform and meeting ID. \
                 Platform: google_meet, Native Meeting ID: abc-defg-hij";
    twice.expect_detail(409, "already_live", words);

    app.start_bot(&ada, "xyz-abcd-efg").await;
    let more = ada.post("/bots", wish("xyz-abcd-efh")).await;
    let words = "User has reached the maximum concurrent bot limit (2).";
    more.expect_detail(403, "bot_limit_reached", words);
    assert_eq!(more.header("retry-after"), "");
    let own = ada.post("/bots/start", wish("xyz-abcd-efh")).await;
    own.expect_problem(429, "bot_limit_reached");
    assert_eq!(app.meeting_ids(&ada).await.len(), 2, "a refusal writes nothing");
}

#[tokio::test]
async fn wrong_fields_are_listed_as_vexa_lists_them() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let meet = "Google Meet ID must be in format 'abc-defg-hij' (lowercase letters only)";
    let cases = [
        (json!({}), "platform", "field required"),
        (json!({"platform": "google_meet"}), "native_meeting_id", "field required"),
        (json!({"platform": "webex", "native_meeting_id": "1"}), "platform", "permitted"),
        (wish(""), "native_meeting_id", "native_meeting_id cannot be empty"),
        (wish("ABC-defg-hij"), "native_meeting_id", meet),
        (
            json!({"platform": "teams", "native_meeting_id": "https://x"}),
            "native_meeting_id",
            "Teams meeting ID must be 10-15 digits only (not a full URL)",
        ),
        (
            json!({"platform": "google_meet", "native_meeting_id": MEET, "passcode": "x"}),
            "passcode",
            "Passcode is not supported for Google Meet meetings",
        ),
        (
            json!({"platform": "google_meet", "native_meeting_id": MEET, "language": "xx"}),
            "language",
            "Invalid language code 'xx'. Must be one of: [",
        ),
        (
            json!({"platform": "google_meet", "native_meeting_id": MEET, "task": "x"}),
            "task",
            "Invalid task 'x'. Must be one of: ['transcribe', 'translate']",
        ),
    ];
    for (body, field, message) in cases {
        ada.post("/bots", body).await.expect_invalid(&json!(["body", field]), message);
    }
    for refused in [
        ada.delete("/bots/webex/1").await,
        ada.put("/bots/webex/1/config", json!({})).await,
        ada.get("/meetings/webex/1").await,
    ] {
        refused.expect_invalid(&json!(["path", "platform"]), "permitted");
    }
    ada.get("/bots/status?limit=0").await.expect_invalid(&json!(["query", "limit"]), "");
    assert_eq!(app.meeting_ids(&ada).await, [0i64; 0]);
}

#[tokio::test]
async fn who_may_not_ask_is_refused_in_vexas_words_before_anything_else() {
    let app = App::new();
    let reader = app.client().header("x-api-key", &app.token("ada@example.org", &["tx"]).await);
    let ask = async |client: &Client| {
        [
            client.post("/bots", json!({})).await,
            client.delete("/bots/webex/1").await,
            client.put("/bots/webex/1/config", json!([])).await,
        ]
    };
    let missing = "Missing API token (X-API-Key header)";
    for client in [app.client(), app.client().header("x-api-key", ""), app.admin()] {
        for refused in ask(&client).await {
            refused.expect_detail(403, "forbidden", missing);
        }
        client.get("/bots/status").await.expect_detail(403, "forbidden", missing);
    }
    for wrong in ["wrong", crate::app::ADMIN_TOKEN] {
        let client = app.client().header("x-api-key", wrong);
        for refused in ask(&client).await {
            refused.expect_detail(403, "forbidden", "Invalid API token");
        }
        let refused = client.get("/bots/status").await;
        refused.expect_detail(403, "forbidden", "Invalid API token");
    }
    let scope = "Insufficient scope for this endpoint";
    reader.post("/bots", wish(MEET)).await.expect_detail(403, "forbidden", scope);
    reader.delete(AT_MEET).await.expect_detail(403, "forbidden", scope);
    reader.get("/bots/status").await.expect(200);
}

#[tokio::test]
async fn a_bot_is_stopped_in_vexas_words() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let none = ada.delete(AT_MEET).await;
    none.expect_detail(404, "not_found", "No meeting found to stop.");
    let bot = app.start_bot(&ada, MEET).await;
    let bob = app.user("bob@example.org").await;
    let others = bob.delete(AT_MEET).await;
    others.expect_detail(404, "not_found", "No meeting found to stop.");

    let taken = ada.delete(AT_MEET).await.expect(202);
    assert_eq!(taken.body["message"], "Stop request accepted and is being processed.");
    assert_eq!(taken.body["meeting_ids"], json!([bot.meeting_id]));
    bot.exit().await;
    let over = ada.delete(AT_MEET).await.expect(202);
    assert_eq!(over.body["message"], "Meeting already completed.");
    let second = app.start_bot(&ada, MEET).await;
    second.report("exited", json!({"exit_code": 1})).await.expect(200);
    let over = ada.delete(AT_MEET).await.expect(202);
    assert_eq!(over.body["message"], "Meeting already failed.");
}

#[tokio::test]
async fn a_bot_is_reconfigured_in_vexas_words() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let path = format!("{AT_MEET}/config");
    let none = "No active meeting found for platform google_meet and meeting ID abc-defg-hij.";
    let body = || json!({"language": "de", "task": "translate"});
    ada.put(&path, body()).await.expect_detail(404, "not_found", none);
    let bot = app.start_bot(&ada, MEET).await;
    let early = ada.put(&path, body()).await;
    let words = "Meeting found but is not active (status: 'requested'). Cannot reconfigure.";
    early.expect_detail(409, "wrong_state", words);
    assert_eq!(early.body["state"], "reserved");
    bot.join().await;
    let taken = ada.put(&path, body()).await.expect(202);
    let words = "Reconfiguration request accepted and sent to the bot.";
    assert_eq!((&taken.body["message"], &taken.body["config_version"]), (&json!(words), &json!(1)));
    ada.put(&path, json!({"language": "xx"}))
        .await
        .expect_invalid(&json!(["body", "language"]), "Invalid language code 'xx'");
    let bob = app.user("bob@example.org").await;
    bob.put(&path, body()).await.expect_detail(404, "not_found", none);
    bot.exit().await;
    let words = "Meeting found but is not active (status: 'completed'). Cannot reconfigure.";
    ada.put(&path, body()).await.expect_detail(409, "wrong_state", words);
}

#[tokio::test]
async fn the_running_bots_are_those_of_the_table() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    app.allow_bots("ada@example.org", 5).await;
    let bot = app.start_bot(&ada, MEET).await;
    bot.join().await;
    let ended = app.start_bot(&ada, "xyz-abcd-efg").await;
    ended.exit().await;
    let second = app.start_bot(&ada, "xyz-abcd-efh").await;
    let listed = ada.get("/bots/status").await.expect(200);
    let bots = listed.body["running_bots"].as_array().unwrap();
    assert_eq!(bots.len(), 2);
    assert_eq!(bots[0]["meeting_id"], second.meeting_id);
    assert_eq!(bots[0]["normalized_status"], "Requested");
    let expected = json!({"container_id": null, "container_name": null,
        "platform": "google_meet", "native_meeting_id": MEET, "status": "active",
        "normalized_status": "Up", "created_at": "2026-01-01T00:00:00.000000", "labels": {},
        "meeting_id_from_name": bot.meeting_id.to_string(), "meeting_id": bot.meeting_id,
        "meeting_status": "active", "state": "active",
        "start_time": "2026-01-01T00:00:00.000000"});
    assert_eq!(bots[1], expected);
    let page = ada.get("/bots/status?limit=1").await.expect(200);
    assert_eq!(page.body["next_before"], second.meeting_id);
    let bob = app.user("bob@example.org").await;
    assert_eq!(bob.get("/bots/status").await.expect(200).body["running_bots"], json!([]));
}
