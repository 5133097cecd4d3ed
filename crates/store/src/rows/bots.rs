//! Meetings and bots between rows and the types of `roundsman_core`, and the small decisions about
//! them that both adapters must make alike.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::{
    Bot, BotConfig, BotEvent, BotRecord, BotStatus, BotWish, ConnectionId, ExitReport, Meeting,
    MeetingId, Source, Stage, StopWish, WorkloadId,
};
use roundsman_core::effects::{Effects, Transition, Violation};
use roundsman_core::jobs::Json;
use roundsman_core::ports::{
    BeatAnswer, EventAnswer, ReserveAnswer, Seen, SpokenSummary, StoreError,
};
use serde_json::{Map, Value};

use super::check::{LOG_MATCHES_STATE, ROW_CONSISTENT, violation};
use super::inconsistent;

pub(crate) const MEETINGS: &str = "meetings";
pub(crate) const BOTS: &str = "bots";
/// The entity under which meetings are logged.
pub(crate) const MEETING_ENTITY: &str = "meeting";

/// The words of `meetings.status` whose bot is live, ours and Vexa's, as a list for SQL.
macro_rules! live_statuses {
    () => {
        "('reserved', 'starting', 'active', 'stopping', 'requested', 'joining', \
         'awaiting_admission')"
    };
}
pub(crate) use live_statuses;

/// What a meeting's data keeps when it is anonymised.
const KEPT_WHEN_ANONYMOUS: [&str; 4] =
    ["status_transition", "completion_reason", "error", "diagnostics"];
/// Says in a meeting's data that it was anonymised.
const REDACTED: &str = "redacted";
/// The reason that is kept when the runtime has lost a bot and nobody knows how it ended.
const WORKLOAD_GONE: &str = "workload_gone";

/// A row of `bots`. Whether it is live follows from its meeting's status and is not read back.
#[derive(Debug)]
pub(crate) struct BotColumns {
    pub(crate) meeting_id: i64,
    pub(crate) connection_id: String,
    pub(crate) attempt: i64,
    pub(crate) stage: Option<String>,
    pub(crate) was_active: bool,
    pub(crate) beats: bool,
    pub(crate) reserved_at: Timestamp,
    pub(crate) entered_at: Timestamp,
    pub(crate) heartbeat_at: Option<Timestamp>,
    pub(crate) seen_at: Option<Timestamp>,
    pub(crate) missed: i64,
    pub(crate) media_progress: Option<i64>,
    pub(crate) media_at: Option<Timestamp>,
    pub(crate) stop_wanted_at: Option<Timestamp>,
    pub(crate) stop_wanted_by: Option<String>,
    pub(crate) config: ConfigColumns,
    pub(crate) wish: String,
    pub(crate) completion_reason: Option<String>,
    pub(crate) failure_stage: Option<String>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) end_reason: Option<String>,
    pub(crate) finished_at: Option<Timestamp>,
}

/// The columns of `bots` that say what it is to transcribe.
#[derive(Debug)]
pub(crate) struct ConfigColumns {
    pub(crate) version: i64,
    pub(crate) applied: i64,
    pub(crate) language: Option<String>,
    pub(crate) task: Option<String>,
}

impl BotColumns {
    pub(crate) fn into_bot(self) -> Result<Bot, StoreError> {
        let row = self.meeting_id;
        let stage = stage_from_text(self.stage.as_deref(), row)?;
        let stop = self
            .stop_wanted_at
            .map(|at| StopWish { at, by: self.stop_wanted_by.unwrap_or_default() });
        Ok(Bot {
            connection_id: ConnectionId::from_stored(self.connection_id),
            attempt: count("attempt", row, self.attempt)?,
            stage,
            was_active: self.was_active,
            beats: self.beats,
            reserved_at: self.reserved_at,
            entered_at: self.entered_at,
            heartbeat_at: self.heartbeat_at,
            seen_at: self.seen_at,
            missed: count("missed", row, self.missed)?,
            media_progress: self.media_progress,
            media_at: self.media_at,
            stop,
            config: self.config.into_config(row)?,
            wish: wish_from_text(&self.wish, row)?,
            completion_reason: self.completion_reason,
            failure_stage: self.failure_stage,
            exit_code: self.exit_code,
            end_reason: self.end_reason,
            finished_at: self.finished_at,
        })
    }
}

impl ConfigColumns {
    pub(crate) fn into_config(self, row: i64) -> Result<BotConfig, StoreError> {
        Ok(BotConfig {
            version: count("config_version", row, self.version)?,
            language: self.language,
            task: self.task,
            applied: count("config_applied", row, self.applied)?,
        })
    }
}

/// A meeting with its bot. Only a meeting whose status is a bot's can have one.
pub(crate) fn bot_record(meeting: Meeting, bot: Bot) -> Result<BotRecord, StoreError> {
    let (row, status) = (meeting.id.get(), meeting.status.clone());
    BotRecord::new(meeting, bot)
        .map_err(|error| inconsistent(MEETINGS, "status", row, format!("{status:?}: {error}")))
}

/// A word of `meetings.status`.
pub(crate) fn status_from_text(text: &str, row: i64) -> Result<BotStatus, StoreError> {
    BotStatus::parse(text)
        .map_err(|error| inconsistent(MEETINGS, "status", row, format!("{text:?}: {error}")))
}

/// A word of `bots.stage`, if there is one.
pub(crate) fn stage_from_text(text: Option<&str>, row: i64) -> Result<Option<Stage>, StoreError> {
    let stage = text.map(Stage::parse).transpose();
    stage.map_err(|error| inconsistent(BOTS, "stage", row, error.to_string()))
}

/// Every word that `meetings.status` may have for this status.
pub(crate) fn status_words(status: BotStatus) -> &'static [&'static str] {
    match status {
        BotStatus::Reserved => &["reserved", "requested"],
        BotStatus::Starting => &["starting", "joining", "awaiting_admission"],
        BotStatus::Active => &["active"],
        BotStatus::Stopping => &["stopping"],
        BotStatus::Completed => &["completed"],
        BotStatus::Failed => &["failed", "error"],
    }
}

pub(crate) fn wish_to_text(wish: &BotWish) -> String {
    serde_json::to_string(wish).expect("a wish is plain data and always serialises")
}

pub(crate) fn wish_from_text(text: &str, row: i64) -> Result<BotWish, StoreError> {
    serde_json::from_str(text).map_err(|error| inconsistent(BOTS, "wish", row, error.to_string()))
}

/// Why a bot cannot be reserved, if so. That the user is in this meeting already is said first:
/// who asks once more for what they have is not told that they have too much.
pub(crate) fn refused_reservation(
    live: u32,
    max: i32,
    in_same_meeting: Option<MeetingId>,
) -> Option<ReserveAnswer> {
    if let Some(meeting) = in_same_meeting {
        return Some(ReserveAnswer::AlreadyLive { meeting });
    }
    let full = i64::from(live) >= i64::from(max);
    full.then_some(ReserveAnswer::LimitReached { live, max })
}

/// Why somebody who speaks for a bot is not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotHeard {
    /// The connection is not the bot's.
    Stranger,
    /// The attempt is not the current one.
    Superseded,
}

impl NotHeard {
    pub(crate) fn of_event(self) -> EventAnswer {
        match self {
            NotHeard::Stranger => EventAnswer::NoSuchBot,
            NotHeard::Superseded => EventAnswer::Superseded,
        }
    }

    pub(crate) fn of_beat(self) -> BeatAnswer {
        match self {
            NotHeard::Stranger => BeatAnswer::NoSuchBot,
            NotHeard::Superseded => BeatAnswer::Superseded,
        }
    }
}

/// Whether whoever speaks as `workload` (and `connection`) is this bot. A stranger learns nothing
/// of the bot, not even that it was launched again.
pub(crate) fn speaks_for(
    bot: &Bot,
    workload: WorkloadId,
    connection: Option<&ConnectionId>,
) -> Result<(), NotHeard> {
    if connection.is_some_and(|connection| *connection != bot.connection_id) {
        return Err(NotHeard::Stranger);
    }
    if workload.attempt == bot.attempt { Ok(()) } else { Err(NotHeard::Superseded) }
}

/// The bot at the beginning of its next attempt: whatever the earlier one said is forgotten.
pub(crate) fn begin_next_attempt(record: &mut BotRecord) {
    // The earlier workload is no longer the bot's: until the next one is launched it has none.
    record.meeting.container_id = None;
    let bot = &mut record.bot;
    bot.attempt = bot.attempt.saturating_add(1);
    bot.beats = false;
    bot.heartbeat_at = None;
    bot.seen_at = None;
    bot.missed = 0;
    bot.media_progress = None;
    bot.media_at = None;
    bot.config.applied = 0;
}

/// What happened to a bot that its launcher has not seen running often enough.
pub(crate) fn event_of_gone(seen: Seen) -> BotEvent {
    match seen {
        Seen::Exited { exit_code: Some(code) } => {
            BotEvent::Exited(ExitReport { exit_code: Some(code), ..ExitReport::default() })
        }
        Seen::Exited { exit_code: None } | Seen::Absent | Seen::Running => {
            BotEvent::Absent { reason: WORKLOAD_GONE.to_owned() }
        }
    }
}

/// The bot of a live meeting that had none, and the beginning of its log. It counts as having come
/// into its state now, so that it gets a full timeout to be heard.
pub(crate) fn adopt(
    meeting: Meeting,
    session_uid: Option<String>,
    now: Timestamp,
) -> Result<(BotRecord, Effects), StoreError> {
    let status = status_from_text(&meeting.status, meeting.id.get())?;
    let connection = session_uid.unwrap_or_else(|| adopted_connection(meeting.id));
    let data = meeting.data.to_value();
    let passcode = data.get("passcode").and_then(Value::as_str).map(ToOwned::to_owned);
    let bot = Bot {
        connection_id: ConnectionId::from_stored(connection),
        attempt: 1,
        stage: Stage::parse(&meeting.status).ok(),
        was_active: match status {
            BotStatus::Active => true,
            BotStatus::Stopping => meeting.start_time.is_some(),
            _ => false,
        },
        beats: false,
        reserved_at: meeting.created_at,
        entered_at: now,
        heartbeat_at: None,
        seen_at: None,
        missed: 0,
        media_progress: None,
        media_at: None,
        stop: None,
        config: BotConfig::default(),
        wish: BotWish { passcode, ..BotWish::default() },
        completion_reason: None,
        failure_stage: None,
        exit_code: None,
        end_reason: None,
        finished_at: None,
    };
    let beginning = Transition {
        entity: MEETING_ENTITY,
        entity_id: meeting.id.get(),
        from_state: None,
        to_state: status.as_str().to_owned(),
        cause: Source::Adopted.as_str().to_owned(),
        detail: None,
    };
    let effects = Effects { transitions: vec![beginning], ..Effects::default() };
    Ok((bot_record(meeting, bot)?, effects))
}

/// The name of a bot whose meeting never had a session, or one with a name that is taken.
pub(crate) fn adopted_connection(meeting: MeetingId) -> String {
    format!("adopted-{meeting}")
}

/// The data of a meeting after members were merged into it.
pub(crate) fn merged_data(data: &Json, members: Map<String, Value>) -> Json {
    let mut all = object(data);
    all.extend(members);
    Json::from_stored(Value::Object(all).to_string())
}

/// Whether the meeting was anonymised before.
pub(crate) fn is_anonymous(data: &Json) -> bool {
    object(data).get(REDACTED) == Some(&Value::Bool(true))
}

/// What a meeting's data keeps when it is anonymised.
pub(crate) fn anonymous_data(data: &Json) -> Json {
    let mut all = object(data);
    all.retain(|name, _| KEPT_WHEN_ANONYMOUS.contains(&name.as_str()));
    all.insert(REDACTED.to_owned(), Value::Bool(true));
    Json::from_stored(Value::Object(all).to_string())
}

/// What one speaker said in one language.
#[derive(Debug)]
pub(crate) struct SpokenGroup {
    pub(crate) speaker: Option<String>,
    pub(crate) language: Option<String>,
    pub(crate) segments: i64,
    /// Seconds.
    pub(crate) spoken_secs: f64,
}

/// What was said in a meeting, in short. Sorted here, because databases sort by their own rules.
pub(crate) fn summarise(groups: Vec<SpokenGroup>) -> SpokenSummary {
    let (mut speakers, mut languages) = (BTreeSet::new(), BTreeSet::new());
    let mut summary = SpokenSummary::default();
    for group in groups {
        summary.segments += u64::try_from(group.segments).unwrap_or(0);
        summary.spoken_secs += group.spoken_secs;
        speakers.extend(group.speaker.filter(|name| !name.is_empty()));
        languages.extend(group.language.filter(|name| !name.is_empty()));
    }
    summary.speakers = speakers.into_iter().collect();
    summary.languages = languages.into_iter().collect();
    summary
}

/// What `check` looks at of a bot.
#[derive(Debug)]
pub(crate) struct BotFacts {
    pub(crate) meeting_id: i64,
    /// The meeting's; `None` if the bot has no meeting.
    pub(crate) status: Option<String>,
    pub(crate) live: bool,
    pub(crate) ended: bool,
}

/// Compares the bots with the states that their meetings' logs lead to, and the columns that
/// follow from the status with it.
pub(crate) fn check_bots(
    bots: &[BotFacts],
    logged: &BTreeMap<(String, i64), String>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for bot in bots {
        let subject = format!("{MEETING_ENTITY} {}", bot.meeting_id);
        let status = match bot.status.as_deref().map(BotStatus::parse) {
            Some(Ok(status)) => status,
            Some(Err(error)) => {
                violations.push(violation(ROW_CONSISTENT, subject, error.to_string()));
                continue;
            }
            None => {
                violations.push(violation(ROW_CONSISTENT, subject, "there is only a bot"));
                continue;
            }
        };
        if bot.live == status.is_over() || bot.ended != status.is_over() {
            let explanation =
                format!("is {}, live: {}, has an end: {}", status.as_str(), bot.live, bot.ended);
            violations.push(violation(ROW_CONSISTENT, subject.clone(), explanation));
        }
        let from_log = logged.get(&(MEETING_ENTITY.to_owned(), bot.meeting_id));
        if from_log.map(String::as_str) != Some(status.as_str()) {
            let from_log = from_log.map_or("nothing", String::as_str);
            let explanation = format!("the row says {}, the log {from_log}", status.as_str());
            violations.push(violation(LOG_MATCHES_STATE, subject, explanation));
        }
    }
    violations
}

fn count(column: &'static str, row: i64, value: i64) -> Result<u32, StoreError> {
    u32::try_from(value)
        .map_err(|_| inconsistent(BOTS, column, row, format!("{value} is no count")))
}

/// The members of a row's data. What is no object has none: nothing in it could be kept.
fn object(data: &Json) -> Map<String, Value> {
    match data.to_value() {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_live_bots_are_those_of_the_states_that_do_not_end() {
        for status in BotStatus::ALL {
            for word in status_words(status) {
                assert_eq!(BotStatus::parse(word), Ok(status));
                let listed = live_statuses!().contains(&format!("'{word}'"));
                assert_eq!(listed, !status.is_over(), "{word}");
            }
        }
    }

    #[test]
    fn a_reservation_is_refused_at_the_limit_and_in_the_same_meeting() {
        let cases = [(0, 1, true), (1, 1, false), (2, 1, false), (0, 0, false), (0, -1, false)];
        for (live, max, free) in cases {
            assert_eq!(refused_reservation(live, max, None).is_none(), free, "{live} of {max}");
        }
        let same = Some(MeetingId::new(7));
        let answer = refused_reservation(1, 1, same);
        assert_eq!(answer, Some(ReserveAnswer::AlreadyLive { meeting: MeetingId::new(7) }));
    }

    #[test]
    fn an_anonymous_meeting_keeps_only_how_it_ended() {
        let data = Json::from_stored(r#"{"name":"x","error":1,"status_transition":[]}"#.to_owned());
        assert!(!is_anonymous(&data));
        let kept = anonymous_data(&data);
        assert!(is_anonymous(&kept));
        let expected = serde_json::json!({"error": 1, "status_transition": [], "redacted": true});
        assert_eq!(kept.to_value(), expected);
    }

    #[test]
    fn what_was_said_is_summed_up_in_order() {
        let group = |speaker: Option<&str>, language: &str| SpokenGroup {
            speaker: speaker.map(ToOwned::to_owned),
            language: Some(language.to_owned()),
            segments: 2,
            spoken_secs: 1.5,
        };
        let groups = vec![group(Some("Zoe"), "en"), group(Some("ada"), "de"), group(None, "")];
        let summary = summarise(groups);
        assert_eq!(summary.speakers, ["Zoe", "ada"]);
        assert_eq!(summary.languages, ["de", "en"]);
        assert_eq!(summary.segments, 6);
        assert!((summary.spoken_secs - 4.5).abs() < 1e-9);
    }

    #[test]
    fn a_bot_whose_row_and_log_disagree_is_found() {
        let facts = |id: i64, status: &str, live: bool, ended: bool| BotFacts {
            meeting_id: id,
            status: Some(status.to_owned()),
            live,
            ended,
        };
        let logged = |id: i64, state: &str| ((MEETING_ENTITY.to_owned(), id), state.to_owned());
        let log = BTreeMap::from([logged(1, "starting"), logged(2, "failed"), logged(3, "active")]);
        let bots = [
            facts(1, "joining", true, false),
            facts(2, "failed", true, true),
            facts(3, "completed", false, true),
            facts(4, "open", true, false),
        ];
        let found = check_bots(&bots, &log);
        let rules: Vec<_> = found.iter().map(|one| (one.rule, one.subject.as_str())).collect();
        let expected = [
            (ROW_CONSISTENT, "meeting 2"),
            (LOG_MATCHES_STATE, "meeting 3"),
            (ROW_CONSISTENT, "meeting 4"),
        ];
        assert_eq!(rules, expected);
    }
}
