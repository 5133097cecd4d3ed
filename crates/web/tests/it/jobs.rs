//! Asking for jobs and looking at them.

use serde_json::{Value, json};

use crate::app::App;

#[tokio::test]
async fn a_job_is_made_and_shown() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let wish = json!({"kind": "work", "key": "k", "payload": {"n": 1}, "priority": 5,
        "run_at": "2025-12-31T13:00:00+01:00", "max_attempts": 7});
    let made = ada.post("/jobs", wish).await.expect(201);
    let id = made.body["id"].as_i64().unwrap();
    assert_eq!(made.header("location"), format!("/jobs/{id}"));
    assert_eq!((&made.body["coalesced"], &made.body["replayed"]), (&json!(false), &json!(false)));

    let shown = ada.get(&format!("/jobs/{id}")).await.expect(200);
    assert_eq!(shown.body, made.body["job"]);
    let expected = json!({
        "id": id, "user_id": shown.body["user_id"], "kind": "work", "key": "k", "tenant": null,
        "state": "pending",
        "priority": 5, "run_at": "2025-12-31T12:00:00.000000Z", "not_before": null,
        "triggered_at": "2026-01-01T00:00:00.000000Z", "created_at": "2026-01-01T00:00:00.000000Z",
        "finished_at": null, "attempt": 0, "max_attempts": 7, "cancel_requested": false,
        "error": null, "cancel_cause": null, "folded_into": null, "payload": {"n": 1},
        "progress": null, "result": null, "lease": null, "attempts_total": 0, "attempts": [],
    });
    assert_eq!(shown.body, expected);
}

#[tokio::test]
async fn a_job_for_later_is_scheduled() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = ada.enqueue(json!({"kind": "work", "run_at": "2026-01-01T00:00:10Z"})).await;
    assert_eq!(ada.state_of(id).await, "scheduled");
    app.clock.advance(std::time::Duration::from_secs(10));
    assert_eq!(ada.state_of(id).await, "pending");
}

#[tokio::test]
async fn a_waiting_key_is_joined_and_says_so() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let wish = json!({"kind": "work", "key": "k"});
    let first = ada.enqueue(wish.clone()).await;
    let second = ada.post("/jobs", wish.clone()).await.expect(200);
    assert_eq!((&second.body["id"], &second.body["coalesced"]), (&json!(first), &json!(true)));

    let batch = json!({"jobs": [wish, {"kind": "work", "key": "l"}]});
    let batch = ada.post("/jobs", batch).await.expect(201);
    assert_eq!(batch.body["jobs"][0], json!({"id": first, "coalesced": true}));
    assert_eq!(batch.body["jobs"][1]["coalesced"], false);
    assert_eq!(batch.body["replayed"], false);
    assert_eq!(batch.header("location"), "", "several jobs have no one place");
}

#[tokio::test]
async fn a_batch_is_written_whole_or_not_at_all() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let jobs: Vec<Value> = (0..100).map(|n| json!({"kind": "work", "payload": n})).collect();
    let made = ada.post("/jobs", json!({"jobs": jobs})).await.expect(201);
    assert_eq!(made.body["jobs"].as_array().unwrap().len(), 100);

    let one_bad =
        json!({"jobs": [{"kind": "fine"}, {"kind": "Not Fine"}, {"kind": "x", "priority": 101}]});
    let refused = ada.post("/jobs", one_bad).await;
    refused.expect_problem(422, "invalid_request");
    let fields: Vec<&str> = refused.body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["jobs[1].kind", "jobs[2].priority"]);
    let fine = ada.get("/jobs?kind=fine").await.expect(200);
    assert_eq!(fine.body["jobs"], json!([]), "nothing of it was stored");

    let too_many: Vec<Value> = (0..101).map(|_| json!({"kind": "work"})).collect();
    ada.post("/jobs", json!({"jobs": too_many})).await.expect_problem(422, "invalid_request");
    ada.post("/jobs", json!({"jobs": []})).await.expect_problem(422, "invalid_request");
}

#[tokio::test]
async fn an_idempotency_key_repeats_the_answer_and_not_the_work() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let keyed = ada.clone().header("idempotency-key", "order-17");
    let wish = json!({"kind": "work", "payload": 1});
    let first = keyed.post("/jobs", wish.clone()).await.expect(201);
    let again = keyed.post("/jobs", wish.clone()).await.expect(200);
    assert_eq!(again.body["id"], first.body["id"]);
    assert_eq!(again.body["replayed"], true);
    assert_eq!(again.header("location"), first.header("location"));

    let other = json!({"kind": "work", "payload": 2});
    keyed.post("/jobs", other).await.expect_problem(422, "idempotency_key_reused");
    let listed = ada.get("/jobs").await.expect(200);
    assert_eq!(listed.body["jobs"].as_array().unwrap().len(), 1);

    // The key is this user's alone.
    let bob = app.user("bob@example.org").await.header("idempotency-key", "order-17");
    let his = bob.post("/jobs", wish).await.expect(201);
    assert_ne!(his.body["id"], first.body["id"]);

    let unusable = ada.header("idempotency-key", "two words");
    let refused = unusable.post("/jobs", json!({"kind": "work"})).await;
    refused.expect_problem(422, "invalid_request");
    assert_eq!(refused.body["errors"][0]["field"], "Idempotency-Key");
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repetition() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(ada.enqueue(json!({"kind": "work"})).await);
    }
    made.reverse();
    let (mut seen, mut path) = (Vec::new(), "/jobs?limit=3".to_owned());
    loop {
        let page = ada.get(&path).await.expect(200);
        let jobs = page.body["jobs"].as_array().unwrap();
        seen.extend(jobs.iter().map(|job| job["id"].as_i64().unwrap()));
        assert!(jobs.iter().all(|job| job.get("payload").is_none()), "a list stays small");
        let Some(before) = page.body["next_before"].as_i64() else { break };
        // What comes in meanwhile is newer, and so on no later page.
        ada.enqueue(json!({"kind": "work"})).await;
        path = format!("/jobs?limit=3&before={before}");
    }
    assert_eq!(seen, made);
}

#[tokio::test]
async fn a_list_is_narrowed_by_kind_key_and_state() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let a = ada.enqueue(json!({"kind": "work", "key": "a b"})).await;
    let b = ada.enqueue(json!({"kind": "other", "key": "a b"})).await;
    let c = ada.enqueue(json!({"kind": "other"})).await;
    ada.post(&format!("/jobs/{c}/cancel"), json!({})).await.expect(200);
    for (query, expected) in [
        ("kind=other", vec![c, b]),
        ("key=a%20b", vec![b, a]),
        ("kind=work&key=a+b", vec![a]),
        ("state=cancelled", vec![c]),
        ("state=pending&kind=other", vec![b]),
        ("state=failed", vec![]),
    ] {
        let page = ada.get(&format!("/jobs?{query}")).await.expect(200);
        let ids: Vec<i64> = page.body["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["id"].as_i64().unwrap())
            .collect();
        assert_eq!(ids, expected, "{query}");
    }
    for (query, field) in [
        ("kind=Not+Fine", "kind"),
        ("state=done", "state"),
        ("key=", "key"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("before=x", "before"),
        ("stat=failed", "stat"),
    ] {
        let refused = ada.get(&format!("/jobs?{query}")).await;
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], field, "{query}");
    }
}

#[tokio::test]
async fn cancelling_ends_a_waiting_job_and_asks_a_running_one() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let waiting = ada.enqueue(json!({"kind": "elsewhere"})).await;
    let cancelled = ada.post(&format!("/jobs/{waiting}/cancel"), json!({})).await.expect(200);
    assert_eq!(cancelled.body["state"], "cancelled");
    assert_eq!(cancelled.body["cancel_cause"], "requested");
    let again = ada.post(&format!("/jobs/{waiting}/cancel"), json!({})).await;
    again.expect_problem(409, "wrong_state");

    ada.enqueue(json!({"kind": "work"})).await;
    let (running, lease_no) = ada.claim().await;
    let asked = ada.post(&format!("/jobs/{running}/cancel"), json!({})).await.expect(200);
    assert_eq!(
        (&asked.body["state"], &asked.body["cancel_requested"]),
        (&json!("processing"), &json!(true))
    );
    let beat = ada.post(&format!("/jobs/{running}/heartbeat"), json!({"lease_no": lease_no})).await;
    assert_eq!(beat.expect(200).body["cancel_requested"], true);
    let told = ada.post(&format!("/jobs/{running}/cancelled"), json!({"lease_no": lease_no})).await;
    assert_eq!(told.expect(200).body["state"], "cancelled");
}

#[tokio::test]
async fn retrying_starts_anew_unless_the_key_is_taken_or_it_runs() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = ada.enqueue(json!({"kind": "work", "key": "k"})).await;
    let (_, lease_no) = ada.claim().await;
    let retry = format!("/jobs/{id}/retry");
    ada.post(&retry, json!({})).await.expect_problem(409, "wrong_state");

    let error = json!({"lease_no": lease_no, "error": {"message": "no"}, "fatal": true});
    ada.post(&format!("/jobs/{id}/fail"), error).await.expect(200);
    assert_eq!(ada.state_of(id).await, "failed");
    let other = ada.enqueue(json!({"kind": "work", "key": "k"})).await;
    let taken = ada.post(&retry, json!({})).await;
    taken.expect_problem(409, "key_taken");
    assert!(taken.body["detail"].as_str().unwrap().contains(&other.to_string()));

    ada.post(&format!("/jobs/{other}/cancel"), json!({})).await.expect(200);
    let retried = ada.post(&retry, json!({})).await.expect(200);
    assert_eq!(retried.body["state"], "pending");
    assert_eq!(retried.body["attempts"][0]["outcome"], "failed", "its history stays");
}

#[tokio::test]
async fn users_do_not_see_each_other() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let id = ada.enqueue(json!({"kind": "work", "key": "k"})).await;
    let his = bob.enqueue(json!({"kind": "work", "key": "k"})).await;
    assert_ne!(id, his, "the same key of another user is another job");
    let (claimed, lease_no) = ada.claim().await;
    assert_eq!(claimed, id);

    bob.get(&format!("/jobs/{id}")).await.expect_problem(404, "not_found");
    for verb in ["cancel", "retry"] {
        bob.post(&format!("/jobs/{id}/{verb}"), json!({})).await.expect_problem(404, "not_found");
    }
    for verb in ["heartbeat", "complete", "release", "cancelled"] {
        let answer = bob.post(&format!("/jobs/{id}/{verb}"), json!({"lease_no": lease_no})).await;
        answer.expect_problem(404, "not_found");
    }
    assert_eq!(bob.get("/leases").await.expect(200).body["leases"], json!([]));
    let listed = bob.get("/jobs").await.expect(200);
    assert_eq!(listed.body["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(ada.state_of(id).await, "processing", "nothing he did changed anything");

    let all = app.admin().get("/jobs").await.expect(200);
    assert_eq!(all.body["jobs"].as_array().unwrap().len(), 2, "the operator sees everything");
}
