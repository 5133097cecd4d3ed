//! Which bot is calling back.
//!
//! Invariants: a token is handed to the engine, which alone can tell whether it is good, and is
//! never stored, logged or shown; who sends none, or something else, learns nothing but that.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::caller::{bearer, text};
use crate::problem::{Code, Problem};
use crate::state::Shared;

const BOT_TOKEN_HEADER: &str = "x-bot-token";
const PREFIX: &str = "rmb_";
/// No token is longer; a longer text is not worth looking at.
const TOKEN_BYTES_MAX: usize = 200;

/// A bot's token, read from a header. It looks like one; more is not known of it.
pub(crate) struct BotToken(String);

/// A bot's token and the event, read from a path such as
/// `/bots/internal/callback/{token}/{event}`.
pub(crate) struct PathBotToken(pub(crate) BotToken, pub(crate) String);

impl BotToken {
    fn new(text: &str) -> Result<Self, Problem> {
        if text.len() > TOKEN_BYTES_MAX || !text.starts_with(PREFIX) {
            return Err(not_this_bot());
        }
        Ok(BotToken(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Refuses a bot that speaks for another meeting than the one its token was made for. The token
    /// begins with that meeting's number, which its code covers.
    pub(crate) fn check_meeting(&self, meeting_id: Option<i64>) -> Result<(), Problem> {
        let Some(meeting_id) = meeting_id else { return Ok(()) };
        let begin = format!("{PREFIX}{meeting_id}_");
        if self.0.starts_with(&begin) { Ok(()) } else { Err(not_this_bot()) }
    }
}

/// The one answer to every callback that proves nothing, whether or not there is such a bot.
pub(crate) fn not_this_bot() -> Problem {
    let detail = "Send the bot's token in Authorization as Bearer, or in X-Bot-Token.";
    Problem::new(Code::Unauthorized, detail)
}

impl FromRequestParts<Shared> for BotToken {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &Shared) -> Result<Self, Problem> {
        let sent = text(&parts.headers, BOT_TOKEN_HEADER).or_else(|| bearer(&parts.headers));
        BotToken::new(sent.unwrap_or_default())
    }
}

impl FromRequestParts<Shared> for PathBotToken {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((token, event)) = path.map_err(|_| not_this_bot())?;
        Ok(PathBotToken(BotToken::new(&token)?, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_bots_token_is_taken() {
        for bad in ["", "rmt_1_ab", "RMB_7_1_ab", &format!("rmb_{}", "7".repeat(200))] {
            assert!(BotToken::new(bad).is_err(), "{bad}");
        }
        let token = BotToken::new("rmb_7_1_ab").unwrap();
        assert!(token.check_meeting(None).is_ok() && token.check_meeting(Some(7)).is_ok());
        for other in [1, 70, -7, i64::MAX] {
            assert_eq!(token.check_meeting(Some(other)).unwrap_err().code, Code::Unauthorized);
        }
    }
}
