//! What bots report on our own paths, and who is believed.

use serde_json::{Value, json};

use crate::app::{Answer, App};
use crate::app_bots::{MEET, TestBot};

async fn state_of(user: &crate::app::Client, bot: &TestBot) -> String {
    let shown = user.get(&format!("/meetings/{}", bot.meeting_id)).await.expect(200);
    shown.body["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_bots_life_is_told_by_itself() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    let answer = |state: &str, status: &str| {
        json!({"status": "processed", "meeting_id": bot.meeting_id, "state": state,
            "meeting_status": status, "final_status": null, "wanted": "run",
            "config_version": 0, "config": {"language": null, "task": null}})
    };
    let started = bot.report("started", json!({"meeting_id": bot.meeting_id})).await.expect(200);
    assert_eq!(started.body, answer("starting", "joining"));
    assert!(app.beats(bot.meeting_id).await, "who speaks this protocol is expected to beat");
    let waiting = bot.report("status", json!({"status": "awaiting_admission"})).await.expect(200);
    assert_eq!(waiting.body, answer("starting", "awaiting_admission"));
    let beat = bot.report("heartbeat", json!({})).await.expect(200);
    assert_eq!(beat.body, waiting.body, "a heartbeat learns the finer stage too");
    let joined = bot.report("joined", json!({"unknown": "member"})).await.expect(200);
    assert_eq!(joined.body, answer("active", "active"));
    let again = bot.report("joined", json!({})).await.expect(200);
    assert_eq!(again.body, joined.body, "a repeat changes nothing");
    let beat = json!({"media_progress": 100, "config_version": 0});
    assert_eq!(bot.report("heartbeat", beat).await.expect(200).body, answer("active", "active"));

    let leaving = bot.report("status", json!({"status": "stopping"})).await.expect(200);
    assert_eq!(
        (&leaving.body["state"], &leaving.body["wanted"]),
        (&json!("stopping"), &json!("leave"))
    );
    let gone = json!({"exit_code": 0, "reason": "left_alone_timeout",
        "completion_reason": "left_alone", "error_details": {"a": [1]}});
    let exited = bot.report("exited", gone).await.expect(200);
    assert_eq!(
        (&exited.body["state"], &exited.body["final_status"]),
        (&json!("completed"), &json!("completed"))
    );
    let shown = ada.get(&format!("/meetings/{}", bot.meeting_id)).await.expect(200);
    assert_eq!(shown.body["completion_reason"], "left_alone");
    assert_eq!(shown.body["end_time"], "2026-01-01T00:00:00.000000");
}

#[tokio::test]
async fn every_answer_says_what_is_wanted() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    bot.join().await;
    let body = json!({"meeting_id": bot.meeting_id, "language": "de", "task": "translate"});
    ada.put("/bots/config", body).await.expect(202);
    ada.post("/bots/stop", json!({"meeting_id": bot.meeting_id})).await.expect(202);
    for (event, body) in [("heartbeat", json!({})), ("joined", json!({}))] {
        let told = bot.report(event, body).await.expect(200);
        assert_eq!(told.body["wanted"], "leave");
        assert_eq!(told.body["config_version"], 1);
        assert_eq!(told.body["config"], json!({"language": "de", "task": "translate"}));
        assert_eq!(told.body["state"], "active", "a wish changes no state");
    }
}

#[tokio::test]
async fn a_bot_that_is_over_is_told_to_go() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    bot.join().await;
    bot.exit().await;
    let told = bot.report("heartbeat", json!({})).await;
    told.expect_problem(410, "bot_over");
    assert_eq!(
        (&told.body["state"], &told.body["meeting_status"]),
        (&json!("completed"), &json!("completed"))
    );
    // Everything else is answered with how it is, so that the bot stops retrying.
    for (event, body) in [
        ("started", json!({"meeting_id": bot.meeting_id})),
        ("joined", json!({})),
        ("status", json!({"status": "stopping"})),
        ("exited", json!({"exit_code": 1})),
    ] {
        let late = bot.report(event, body).await.expect(200);
        assert_eq!(
            (&late.body["state"], &late.body["wanted"]),
            (&json!("completed"), &json!("leave")),
            "{event}"
        );
    }
    assert_eq!(state_of(&ada, &bot).await, "completed");
}

#[tokio::test]
async fn an_earlier_attempt_is_told_that_it_was_replaced() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    let token = app.bot_token(bot.meeting_id, 0, &bot.connection_id);
    let old = app.client().header("x-bot-token", &token);
    old.post("/callback/heartbeat", bot.body(json!({}))).await.expect_problem(410, "superseded");
    old.post("/callback/joined", bot.body(json!({}))).await.expect_problem(410, "superseded");
    assert_eq!(state_of(&ada, &bot).await, "reserved");
}

/// Every callback, sent to where its body says.
async fn all(client: &crate::app::Client, connection_id: &str, meeting_id: Value) -> Vec<Answer> {
    let body = |more: Value| {
        let mut body = json!({"connection_id": connection_id});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    vec![
        client.post("/callback/started", body(json!({"meeting_id": meeting_id}))).await,
        client.post("/callback/joined", body(json!({}))).await,
        client.post("/callback/heartbeat", body(json!({}))).await,
        client.patch("/callback/status", body(json!({"status": "stopping"}))).await,
        client.post("/callback/exited", body(json!({"exit_code": 0}))).await,
        client.post("/bots/internal/callback/exited", body(json!({"exit_code": 0}))).await,
    ]
}

#[tokio::test]
async fn only_the_very_bot_is_believed() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let (bot, others) = (app.start_bot(&ada, MEET).await, app.start_bot(&bob, MEET).await);
    let user_token = app.token("ada@example.org", &[]).await;
    let with = |token: &str| app.client().header("authorization", &format!("Bearer {token}"));
    let forged = format!("rmb_{}_1_{}", bot.meeting_id, "0".repeat(64));
    let cut = &bot.token[..bot.token.len() - 1];
    let strangers = [
        app.client(),
        with(""),
        with(&forged),
        with(cut),
        with(&user_token),
        with(&others.token),
        app.client().header("x-api-key", &bot.token),
        app.client().header("x-bot-token", &others.token),
    ];
    let mut refusals = Vec::new();
    for stranger in &strangers {
        let connection = &bot.connection_id;
        for unknown in [connection.as_str(), "no-such-connection"] {
            for answer in all(stranger, unknown, json!(bot.meeting_id)).await {
                answer.expect_problem(401, "unauthorized");
                refusals.push((answer.body["detail"].clone(), answer.body["title"].clone()));
            }
        }
    }
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "nobody learns whether there is such a bot");
    for (user, bot) in [(&ada, &bot), (&bob, &others)] {
        assert_eq!(state_of(user, bot).await, "reserved");
    }
}

#[tokio::test]
async fn a_bot_speaks_for_its_own_meeting_and_connection_only() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let (bot, others) = (app.start_bot(&ada, MEET).await, app.start_bot(&bob, MEET).await);
    for meeting in [others.meeting_id, 999] {
        let refused = bot.report("started", json!({"meeting_id": meeting})).await;
        refused.expect_problem(401, "unauthorized");
    }
    let client = app.client().header("x-bot-token", &bot.token);
    client
        .post("/callback/joined", json!({"connection_id": others.connection_id}))
        .await
        .expect_problem(401, "unauthorized");
    assert_eq!(state_of(&ada, &bot).await, "reserved");
    assert_eq!(state_of(&bob, &others).await, "reserved");

    // A token of ours for a meeting that is no more.
    let token = app.bot_token(999, 1, "c-1");
    let ghost = app.client().header("x-bot-token", &token);
    for answer in all(&ghost, "c-1", json!(999)).await {
        answer.expect_problem(404, "not_found");
    }
    assert_eq!(app.meeting_ids(&ada).await, [bot.meeting_id]);
}

#[tokio::test]
async fn guessing_is_slowed_down_and_bots_are_not() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    let guess =
        || async { app.client().post("/callback/heartbeat", json!({"connection_id": "c"})).await };
    let mut explained = 0;
    let held_back = loop {
        let answer = guess().await;
        if answer.status != 401 {
            break answer;
        }
        explained += 1;
        assert!(explained <= 1000, "nothing holds anybody back");
    };
    held_back.expect_problem(429, "too_many_refusals");
    assert!(held_back.header("retry-after").parse::<u32>().unwrap() >= 1);
    assert!(explained >= 100, "a restart of many bots with old tokens is no attack");
    bot.report("heartbeat", json!({})).await.expect(200);
    ada.get("/bots/active").await.expect(200);
    app.client().get("/bots/active").await.expect_problem(401, "unauthorized");
    app.clock.advance(std::time::Duration::from_secs(2));
    guess().await.expect_problem(401, "unauthorized");
    let metrics = app.admin().get("/metrics").await.expect(200).text;
    let counted =
        format!("roundsman_limit_hits_total{{limit=\"callback_refused\"}} {}", explained + 2);
    assert!(metrics.contains(&counted), "{metrics}");
}

#[tokio::test]
async fn a_report_is_checked() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    let client = app.client().header("x-bot-token", &bot.token);
    for path in ["started", "joined", "heartbeat", "exited"] {
        let path = format!("/callback/{path}");
        client.post(&path, json!({})).await.expect_problem(422, "invalid_request");
        client.post_text(&path, "nope").await.expect_problem(400, "invalid_json");
    }
    for (event, body, field) in [
        ("status", json!({"status": "asleep"}), "status"),
        ("status", json!({"status": "completed"}), "status"),
        ("heartbeat", json!({"media_progress": "far"}), "media_progress"),
        ("heartbeat", json!({"media_progress": -1}), "media_progress"),
        ("heartbeat", json!({"config_version": -1}), "config_version"),
        ("exited", json!({"exit_code": "0"}), "exit_code"),
    ] {
        let refused = bot.report(event, body).await;
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], field);
    }
    assert_eq!(state_of(&ada, &bot).await, "reserved");
    // How it ended is heard even if the bot does not know its code.
    let odd = json!({"reason": "a\u{0}b", "error_details": {"text": "\u{0}"}});
    let exited = bot.report("exited", odd).await.expect(200);
    assert_eq!(exited.body["final_status"], "failed");
}
