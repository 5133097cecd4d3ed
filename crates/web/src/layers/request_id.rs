//! A name for every request, so that an answer can be found in the log.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use roundsman_core::ports::Random;

pub(crate) const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// A longer name from outside is not used: it would be in every log line.
const CHARS_MAX: usize = 64;

/// The name the client gave the request, if it is harmless, or a random one.
pub(super) fn request_id(headers: &HeaderMap, random: &dyn Random) -> HeaderValue {
    if let Some(given) = headers.get(REQUEST_ID_HEADER)
        && (1..=CHARS_MAX).contains(&given.len())
        && given.as_bytes().iter().all(u8::is_ascii_graphic)
    {
        return given.clone();
    }
    let mut bytes = [0u8; 16];
    random.fill(&mut bytes);
    HeaderValue::from_str(&hex::encode(bytes)).expect("hexadecimal digits are visible ASCII")
}

#[cfg(test)]
mod tests {
    use roundsman_testkit::SeededRandom;

    use super::*;

    #[test]
    fn a_harmless_name_is_kept_and_any_other_replaced() {
        let id_for = |given: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID_HEADER, HeaderValue::from_bytes(given.as_bytes()).unwrap());
            let id = request_id(&headers, &SeededRandom::new(1));
            id.to_str().unwrap().to_owned()
        };
        assert_eq!(id_for("trace-1/ü".trim_end_matches('ü')), "trace-1/");
        for bad in ["", "a b", "ü", &"x".repeat(CHARS_MAX + 1)] {
            assert_eq!(id_for(bad).len(), 32, "{bad:?}");
        }
    }
}
