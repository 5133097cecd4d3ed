//! The server itself: health, metrics, pages, and what every answer has.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::Method;
use roundsman_core::Timestamp;
use roundsman_core::ports::{Database, StoreError};
use serde_json::json;

use crate::app::{App, Setup};

#[tokio::test]
async fn the_process_is_there_and_says_which_release() {
    let app = App::new();
    let alive = app.client().get("/healthz").await.expect(200);
    assert_eq!(alive.body, json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}));
    app.stopping.cancel();
    app.client().get("/healthz").await.expect(200);
}

#[tokio::test]
async fn ready_means_that_every_loop_makes_progress() {
    let app = App::new();
    let pulse = app.health.register("sweep", Duration::from_secs(10));
    let ready = app.client().get("/readyz").await.expect(200);
    let checks = json!([{"name": "process", "ok": true, "reason": null},
        {"name": "database", "ok": true, "reason": null},
        {"name": "loop:sweep", "ok": true, "reason": null}]);
    assert_eq!(ready.body, json!({"ready": true, "checks": checks}));

    app.clock.advance(Duration::from_secs(31));
    let stuck = app.client().get("/readyz").await.expect(503);
    assert_eq!(stuck.body["ready"], false);
    assert_eq!(stuck.body["checks"][2]["reason"], "no progress for 31 s");
    pulse.beat();
    app.client().get("/readyz").await.expect(200);

    app.stopping.cancel();
    let leaving = app.client().get("/readyz").await.expect(503);
    assert_eq!(leaving.body["checks"][0]["ok"], false);
}

/// Redis may be away for as long as it likes.
#[tokio::test]
async fn a_loop_that_may_fail_is_shown_and_makes_nobody_unready() {
    let app = App::new();
    let pulse = app.health.register_trying("streams", Duration::from_secs(15));
    app.clock.advance(Duration::from_mins(5));
    pulse.failed(&"Redis is away");
    let ready = app.client().get("/readyz").await.expect(200);
    let check = json!({"name": "loop:streams", "ok": true, "reason": "no progress for 300 s"});
    assert_eq!((&ready.body["ready"], &ready.body["checks"][2]), (&json!(true), &check));
    pulse.beat();
    let ready = app.client().get("/readyz").await.expect(200);
    assert_eq!(ready.body["checks"][2]["reason"], json!(null));
    // It does not even try: that is a fault of our own.
    app.clock.advance(Duration::from_secs(46));
    app.client().get("/readyz").await.expect(503);
}

#[tokio::test]
async fn ready_means_that_the_database_takes_writes() {
    let app = App::new();
    app.client().get("/readyz").await.expect(200);
    app.store.close().await;
    // One answer serves all who ask within a second.
    app.client().get("/readyz").await.expect(200);
    app.clock.advance(Duration::from_secs(1));
    let away = app.client().get("/readyz").await.expect(503);
    assert_eq!(away.body["checks"][1]["name"], "database");
    assert_eq!(away.body["checks"][1]["ok"], false);
}

#[tokio::test]
async fn a_database_that_is_away_is_an_outage_and_not_a_wrong_token() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    ada.get("/jobs").await.expect(200);
    app.store.close().await;
    let away = ada.get("/jobs").await;
    away.expect_problem(503, "storage_unavailable");
    assert_eq!(away.header("retry-after"), "2");
    app.clock.advance(Duration::from_mins(1));
    ada.get("/jobs").await.expect_problem(503, "storage_unavailable");
}

#[tokio::test]
async fn metrics_are_for_the_operator() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    ada.enqueue(json!({"kind": "work"})).await;
    let metrics = app.admin().get("/metrics").await.expect(200);
    assert!(metrics.header("content-type").starts_with("application/openmetrics-text"));
    assert!(
        metrics.text.contains("roundsman_jobs_enqueued_total{kind=\"work\"} 1"),
        "{}",
        metrics.text
    );
    assert!(metrics.text.ends_with("# EOF\n"));
    ada.get("/metrics").await.expect_problem(403, "forbidden");
    let nobody = app.client().get("/metrics").await;
    nobody.expect_problem(401, "unauthorized");
    assert!(nobody.header("www-authenticate").starts_with("Bearer"));
}

#[tokio::test]
async fn the_operator_sees_in_one_answer_what_waits_and_runs() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    for key in ["a", "b"] {
        ada.enqueue(json!({"kind": "work", "key": key})).await;
    }
    let claim = json!({"worker": "w", "kinds": ["work"], "max": 1});
    ada.post("/jobs/claim", claim).await.expect(200);
    app.clock.advance(Duration::from_secs(3));
    let status = app.admin().get("/status").await.expect(200).body;
    assert_eq!(status["ready"], json!(true));
    assert_eq!(status["checks"][1]["name"], json!("database"));
    let work = json!({"kind": "work", "scheduled": 0, "pending": 1, "processing": 1,
        "at_least": false, "oldest_wait_secs": 3.0});
    assert_eq!(status["kinds"], json!([work]));
    ada.get("/status").await.expect_problem(403, "forbidden");
    app.client().get("/status").await.expect_problem(401, "unauthorized");
}

#[tokio::test]
async fn what_hits_a_limit_is_counted() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    ada.post_text("/jobs", vec![b' '; 1024 * 1024]).await.expect_problem(413, "too_large");
    let metrics = app.admin().get("/metrics").await.expect(200);
    assert!(metrics.text.contains("roundsman_limit_hits_total{limit=\"too_large\"} 1"));
}

#[tokio::test]
async fn an_unknown_place_or_method_is_a_problem_too() {
    let app = App::new();
    let nowhere = app.client().get("/nowhere?api_key=secret").await;
    nowhere.expect_problem(404, "not_found");
    assert_eq!(nowhere.body["instance"], "/nowhere", "the query may hold secrets");
    let wrong = app.client().delete("/jobs").await;
    wrong.expect_problem(405, "method_not_allowed");
    let allowed = wrong.header("allow");
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    app.client().get("/jobs/claim").await.expect_problem(405, "method_not_allowed");
    let options = app.client().send(Method::OPTIONS, "/jobs", "".into()).await;
    assert!(options.headers.keys().all(|name| !name.as_str().starts_with("access-control")));
}

#[tokio::test]
async fn a_request_keeps_its_name() {
    let app = App::new();
    let named = app.client().header("x-request-id", "trace-7").get("/jobs").await;
    named.expect_problem(401, "unauthorized");
    assert_eq!(named.header("x-request-id"), "trace-7");
    for bad in ["", "two words", &"x".repeat(65)] {
        let other = app.client().header("x-request-id", bad).get("/healthz").await.expect(200);
        assert_eq!(other.header("x-request-id").len(), 32);
    }
    let ids = [app.client().get("/healthz").await, app.client().get("/healthz").await];
    assert_ne!(ids[0].header("x-request-id"), ids[1].header("x-request-id"));
}

#[tokio::test]
async fn every_answer_is_safe_to_show_in_a_browser() {
    let app = App::new();
    for path in ["/", "/docs/", "/docs/swagger-initializer.js", "/healthz", "/jobs", "/nowhere"] {
        let answer = app.client().get(path).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(!answer.header("cache-control").is_empty(), "{path}");
    }
}

#[tokio::test]
async fn the_pages_are_served_from_here_alone() {
    let app = App::new();
    let landing = app.client().get("/").await.expect(200);
    assert!(
        landing.text.contains("href=\"docs/\"") && landing.text.contains(env!("CARGO_PKG_VERSION"))
    );
    let redirect = app.client().get("/docs").await.expect(308);
    assert_eq!(redirect.header("location"), "docs/");
    let viewer = app.client().get("/docs/").await.expect(200);
    assert!(viewer.header("content-type").starts_with("text/html"));
    assert!(!viewer.text.contains("<script>"), "its policy allows no inline script");
    let files = viewer.text.split(['"', '\'']).filter(|part| part.starts_with("./"));
    let mut loaded = 0;
    for file in files {
        app.client().get(&format!("/docs/{}", &file[2..])).await.expect(200);
        loaded += 1;
    }
    assert!(loaded >= 4, "the page loads its scripts and styles");
    let start = app.client().get("/docs/swagger-initializer.js").await.expect(200);
    assert!(start.text.contains("../openapi.json"), "{}", start.text);
    app.client().get("/docs/nothing.js").await.expect_problem(404, "not_found");
    let document = app.client().get("/openapi.json").await.expect(200);
    assert_eq!(document.text, roundsman_web::openapi_json());
}

/// A database that does not answer in its own way: for what no real one does on request.
pub(crate) struct Broken(pub(crate) fn() -> Fault);

pub(crate) enum Fault {
    Panics,
    Hangs,
}

#[async_trait]
impl Database for Broken {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(Timestamp::EPOCH)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        match (self.0)() {
            Fault::Panics => panic!("the secret of the database"),
            Fault::Hangs => std::future::pending().await,
        }
    }

    fn describe(&self) -> String {
        "broken".to_owned()
    }

    async fn close(&self) {}
}

#[tokio::test]
async fn a_panic_is_an_internal_problem_and_the_next_request_works() {
    let ping = Some(Arc::new(Broken(|| Fault::Panics)) as Arc<dyn Database>);
    let app = App::with(Setup { ping, ..Setup::default() });
    let answer = app.client().get("/readyz").await;
    answer.expect_problem(500, "internal");
    assert!(!answer.text.contains("secret"), "{}", answer.text);
    app.client().get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered_for() {
    let ping = Some(Arc::new(Broken(|| Fault::Hangs)) as Arc<dyn Database>);
    let request_max = Duration::from_millis(20);
    let app = App::with(Setup { request_max, ping, ..Setup::default() });
    app.client().get("/readyz").await.expect_problem(503, "timed_out");
    let body = axum::body::Body::from_stream(futures_util::stream::pending::<
        Result<&str, std::io::Error>,
    >());
    let ada = app.user("ada@example.org").await;
    ada.post_text("/jobs", body).await.expect_problem(503, "timed_out");
}

#[tokio::test]
async fn a_claim_may_wait_longer_than_other_requests() {
    let app = App::with(Setup { request_max: Duration::from_millis(20), ..Setup::default() });
    let ada = app.user("ada@example.org").await;
    let wish = json!({"worker": "w", "kinds": ["work"], "wait_secs": 20});
    let mut claim = Box::pin(ada.post("/jobs/claim", wish));
    // Long enough for every other request to be over.
    let waited = tokio::time::timeout(Duration::from_millis(100), &mut claim).await;
    assert!(waited.is_err(), "it still waits");
    let id = ada.enqueue(json!({"kind": "work"})).await;
    assert_eq!(claim.await.expect(200).body["jobs"][0]["id"], id);
}
