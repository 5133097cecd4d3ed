//! What the rules look at, what may happen to a bot, and what follows.

use super::{BotStatus, Ending, ExitReport, Stage};

/// Everything the rules look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BotState {
    pub status: BotStatus,
    /// How far it is within `starting`.
    pub stage: Option<Stage>,
    /// Somebody asked for it to leave.
    pub stop_wanted: bool,
    /// It has been in the meeting.
    pub was_active: bool,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BotEvent {
    /// The bot runs.
    Started,
    /// The bot is at the door.
    AtStage(Stage),
    /// The bot is in the meeting.
    Joined,
    /// The bot says that it is leaving.
    Leaving,
    /// The bot has ended.
    Exited(ExitReport),
    /// No bot exists, as its launcher has proven: it could not be launched, or it is gone.
    Absent { reason: String },
    /// Nothing was heard for too long.
    TimedOut { reason: &'static str },
}

impl BotEvent {
    /// Whether a bot's session can begin with this. It does if the bot was only reserved.
    pub fn may_begin_session(&self) -> bool {
        matches!(self, BotEvent::Started | BotEvent::AtStage(_) | BotEvent::Joined)
    }
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BotStep {
    /// The states passed through, in order; empty if the status stays.
    pub path: Vec<BotStatus>,
    pub stage: Option<Stage>,
    /// How it ended, if it did.
    pub ending: Option<Ending>,
}

/// The event cannot follow on this state. The bot is told the state, so that it can give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bot is {}", current.as_str())]
pub struct Refused {
    pub current: BotStatus,
}
