//! The key of somebody who wants to listen.
//!
//! Invariant: browsers cannot give a WebSocket a header, so here, and nowhere else, a key in the
//! address is read. The log has no query strings.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde::Deserialize;

use super::caller::{API_KEY_HEADER, bearer, text};
use crate::state::Shared;

/// What was sent as a key, if anything; nobody has looked at it yet. Never shown.
pub(crate) struct LiveKey(Option<String>);

#[derive(Deserialize)]
struct KeyQuery {
    // What clients of rooms call it.
    #[serde(alias = "token")]
    api_key: Option<String>,
}

impl LiveKey {
    pub(crate) fn into_text(self) -> Option<String> {
        self.0.filter(|key| !key.is_empty())
    }
}

impl FromRequestParts<Shared> for LiveKey {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &Shared) -> Result<Self, Infallible> {
        let headers = &parts.headers;
        let sent = text(headers, API_KEY_HEADER).or_else(|| bearer(headers)).map(str::to_owned);
        let in_address =
            || Query::<KeyQuery>::try_from_uri(&parts.uri).ok().and_then(|Query(q)| q.api_key);
        Ok(LiveKey(sent.or_else(in_address)))
    }
}
