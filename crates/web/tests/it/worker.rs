//! The worker protocol, from claim to end.

use std::time::Duration;

use futures_util::poll;
use serde_json::json;
use tokio::time::timeout;

use crate::app::App;

/// Far more than anything here takes, and far less than the backup polling.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_job_lives_its_whole_life() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let payload = json!({"pages": [1, 2]});
    let id = ada.enqueue(json!({"kind": "work", "key": "k", "payload": payload})).await;
    let wish = json!({"worker": "w-1", "kinds": ["other", "work"], "max": 5, "lease_secs": 60});
    let claimed = ada.post("/jobs/claim", wish).await.expect(200);
    let lease_no = claimed.body["jobs"][0]["lease_no"].clone();
    let expected = json!({"jobs": [{"id": id, "kind": "work", "key": "k", "payload": payload,
        "tenant": null, "attempt": 1, "max_attempts": 3, "lease_no": lease_no,
        "lease_until": "2026-01-01T00:01:00.000000Z", "deadline_at": null}]});
    assert_eq!(claimed.body, expected);

    app.clock.advance(Duration::from_secs(30));
    let at = |verb: &str| format!("/jobs/{id}/{verb}");
    let beat = ada.post(&at("heartbeat"), json!({"lease_no": lease_no})).await.expect(200);
    let extended = json!({"lease_until": "2026-01-01T00:01:30.000000Z", "cancel_requested": false});
    assert_eq!(beat.body, extended);
    let progress = json!({"lease_no": lease_no, "progress": {"percent": 50}});
    ada.post(&at("progress"), progress).await.expect(200);

    let running = ada.get(&format!("/jobs/{id}")).await.expect(200);
    assert_eq!(running.body["state"], "processing");
    assert_eq!(running.body["progress"], json!({"percent": 50}));
    assert_eq!(running.body["lease"]["worker"], "w-1");
    assert_eq!(running.body["lease"]["heartbeat_at"], "2026-01-01T00:00:30.000000Z");

    app.clock.advance(Duration::from_millis(1500));
    let result = json!({"lease_no": lease_no, "result": ["a.pdf"]});
    let done = ada.post(&at("complete"), result).await.expect(200);
    assert_eq!(done.body["state"], "completed");
    let ended = ada.get(&format!("/jobs/{id}")).await.expect(200);
    assert_eq!((&ended.body["result"], &ended.body["lease"]), (&json!(["a.pdf"]), &json!(null)));
    assert_eq!(ended.body["finished_at"], "2026-01-01T00:00:31.500000Z");
    let attempt = &ended.body["attempts"][0];
    assert_eq!((&attempt["outcome"], &attempt["duration_ms"]), (&json!("done"), &json!(31_500)));
}

#[tokio::test]
async fn a_failed_attempt_waits_and_the_last_one_ends_it() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = ada.enqueue(json!({"kind": "work", "max_attempts": 2})).await;
    let (_, lease_no) = ada.claim().await;
    let error = json!({"code": "HTTP 500", "message": "upstream"});
    let body = json!({"lease_no": lease_no, "error": error, "retry_after_secs": 60});
    let failed = ada.post(&format!("/jobs/{id}/fail"), body).await.expect(200);
    assert_eq!(failed.body["state"], "scheduled");
    assert_eq!(failed.body["not_before"], "2026-01-01T00:01:00.000000Z");
    assert_eq!(failed.body["error"], json!({"code": "http_500", "message": "upstream"}));

    app.clock.advance(Duration::from_mins(1));
    let (_, lease_no) = ada.claim().await;
    let body = json!({"lease_no": lease_no, "error": {"message": "again"}});
    let failed = ada.post(&format!("/jobs/{id}/fail"), body).await.expect(200);
    assert_eq!(failed.body["state"], "failed");
    let shown = ada.get(&format!("/jobs/{id}")).await.expect(200);
    assert_eq!(shown.body["attempts_total"], 2);
    assert_eq!(shown.body["error"], json!({"code": "error", "message": "again"}));
}

#[tokio::test]
async fn a_released_job_has_used_no_attempt() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = ada.enqueue(json!({"kind": "work"})).await;
    let (_, lease_no) = ada.claim().await;
    let body = json!({"lease_no": lease_no});
    let released = ada.post(&format!("/jobs/{id}/release"), body).await.expect(200);
    assert_eq!(
        (&released.body["state"], &released.body["attempt"]),
        (&json!("pending"), &json!(0))
    );
}

#[tokio::test]
async fn a_stale_token_changes_nothing() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = ada.enqueue(json!({"kind": "work"})).await;
    let (_, stale) = ada.claim().await;
    ada.post(&format!("/jobs/{id}/release"), json!({"lease_no": stale})).await.expect(200);
    let (_, current) = ada.claim().await;
    assert!(current > stale, "tokens only grow");

    let error = json!({"message": "x"});
    for (verb, body) in [
        ("heartbeat", json!({"lease_no": stale})),
        ("progress", json!({"lease_no": stale, "progress": 1})),
        ("complete", json!({"lease_no": stale, "result": "stale"})),
        ("fail", json!({"lease_no": stale, "error": error, "fatal": true})),
        ("release", json!({"lease_no": stale})),
        ("cancelled", json!({"lease_no": stale})),
    ] {
        let answer = ada.post(&format!("/jobs/{id}/{verb}"), body).await;
        answer.expect_problem(409, "lease_lost");
        assert_eq!(ada.state_of(id).await, "processing", "{verb}");
    }
    ada.post(&format!("/jobs/{id}/complete"), json!({"lease_no": current})).await.expect(200);
    let late = ada.post(&format!("/jobs/{id}/complete"), json!({"lease_no": current})).await;
    late.expect_problem(409, "lease_lost");
}

#[tokio::test]
async fn a_waiting_claim_is_woken_by_an_enqueue() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let wish = json!({"worker": "w", "kinds": ["work"], "wait_secs": 30});
    let mut claim = Box::pin(ada.post("/jobs/claim", wish));
    assert!(poll!(&mut claim).is_pending(), "there is nothing to do yet");
    let id = ada.enqueue(json!({"kind": "work"})).await;
    let claimed = timeout(SOON, claim).await.expect("it is woken, not left to poll").expect(200);
    assert_eq!(claimed.body["jobs"][0]["id"], id);
}

#[tokio::test]
async fn a_waiting_claim_ends_with_the_process() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let wish = json!({"worker": "w", "kinds": ["work"], "wait_secs": 30});
    let mut claim = Box::pin(ada.post("/jobs/claim", wish));
    assert!(poll!(&mut claim).is_pending());
    app.wakes.close();
    let claimed = timeout(SOON, claim).await.expect("it does not hold up the shutdown").expect(200);
    assert_eq!(claimed.body, json!({"jobs": []}));
}

#[tokio::test]
async fn a_claim_without_waiting_answers_at_once() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let wish = json!({"worker": "w", "kinds": ["work"]});
    let claimed = timeout(SOON, ada.post("/jobs/claim", wish)).await.unwrap().expect(200);
    assert_eq!(claimed.body, json!({"jobs": []}));
}

#[tokio::test]
async fn a_claim_takes_no_more_than_asked_best_first() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let low = ada.enqueue(json!({"kind": "work"})).await;
    let high = ada.enqueue(json!({"kind": "work", "priority": 10})).await;
    let last = ada.enqueue(json!({"kind": "work", "priority": -1})).await;
    let wish = json!({"worker": "w", "kinds": ["work", "work"], "max": 2});
    let claimed = ada.post("/jobs/claim", wish.clone()).await.expect(200);
    let ids = |answer: &crate::app::Answer| -> Vec<i64> {
        answer.body["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["id"].as_i64().unwrap())
            .collect()
    };
    assert_eq!(ids(&claimed), [high, low]);
    assert_eq!(ids(&ada.post("/jobs/claim", wish).await), [last]);
}

#[tokio::test]
async fn leases_are_listed_under_their_names() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    ada.enqueue(json!({"kind": "work", "key": "meeting-7"})).await;
    let unnamed = ada.enqueue(json!({"kind": "work"})).await;
    ada.claim().await;
    ada.claim().await;
    let listed = ada.get("/leases").await.expect(200);
    let names: Vec<&str> = listed.body["leases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lease| lease["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, [format!("work:#{unnamed}").as_str(), "work:meeting-7"]);
    assert_eq!(listed.body["leases"][0]["lease_until"], "2026-01-01T00:05:00.000000Z");
    assert_eq!(listed.body["leases"][0]["ttl_secs"], 300.0);
    let first = ada.get("/leases?limit=1").await.expect(200);
    let next = ada.get(&format!("/leases?limit=1&before={}", first.body["next_before"])).await;
    assert_eq!(next.expect(200).body["leases"][0]["name"], "work:meeting-7");
}
