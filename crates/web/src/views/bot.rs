//! Bots: how they are asked for, and what asking came to.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, BotStatus, MeetingId, Platform};
use roundsman_core::ports::{BotTarget, ConfigChange, MeetingRow};
use roundsman_engine::FieldError;
use roundsman_engine::bots::StartWish;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::meeting::{MeetingShape, meeting_view, state_word, vexa_status};
use super::next_before;
use super::problem::FIELD_REQUIRED;
use crate::extract::NO_BOT_PLATFORM;
use crate::problem::Problem;

/// A bot to be sent into a meeting. Members that are not known here are ignored, as in Vexa.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BotRequest)]
pub(crate) struct StartBody {
    /// `google_meet`, `zoom` or `teams`.
    #[schema(required = true, nullable = false, example = "google_meet")]
    platform: Option<String>,
    /// Google Meet: `abc-defg-hij`; Zoom: 9-11 digits; Teams: 10-15 digits.
    #[schema(required = true, nullable = false, example = "abc-defg-hij")]
    native_meeting_id: Option<String>,
    #[schema(example = "Scribe")]
    bot_name: Option<String>,
    #[schema(example = "en")]
    language: Option<String>,
    /// `transcribe` or `translate`.
    #[schema(example = "transcribe")]
    task: Option<String>,
    passcode: Option<String>,
    /// In place of the address made from platform and id.
    meeting_url: Option<String>,
    automatic_leave: Option<AutomaticLeaveBody>,
}

/// When a bot leaves by itself, in milliseconds; what is absent is as the server is configured.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = AutomaticLeave)]
pub(crate) struct AutomaticLeaveBody {
    /// How long it waits to be let in.
    #[schema(example = 300_000)]
    #[serde(alias = "waiting_room_timeout")]
    max_wait_for_admission: Option<u64>,
    /// How long it waits for somebody to come.
    #[schema(example = 120_000)]
    no_one_joined_timeout: Option<u64>,
    /// How long it stays when everybody has left.
    #[schema(example = 60_000)]
    #[serde(alias = "everyone_left_timeout")]
    max_time_left_alone: Option<u64>,
}

/// Which bot: `meeting_id`, or `platform` and `native_meeting_id`.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BotTarget)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopBody {
    #[schema(example = 7)]
    meeting_id: Option<i64>,
    #[schema(example = "google_meet")]
    platform: Option<String>,
    #[schema(example = "abc-defg-hij")]
    native_meeting_id: Option<String>,
}

/// Which bot, and what it is to transcribe from now on; what is absent stays.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BotConfigRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetConfigBody {
    #[schema(example = 7)]
    meeting_id: Option<i64>,
    platform: Option<String>,
    native_meeting_id: Option<String>,
    #[schema(example = "en")]
    language: Option<String>,
    #[schema(example = "translate")]
    task: Option<String>,
}

/// What a bot is to transcribe from now on; what is absent stays.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BotConfigChange)]
pub(crate) struct ConfigBody {
    #[schema(example = "en")]
    language: Option<String>,
    #[schema(example = "translate")]
    task: Option<String>,
}

/// A wish to stop, as it was taken.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BotStop)]
pub(crate) struct StopView {
    pub(crate) message: String,
    /// The meetings whose bots are to leave; none if all were over.
    pub(crate) meeting_ids: Vec<i64>,
    /// The state of the latest of them. It changes when the bot says so, or is proven gone.
    #[schema(example = "active")]
    pub(crate) state: String,
}

/// A wish to transcribe something else, as it was taken.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BotReconfiguration)]
pub(crate) struct ConfigView {
    pub(crate) message: &'static str,
    #[schema(example = 7)]
    meeting_id: i64,
    #[schema(example = "active")]
    state: &'static str,
    /// Grows with every wish; the bot applies the highest.
    #[schema(example = 2)]
    config_version: u32,
    config: BotConfigView,
}

/// What a bot is to transcribe.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BotConfig)]
pub(crate) struct BotConfigView {
    /// `null`: the bot finds out.
    #[schema(example = "en")]
    pub(crate) language: Option<String>,
    #[schema(example = "transcribe")]
    pub(crate) task: Option<String>,
}

/// A page of live bots, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ActiveBots)]
pub(crate) struct ActiveBotsView {
    bots: Vec<ActiveBotView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// A live bot: its meeting, and what is wanted and known of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ActiveBot)]
struct ActiveBotView {
    #[serde(flatten)]
    #[schema(value_type = MeetingShape)]
    meeting: Value,
    /// Somebody asked for it to leave.
    stop_wanted: bool,
    /// What is wanted.
    config_version: u32,
    /// What the bot says it has applied.
    config_applied: u32,
    /// When it was last heard.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_heartbeat: Option<Timestamp>,
}

/// The live bots, in the shape that clients of the Vexa API know.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BotStatuses)]
pub(crate) struct BotStatusesView {
    running_bots: Vec<BotStatusView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// One live bot.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BotStatus)]
struct BotStatusView {
    container_id: Option<String>,
    container_name: Option<String>,
    #[schema(example = "google_meet")]
    platform: String,
    #[schema(example = "abc-defg-hij")]
    native_meeting_id: Option<String>,
    /// In Vexa's words.
    #[schema(example = "active")]
    status: &'static str,
    /// Requested, Starting, Up, Stopping, Exited or Failed.
    #[schema(example = "Up")]
    normalized_status: &'static str,
    #[schema(example = "2026-01-31T12:00:00.000000")]
    created_at: String,
    #[schema(value_type = Object)]
    labels: Map<String, Value>,
    #[schema(example = "7")]
    meeting_id_from_name: String,
    #[schema(example = 7)]
    meeting_id: i64,
    #[schema(example = "active")]
    meeting_status: &'static str,
    /// In ours.
    #[schema(example = "active")]
    state: String,
    start_time: Option<String>,
}

impl TryFrom<StartBody> for StartWish {
    type Error = Problem;

    fn try_from(body: StartBody) -> Result<Self, Problem> {
        let (Some(platform), Some(native_meeting_id)) = (&body.platform, &body.native_meeting_id)
        else {
            let missing = [
                ("platform", body.platform.is_none()),
                ("native_meeting_id", body.native_meeting_id.is_none()),
            ];
            let missing = missing.iter().filter(|(_, is_missing)| *is_missing);
            let errors = missing.map(|(field, _)| FieldError::new(*field, FIELD_REQUIRED));
            return Err(Problem::invalid(errors.collect()));
        };
        if Platform::parse_attended(platform).is_err() {
            return Err(Problem::field("platform", NO_BOT_PLATFORM));
        }
        let leave = body.automatic_leave.unwrap_or_default();
        Ok(StartWish {
            platform: platform.clone(),
            native_meeting_id: native_meeting_id.clone(),
            bot_name: body.bot_name,
            language: body.language,
            task: body.task,
            passcode: body.passcode,
            meeting_url: body.meeting_url,
            waiting_room_timeout_ms: leave.max_wait_for_admission,
            no_one_joined_timeout_ms: leave.no_one_joined_timeout,
            everyone_left_timeout_ms: leave.max_time_left_alone,
        })
    }
}

impl TryFrom<StopBody> for BotTarget {
    type Error = Problem;

    fn try_from(body: StopBody) -> Result<Self, Problem> {
        let StopBody { meeting_id, platform, native_meeting_id } = body;
        match (meeting_id, platform, native_meeting_id) {
            (Some(id), None, None) => Ok(BotTarget::Meeting(MeetingId::new(id))),
            (None, Some(platform), Some(native_id)) => {
                let platform = Platform::parse_attended(&platform)
                    .map_err(|_| Problem::field("platform", NO_BOT_PLATFORM))?;
                Ok(BotTarget::Address { platform, native_id })
            }
            _ => {
                let words = "send meeting_id, or platform and native_meeting_id";
                Err(Problem::field("meeting_id", words))
            }
        }
    }
}

impl TargetConfigBody {
    pub(crate) fn check(self) -> Result<(BotTarget, ConfigChange), Problem> {
        let TargetConfigBody { meeting_id, platform, native_meeting_id, language, task } = self;
        let target = StopBody { meeting_id, platform, native_meeting_id }.try_into()?;
        if language.is_none() && task.is_none() {
            return Err(Problem::field("language", "send language, task or both"));
        }
        Ok((target, ConfigChange { language, task, only_active: false }))
    }
}

impl From<ConfigBody> for ConfigChange {
    fn from(ConfigBody { language, task }: ConfigBody) -> Self {
        ConfigChange { language, task, only_active: true }
    }
}

impl StopView {
    pub(crate) fn wished(message: &str, records: &[BotRecord]) -> Self {
        let latest = records.iter().max_by_key(|record| record.meeting.id);
        StopView {
            message: message.to_owned(),
            meeting_ids: records.iter().map(|record| record.meeting.id.get()).collect(),
            state: latest.map_or("", |record| record.status.as_str()).to_owned(),
        }
    }

    pub(crate) fn over(row: &MeetingRow) -> Self {
        let message = format!("Meeting already {}.", vexa_status(row));
        StopView { message, meeting_ids: Vec::new(), state: state_word(row) }
    }
}

impl ConfigView {
    pub(crate) fn new(message: &'static str, record: &BotRecord) -> Self {
        let config = &record.bot.config;
        ConfigView {
            message,
            meeting_id: record.meeting.id.get(),
            state: record.status.as_str(),
            config_version: config.version,
            config: BotConfigView { language: config.language.clone(), task: config.task.clone() },
        }
    }
}

impl ActiveBotsView {
    pub(crate) fn new(rows: &[MeetingRow], rows_max: u32) -> Self {
        let ids = rows.iter().map(|row| row.meeting.id.get());
        ActiveBotsView {
            next_before: next_before(ids, rows_max),
            bots: rows.iter().map(Into::into).collect(),
        }
    }
}

impl From<&MeetingRow> for ActiveBotView {
    fn from(row: &MeetingRow) -> Self {
        let bot = row.bot.as_ref();
        ActiveBotView {
            meeting: meeting_view(row),
            stop_wanted: bot.is_some_and(|bot| bot.stop.is_some()),
            config_version: bot.map_or(0, |bot| bot.config.version),
            config_applied: bot.map_or(0, |bot| bot.config.applied),
            last_heartbeat: bot.and_then(|bot| bot.heartbeat_at),
        }
    }
}

impl BotStatusesView {
    pub(crate) fn new(rows: &[MeetingRow], rows_max: u32) -> Self {
        let ids = rows.iter().map(|row| row.meeting.id.get());
        BotStatusesView {
            next_before: next_before(ids, rows_max),
            running_bots: rows.iter().map(Into::into).collect(),
        }
    }
}

impl From<&MeetingRow> for BotStatusView {
    fn from(row: &MeetingRow) -> Self {
        let meeting = &row.meeting;
        let normalized_status = match meeting.bot_status() {
            Ok(BotStatus::Reserved) => "Requested",
            Ok(BotStatus::Starting) => "Starting",
            Ok(BotStatus::Active) => "Up",
            Ok(BotStatus::Stopping) => "Stopping",
            Ok(BotStatus::Failed) => "Failed",
            Ok(BotStatus::Completed) | Err(_) => "Exited",
        };
        BotStatusView {
            container_id: meeting.container_id.clone(),
            container_name: meeting.container_id.clone(),
            platform: meeting.platform.clone(),
            native_meeting_id: meeting.native_id.clone(),
            status: vexa_status(row),
            normalized_status,
            created_at: meeting.created_at.naive(),
            labels: Map::new(),
            meeting_id_from_name: meeting.id.to_string(),
            meeting_id: meeting.id.get(),
            meeting_status: vexa_status(row),
            state: state_word(row),
            start_time: meeting.start_time.map(Timestamp::naive),
        }
    }
}
