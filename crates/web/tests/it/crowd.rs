//! Too much at once, too much of one token, and pages of other origins.

use std::time::Duration;

use axum::body::Body;
use axum::http::Method;

use crate::app::{App, Setup};

#[tokio::test]
async fn a_request_too_many_is_refused_at_once_and_told_when_to_come_back() {
    let app = App::with(Setup { requests_at_once_max: 0, ..Setup::default() });
    let refused = app.user("a@example.org").await.get("/jobs").await;
    refused.expect_problem(503, "overloaded");
    assert_eq!(refused.header("retry-after"), "2");
    for path in ["/healthz", "/readyz"] {
        app.client().get(path).await.expect(200);
    }
    let metrics = app.admin().get("/metrics").await.expect(200);
    assert!(metrics.text.contains("limit=\"overloaded\""), "{}", metrics.text);
}

#[tokio::test]
async fn a_place_is_given_back_with_the_answer() {
    let app = App::with(Setup { requests_at_once_max: 1, ..Setup::default() });
    let user = app.user("a@example.org").await;
    for _ in 0..3 {
        user.get("/jobs").await.expect(200);
    }
}

#[tokio::test]
async fn a_token_that_asks_too_much_is_slowed_down_alone() {
    let app = App::with(Setup { token_requests_per_sec_max: 2, ..Setup::default() });
    let (busy, calm) = (app.user("a@example.org").await, app.user("b@example.org").await);
    for _ in 0..4 {
        busy.get("/jobs").await.expect(200);
    }
    let refused = busy.get("/jobs").await;
    refused.expect_problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), "1");
    calm.get("/jobs").await.expect(200);
    app.client().get("/healthz").await.expect(200);
    app.clock.advance(Duration::from_secs(1));
    busy.get("/jobs").await.expect(200);
}

#[tokio::test]
async fn pages_of_other_origins_may_call_only_if_they_are_named() {
    let (named, other) = ("https://app.example.org", "https://evil.example.org");
    let closed = App::new();
    let answer = closed.client().header("origin", named).get("/healthz").await.expect(200);
    assert!(!answer.headers.contains_key("access-control-allow-origin"));

    let open = App::with(Setup { cors_origins: vec![named.to_owned()], ..Setup::default() });
    let asks = |origin: &str| {
        let client = open.client().header("origin", origin);
        client.header("access-control-request-method", "POST")
    };
    let preflight = asks(named).send(Method::OPTIONS, "/jobs", Body::empty()).await.expect(200);
    assert_eq!(preflight.header("access-control-allow-origin"), named);
    assert!(preflight.header("access-control-allow-headers").contains("x-api-key"));
    let refused = asks(other).send(Method::OPTIONS, "/jobs", Body::empty()).await;
    assert!(!refused.headers.contains_key("access-control-allow-origin"));
    let problem = open.client().header("origin", named).get("/jobs").await;
    problem.expect_problem(401, "unauthorized");
    assert_eq!(problem.header("access-control-allow-origin"), named);
}
