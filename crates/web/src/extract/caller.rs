//! Who is asking.
//!
//! Invariant: a token is read from its header here, handed to the authenticator and dropped. It is
//! never stored, logged or shown.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use roundsman_core::ports::Scope;
use roundsman_core::users::{Authenticated, TokenScope, UserId};
use roundsman_engine::users::Denied;

use crate::problem::{Code, Problem};
use crate::state::Shared;

/// A user's token goes here; the operator's is accepted too.
pub(crate) const API_KEY_HEADER: &str = "x-api-key";
/// The operator's token goes here.
pub(crate) const ADMIN_KEY_HEADER: &str = "x-admin-api-key";

/// What the admin routes have always answered; clients of that surface show it to people.
const ADMIN_REFUSAL: &str = "Invalid or missing admin token.";

/// Somebody with a valid token.
#[derive(Debug)]
pub(crate) struct Caller(Authenticated);

impl Caller {
    /// The caller, if their token allows what needs `scope`.
    pub(crate) fn require(&self, scope: TokenScope) -> Result<&Authenticated, Problem> {
        if self.0.may(scope) {
            return Ok(&self.0);
        }
        let detail = format!("This token lacks the scope {}.", scope.as_str());
        Err(Problem::new(Code::Forbidden, detail))
    }

    /// The user who is asking, if their token allows what needs `scope`. The operator is nobody
    /// who could have a bot or a meeting.
    pub(crate) fn require_user(&self, scope: TokenScope) -> Result<UserId, Problem> {
        match self.require(scope)? {
            Authenticated::User { user_id, .. } => Ok(*user_id),
            Authenticated::Admin => {
                let detail = "Bots and meetings belong to users: send a user's token.";
                Err(Problem::new(Code::Forbidden, detail))
            }
        }
    }

    /// What the caller may see, if their token allows what needs `scope`: the operator everything.
    pub(crate) fn reach(&self, scope: TokenScope) -> Result<Scope, Problem> {
        Ok(match self.require(scope)? {
            Authenticated::User { user_id, .. } => Scope::User(*user_id),
            Authenticated::Admin => Scope::All,
        })
    }

    /// Only the operator passes.
    pub(crate) fn require_operator(&self) -> Result<(), Problem> {
        match self.0 {
            Authenticated::Admin => Ok(()),
            Authenticated::User { .. } => {
                Err(Problem::new(Code::Forbidden, "Only the admin token may read this."))
            }
        }
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let headers = &parts.headers;
        let sent = text(headers, API_KEY_HEADER).or_else(|| bearer(headers));
        let authenticated = match (sent, text(headers, ADMIN_KEY_HEADER)) {
            (Some(token), _) => state.authenticator.authenticate(token).await?,
            (None, Some(token)) => state.authenticator.authenticate_admin(token)?,
            (None, None) => return Err(Problem::unauthorized()),
        };
        Ok(Caller(authenticated))
    }
}

/// The operator.
#[derive(Debug)]
pub(crate) struct AdminCaller;

impl FromRequestParts<Shared> for AdminCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let headers = &parts.headers;
        let token = text(headers, ADMIN_KEY_HEADER).or_else(|| bearer(headers)).unwrap_or_default();
        match state.authenticator.authenticate_admin(token) {
            Ok(_) => Ok(AdminCaller),
            Err(Denied::InvalidToken) => Err(Problem::new(Code::Forbidden, ADMIN_REFUSAL)),
            Err(denied) => Err(denied.into()),
        }
    }
}

/// The token that a request sends, whosever it is.
pub(crate) fn sent_token(headers: &HeaderMap) -> Option<&str> {
    text(headers, API_KEY_HEADER)
        .or_else(|| bearer(headers))
        .or_else(|| text(headers, ADMIN_KEY_HEADER))
}

/// A header's text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The scheme's name is case-insensitive.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = text(headers, AUTHORIZATION.as_str())?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
