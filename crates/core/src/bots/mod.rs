//! Bots that attend meetings: what state one is in, and what follows from what happened.
//!
//! Invariants: the meeting's row is the only truth; after it was made only a callback of the bot,
//! the sweep, or proof that no bot exists changes its status; every bot ends.

mod callback_token;
mod change;
mod diagram;
mod ending;
mod event;
mod finish;
mod ids;
mod language;
mod machine;
mod meeting_token;
mod platform;
mod record;
mod status;
mod sweep;
mod wire;

pub use callback_token::{CallbackKey, InvalidCallbackToken};
pub use change::{
    Change, FINISH_KIND, SUPERVISE_KIND, Source, change, reservation_effects, stream_of,
    supervise_wish,
};
pub use diagram::bot_diagram;
pub use ending::{Ending, ExitReport, classify_exit};
pub use event::{BotEvent, BotState, BotStep, Refused};
pub use finish::finish;
pub use ids::{ConnectionId, InvalidConnectionId, MeetingId, WorkloadId, draw_uuid};
pub use language::{InvalidChoice, LANGUAGES, TASKS, check_language, check_task};
pub use machine::{may_follow, on_event};
pub use meeting_token::{InvalidMeetingToken, MeetingGrant, MeetingTokens};
pub use platform::{InvalidMeetingId, MeetingAddress, Platform, UnknownPlatform};
pub use record::{Bot, BotConfig, BotRecord, BotWish, Meeting, NewBot, StopWish};
pub use status::{BotStatus, Stage, UnknownStatus};
pub use sweep::{BotClock, BotTimeouts, Overdue, overdue};
pub use wire::{meeting_body, meeting_url, vexa_status};
