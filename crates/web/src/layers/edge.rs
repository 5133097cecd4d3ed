//! The outermost layer: names the request, survives its handler, writes problems down for the
//! client and the log, and adds the headers every answer has.
//!
//! Invariant: every request is logged once and every server error once, here and nowhere else.
//! The query string and the headers are not logged, because secrets travel in them, and neither is
//! a token in a path.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::request_id::{REQUEST_ID_HEADER, request_id};
use super::shown_path::shown_path;
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::ProblemView;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// For answers that are not pages: whoever renders one as a page loads nothing with it.
const NOTHING_LOADS: HeaderValue =
    HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

pub(crate) async fn edge(State(state): State<Shared>, request: Request, next: Next) -> Response {
    let began = state.clock.monotonic();
    let id = request_id(request.headers(), state.random.as_ref());
    let (method, path) = (request.method().clone(), shown_path(request.uri().path()));
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = AssertUnwindSafe(next.run(request))
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Problem::internal(panic_message(panic.as_ref())).into_response());
    let problem = response.extensions_mut().remove::<Problem>();
    if let Some(problem) = &problem {
        write_body(&mut response, problem, &path, &id);
        if is_limit(problem.code) {
            state.metrics.limit_hit(problem.code.word());
        }
    }
    add_headers(&mut response, id.clone());
    let took = state.clock.monotonic().saturating_sub(began);
    let status = response.status().as_u16();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    state.metrics.request(route, method.as_str(), status, took);
    log(&Done { method, path, id, took, status }, problem.as_ref());
    response
}

/// What the log says of a request.
struct Done {
    method: Method,
    path: String,
    id: HeaderValue,
    took: Duration,
    status: u16,
}

fn log(done: &Done, problem: Option<&Problem>) {
    let (method, path) = (done.method.as_str(), done.path.as_str());
    let request_id = done.id.to_str().unwrap_or_default();
    let ms = done.took.as_secs_f64() * 1e3;
    match problem {
        Some(problem) if done.status >= 500 => {
            let (code, cause) = (problem.code.word(), chain(problem));
            tracing::error!(
                method,
                path,
                status = done.status,
                ms,
                request_id,
                code,
                cause,
                "request failed"
            );
        }
        problem => {
            let code = problem.map(|problem| problem.code.word());
            tracing::debug!(method, path, status = done.status, ms, request_id, code, "request");
        }
    }
}

/// The cause with all that caused it, or what the client was told.
fn chain(problem: &Problem) -> String {
    let Some(cause) = &problem.cause else { return problem.detail.clone() };
    let mut text = cause.to_string();
    let mut link: Option<&(dyn StdError + 'static)> = cause.source();
    while let Some(error) = link {
        // Many errors repeat their source in their own text.
        let step = error.to_string();
        if !text.contains(&step) {
            let _ = write!(text, ": {step}");
        }
        link = error.source();
    }
    text
}

fn is_limit(code: Code) -> bool {
    matches!(
        code,
        Code::TooLarge
            | Code::TimedOut
            | Code::TooManyRefusals
            | Code::TooManyRequests
            | Code::Overloaded
    )
}

fn write_body(response: &mut Response, problem: &Problem, path: &str, id: &HeaderValue) {
    let view = ProblemView::new(problem, path, id.to_str().unwrap_or_default());
    let body = serde_json::to_vec(&view).unwrap_or_default();
    *response.body_mut() = Body::from(body);
    // The router has counted the empty body that stood here.
    response.headers_mut().remove(CONTENT_LENGTH);
    let content_type = if view.is_standard() { PROBLEM_JSON } else { JSON };
    response.headers_mut().insert(CONTENT_TYPE, content_type);
}

fn add_headers(response: &mut Response, id: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID_HEADER, id);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A page or file that may be kept, or loads something, says so itself.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(NOTHING_LOADS);
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    format!("a handler panicked: {text}")
}
