//! Bots on our own paths: starting, stopping, configuring and seeing them.

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::BotStore;
use serde_json::{Value, json};

use crate::app::App;
use crate::app_bots::MEET;

fn wish(native_id: &str) -> Value {
    json!({"platform": "google_meet", "native_meeting_id": native_id})
}

#[tokio::test]
async fn a_start_reserves_and_shows_the_meeting() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let body = json!({"platform": "google_meet", "native_meeting_id": MEET, "bot_name": "Scribe",
        "language": "en", "task": "transcribe", "a_member_of_tomorrow": {"x": 1},
        "automatic_leave": {"waiting_room_timeout": 1000, "no_one_joined_timeout": 2000,
            "max_time_left_alone": 3000, "max_bot_time": 4000}});
    let started = ada.post("/bots/start", body).await.expect(201);
    let id = started.body["id"].as_i64().unwrap();
    let expected = json!({"id": id, "user_id": 1, "platform": "google_meet",
        "native_meeting_id": MEET,
        "constructed_meeting_url": "https://meet.google.com/abc-defg-hij",
        "status": "requested", "state": "reserved", "bot_container_id": null,
        "start_time": null, "end_time": null, "data": started.body["data"],
        "created_at": "2026-01-01T00:00:00.000000", "updated_at": "2026-01-01T00:00:00.000000",
        "completion_reason": null, "failure_stage": null});
    assert_eq!(started.body, expected);

    let bot = app.store.bot(MeetingId::new(id)).await.unwrap().unwrap().bot;
    assert_eq!(bot.wish.bot_name.as_deref(), Some("Scribe"));
    assert_eq!(bot.config.language.as_deref(), Some("en"));
    let timeouts = [
        bot.wish.waiting_room_timeout_ms,
        bot.wish.no_one_joined_timeout_ms,
        bot.wish.everyone_left_timeout_ms,
    ];
    assert_eq!(timeouts, [Some(1000), Some(2000), Some(3000)]);
}

#[tokio::test]
async fn the_limit_is_always_the_same_429_and_reserves_nothing() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    app.start_bot(&ada, MEET).await;
    for other in ["xyz-abcd-efg", "xyz-abcd-efh"] {
        let refused = ada.post("/bots/start", wish(other)).await;
        refused.expect_problem(429, "bot_limit_reached");
        assert_eq!(refused.header("retry-after"), "30");
        assert_eq!((&refused.body["live"], &refused.body["max"]), (&json!(1), &json!(1)));
    }
    assert_eq!(app.meeting_ids(&ada).await.len(), 1);
    app.allow_bots("ada@example.org", 0).await;
    let bob = app.user("bob@example.org").await;
    app.allow_bots("bob@example.org", 0).await;
    bob.post("/bots/start", wish(MEET)).await.expect_problem(429, "bot_limit_reached");
    assert_eq!(app.meeting_ids(&bob).await, [0i64; 0]);
}

#[tokio::test]
async fn a_second_bot_in_the_same_meeting_is_refused_until_the_first_is_over() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    app.allow_bots("ada@example.org", 5).await;
    let bot = app.start_bot(&ada, MEET).await;
    let refused = ada.post("/bots/start", wish(MEET)).await;
    refused.expect_problem(409, "already_live");
    assert_eq!(refused.body["meeting_id"], bot.meeting_id);
    let bob = app.user("bob@example.org").await;
    bob.post("/bots/start", wish(MEET)).await.expect(201);
    bot.join().await;
    bot.exit().await;
    ada.post("/bots/start", wish(MEET)).await.expect(201);
}

#[tokio::test]
async fn a_wish_that_cannot_be_is_refused_with_its_fields() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let meet = |more: Value| {
        let mut body = wish(MEET);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let cases = [
        (json!({"native_meeting_id": MEET}), "platform"),
        (json!({"platform": "google_meet"}), "native_meeting_id"),
        (json!({"platform": "webex", "native_meeting_id": "1"}), "platform"),
        (json!({"platform": 7, "native_meeting_id": "1"}), "platform"),
        (json!({"platform": "zoom", "native_meeting_id": "12345678"}), "native_meeting_id"),
        (json!({"platform": "teams", "native_meeting_id": "12\u{0}"}), "native_meeting_id"),
        (meet(json!({"language": "klingon"})), "language"),
        (meet(json!({"task": "sing"})), "task"),
        (meet(json!({"passcode": "12345678"})), "passcode"),
        (meet(json!({"meeting_url": "file:///etc/passwd"})), "meeting_url"),
        (
            meet(json!({"automatic_leave": {"no_one_joined_timeout": -1}})),
            "automatic_leave.no_one_joined_timeout",
        ),
    ];
    for (body, field) in cases {
        let refused = ada.post("/bots/start", body.clone()).await;
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], field, "{body}: {}", refused.text);
    }
    let both = ada.post("/bots/start", json!({})).await;
    assert_eq!(both.body["errors"].as_array().unwrap().len(), 2, "{}", both.text);
    assert_eq!(app.meeting_ids(&ada).await, [0i64; 0]);
}

#[tokio::test]
async fn a_stop_is_a_wish_and_changes_no_state() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    bot.join().await;
    let before = ada.get(&format!("/meetings/{}", bot.meeting_id)).await.expect(200);
    for target in [json!({"meeting_id": bot.meeting_id}), wish(MEET)] {
        let taken = ada.post("/bots/stop", target).await.expect(202);
        let expected = json!({"message": "Stop request accepted and is being processed.",
            "meeting_ids": [bot.meeting_id], "state": "active"});
        assert_eq!(taken.body, expected);
    }
    let after = ada.get(&format!("/meetings/{}", bot.meeting_id)).await.expect(200);
    assert_eq!(before.body, after.body, "the row is the bot's");

    bot.exit().await;
    let over = ada.post("/bots/stop", wish(MEET)).await.expect(202);
    let expected =
        json!({"message": "Meeting already completed.", "meeting_ids": [], "state": "completed"});
    assert_eq!(over.body, expected);
}

#[tokio::test]
async fn a_configuration_has_a_version_and_changes_no_state() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    let before = ada.get(&format!("/meetings/{}", bot.meeting_id)).await.expect(200);
    let body = json!({"meeting_id": bot.meeting_id, "language": "de"});
    let first = ada.put("/bots/config", body).await.expect(202);
    assert_eq!(first.body["config_version"], 1);
    assert_eq!(first.body["config"], json!({"language": "de", "task": null}));
    let mut body = wish(MEET);
    body["task"] = json!("translate");
    let second = ada.put("/bots/config", body).await.expect(202);
    assert_eq!(
        (&second.body["config_version"], &second.body["state"]),
        (&json!(2), &json!("reserved"))
    );
    assert_eq!(second.body["config"], json!({"language": "de", "task": "translate"}));
    let after = ada.get(&format!("/meetings/{}", bot.meeting_id)).await.expect(200);
    assert_eq!(before.body, after.body);

    bot.exit().await;
    let over =
        ada.put("/bots/config", json!({"meeting_id": bot.meeting_id, "language": "en"})).await;
    over.expect_problem(409, "wrong_state");
    assert_eq!(over.body["state"], "failed");
}

#[tokio::test]
async fn what_is_meant_must_be_clear() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = app.start_bot(&ada, MEET).await.meeting_id;
    let unclear = [
        (json!({}), "meeting_id"),
        (json!({"platform": "google_meet"}), "meeting_id"),
        (
            json!({"meeting_id": id, "platform": "google_meet", "native_meeting_id": MEET}),
            "meeting_id",
        ),
        (json!({"meeting_id": "7"}), "meeting_id"),
        (json!({"platform": "webex", "native_meeting_id": MEET}), "platform"),
        (json!({"meeting_id": id, "force": true}), "force"),
    ];
    for (body, field) in unclear {
        for refused in
            [ada.post("/bots/stop", body.clone()).await, ada.put("/bots/config", body).await]
        {
            refused.expect_problem(422, "invalid_request");
            assert_eq!(refused.body["errors"][0]["field"], field, "{}", refused.text);
        }
    }
    for (body, field) in [
        (json!({"meeting_id": id}), "language"),
        (json!({"meeting_id": id, "language": "xx"}), "language"),
        (json!({"meeting_id": id, "task": "sing"}), "task"),
    ] {
        let refused = ada.put("/bots/config", body).await;
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], field);
    }
}

#[tokio::test]
async fn other_users_bots_do_not_exist() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let bot = app.start_bot(&ada, MEET).await;
    for target in [json!({"meeting_id": bot.meeting_id}), json!({"meeting_id": 999}), wish(MEET)] {
        bob.post("/bots/stop", target.clone()).await.expect_problem(404, "not_found");
        let mut body = target;
        body["language"] = json!("en");
        bob.put("/bots/config", body).await.expect_problem(404, "not_found");
    }
    let active = bob.get("/bots/active").await.expect(200);
    assert_eq!(active.body, json!({"bots": [], "next_before": null}));
    let record = app.store.bot(MeetingId::new(bot.meeting_id)).await.unwrap().unwrap();
    assert_eq!((record.bot.stop, record.bot.config.version), (None, 0));
}

#[tokio::test]
async fn the_live_ones_are_listed_in_pages() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    app.allow_bots("ada@example.org", 5).await;
    let mut ids = Vec::new();
    for native_id in ["aaa-aaaa-aaa", "bbb-bbbb-bbb", "ccc-cccc-ccc", "ddd-dddd-ddd"] {
        ids.push(app.start_bot(&ada, native_id).await.meeting_id);
    }
    let ended = app.bot_in(ids[3]).await;
    ended.join().await;
    ended.exit().await;
    ada.post("/bots/stop", json!({"meeting_id": ids[1]})).await.expect(202);
    app.bot_in(ids[2]).await.report("heartbeat", json!({"config_version": 0})).await.expect(200);

    let page = ada.get("/bots/active?limit=2").await.expect(200);
    let bots = page.body["bots"].as_array().unwrap();
    assert_eq!((&bots[0]["id"], &bots[1]["id"]), (&json!(ids[2]), &json!(ids[1])));
    assert_eq!((&bots[0]["stop_wanted"], &bots[1]["stop_wanted"]), (&json!(false), &json!(true)));
    assert_eq!(bots[0]["last_heartbeat"], "2026-01-01T00:00:00.000000Z");
    assert_eq!((&bots[0]["state"], &bots[0]["status"]), (&json!("reserved"), &json!("requested")));
    assert_eq!(page.body["next_before"], ids[1]);
    let rest = ada.get(&format!("/bots/active?limit=2&before={}", ids[1])).await.expect(200);
    assert_eq!(rest.body["bots"][0]["id"], ids[0]);
    assert_eq!(rest.body["next_before"], Value::Null);
    for bad in ["limit=0", "limit=201", "limit=x", "before=x"] {
        let refused = ada.get(&format!("/bots/active?{bad}")).await;
        refused.expect_problem(422, "invalid_request");
    }
}

#[tokio::test]
async fn bots_are_asked_for_with_a_users_token_that_may() {
    let app = App::new();
    let reader = app.client().header("x-api-key", &app.token("ada@example.org", &["read"]).await);
    for refused in [
        reader.post("/bots/start", wish(MEET)).await,
        reader.post("/bots/stop", wish(MEET)).await,
        reader.put("/bots/config", json!({})).await,
    ] {
        refused.expect_detail(403, "forbidden", "This token lacks the scope bot.");
    }
    let start =
        |client: crate::app::Client| async move { client.post("/bots/start", json!({})).await };
    start(app.client()).await.expect_problem(401, "unauthorized");
    start(app.client().header("x-api-key", "wrong")).await.expect_problem(401, "unauthorized");
    start(app.admin()).await.expect_problem(403, "forbidden");
}
