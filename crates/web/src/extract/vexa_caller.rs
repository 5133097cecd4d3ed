//! Who is asking, on the paths that clients of the Vexa API know. Each of its services refused in
//! words of its own, which its clients show to people.

use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use roundsman_core::users::{Authenticated, TokenScope, UserId};
use roundsman_engine::users::Denied;

use super::caller::{API_KEY_HEADER, bearer, text};
use crate::problem::{Code, Problem};
use crate::state::Shared;

/// A user with a valid token; `W` says how others are refused.
#[derive(Debug)]
pub(crate) struct VexaCaller<W> {
    user_id: UserId,
    caller: Authenticated,
    words: PhantomData<W>,
}

/// On `/bots`.
pub(crate) type BotsCaller = VexaCaller<BotsWords>;
/// On `/meetings`.
pub(crate) type MeetingsCaller = VexaCaller<MeetingsWords>;
/// On `/user`.
pub(crate) type AccountCaller = VexaCaller<AccountWords>;

/// How one of Vexa's services refuses.
pub(crate) trait Words {
    /// Whoever sends no token.
    const MISSING: (Code, &'static str);
    /// Whoever sends a token that opens nothing.
    const INVALID: &'static str;
}

#[derive(Debug)]
pub(crate) enum BotsWords {}
#[derive(Debug)]
pub(crate) enum MeetingsWords {}
#[derive(Debug)]
pub(crate) enum AccountWords {}

impl Words for BotsWords {
    const MISSING: (Code, &'static str) = (Code::Forbidden, "Missing API token (X-API-Key header)");
    const INVALID: &'static str = "Invalid API token";
}

impl Words for MeetingsWords {
    const MISSING: (Code, &'static str) = (Code::Forbidden, "Missing API token");
    const INVALID: &'static str = "Invalid API token";
}

impl Words for AccountWords {
    const MISSING: (Code, &'static str) = (Code::Unauthorized, "Missing API Key");
    const INVALID: &'static str = "Invalid API Key";
}

impl<W: Words> VexaCaller<W> {
    /// The user, if their token allows what needs `scope`.
    pub(crate) fn require(&self, scope: TokenScope) -> Result<UserId, Problem> {
        if self.caller.may(scope) {
            return Ok(self.user_id);
        }
        Err(Problem::new(Code::Forbidden, "Insufficient scope for this endpoint"))
    }

    /// A token whose user is gone opens nothing either.
    pub(crate) fn refusal() -> Problem {
        Problem::new(Code::Forbidden, W::INVALID)
    }
}

impl<W: Words> FromRequestParts<Shared> for VexaCaller<W> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let headers = &parts.headers;
        let sent = text(headers, API_KEY_HEADER).or_else(|| bearer(headers));
        let Some(token) = sent.filter(|token| !token.is_empty()) else {
            let (code, detail) = W::MISSING;
            return Err(Problem::new(code, detail));
        };
        match state.authenticator.authenticate(token).await {
            Ok(caller @ Authenticated::User { user_id, .. }) => {
                Ok(VexaCaller { user_id, caller, words: PhantomData })
            }
            // The operator has no meetings: their token is not a user's.
            Ok(Authenticated::Admin) | Err(Denied::InvalidToken) => Err(Self::refusal()),
            Err(denied) => Err(denied.into()),
        }
    }
}
