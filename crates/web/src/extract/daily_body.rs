//! A delivery of Daily's.
//!
//! Invariants: nothing looks at a body before its signature was found to fit, by its bytes as they
//! came; without a secret there is nobody to believe, and not even the body is read.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use roundsman_core::daily::{SignatureHeaders, Unverified, verify};

use super::caller::text;
use super::json::unread;
use crate::problem::{Code, Problem};
use crate::state::Shared;

/// The largest body that is read, whatever others may send. Daily's are a few hundred bytes.
pub(crate) const DAILY_BODY_BYTES_MAX: usize = 1024 * 1024;

const TIMESTAMP_HEADER: &str = "x-webhook-timestamp";
const SIGNATURE_HEADER: &str = "x-webhook-signature";

/// What Daily has sent: its signature fits. Whether it can be understood is not known.
#[derive(Debug)]
pub(crate) struct DailyBody(pub(crate) Bytes);

impl FromRequest<Shared> for DailyBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        let daily = &state.daily;
        if daily.secrets.is_empty() {
            return Err(closed());
        }
        let timestamp = text(request.headers(), TIMESTAMP_HEADER).map(str::to_owned);
        let signature = text(request.headers(), SIGNATURE_HEADER).map(str::to_owned);
        let body = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| unread(&rejection, DAILY_BODY_BYTES_MAX))?;
        let (timestamp, signature) = (timestamp.as_deref(), signature.as_deref());
        let headers = SignatureHeaders { timestamp, signature };
        verify(&daily.secrets, headers, &body, daily.replay_window, state.clock.now())
            .map_err(refusal)?;
        Ok(DailyBody(body))
    }
}

fn closed() -> Problem {
    let detail = "No secret for Daily's webhooks is configured, so that nobody can be believed.";
    Problem::new(Code::NotConfigured, detail)
}

/// In the same words whatever is wrong: who forges a signature learns nothing.
fn refusal(why: Unverified) -> Problem {
    match why {
        // Only who has a signature that fits comes here: old events, or a clock that is wrong.
        Unverified::OutsideWindow => tracing::warn!(%why, "a delivery of Daily's is refused"),
        why => tracing::debug!(%why, "a delivery of Daily's is refused"),
    }
    let detail = "Sign the body as Daily does, with a secret that is configured here, and send \
        X-Webhook-Timestamp and X-Webhook-Signature.";
    Problem::new(Code::Unauthorized, detail)
}
