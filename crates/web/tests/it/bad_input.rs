//! Whatever is sent, the answer is clear and nothing is stored.

use axum::body::Body;
use axum::http::Method;
use serde_json::json;

use crate::app::{App, BODY_BYTES_MAX};

/// A body that must be refused.
struct Bad {
    what: &'static str,
    body: Vec<u8>,
    status: u16,
    code: &'static str,
    /// The answer must contain it.
    word: &'static str,
}

fn not_json(what: &'static str, body: impl AsRef<[u8]>, word: &'static str) -> Bad {
    Bad { what, body: body.as_ref().to_vec(), status: 400, code: "invalid_json", word }
}

fn not_valid(what: &'static str, body: impl AsRef<[u8]>, word: &'static str) -> Bad {
    Bad { what, body: body.as_ref().to_vec(), status: 422, code: "invalid_request", word }
}

fn too_large(what: &'static str, payload_bytes: usize, word: &'static str) -> Bad {
    let body = format!(r#"{{"kind":"work","payload":"{}"}}"#, "x".repeat(payload_bytes));
    Bad { what, body: body.into_bytes(), status: 413, code: "too_large", word }
}

fn nested(levels: usize) -> String {
    let payload = "[".repeat(levels) + &"]".repeat(levels);
    format!(r#"{{"kind":"work","payload":{payload}}}"#)
}

#[rustfmt::skip] // One line each, so that it reads as the table it is.
fn bodies() -> Vec<Bad> {
    vec![
        not_json("empty", "", "empty"),
        not_json("cut short", r#"{"kind":"work""#, "EOF"),
        not_json("a form", "kind=work", "not JSON"),
        not_json("two documents", r#"{"kind":"work"}{}"#, "trailing"),
        not_json("not UTF-8", b"{\"kind\":\"\xff\"}", "not JSON"),
        not_json("a raw NUL", b"{\"kind\":\"work\",\"payload\":\"\0\"}", "control"),
        not_valid("a list", r#"[{"kind":"work"}]"#, "object"),
        not_valid("null", "null", "object"),
        not_valid("no kind", "{}", "kind"),
        not_valid("an unknown field", r#"{"kind":"work","prio":1}"#, "prio"),
        not_valid("a field twice", r#"{"kind":"a","kind":"b"}"#, "duplicate"),
        not_valid("a number for a text", r#"{"kind":7}"#, "string"),
        not_valid("a text for a number", r#"{"kind":"work","priority":"1"}"#, "priority"),
        not_valid("a fraction", r#"{"kind":"work","priority":1.5}"#, "priority"),
        not_valid("a priority out of range", r#"{"kind":"work","priority":101}"#, "priority"),
        not_valid("a huge number", r#"{"kind":"work","max_attempts":1e99}"#, "max_attempts"),
        not_valid("no attempts", r#"{"kind":"work","max_attempts":0}"#, "max_attempts"),
        not_valid("no date", r#"{"kind":"work","run_at":"soon"}"#, "RFC 3339"),
        not_valid("a date without offset", r#"{"kind":"work","run_at":"2026-01-01T00:00:00"}"#, "offset"),
        not_valid("a malformed kind", r#"{"kind":"Reports Render"}"#, "kind"),
        not_valid("a reserved kind", r#"{"kind":"presence.poll"}"#, "kind"),
        not_valid("a kind with NUL", r#"{"kind":"a\u0000"}"#, "kind"),
        not_valid("a key with NUL", r#"{"kind":"work","key":"a\u0000"}"#, "key"),
        not_valid("a payload with NUL", r#"{"kind":"work","payload":{"a":"\u0000"}}"#, "NUL"),
        not_valid("a lone surrogate", r#"{"kind":"work","payload":"\ud800"}"#, "payload"),
        not_valid("too deep", nested(65), "deeper"),
        not_valid("far too deep", nested(500), "deeper"),
        too_large("a payload", 1025, "payload"),
        too_large("a body", BODY_BYTES_MAX, "65536"),
    ]
}

#[tokio::test]
async fn a_bad_body_is_refused_and_nothing_is_stored() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    for Bad { what, body, status, code, word } in bodies() {
        let answer = ada.post_text("/jobs", body).await;
        answer.expect_problem(status, code);
        assert!(answer.text.contains(word), "{what}: {}", answer.text);
        assert!(answer.text.len() < 2000, "{what}: an answer does not repeat the request");
        let listed = app.admin().get("/jobs").await.expect(200);
        assert_eq!(listed.body["jobs"], json!([]), "{what}");
    }
}

#[tokio::test]
async fn a_body_that_is_just_allowed_is_taken() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let deep = "[".repeat(64) + &"]".repeat(64);
    for body in [
        format!("{{\"kind\":\"work\",\"payload\":{deep}}}"),
        format!("{{\"kind\":\"work\",\"payload\":\"{}\"}}", "x".repeat(1022)),
        " {\"kind\":\"work\",\"key\":null,\"payload\":null,\"priority\":-100}\n".to_owned(),
    ] {
        ada.post_text("/jobs", body).await.expect(201);
    }
}

#[tokio::test]
async fn a_body_must_say_that_it_is_json() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let body = || Body::from("{\"kind\":\"work\"}");
    let send = |client: &crate::app::Client, content_type: &str| {
        let client = client.clone().header("content-type", content_type);
        async move { client.send(Method::POST, "/jobs", body()).await }
    };
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "text/json", ""] {
        send(&ada, content_type).await.expect_problem(415, "unsupported_media_type");
    }
    ada.send(Method::POST, "/jobs", body()).await.expect_problem(415, "unsupported_media_type");
    for content_type in
        ["application/json; charset=utf-8", "Application/JSON", "application/x+json"]
    {
        send(&ada, content_type).await.expect(201);
    }
}

#[tokio::test]
async fn workers_requests_are_checked_too() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = ada.enqueue(json!({"kind": "work"})).await;
    let (_, lease_no) = ada.claim().await;
    let at = |verb: &str| format!("/jobs/{id}/{verb}");
    let claim = "/jobs/claim".to_owned();
    let cases = [
        (claim.clone(), json!({"kinds": ["work"]}), "body"),
        (claim.clone(), json!({"worker": " ", "kinds": ["work"]}), "worker"),
        (claim.clone(), json!({"worker": "w", "kinds": []}), "kinds"),
        (claim.clone(), json!({"worker": "w", "kinds": ["Bad Kind"]}), "kinds[0]"),
        (claim.clone(), json!({"worker": "w", "kinds": ["presence.poll"]}), "kinds[0]"),
        (claim.clone(), json!({"worker": "w", "kinds": ["work"], "max": 0}), "max"),
        (claim.clone(), json!({"worker": "w", "kinds": ["work"], "max": -1}), "max"),
        (claim.clone(), json!({"worker": "w", "kinds": ["work"], "lease_secs": 1}), "lease_secs"),
        (claim, json!({"worker": "w", "kinds": ["work"], "wait": 1}), "wait"),
        (at("heartbeat"), json!({}), "body"),
        (at("heartbeat"), json!({"lease_no": "7"}), "lease_no"),
        (at("heartbeat"), json!({"lease_no": lease_no, "lease_secs": 4000}), "lease_secs"),
        (at("progress"), json!({"lease_no": lease_no}), "body"),
        (at("progress"), json!({"lease_no": lease_no, "progress": "\u{0}"}), "progress"),
        (at("complete"), json!({"lease_no": lease_no, "result": {"\u{0}": 1}}), "result"),
        (at("fail"), json!({"lease_no": lease_no}), "body"),
        (at("fail"), json!({"lease_no": lease_no, "error": "no"}), "error"),
        (at("fail"), json!({"lease_no": lease_no, "error": {"code": "x"}}), "error"),
        (at("release"), json!({"lease_no": lease_no, "why": 1}), "why"),
        ("/jobs/x/release".to_owned(), json!({"lease_no": lease_no}), "id"),
        ("/jobs/99999999999999999999/cancel".to_owned(), json!({}), "id"),
    ];
    for (path, body, field) in cases {
        let answer = ada.post(&path, body.clone()).await;
        answer.expect_problem(422, "invalid_request");
        assert_eq!(answer.body["errors"][0]["field"], field, "{path} {body}: {}", answer.text);
    }
    // Deep enough to exhaust the stack of a parser that recurses.
    let deep = "[".repeat(30_000) + &"]".repeat(30_000);
    let body = format!("{{\"lease_no\":{lease_no},\"result\":{deep}}}");
    let answer = ada.post_text(&at("complete"), body).await;
    answer.expect_problem(422, "invalid_request");
    assert!(answer.text.contains("deeper"), "{}", answer.text);
    let shown = ada.get(&format!("/jobs/{id}")).await.expect(200);
    assert_eq!(
        (&shown.body["state"], &shown.body["progress"]),
        (&json!("processing"), &json!(null))
    );
    for id in [0, -1, i64::MIN, i64::MAX] {
        ada.get(&format!("/jobs/{id}")).await.expect_problem(404, "not_found");
    }
}
