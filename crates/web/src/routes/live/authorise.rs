//! Which meeting somebody means, and whether it is theirs.

use std::fmt;

use roundsman_core::bots::{MeetingAddress, MeetingId, Platform};
use roundsman_core::ports::{BotTarget, MeetingRow};
use roundsman_core::users::{Authenticated, TokenId, UserId};
use roundsman_engine::Error;
use roundsman_engine::users::Denied;

use crate::state::Shared;

/// A meeting as a listener names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    Meeting(MeetingId),
    /// The latest one there.
    Address {
        platform: String,
        native_id: String,
    },
}

/// Why there is nothing to listen to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    NotTheirs,
    /// No meeting of this platform can have such an id.
    InvalidId {
        platform: String,
    },
}

/// In the words that Vexa's clients know, after the place in the list.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::NotTheirs => f.write_str("not authorized or not found for user"),
            Missing::InvalidId { platform } => {
                write!(f, "invalid native_meeting_id for platform '{platform}'")
            }
        }
    }
}

/// The meeting, if it is the user's. Whatever is in the table can be listened to, also with an id
/// that no rule of ours allows; the rules only say why there is none.
pub(crate) async fn find(
    state: &Shared,
    user: UserId,
    named: &Named,
) -> Result<Result<MeetingRow, Missing>, Error> {
    let (target, missing) = match named {
        Named::Meeting(id) => (BotTarget::Meeting(*id), Missing::NotTheirs),
        Named::Address { platform, native_id } => {
            let invalid = Missing::InvalidId { platform: platform.clone() };
            let Ok(known) = Platform::parse(platform) else { return Ok(Err(invalid)) };
            let valid = MeetingAddress::new(known, native_id, None).is_ok();
            let target = BotTarget::Address { platform: known, native_id: native_id.clone() };
            (target, if valid { Missing::NotTheirs } else { invalid })
        }
    };
    Ok(state.bots.meeting(user, target).await?.ok_or(missing))
}

/// Who listens. The operator has no meetings: their token is not a user's.
pub(super) async fn listener_of(state: &Shared, key: &str) -> Result<(UserId, TokenId), Denied> {
    match state.authenticator.authenticate(key).await? {
        Authenticated::User { user_id, token_id, .. } => Ok((user_id, token_id)),
        Authenticated::Admin => Err(Denied::InvalidToken),
    }
}
