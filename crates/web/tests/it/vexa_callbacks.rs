//! What stock Vexa bots report.

use serde_json::json;

use crate::app::App;
use crate::app_bots::MEET;

/// What a stock bot takes for a success; for anything else it retries.
fn is_taken(status: &str) -> bool {
    matches!(status, "processed" | "ok" | "container_updated")
}

#[tokio::test]
async fn a_stock_bots_life_is_understood() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    for (status, state) in [
        ("requested", "starting"),
        ("joining", "starting"),
        ("awaiting_admission", "starting"),
        ("awaiting_admission", "starting"),
        ("active", "active"),
        ("active", "active"),
        ("stopping", "stopping"),
    ] {
        let body = json!({"container_id": "c0ffee", "status": status, "timestamp": "2026-01-01"});
        let answer = bot.report_as_stock("status_change", body).await.expect(200);
        assert!(is_taken(answer.body["status"].as_str().unwrap()), "{}", answer.text);
        assert_eq!(answer.body["state"], state, "{status}");
        assert_eq!(answer.body["meeting_id"], bot.meeting_id);
        let shown = if status == "requested" { "joining" } else { status };
        assert_eq!(answer.body["meeting_status"], shown);
    }
    let body = json!({"status": "completed", "exit_code": 0, "reason": "removed_by_admin",
        "completion_reason": "removed_by_admin", "failure_stage": null});
    for _ in 0..2 {
        let answer = bot.report_as_stock("status_change", body.clone()).await.expect(200);
        assert!(is_taken(answer.body["status"].as_str().unwrap()));
        assert_eq!(answer.body["final_status"], "completed");
    }
    let shown = ada.get(&format!("/meetings/{}", bot.meeting_id)).await.expect(200);
    assert_eq!(shown.body["completion_reason"], "removed_by_admin");
    assert!(!app.beats(bot.meeting_id).await, "its launcher is asked whether it lives");
}

#[tokio::test]
async fn the_older_callbacks_work_too_and_with_the_token_in_a_header() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    let client = app.client().header("x-bot-token", &bot.token);
    for (event, state) in
        [("joining", "starting"), ("awaiting_admission", "starting"), ("started", "active")]
    {
        let path = format!("/bots/internal/callback/{event}");
        let body = bot.body(json!({"container_id": "c0ffee"}));
        assert_eq!(client.post(&path, body).await.expect(200).body["state"], state, "{event}");
    }
    let body = json!({"exit_code": 1, "reason": "join_meeting_error",
        "error_details": "it fell over", "platform_specific_error": "E7"});
    let exited = bot.report_as_stock("exited", body).await.expect(200);
    assert_eq!(exited.body["status"], "processed");
    assert_eq!(exited.body["final_status"], "failed");
}

#[tokio::test]
async fn a_failure_is_a_failure_whatever_its_code() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    for (body, reason) in [
        (json!({"status": "failed", "reason": "admission_rejected_by_admin"}), "failed"),
        (json!({"status": "failed", "exit_code": 0}), "failed"),
        (json!({"status": "completed"}), "failed"),
    ] {
        let bot = app.start_bot(&ada, MEET).await;
        let answer = bot.report_as_stock("status_change", body).await.expect(200);
        // Nobody was ever let in, so there was no meeting to complete.
        assert_eq!(answer.body["final_status"], reason);
    }
}

#[tokio::test]
async fn a_stock_bot_proves_itself_too() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let (bot, others) = (app.start_bot(&ada, MEET).await, app.start_bot(&bob, MEET).await);
    let body = bot.body(json!({"status": "active"}));
    let forged = format!("rmb_{}_1_{}", bot.meeting_id, "0".repeat(64));
    for token in [others.token.as_str(), &forged, "status_change", "%00", "%ff", "rmb_"] {
        let path = format!("/bots/internal/callback/{token}/status_change");
        let refused = app.client().post(&path, body.clone()).await;
        refused.expect_problem(401, "unauthorized");
        assert!(!refused.text.contains(token) || token == "status_change" || token == "rmb_");
    }
    let bare = app.client().post("/bots/internal/callback/status_change", body.clone()).await;
    bare.expect_problem(401, "unauthorized");
    for (event, body) in [
        ("status_change", json!({})),
        ("status_change", json!({"status": "needs_help"})),
        ("status_change", json!({"status": 7})),
    ] {
        bot.report_as_stock(event, body).await.expect_problem(422, "invalid_request");
    }
    bot.report_as_stock("vanished", json!({})).await.expect_problem(404, "not_found");
    let token = app.bot_token(999, 1, "c-1");
    let path = format!("/bots/internal/callback/{token}/exited");
    let ghost = app.client().post(&path, json!({"connection_id": "c-1", "exit_code": 0})).await;
    ghost.expect_problem(404, "not_found");
    for (user, id) in [(&ada, bot.meeting_id), (&bob, others.meeting_id)] {
        let shown = user.get(&format!("/meetings/{id}")).await.expect(200);
        assert_eq!(shown.body["state"], "reserved");
    }
}
