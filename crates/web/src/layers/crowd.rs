//! More requests than can be answered soon are refused at once.
//!
//! A server that accepts everything answers nothing in time once it falls behind: clients give up, come
//! back, and what they left behind is still worked on. Refusing early keeps the rest fast.
//!
//! Invariant: whoever looks whether the server lives is never refused, and whoever waits on purpose
//! (for work, or live) takes no place.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use crate::problem::{Code, Problem};
use crate::routes::CLAIM_PATH;

/// Paths that take no place: they tell how it is, or wait.
const OUTSIDE: [&str; 6] = ["/healthz", "/readyz", "/metrics", "/ws", "/ingest/ws", CLAIM_PATH];

/// The places for requests that are being answered.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    places: Arc<Semaphore>,
}

impl Crowd {
    pub(crate) fn new(requests_at_once_max: usize) -> Self {
        Crowd { places: Arc::new(Semaphore::new(requests_at_once_max)) }
    }
}

pub(crate) async fn crowd(State(crowd): State<Crowd>, request: Request, next: Next) -> Response {
    if takes_no_place(request.uri().path()) {
        return next.run(request).await;
    }
    let Ok(_place) = crowd.places.try_acquire() else {
        let detail = "More requests are being answered than the server takes at once.";
        return Problem::new(Code::Overloaded, detail).into_response();
    };
    next.run(request).await
}

fn takes_no_place(path: &str) -> bool {
    // Server-sent events.
    OUTSIDE.contains(&path) || path.starts_with("/ws/") || path.ends_with("/events")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_or_looks_takes_no_place() {
        for path in ["/healthz", "/ws", "/jobs/claim", "/transcripts/zoom/1/events", "/ws/rooms"] {
            assert!(takes_no_place(path), "{path}");
        }
        for path in ["/jobs", "/jobs/7", "/bots/start", "/healthz/x"] {
            assert!(!takes_no_place(path), "{path}");
        }
    }
}
