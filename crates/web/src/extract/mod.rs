//! What handlers take from a request. Each refuses with a [`crate::problem::Problem`].

mod bot_token;
mod caller;
mod daily_body;
mod json;
mod live_key;
mod meeting_path;
mod params;
mod vexa_caller;

pub(crate) use bot_token::{BotToken, PathBotToken, not_this_bot};
pub(crate) use caller::{
    ADMIN_KEY_HEADER, API_KEY_HEADER, AdminCaller, Caller, bearer, sent_token, text as header_text,
};
pub(crate) use daily_body::{DAILY_BODY_BYTES_MAX, DailyBody};
pub(crate) use json::{AppJson, AppJsonWithBytes, JsonBytes};
pub(crate) use live_key::LiveKey;
pub(crate) use meeting_path::MeetingPath;
pub(crate) use params::{
    AddressPath, AppQuery, IdPath, NO_BOT_PLATFORM, NO_PLATFORM, ProjectPath, TextPath,
};
pub(crate) use vexa_caller::{AccountCaller, BotsCaller, MeetingsCaller};
