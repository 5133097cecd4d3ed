//! What handlers take from a request. Each refuses with a [`crate::problem::Problem`].

mod bot_token;
mod caller;
mod json;
mod params;
mod vexa_caller;

pub(crate) use bot_token::{BotToken, PathBotToken, not_this_bot};
pub(crate) use caller::{AdminCaller, Caller};
pub(crate) use json::{AppJson, AppJsonWithBytes};
pub(crate) use params::{AddressPath, AppQuery, IdPath, NO_PLATFORM, TextPath};
pub(crate) use vexa_caller::{AccountCaller, BotsCaller, MeetingsCaller};
