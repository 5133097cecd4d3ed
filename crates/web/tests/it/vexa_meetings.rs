//! Meetings as clients of the Vexa API look at them.

use serde_json::{Value, json};

use crate::app::App;
use crate::app_bots::MEET;

const AT_MEET: &str = "/meetings/google_meet/abc-defg-hij";
const NOT_FOUND: &str = "Meeting not found for platform google_meet and ID abc-defg-hij";

#[tokio::test]
async fn meetings_are_listed_newest_first_and_by_what_is_asked() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    app.allow_bots("ada@example.org", 5).await;
    let mut bots = Vec::new();
    for native_id in ["aaa-aaaa-aaa", "bbb-bbbb-bbb", "ccc-cccc-ccc", "ddd-dddd-ddd"] {
        bots.push(app.start_bot(&ada, native_id).await);
    }
    bots[1].report("status", json!({"status": "joining"})).await.expect(200);
    bots[2].report("status", json!({"status": "awaiting_admission"})).await.expect(200);
    bots[3].exit().await;
    let ids: Vec<i64> = bots.iter().map(|bot| bot.meeting_id).collect();
    assert_eq!(app.meeting_ids(&ada).await, [ids[3], ids[2], ids[1], ids[0]]);
    let cases = [
        ("limit=2", vec![ids[3], ids[2]]),
        ("limit=2&offset=1", vec![ids[2], ids[1]]),
        (&format!("before={}", ids[1]) as &str, vec![ids[0]]),
        ("status=failed", vec![ids[3]]),
        ("status=requested", vec![ids[0]]),
        ("status=reserved", vec![ids[0]]),
        ("status=starting", vec![ids[2], ids[1]]),
        ("status=joining", vec![ids[1]]),
        ("status=awaiting_admission", vec![ids[2]]),
        ("platform=google_meet&limit=1", vec![ids[3]]),
        ("platform=zoom", vec![]),
    ];
    for (query, expected) in cases {
        let listed = ada.get(&format!("/meetings?{query}")).await.expect(200);
        let meetings = listed.body["meetings"].as_array().unwrap();
        let found: Vec<i64> = meetings.iter().map(|row| row["id"].as_i64().unwrap()).collect();
        assert_eq!(found, expected, "{query}");
    }
    for (query, field) in [
        ("status=asleep", "status"),
        ("platform=webex", "platform"),
        ("limit=0", "limit"),
        ("offset=-1", "offset"),
    ] {
        let refused = ada.get(&format!("/meetings?{query}")).await;
        refused.expect_invalid(&json!(["query", field]), "");
    }
    let bob = app.user("bob@example.org").await;
    assert_eq!(app.meeting_ids(&bob).await, [0i64; 0]);
}

#[tokio::test]
async fn a_meeting_is_found_by_number_or_by_address() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let first = app.start_bot(&ada, MEET).await;
    first.exit().await;
    let second = app.start_bot(&ada, MEET).await;
    let latest = ada.get(AT_MEET).await.expect(200);
    assert_eq!(latest.body["id"], second.meeting_id);
    let shown = ada.get(&format!("/meetings/{}", second.meeting_id)).await.expect(200);
    assert_eq!(shown.body, latest.body);
    let older = ada.get(&format!("/meetings/{}", first.meeting_id)).await.expect(200);
    assert_eq!(
        (&older.body["status"], &older.body["failure_stage"]),
        (&json!("failed"), &json!("requested"))
    );

    let bob = app.user("bob@example.org").await;
    bob.get(AT_MEET).await.expect_detail(404, "not_found", NOT_FOUND);
    let path = format!("/meetings/{}", first.meeting_id);
    bob.get(&path).await.expect_detail(404, "not_found", "Meeting not found");
    ada.get("/meetings/999").await.expect_detail(404, "not_found", "Meeting not found");
    ada.get("/meetings/x").await.expect_invalid(&json!(["path", "id"]), "whole number");
    ada.get("/meetings/google_meet/%00").await.expect_problem(404, "not_found");
}

#[tokio::test]
async fn notes_are_kept_with_a_meeting() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let body = || json!({"data": {"name": "Weekly", "participants": ["Ada"], "notes": null}});
    ada.patch(AT_MEET, body()).await.expect_detail(404, "not_found", NOT_FOUND);
    app.start_bot(&ada, MEET).await;
    let changed = ada.patch(AT_MEET, body()).await.expect(200);
    assert_eq!(changed.body["data"]["name"], "Weekly");
    assert_eq!(changed.body["data"]["participants"], json!(["Ada"]));
    let more = json!({"data": {"languages": ["en"], "status_transition": [], "name": null}});
    let changed = ada.patch(AT_MEET, more).await.expect(200);
    assert_eq!(changed.body["data"]["name"], "Weekly", "what is not sent stays");
    assert_eq!(changed.body["data"]["languages"], json!(["en"]));
    assert_ne!(changed.body["data"]["status_transition"], json!([]), "only these four");

    for nothing in [
        json!({}),
        json!({"data": null}),
        json!({"data": {}}),
        json!({"data": {"name": null}}),
        json!({"data": {"unknown": 1}}),
    ] {
        let refused = ada.patch(AT_MEET, nothing).await;
        refused.expect_detail(400, "no_data", "No data provided for update.");
    }
    for (body, place) in [
        (json!({"data": {"name": 7}}), json!(["body", "data", "name"])),
        (json!({"data": {"notes": "\u{0}"}}), json!(["body", "data"])),
        (json!({"data": {"languages": ["en", "xx"]}}), json!(["body", "data", "languages", 1])),
    ] {
        ada.patch(AT_MEET, body).await.expect_invalid(&place, "");
    }
    let bob = app.user("bob@example.org").await;
    bob.patch(AT_MEET, body()).await.expect_detail(404, "not_found", NOT_FOUND);
}

#[tokio::test]
async fn a_meeting_is_forgotten_when_it_is_over() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    ada.delete(AT_MEET).await.expect_detail(404, "not_found", NOT_FOUND);
    let bot = app.start_bot(&ada, MEET).await;
    ada.patch(AT_MEET, json!({"data": {"notes": "secret plans"}})).await.expect(200);
    let words = "Meeting not finalized; cannot delete transcripts. Current status: requested";
    ada.delete(AT_MEET).await.expect_detail(409, "wrong_state", words);
    bot.join().await;
    bot.exit().await;
    let bob = app.user("bob@example.org").await;
    bob.delete(AT_MEET).await.expect_detail(404, "not_found", NOT_FOUND);

    let done = ada.delete(AT_MEET).await.expect(200);
    let words = "Meeting google_meet/abc-defg-hij transcripts deleted and data anonymized";
    assert_eq!(done.body, json!({"message": words}));
    ada.delete(AT_MEET).await.expect_detail(404, "not_found", NOT_FOUND);
    let shown = ada.get(&format!("/meetings/{}", bot.meeting_id)).await.expect(200);
    assert_eq!(shown.body["native_meeting_id"], Value::Null);
    assert_eq!(shown.body["constructed_meeting_url"], Value::Null);
    assert_eq!(shown.body["data"]["redacted"], true);
    assert!(!shown.text.contains("secret plans"), "{}", shown.text);
}

#[tokio::test]
async fn who_may_not_look_is_refused_in_vexas_words() {
    let app = App::new();
    let missing = app.client();
    let wrong = app.client().header("x-api-key", "wrong");
    for (client, words) in [(missing, "Missing API token"), (wrong, "Invalid API token")] {
        for refused in [
            client.get("/meetings?limit=0").await,
            client.get("/meetings/x").await,
            client.get("/meetings/webex/1").await,
            client.patch("/meetings/webex/1", json!({})).await,
            client.delete("/meetings/webex/1").await,
        ] {
            refused.expect_detail(403, "forbidden", words);
        }
    }
    let reader = app.client().header("x-api-key", &app.token("ada@example.org", &["read"]).await);
    reader.get("/meetings").await.expect(200);
    let scope = "Insufficient scope for this endpoint";
    reader.patch(AT_MEET, json!({})).await.expect_detail(403, "forbidden", scope);
    reader.delete(AT_MEET).await.expect_detail(403, "forbidden", scope);
}

#[tokio::test]
async fn the_description_of_a_meeting_is_what_is_sent() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    let shown = ada.get(&format!("/meetings/{}", bot.meeting_id)).await.expect(200);
    let document: Value = serde_json::from_str(&roundsman_web::openapi_json()).unwrap();
    let described = document["components"]["schemas"]["Meeting"]["properties"].as_object().unwrap();
    let sent = shown.body.as_object().unwrap();
    assert_eq!(described.keys().collect::<Vec<_>>(), sent.keys().collect::<Vec<_>>());
}
