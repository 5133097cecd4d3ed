//! What goes wrong at a page, in the words that users see.

use roundsman_core::ports::{ObserveError, ObserveErrorKind as Kind};

use crate::egress::{EgressError, Refusal};

pub(super) fn trouble(kind: Kind, detail: impl Into<String>) -> ObserveError {
    ObserveError { kind, detail: detail.into() }
}

/// Of an address that a user wrote.
pub(super) fn of_wish(refusal: Refusal) -> ObserveError {
    let kind = match refusal {
        Refusal::TooLong | Refusal::NotAUrl | Refusal::Scheme | Refusal::Credentials => {
            Kind::InvalidUrl
        }
        Refusal::Port | Refusal::NotPublic => Kind::BlockedTarget,
    };
    trouble(kind, format!("the address cannot be looked at: {refusal}"))
}

/// Of an address that something led to.
pub(super) fn of_egress(error: EgressError) -> ObserveError {
    match error {
        EgressError::Refused(refusal) => {
            trouble(Kind::BlockedTarget, format!("the address may not be asked: {refusal}"))
        }
        error @ EgressError::Unresolved(_) => trouble(Kind::DnsFailure, error.to_string()),
    }
}

/// A connection that was open and failed.
pub(super) fn of_hyper(error: &hyper::Error) -> ObserveError {
    let text = crate::http::chain(error);
    if text.contains("head is too large") {
        return trouble(Kind::TooLarge, "the head of the answer is larger than it may be");
    }
    trouble(Kind::ProtocolError, format!("the connection failed: {text}"))
}
