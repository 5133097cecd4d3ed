//! Audits: asking for them, looking at them, reading what they found, having them recur.

use serde_json::json;

use crate::app::{App, Client};
use crate::app_audits::UNFINISHED_MAX;

async fn ask(client: &Client, url: &str) -> i64 {
    let answer = client.post("/audits", json!({"url": url})).await.expect(202).body;
    answer["id"].as_i64().unwrap()
}

async fn ids(client: &Client, query: &str) -> Vec<i64> {
    let listed = client.get(&format!("/audits{query}")).await.expect(200).body;
    listed["audits"].as_array().unwrap().iter().map(|one| one["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn an_audit_is_asked_for_made_and_read() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let wish = json!({"url": "Example.ORG", "priority": 2, "options": {"obey_robots": false}});
    let made = ada.post("/audits", wish).await.expect(202);
    assert_eq!(made.header("location"), "/audits/1");
    let shown = &made.body;
    assert_eq!(
        (&shown["website_url"], &shown["status"], &shown["priority"], &shown["options"]),
        (
            &json!("https://example.org/"),
            &json!("pending"),
            &json!(2),
            &json!({"browser": false, "obey_robots": false})
        )
    );
    ada.get("/audits/1/report.html").await.expect_problem(409, "wrong_state");
    let job = ada.get(&format!("/jobs/{}", shown["job_id"])).await.expect(200).body;
    assert_eq!((&job["kind"], &job["state"]), (&json!("audits.run"), &json!("pending")));
    app.make_audits().await;
    let shown = ada.get("/audits/1").await.expect(200).body;
    assert_eq!(
        (&shown["status"], &shown["retry_count"], &shown["processing_worker_id"]),
        (&json!("completed"), &json!(0), &json!("auditor"))
    );
    let result = &shown["result"];
    assert_eq!((&result["ttfb_ms"], &result["has_screenshot"]), (&json!(40), &json!(false)));
    let overall = result["scores"]["overall"].as_i64().unwrap();
    assert!((1..100).contains(&overall), "{result}");
    let html = ada.get("/audits/1/report.html").await.expect(200);
    assert_eq!(html.header("content-type"), "text/html; charset=utf-8");
    assert!(html.header("content-security-policy").contains("default-src 'none'"));
    assert_eq!(html.header("x-content-type-options"), "nosniff");
    assert!(!html.text.contains("<script>alert"), "nothing foreign is run");
    let pdf = ada.get("/audits/1/report.pdf").await.expect(200);
    assert!(pdf.text.starts_with("%PDF"));
    assert_eq!(pdf.header("content-disposition"), "attachment; filename=\"audit-1.pdf\"");
    let report = ada.get("/audits/1/report.json").await.expect(200).body;
    assert_eq!(report["report"]["verdict"]["overall"], json!(overall));
    assert_eq!(report["raw_data"]["checks"].as_object().unwrap().len(), 14);
    ada.get("/audits/1/screenshot.png").await.expect_problem(404, "not_found");
    ada.delete("/audits/1").await.expect_problem(409, "wrong_state");
}

#[tokio::test]
async fn audits_are_their_users_own_and_listed_in_pages() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    ask(&ada, "https://one.example/").await;
    let stopped = ask(&ada, "https://two.example/").await;
    ask(&bob, "https://one.example/").await;
    ask(&ada, "https://blocked.example/").await;
    let cancelled = ada.delete(&format!("/audits/{stopped}")).await.expect(200).body;
    assert_eq!(
        (&cancelled["status"], &cancelled["error_code"]),
        (&json!("failed"), &json!("cancelled"))
    );
    app.make_audits().await;
    assert_eq!(ids(&ada, "").await, [4, 2, 1]);
    assert_eq!(ids(&ada, "?status=completed").await, [1]);
    assert_eq!(ids(&ada, "?status=failed").await, [4, 2]);
    assert_eq!(ids(&ada, "?url=one.example").await, [1]);
    assert_eq!(ids(&ada, "?limit=2").await, [4, 2]);
    assert_eq!(ids(&ada, "?limit=2&before=2").await, [1]);
    assert_eq!(ids(&app.admin(), "").await, [4, 3, 2, 1]);
    let failed = ada.get("/audits/4").await.expect(200).body;
    assert_eq!(
        (&failed["error_code"], &failed["errors"][0]["code"], &failed["result"]),
        (&json!("blocked_target"), &json!("blocked_target"), &json!(null))
    );
    for path in ["", "/report.html", "/report.json", "/report.pdf", "/screenshot.png"] {
        let path = format!("/audits/1{path}");
        bob.get(&path).await.expect_problem(404, "not_found");
    }
    bob.delete("/audits/1").await.expect_problem(404, "not_found");
    for bad in ["?status=stalled", "?limit=0", "?limit=201", "?colour=red", "?url=ftp://x/"] {
        ada.get(&format!("/audits{bad}")).await.expect_problem(422, "invalid_request");
    }
}

#[tokio::test]
async fn requests_are_checked_carried_out_once_and_bounded() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    for bad in [
        json!({}),
        json!({"url": ""}),
        json!({"url": "ftp://example.org/"}),
        json!({"url": "https://a:b@example.org/"}),
        json!({"url": "example.org", "priority": 11}),
        json!({"url": "example.org", "options": {"allow_private": true}}),
        json!({"url": "example.org", "user_id": 7}),
    ] {
        ada.post("/audits", bad).await.expect_problem(422, "invalid_request");
    }
    app.admin()
        .post("/audits", json!({"url": "example.org"}))
        .await
        .expect_problem(403, "forbidden");
    let keyed = ada.clone().header("idempotency-key", "order-7");
    let made = keyed.post("/audits", json!({"url": "example.org"})).await.expect(202).body;
    let again = keyed.post("/audits", json!({"url": "example.org"})).await.expect(200).body;
    assert_eq!(made["id"], again["id"]);
    let other = keyed.post("/audits", json!({"url": "example.com"})).await;
    other.expect_problem(422, "idempotency_key_reused");
    for _ in 1..UNFINISHED_MAX {
        ask(&ada, "example.org").await;
    }
    let refused = ada.post("/audits", json!({"url": "example.org"})).await;
    refused.expect_problem(429, "too_many_audits");
    assert!(!refused.header("retry-after").is_empty());
    app.make_audits().await;
    ask(&ada, "example.org").await;
}

#[tokio::test]
async fn a_recurring_audit_has_a_history() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    for bad in ["every 5m", "61 * * * *", "", "0 0 31 2 *"] {
        let wish = json!({"url": "example.org", "schedule": bad});
        ada.post("/recurring-audits", wish).await.expect_problem(422, "invalid_request");
    }
    let wish = json!({"url": "example.org", "schedule": "every 6h"});
    let made = ada.post("/recurring-audits", wish).await.expect(201);
    assert_eq!(made.header("location"), "/recurring-audits/1");
    assert_eq!(made.body["time_zone"], json!(null), "an interval goes by no clock");
    assert_eq!((&made.body["paused"], &made.body["schedule"]), (&json!(false), &json!("every 6h")));
    app.make_audits().await;
    app.clock.advance(std::time::Duration::from_hours(6));
    app.make_audits().await;
    let shown = ada.get("/recurring-audits/1").await.expect(200).body;
    assert_eq!((&shown["started"], &shown["last_audit_id"]), (&json!(2), &json!(2)));
    assert_eq!(ids(&ada, "?recurring_id=1").await, [2, 1]);
    let history = ada.get("/recurring-audits/1/history.json").await.expect(200).body;
    assert_eq!(history["points"].as_array().unwrap().len(), 2);
    assert_eq!(history["points"][0]["audit_id"], json!(1), "oldest first");
    let plot = ada.get("/recurring-audits/1/history.svg").await.expect(200);
    assert_eq!(plot.header("content-type"), "image/svg+xml");
    assert!(plot.text.contains("<svg"));
    let paused = ada.patch("/recurring-audits/1", json!({"paused": true})).await.expect(200).body;
    assert_eq!((&paused["paused"], &paused["next_at"]), (&json!(true), &json!(null)));
    let goes_on = json!({"paused": false, "schedule": "@daily"});
    let changed = ada.patch("/recurring-audits/1", goes_on).await.expect(200).body;
    assert_eq!(changed["next_at"], json!("2026-01-02T00:00:00.000000Z"));
    assert_eq!((&changed["schedule"], &changed["time_zone"]), (&json!("@daily"), &json!("UTC")));
    let elsewhere = json!({"time_zone": "America/New_York"});
    let changed = ada.patch("/recurring-audits/1", elsewhere).await.expect(200).body;
    assert_eq!(changed["time_zone"], json!("America/New_York"));
    assert_eq!(changed["next_at"], json!("2026-01-02T05:00:00.000000Z"));
    let nowhere = json!({"time_zone": "Nowhere/Land"});
    ada.patch("/recurring-audits/1", nowhere).await.expect_problem(422, "invalid_request");
    for path in ["", "/history.json", "/history.svg"] {
        bob.get(&format!("/recurring-audits/1{path}")).await.expect_problem(404, "not_found");
    }
    bob.patch("/recurring-audits/1", json!({"paused": true}))
        .await
        .expect_problem(404, "not_found");
    bob.delete("/recurring-audits/1").await.expect_problem(404, "not_found");
    let listed = bob.get("/recurring-audits").await.expect(200).body;
    assert_eq!(listed["recurring_audits"], json!([]));
    assert_eq!(ada.delete("/recurring-audits/1").await.status, 204);
    ada.get("/recurring-audits/1").await.expect_problem(404, "not_found");
    assert_eq!(ids(&ada, "").await, [2, 1], "its audits stay");
}
