//! Meetings in video rooms: making and ending them, who is and was in them, and what the provider
//! has told.
//!
//! Invariant: nothing here writes who is in a room. Whoever says to come or to go is a reason to
//! look, and the look writes.

mod attendance;
mod meetings;
mod operator;
mod people;

use roundsman_core::ports::RoomsError;
use roundsman_core::presence::PresenceStatus;
use roundsman_engine::presence::PresenceError;
use utoipa_axum::router::OpenApiRouter;

use crate::problem::{Code, Problem, sentence};
use crate::state::Shared;

/// A client is not sent away for longer than this.
const RETRY_AFTER_SECS_MAX: u64 = 3600;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(meetings::routes())
        .merge(attendance::routes())
        .merge(people::routes())
        .merge(operator::routes())
}

pub(super) fn no_such_meeting() -> Problem {
    Problem::new(Code::NotFound, "Meeting not found")
}

impl From<PresenceError> for Problem {
    fn from(error: PresenceError) -> Self {
        let detail = sentence(&error.to_string());
        match error {
            PresenceError::Invalid(errors) => Problem::invalid(errors),
            PresenceError::NotFound => no_such_meeting(),
            // A token whose user is gone is no token.
            PresenceError::NoSuchUser => Problem::unauthorized(),
            // Which one is nobody's business but its user's.
            PresenceError::RoomTaken { .. } => {
                Problem::new(Code::RoomTaken, "A meeting is open in this room.")
            }
            PresenceError::Over => Problem::new(Code::WrongState, detail)
                .with("state", PresenceStatus::Completed.as_str()),
            PresenceError::Provider(error) => error.into(),
            PresenceError::Store(error) => error.into(),
        }
    }
}

/// What the provider says about a request is shown: it is for whoever made the request.
impl From<RoomsError> for Problem {
    fn from(error: RoomsError) -> Self {
        let detail = sentence(&error.to_string());
        match &error {
            RoomsError::NotConfigured => Problem::new(Code::NotConfigured, detail),
            RoomsError::NotFound | RoomsError::Refused(_) => {
                Problem::new(Code::ProviderRefused, detail)
            }
            RoomsError::RateLimited { after } => {
                let problem = Problem::new(Code::ProviderUnavailable, detail);
                let secs = after.map(|after| after.as_secs().clamp(1, RETRY_AFTER_SECS_MAX));
                let secs = secs.and_then(|secs| u32::try_from(secs).ok());
                match secs {
                    Some(secs) => problem.retry_after_secs(secs),
                    None => problem,
                }
            }
            // Where it is and how it fails is the operator's business.
            RoomsError::Unavailable(_) | RoomsError::Odd(_) => {
                let detail = "The provider cannot be asked now.";
                Problem::new(Code::ProviderUnavailable, detail).caused_by(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::header::RETRY_AFTER;
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn what_the_provider_says_is_told_and_where_it_is_is_not() {
        let refused = Problem::from(RoomsError::Refused("400 invalid: a room is there".to_owned()));
        assert_eq!(refused.code, Code::ProviderRefused);
        assert_eq!(refused.detail, "The provider refuses: 400 invalid: a room is there.");
        for error in [
            RoomsError::Unavailable("connect to 10.0.0.7:443".to_owned()),
            RoomsError::Odd("10.0.0.7".to_owned()),
        ] {
            let problem = Problem::from(error);
            assert_eq!(problem.code, Code::ProviderUnavailable);
            assert!(!problem.detail.contains("10.0.0.7"), "{}", problem.detail);
            assert!(problem.cause.unwrap().to_string().contains("10.0.0.7"), "the log needs it");
        }
        assert_eq!(Problem::from(RoomsError::NotConfigured).code, Code::NotConfigured);
    }

    #[test]
    fn the_providers_patience_is_passed_on() {
        let waits = |after: Option<u64>| {
            let after = after.map(Duration::from_secs);
            let response = Problem::from(RoomsError::RateLimited { after }).into_response();
            response.headers()[RETRY_AFTER].to_str().unwrap().to_owned()
        };
        assert_eq!(waits(Some(0)), "1");
        assert_eq!(waits(Some(17)), "17");
        assert_eq!(waits(Some(u64::MAX / 2)), "3600");
        assert_eq!(waits(None), "5");
    }
}
