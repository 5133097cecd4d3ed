//! Bots that attend meetings: what state one is in, and what follows from what happened.
//!
//! Invariants: the meeting's row is the only truth; after it was made only a callback of the bot,
//! the sweep, or proof that no bot exists changes its status; every bot ends.

mod diagram;
mod ending;
mod event;
mod machine;
mod platform;
mod status;
mod sweep;

pub use diagram::bot_diagram;
pub use ending::{Ending, ExitReport, classify_exit};
pub use event::{BotEvent, BotState, BotStep, Refused};
pub use machine::{may_follow, on_event};
pub use platform::{InvalidMeetingId, MeetingAddress, Platform, UnknownPlatform};
pub use status::{BotStatus, Stage, UnknownStatus};
pub use sweep::{BotClock, BotTimeouts, Overdue, overdue};
