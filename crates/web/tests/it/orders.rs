//! What a kind can ask for beyond being run: limits, schedules, bulk, links, batches.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{App, Client};

/// Claims as many of a kind as there are.
async fn claim(client: &Client, kind: &str) -> Vec<Value> {
    let wish = json!({"worker": "w", "kinds": [kind], "max": 100});
    let answer = client.post("/jobs/claim", wish).await.expect(200);
    answer.body["jobs"].as_array().unwrap().clone()
}

async fn end(client: &Client, job: &Value, how: &str, more: Value) {
    let mut body = json!({"lease_no": job["lease_no"]});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    client.post(&format!("/jobs/{}/{how}", job["id"]), body).await.expect(200);
}

#[tokio::test]
async fn limits_are_set_seen_and_kept() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let limits = json!({"tenant_concurrency": 1, "rate": {"count": 100, "per_secs": 60}});
    let set = ada.put("/kinds/work/limits", limits).await.expect(200);
    assert_eq!(set.body["limits"]["rate"], json!({"count": 100, "per_secs": 60, "burst": 100}));
    for tenant in ["a", "a", "b"] {
        ada.enqueue(json!({"kind": "work", "tenant": tenant})).await;
    }
    let jobs = claim(&ada, "work").await;
    assert_eq!(jobs.len(), 2, "one for each tenant");
    assert_eq!(jobs[0]["tenant"], "a");
    end(&ada, &jobs[0], "complete", json!({})).await;
    assert_eq!(claim(&ada, "work").await.len(), 1);

    assert_eq!(ada.get("/kinds").await.expect(200).body["kinds"][0]["kind"], "work");
    assert_eq!(bob.get("/kinds").await.expect(200).body["kinds"], json!([]));
    let of_all = app.admin().get("/kinds/work").await.expect(200);
    assert_eq!((&of_all.body["user_id"], &of_all.body["paused"]), (&json!(null), &json!(false)));
    let bad = json!({"concurrency": 0, "rate": {"count": 1, "per_secs": 0}});
    ada.put("/kinds/work/limits", bad).await.expect_problem(422, "invalid_request");
    ada.post("/kinds/presence.poll/pause", json!({})).await.expect_problem(403, "forbidden");
    ada.delete("/kinds/work/limits").await.expect(200);
    assert_eq!(ada.get("/kinds/work").await.expect(200).body["limits"]["rate"], json!(null));
}

#[tokio::test]
async fn a_paused_kind_rests_until_it_is_resumed() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let paused = app.admin().post("/kinds/work/pause", json!({})).await.expect(200);
    assert_eq!(paused.body["paused_at"], "2026-01-01T00:00:00.000000Z");
    ada.enqueue(json!({"kind": "work"})).await;
    assert!(claim(&ada, "work").await.is_empty());
    // A user's own word does not end the operator's pause.
    ada.post("/kinds/work/resume", json!({})).await.expect(200);
    assert!(claim(&ada, "work").await.is_empty());
    app.admin().post("/kinds/work/resume", json!({})).await.expect(200);
    assert_eq!(claim(&ada, "work").await.len(), 1);
}

#[tokio::test]
async fn a_schedule_is_made_changed_and_deleted() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let wish = json!({"name": "nightly", "cron": "30 2 * * *", "time_zone": "Europe/Berlin",
        "missed": "all", "job": {"kind": "work", "key": "k", "payload": {"a": 1.10}}});
    let made = ada.post("/schedules", wish).await.expect(201);
    let place = made.header("location").to_owned();
    assert_eq!(made.body["next_runs"].as_array().unwrap().len(), 5);
    assert_eq!(made.body["next_runs"][0], "2026-01-01T01:30:00.000000Z");
    assert_eq!(made.body["job"]["payload"].to_string(), r#"{"a":1.1}"#);
    let paused = ada.patch(&place, json!({"paused": true})).await.expect(200);
    assert_eq!((&paused.body["next_runs"], &paused.body["paused"]), (&json!([]), &json!(true)));
    let changed = json!({"paused": false, "cron": "@hourly", "job": {"kind": "other"}});
    let changed = ada.patch(&place, changed).await.expect(200);
    assert_eq!(changed.body["time_zone"], "Europe/Berlin");
    assert_eq!(changed.body["next_runs"][0], "2026-01-01T01:00:00.000000Z");
    assert_eq!(
        (&changed.body["job"]["kind"], &changed.body["missed"]),
        (&json!("other"), &json!("all"))
    );
    let listed = ada.get("/schedules").await.expect(200);
    assert_eq!(listed.body["schedules"][0], changed.body);

    let bob = app.user("bob@example.org").await;
    for answer in
        [bob.get(&place).await, bob.patch(&place, json!({})).await, bob.delete(&place).await]
    {
        answer.expect_problem(404, "not_found");
    }
    for (bad, field) in [
        (json!({"job": {"kind": "work"}}), "cron"),
        (json!({"cron": "61 * * * *", "job": {"kind": "work"}}), "cron"),
        (json!({"cron": "@daily", "every_secs": 5, "job": {"kind": "work"}}), "cron"),
        (json!({"cron": "@daily", "time_zone": "Mars/Base", "job": {"kind": "work"}}), "time_zone"),
        (json!({"every_secs": 0, "job": {"kind": "work"}}), "every_secs"),
        (json!({"cron": "@daily", "missed": "perhaps", "job": {"kind": "work"}}), "missed"),
        (json!({"cron": "@daily"}), "job.kind"),
        (json!({"cron": "@daily", "job": {"kind": "presence.poll"}}), "job.kind"),
    ] {
        let answer = ada.post("/schedules", bad.clone()).await;
        answer.expect_problem(422, "invalid_request");
        assert_eq!(answer.body["errors"][0]["field"], field, "{bad}: {}", answer.text);
    }
    ada.delete(&place).await.expect(204);
    ada.get(&place).await.expect_problem(404, "not_found");
}

#[tokio::test]
async fn many_jobs_are_changed_by_one_call_after_the_other() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    for number in 0..7 {
        ada.enqueue(json!({"kind": "work", "key": format!("c{}:{number}", number % 2)})).await;
    }
    let move_up = json!({"action": "reprioritise", "priority": 9, "filter": {"key_prefix": "c1:"}});
    let moved = ada.post("/jobs/bulk", move_up).await.expect(200);
    assert_eq!(moved.body, json!({"matched": 3, "changed": 3, "skipped": 0, "next_before": null}));
    assert!(claim(&ada, "work").await[0]["key"].as_str().unwrap().starts_with("c1:"));
    let cancel = |before: Value| json!({"action": "cancel", "filter": {"kind": "work"}, "limit": 4, "before": before});
    let first = ada.post("/jobs/bulk", cancel(json!(null))).await.expect(200);
    assert_eq!((&first.body["matched"], &first.body["changed"]), (&json!(4), &json!(4)));
    let second =
        ada.post("/jobs/bulk", cancel(first.body["next_before"].clone())).await.expect(200);
    assert_eq!((&second.body["changed"], &second.body["next_before"]), (&json!(3), &json!(null)));
    let delete = json!({"action": "delete", "filter": {"kind": "work"}});
    let deleted = ada.post("/jobs/bulk", delete).await.expect(200);
    assert_eq!(
        (&deleted.body["changed"], &deleted.body["skipped"]),
        (&json!(0), &json!(7)),
        "they run"
    );
    let wrong = json!({"action": "reprioritise", "filter": {}});
    ada.post("/jobs/bulk", wrong).await.expect_problem(422, "invalid_request");
}

#[tokio::test]
async fn failed_jobs_are_found_counted_and_replayed() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    for message in ["no answer from example.org", "disk full", "no answer at all"] {
        ada.enqueue(json!({"kind": "work"})).await;
        let job = &claim(&ada, "work").await[0];
        end(&ada, job, "fail", json!({"error": {"code": "x", "message": message}, "fatal": true}))
            .await;
    }
    let found = ada.get("/jobs?state=failed&error=no%20answer").await.expect(200);
    assert_eq!(found.body["jobs"].as_array().unwrap().len(), 2);
    let metrics = app.admin().get("/metrics").await.expect(200).text;
    assert!(metrics.contains("roundsman_jobs_dead_total{kind=\"work\"} 3"), "{metrics}");
    let replay = json!({"action": "retry", "filter": {"state": "failed", "error": "no answer"}});
    assert_eq!(ada.post("/jobs/bulk", replay).await.expect(200).body["changed"], 2);
    assert_eq!(claim(&ada, "work").await.len(), 2);
}

#[tokio::test]
async fn what_is_exported_can_be_imported_as_often_as_it_takes() {
    let (one, other) = (App::new(), App::new());
    let (ada, bob) = (one.user("ada@example.org").await, other.user("bob@example.org").await);
    for number in 0..250 {
        let key = (number % 2 == 0).then(|| format!("k{number}"));
        ada.enqueue(json!({"kind": "work", "key": key, "payload": {"n": number}, "tenant": "t"}))
            .await;
    }
    let job = &claim(&ada, "work").await[0];
    end(&ada, job, "complete", json!({})).await;
    let export = ada.get("/jobs/export").await.expect(200);
    assert_eq!(export.header("content-type"), "application/x-ndjson");
    assert_eq!(export.text.lines().count(), 250, "in whatever state");
    let import = |text: String| bob.send(axum::http::Method::POST, "/jobs/import", text.into());
    let first = import(export.text.clone()).await.expect(200);
    let expected = json!({"lines": 250, "enqueued": 249, "coalesced": 0, "known": 0, "skipped": 1});
    assert_eq!(first.body, expected);
    let again = import(export.text).await.expect(200);
    assert_eq!((&again.body["enqueued"], &again.body["known"]), (&json!(0), &json!(249)));
    let narrowed = bob.get("/jobs/export?key_prefix=k24").await.expect(200);
    let lines: Vec<Value> =
        narrowed.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let keys: Vec<&str> = lines.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!((keys.len(), keys.contains(&"k24"), keys.contains(&"k248")), (6, true, true));
    let line = lines.iter().find(|line| line["key"] == "k248").unwrap();
    assert_eq!((&line["tenant"], &line["payload"]["n"]), (&json!("t"), &json!(248)));
    // Lines are counted whether or not something is made of them.
    let over = r#"{"kind": "work", "state": "completed"}"#;
    let bad = import(format!("{over}\n{{\"kind\": \"work\"}}\n{{\"kind\": \"No Kind\"}}\n")).await;
    bad.expect_problem(422, "invalid_request");
    assert_eq!(bad.body["errors"][0]["field"], "lines[2].kind", "{}", bad.text);
}

#[tokio::test]
async fn a_job_waits_for_others_and_says_so() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let first = ada.enqueue(json!({"kind": "work"})).await;
    let wish = json!({"kind": "after", "after": [first], "on_failure": "hold"});
    let second = ada.enqueue(wish).await;
    let shown = ada.get(&format!("/jobs/{second}")).await.expect(200);
    assert_eq!(
        (&shown.body["state"], &shown.body["waits_for"]),
        (&json!("scheduled"), &json!([first]))
    );
    app.clock.advance(Duration::from_secs(60));
    assert!(claim(&ada, "after").await.is_empty());
    let job = &claim(&ada, "work").await[0];
    end(&ada, job, "complete", json!({})).await;
    assert_eq!(claim(&ada, "after").await[0]["id"], second);
    for bad in [
        json!({"kind": "after", "after": []}),
        json!({"kind": "after", "after": [999_999]}),
        json!({"kind": "after", "after": [first], "on_failure": "explode"}),
        json!({"jobs": [{"kind": "after", "after": [first]}]}),
    ] {
        ada.post("/jobs", bad).await.expect_problem(422, "invalid_request");
    }
}

#[tokio::test]
async fn a_batch_tells_how_far_it_is_and_calls_back() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let wish = json!({"name": "b", "jobs": [{"kind": "work"}, {"kind": "work"}],
        "callback": {"kind": "called", "payload": {"x": 1}}});
    let made = ada.post("/batches", wish).await.expect(201);
    assert_eq!(made.body["jobs"].as_array().unwrap().len(), 2);
    let place = made.header("location").to_owned();
    let jobs = claim(&ada, "work").await;
    end(&ada, &jobs[0], "complete", json!({})).await;
    let shown = ada.get(&place).await.expect(200);
    assert_eq!(shown.body["counts"]["completed"], 1);
    assert_eq!(
        (&shown.body["counts"]["processing"], &shown.body["finished_at"]),
        (&json!(1), &json!(null))
    );
    assert!(claim(&ada, "called").await.is_empty());
    end(&ada, &jobs[1], "complete", json!({})).await;
    let called = claim(&ada, "called").await;
    assert_eq!((called.len(), &called[0]["payload"]), (1, &json!({"x": 1})));
    assert_eq!(ada.get(&place).await.expect(200).body["callback_job"], called[0]["id"]);
    app.user("bob@example.org").await.get(&place).await.expect_problem(404, "not_found");
    ada.post("/batches", json!({"jobs": []})).await.expect_problem(422, "invalid_request");
}

#[tokio::test]
async fn a_batch_that_is_sent_again_is_answered_and_not_made_again() {
    let app = App::new();
    let ada = app.user("ada@example.org").await.header("idempotency-key", "march");
    let wish = |kind: &str| json!({"jobs": [{"kind": kind}, {"kind": kind}]});
    let made = ada.post("/batches", wish("work")).await.expect(201);
    let again = ada.post("/batches", wish("work")).await.expect(200);
    assert_eq!((&again.body["id"], &again.body["jobs"]), (&made.body["id"], &made.body["jobs"]));
    assert_eq!((&made.body["replayed"], &again.body["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(again.header("location"), made.header("location"));
    assert_eq!(claim(&ada, "work").await.len(), 2);
    let other = ada.post("/batches", wish("other")).await;
    other.expect_problem(422, "idempotency_key_reused");
    let bad = app.user("bob@example.org").await.header("idempotency-key", &"x".repeat(256));
    bad.post("/batches", wish("work")).await.expect_problem(422, "invalid_request");
}
