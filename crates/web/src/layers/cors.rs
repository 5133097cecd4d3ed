//! Which pages of other origins may call. None unless the operator names them.

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::extract::API_KEY_HEADER;

/// How long a browser remembers the answer.
const REMEMBERED_SECS: u64 = 600;

/// `None` if no origin may: then browsers see no header that would let them.
pub(crate) fn cors(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> =
        origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    if origins.is_empty() {
        return None;
    }
    let asked = [
        AUTHORIZATION,
        CONTENT_TYPE,
        IF_NONE_MATCH,
        HeaderName::from_static(API_KEY_HEADER),
        HeaderName::from_static("idempotency-key"),
    ];
    let layer = CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(asked)
        .expose_headers([ETAG, RETRY_AFTER])
        .max_age(std::time::Duration::from_secs(REMEMBERED_SECS));
    Some(layer)
}
