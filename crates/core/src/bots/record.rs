//! A meeting's row and what is kept beside it about the bot that attends it.

use super::{BotState, BotStatus, ConnectionId, MeetingId, Stage, UnknownStatus, WorkloadId};
use crate::Timestamp;
use crate::jobs::Json;
use crate::users::UserId;

/// A row of `meetings`, with the columns that an existing Vexa database has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    pub id: MeetingId,
    pub user_id: UserId,
    pub platform: String,
    /// `None` once the meeting was anonymised.
    pub native_id: Option<String>,
    /// As it is stored: see [`Meeting::bot_status`].
    pub status: String,
    /// What the launcher calls the bot.
    pub container_id: Option<String>,
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    /// A JSON object.
    pub data: Json,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Meeting {
    /// The status of its bot. A meeting without one (`open`, of Daily) is an error.
    pub fn bot_status(&self) -> Result<BotStatus, UnknownStatus> {
        BotStatus::parse(&self.status)
    }
}

/// What is kept about a bot beside its meeting's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bot {
    pub connection_id: ConnectionId,
    /// Counts launches; what an earlier one says is no longer heard.
    pub attempt: u32,
    /// How far it is within `starting`.
    pub stage: Option<Stage>,
    /// It has been in the meeting.
    pub was_active: bool,
    /// It sends heartbeats. Others are alive while their launcher sees them run.
    pub beats: bool,
    pub reserved_at: Timestamp,
    /// When it came into its present status.
    pub entered_at: Timestamp,
    pub heartbeat_at: Option<Timestamp>,
    /// When its launcher last saw it running.
    pub seen_at: Option<Timestamp>,
    /// How often in a row its launcher has found it gone.
    pub missed: u32,
    /// How far its media has come, in its own unit.
    pub media_progress: Option<i64>,
    /// When that last grew.
    pub media_at: Option<Timestamp>,
    pub stop: Option<StopWish>,
    pub config: BotConfig,
    /// What it was asked to be at its start.
    pub wish: BotWish,
    pub completion_reason: Option<String>,
    pub failure_stage: Option<String>,
    pub exit_code: Option<i32>,
    pub end_reason: Option<String>,
    /// When the work after the meeting was done.
    pub finished_at: Option<Timestamp>,
}

/// Somebody wants the bot to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopWish {
    pub at: Timestamp,
    /// Who: `user`.
    pub by: String,
}

/// What the bot is to transcribe, numbered so that the newest is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BotConfig {
    /// 0 is what it was started with.
    pub version: u32,
    pub language: Option<String>,
    pub task: Option<String>,
    /// The highest version the bot says it has applied.
    pub applied: u32,
}

/// What a bot is asked to be, as far as it does not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct BotWish {
    pub bot_name: Option<String>,
    pub passcode: Option<String>,
    /// In place of the address made from platform and id.
    pub meeting_url: Option<String>,
    /// Milliseconds; in place of the configured ones.
    pub waiting_room_timeout_ms: Option<u64>,
    pub no_one_joined_timeout_ms: Option<u64>,
    pub everyone_left_timeout_ms: Option<u64>,
}

/// A meeting and its bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BotRecord {
    pub meeting: Meeting,
    pub bot: Bot,
    /// The meeting's status, understood.
    pub status: BotStatus,
}

impl BotRecord {
    pub fn new(meeting: Meeting, bot: Bot) -> Result<Self, UnknownStatus> {
        let status = meeting.bot_status()?;
        Ok(BotRecord { meeting, bot, status })
    }

    /// What the rules look at.
    pub fn state(&self) -> BotState {
        BotState {
            status: self.status,
            stage: self.bot.stage,
            stop_wanted: self.bot.stop.is_some(),
            was_active: self.bot.was_active,
        }
    }

    pub fn workload(&self) -> WorkloadId {
        WorkloadId { meeting_id: self.meeting.id, attempt: self.bot.attempt }
    }

    /// The status in the words of Vexa's clients.
    pub fn vexa_status(&self) -> &'static str {
        self.status.as_vexa(self.bot.stage)
    }
}

/// A bot to be reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBot {
    pub user_id: UserId,
    pub platform: super::Platform,
    pub native_id: String,
    pub connection_id: ConnectionId,
    pub language: Option<String>,
    pub task: Option<String>,
    pub wish: BotWish,
}

impl NewBot {
    /// The rows of the reservation, before the database has given it a number.
    pub fn record(self, id: MeetingId, now: Timestamp) -> BotRecord {
        // Vexa's clients look for the passcode here.
        let data = match &self.wish.passcode {
            Some(code) => serde_json::json!({ "passcode": code }).to_string(),
            None => "{}".to_owned(),
        };
        let meeting = Meeting {
            id,
            user_id: self.user_id,
            platform: self.platform.as_str().to_owned(),
            native_id: Some(self.native_id),
            status: BotStatus::Reserved.as_str().to_owned(),
            container_id: None,
            start_time: None,
            end_time: None,
            data: Json::from_stored(data),
            created_at: now,
            updated_at: now,
        };
        let config = BotConfig { version: 0, language: self.language, task: self.task, applied: 0 };
        let bot = Bot {
            connection_id: self.connection_id,
            attempt: 1,
            stage: None,
            was_active: false,
            beats: false,
            reserved_at: now,
            entered_at: now,
            heartbeat_at: None,
            seen_at: None,
            missed: 0,
            media_progress: None,
            media_at: None,
            stop: None,
            config,
            wish: self.wish,
            completion_reason: None,
            failure_stage: None,
            exit_code: None,
            end_reason: None,
            finished_at: None,
        };
        BotRecord { meeting, bot, status: BotStatus::Reserved }
    }
}
