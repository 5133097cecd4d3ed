//! How a request becomes a WebSocket (RFC 6455, section 4.2).

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{Socket, SocketLimits};
use crate::live::Live;
use crate::problem::{Code, Problem};
use crate::state::Shared;

const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// A request that asks for a WebSocket in the right way.
pub(crate) struct Handshake {
    accept: HeaderValue,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// Accepts. `session` runs once the connection is a WebSocket.
    pub(crate) fn accept<F>(
        self,
        limits: SocketLimits,
        live: &Live,
        session: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let upgrade = self.upgrade;
        live.spawn(async move {
            // A client that is gone before it begins is nobody's problem.
            if let Ok(upgraded) = upgrade.await {
                session(Socket::new(upgraded, limits).await).await;
            }
        });
        let headers = [
            (CONNECTION, HeaderValue::from_static("upgrade")),
            (UPGRADE, WEBSOCKET),
            (SEC_WEBSOCKET_ACCEPT, self.accept),
        ];
        (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response()
    }
}

impl FromRequestParts<Shared> for Handshake {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _state: &Shared) -> Result<Self, Response> {
        let headers = &parts.headers;
        let asks = names(headers, &CONNECTION, "upgrade")
            && names(headers, &UPGRADE, "websocket")
            && names(headers, &SEC_WEBSOCKET_VERSION, "13");
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| asks);
        let accept = key.map(|key| derive_accept_key(key.as_bytes()));
        let accept = accept.and_then(|accept| HeaderValue::try_from(accept).ok());
        match (accept, parts.extensions.remove::<OnUpgrade>()) {
            (Some(accept), Some(upgrade)) => Ok(Handshake { accept, upgrade }),
            _ => Err(no_handshake()),
        }
    }
}

/// Whether a header has this word, among others perhaps.
fn names(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let mut words = texts.flat_map(|text| text.split(','));
    words.any(|found| found.trim().eq_ignore_ascii_case(word))
}

fn no_handshake() -> Response {
    let detail = "This is a WebSocket: ask for an upgrade, in version 13.";
    let problem = Problem::new(Code::InvalidRequest, detail);
    let mut response = problem.told_as(StatusCode::UPGRADE_REQUIRED).into_response();
    response.headers_mut().insert(UPGRADE, WEBSOCKET);
    response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.append(CONNECTION, HeaderValue::from_static("x"));
        assert!(names(&headers, &CONNECTION, "upgrade") && names(&headers, &CONNECTION, "x"));
        assert!(!names(&headers, &CONNECTION, "keep") && !names(&headers, &UPGRADE, "x"));
    }
}
