//! What a client is told when something did not work: `application/problem+json` (RFC 9457).
//!
//! Invariant: a [`Problem`] carries what may be shown and, apart from it, the cause, which only the
//! log sees. Turning one into a response has no side effects: the response carries the problem, and
//! the outermost layer, which knows the request's name, writes its body and logs it once. On the
//! paths of the Vexa API a problem has the status and the words that its clients know.

use std::error::Error as StdError;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use roundsman_core::ports::StoreError;
use roundsman_engine::users::Denied;
use roundsman_engine::{Error, FieldError};
use serde_json::{Map, Value};

/// How long a client should wait before it tries a store again that is away.
const RETRY_AFTER_SECS: u32 = 2;
/// How long a client should wait before it tries again to start a bot that is one too many.
const BOT_RETRY_AFTER_SECS: u32 = 30;
/// How long a client should wait before it asks for what the provider could not do.
const PROVIDER_RETRY_AFTER_SECS: u32 = 5;
/// What is shown of an error that is ours: nothing but where to look.
const INTERNAL_DETAIL: &str =
    "Something went wrong on the server; its log says what, under the request id.";

/// Every word a client may find in `code`. Stable: clients decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    InvalidJson,
    EmailFixed,
    NoData,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    LeaseLost,
    WrongState,
    KeyTaken,
    AlreadyLive,
    RoomTaken,
    BotOver,
    Superseded,
    TooLarge,
    UnsupportedMediaType,
    InvalidRequest,
    IdempotencyKeyReused,
    BotLimitReached,
    TooManyAudits,
    TooManyRefusals,
    TooManyConnections,
    TooManyRequests,
    Internal,
    ProviderRefused,
    ProviderUnavailable,
    Overloaded,
    StorageUnavailable,
    ShuttingDown,
    TimedOut,
    AdminNotConfigured,
    NotConfigured,
}

impl Code {
    pub const ALL: [Code; 32] = [
        Code::InvalidJson,
        Code::EmailFixed,
        Code::NoData,
        Code::Unauthorized,
        Code::Forbidden,
        Code::NotFound,
        Code::MethodNotAllowed,
        Code::LeaseLost,
        Code::WrongState,
        Code::KeyTaken,
        Code::AlreadyLive,
        Code::RoomTaken,
        Code::BotOver,
        Code::Superseded,
        Code::TooLarge,
        Code::UnsupportedMediaType,
        Code::InvalidRequest,
        Code::IdempotencyKeyReused,
        Code::BotLimitReached,
        Code::TooManyAudits,
        Code::TooManyRefusals,
        Code::TooManyConnections,
        Code::TooManyRequests,
        Code::Internal,
        Code::ProviderRefused,
        Code::ProviderUnavailable,
        Code::Overloaded,
        Code::StorageUnavailable,
        Code::ShuttingDown,
        Code::TimedOut,
        Code::AdminNotConfigured,
        Code::NotConfigured,
    ];

    /// The word itself.
    pub fn word(self) -> &'static str {
        self.row().1
    }

    pub fn status(self) -> StatusCode {
        self.row().0
    }

    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// The one table of what each code means.
    fn row(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as S;
        let too_many = |word, title| (S::TOO_MANY_REQUESTS, word, title);
        let unavailable = |word, title| (S::SERVICE_UNAVAILABLE, word, title);
        match self {
            Code::InvalidJson => (S::BAD_REQUEST, "invalid_json", "The body is not JSON"),
            Code::EmailFixed => {
                (S::BAD_REQUEST, "email_fixed", "The e-mail address cannot be changed")
            }
            Code::NoData => (S::BAD_REQUEST, "no_data", "There is nothing to change"),
            Code::Unauthorized => (S::UNAUTHORIZED, "unauthorized", "A valid token is needed"),
            Code::Forbidden => (S::FORBIDDEN, "forbidden", "The token does not allow this"),
            Code::NotFound => (S::NOT_FOUND, "not_found", "Not found"),
            Code::MethodNotAllowed => {
                (S::METHOD_NOT_ALLOWED, "method_not_allowed", "The method is not allowed here")
            }
            Code::LeaseLost => (S::CONFLICT, "lease_lost", "The lease is no longer held"),
            Code::WrongState => (S::CONFLICT, "wrong_state", "The state excludes this"),
            Code::KeyTaken => (S::CONFLICT, "key_taken", "A job with this key is waiting already"),
            Code::AlreadyLive => {
                (S::CONFLICT, "already_live", "There is a live bot in this meeting")
            }
            Code::RoomTaken => (S::CONFLICT, "room_taken", "A meeting is open in this room"),
            Code::BotOver => (S::GONE, "bot_over", "The bot is over"),
            Code::Superseded => {
                (S::GONE, "superseded", "Another attempt has taken the bot's place")
            }
            Code::TooLarge => (S::PAYLOAD_TOO_LARGE, "too_large", "Too large"),
            Code::UnsupportedMediaType => {
                (S::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "The body must be JSON")
            }
            Code::InvalidRequest => {
                (S::UNPROCESSABLE_ENTITY, "invalid_request", "The request is not valid")
            }
            Code::IdempotencyKeyReused => (
                S::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "The idempotency key belongs to another request",
            ),
            Code::BotLimitReached => {
                too_many("bot_limit_reached", "All of the user's bots are in use")
            }
            Code::TooManyAudits => too_many("too_many_audits", "Too many audits"),
            Code::TooManyRefusals => {
                too_many("too_many_refusals", "Too many requests without a valid token")
            }
            Code::TooManyConnections => {
                too_many("too_many_connections", "Too many live connections")
            }
            Code::TooManyRequests => {
                too_many("too_many_requests", "Too many requests with this token")
            }
            Code::Overloaded => unavailable("overloaded", "The server has too much to do"),
            Code::Internal => (S::INTERNAL_SERVER_ERROR, "internal", "Internal error"),
            Code::ProviderRefused => (S::BAD_GATEWAY, "provider_refused", "The provider refuses"),
            Code::ProviderUnavailable => {
                unavailable("provider_unavailable", "The provider does not answer")
            }
            Code::StorageUnavailable => {
                unavailable("storage_unavailable", "The database is unavailable")
            }
            Code::ShuttingDown => unavailable("shutting_down", "The server is shutting down"),
            Code::TimedOut => unavailable("timed_out", "The request took too long"),
            Code::AdminNotConfigured => {
                unavailable("admin_not_configured", "There is no admin token")
            }
            Code::NotConfigured => {
                unavailable("not_configured", "The server is not set up for this")
            }
        }
    }
}

/// Where in a request a wrong field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Body,
    Path,
    Query,
}

/// Whose clients are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    Own,
    /// Wrong fields are listed in `detail`.
    Vexa,
}

/// Why a request was not answered as hoped.
#[derive(Debug, Clone)]
pub struct Problem {
    pub(crate) code: Code,
    /// In place of the code's own.
    status: Option<StatusCode>,
    pub(crate) detail: String,
    pub(crate) errors: Vec<FieldError>,
    pub(crate) place: Place,
    pub(crate) surface: Surface,
    /// More that the client can use, such as the state that excluded the request.
    pub(crate) members: Map<String, Value>,
    retry_after_secs: Option<u32>,
    pub(crate) cause: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        let retry_after_secs = match code {
            Code::StorageUnavailable
            | Code::ShuttingDown
            | Code::TooManyConnections
            | Code::Overloaded => Some(RETRY_AFTER_SECS),
            Code::BotLimitReached | Code::TooManyAudits => Some(BOT_RETRY_AFTER_SECS),
            Code::ProviderUnavailable => Some(PROVIDER_RETRY_AFTER_SECS),
            _ => None,
        };
        Problem {
            code,
            status: None,
            detail: detail.into(),
            errors: Vec::new(),
            place: Place::Body,
            surface: Surface::Own,
            members: Map::new(),
            retry_after_secs,
            cause: None,
        }
    }

    /// One field is wrong.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Problem::invalid(vec![FieldError::new(field, message)])
    }

    /// Several fields are wrong.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = errors
            .first()
            .map(|error| format!("{}: {}", error.field, error.message))
            .unwrap_or_default();
        Problem { errors, ..Problem::new(Code::InvalidRequest, detail) }
    }

    /// Nobody known is asking.
    pub(crate) fn unauthorized() -> Self {
        let detail = "Send a valid token in X-API-Key, or in Authorization as Bearer.";
        Problem::new(Code::Unauthorized, detail)
    }

    pub(crate) fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Problem::new(Code::Internal, INTERNAL_DETAIL).caused_by(cause)
    }

    /// The status that goes over the wire.
    pub(crate) fn status(&self) -> StatusCode {
        self.status.unwrap_or_else(|| self.code.status())
    }

    /// The wrong fields are not in the body.
    pub(crate) fn at(self, place: Place) -> Self {
        Problem { place, ..self }
    }

    pub(crate) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }

    pub(crate) fn retry_after_secs(self, secs: u32) -> Self {
        Problem { retry_after_secs: Some(secs), ..self }
    }

    /// The same with another status and without advice to come back: as Vexa's clients know it.
    pub(crate) fn told_as(self, status: StatusCode) -> Self {
        Problem { status: Some(status), retry_after_secs: None, ..self }
    }

    pub(crate) fn caused_by(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Problem { cause: Some(Arc::from(cause.into())), ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        if self.status() == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"roundsman\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if let Some(secs) = self.retry_after_secs {
            response.headers_mut().insert(RETRY_AFTER, secs.into());
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::NotFound { what } => {
                return Problem::new(Code::NotFound, format!("{} not found", capitalised(what)));
            }
            Error::Invalid(errors) => return Problem::invalid(errors),
            Error::TooLarge { field, bytes, bytes_max } => {
                let detail = format!("The {field} has {bytes} bytes; the limit is {bytes_max}.");
                return Problem::new(Code::TooLarge, detail);
            }
            Error::Store(error) => return error.into(),
            Error::Internal(cause) => return Problem::internal(cause),
            Error::TooMany { .. } => Code::TooManyAudits,
            Error::Forbidden { .. } => Code::Forbidden,
            Error::LeaseLost => Code::LeaseLost,
            Error::WrongState { .. } => Code::WrongState,
            Error::KeyTaken { .. } => Code::KeyTaken,
            Error::IdempotencyKeyReused => Code::IdempotencyKeyReused,
            Error::ShuttingDown => Code::ShuttingDown,
        };
        Problem::new(code, sentence(&error.to_string()))
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Problem::new(
                Code::StorageUnavailable,
                "The database cannot be reached; a change may or may not have been made.",
            ),
            StoreError::StorageFull(_) => Problem::new(
                Code::StorageUnavailable,
                "The database takes no writes now; nothing was changed.",
            ),
            error => return Problem::internal(error),
        }
        .caused_by(error)
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::InvalidToken => Problem::unauthorized(),
            Denied::AdminNotConfigured => {
                Problem::new(Code::AdminNotConfigured, sentence(&denied.to_string()))
            }
            Denied::Unavailable(error) => error.into(),
        }
    }
}

/// The text as a sentence.
pub(crate) fn sentence(text: &str) -> String {
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{}{end}", capitalised(text))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_word_of_its_own() {
        for (index, code) in Code::ALL.into_iter().enumerate() {
            assert!(code.status().is_client_error() || code.status().is_server_error());
            assert!(Code::ALL[..index].iter().all(|other| other.word() != code.word()));
        }
    }

    #[test]
    fn what_is_ours_alone_is_not_shown() {
        let secret = "password=hunter2 at db.internal";
        for error in [
            StoreError::Unavailable(secret.into()),
            StoreError::StorageFull(secret.into()),
            StoreError::Failed(secret.into()),
        ] {
            let problem = Problem::from(Error::Store(error));
            assert!(problem.code.status().is_server_error());
            assert!(!problem.detail.contains("hunter2"), "{}", problem.detail);
            assert!(problem.cause.unwrap().to_string().contains("hunter2"), "the log needs it");
        }
    }
}
