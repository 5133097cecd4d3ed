//! What an event makes of a bot's rows, and what must be written with them.
//!
//! Invariant: this is the only place that changes a status. A store reads the rows under a lock,
//! asks here, and writes what it is told, all in one transaction.

use serde_json::{Map, Value, json};

use super::wire::{meeting_body, status_frame};
use super::{BotEvent, BotRecord, BotStatus, BotStep, Refused, Stage, on_event};
use crate::Timestamp;
use crate::effects::{Effects, NewFrame, Transition};
use crate::jobs::{JobKey, Json, KindName, NewJob};
use crate::users::UserId;
use crate::webhooks::{WebhookEvent, event_id};

/// The kind that launches, stops and clears away bots; its key is the meeting's number.
pub const SUPERVISE_KIND: &str = "bots.supervise";
/// The kind that does the work after a meeting; its key is the meeting's number.
pub const FINISH_KIND: &str = "bots.finish";
/// Begins the name of the stream that carries a meeting's frames.
const STREAM_PREFIX: &str = "meeting:";
/// A meeting's data keeps at most this many of its latest steps for Vexa's clients; the log of
/// transitions has them all.
const STATUS_STEPS_KEPT_MAX: usize = 32;

/// Who says what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A call that asked for a bot.
    User,
    Callback,
    Sweeper,
    /// The job that launches and stops, with proof that no bot exists.
    Supervisor,
    /// It was in the database before Roundsman was.
    Adopted,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Source::User => "user",
            Source::Callback => "callback",
            Source::Sweeper => "sweeper",
            Source::Supervisor => "supervisor",
            Source::Adopted => "adopted",
        }
    }

    /// In the words of Vexa's clients.
    fn as_vexa(self) -> &'static str {
        match self {
            Source::User => "user",
            Source::Callback => "bot_callback",
            Source::Sweeper | Source::Supervisor | Source::Adopted => "system",
        }
    }
}

/// What an event comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The rows as they are to be written.
    pub record: BotRecord,
    pub effects: Effects,
    /// The bot's session begins with this: a row of `meeting_sessions` is due.
    pub begins_session: bool,
    /// Whether anything is different at all.
    pub changed: bool,
}

/// What follows from `event` for these rows.
pub fn change(
    record: BotRecord,
    event: BotEvent,
    source: Source,
    now: Timestamp,
) -> Result<Change, Refused> {
    let step = on_event(record.state(), event)?;
    let changed = !step.path.is_empty() || step.stage != record.bot.stage;
    if !changed {
        let effects = Effects::default();
        return Ok(Change { record, effects, begins_session: false, changed: false });
    }
    let begins_session = step.path.contains(&BotStatus::Starting);
    let mut effects = Effects::default();
    let mut record = record;
    if step.path.is_empty() {
        take_stage(&mut record, step.stage, source, &mut effects, now);
    }
    for status in step.path.clone() {
        take_step(&mut record, status, &step, source, &mut effects, now);
    }
    record.meeting.updated_at = now;
    if record.status.is_over() {
        effects.jobs.push(supervise_wish(&record, now));
        effects.jobs.push(wish(FINISH_KIND, &record, now));
    }
    Ok(Change { record, effects, begins_session, changed: true })
}

/// What a reservation brings with it.
pub fn reservation_effects(record: &BotRecord, now: Timestamp) -> Effects {
    let transition = Transition {
        entity: "meeting",
        entity_id: record.meeting.id.get(),
        from_state: None,
        to_state: record.status.as_str().to_owned(),
        cause: Source::User.as_str().to_owned(),
        detail: None,
    };
    let mut effects = Effects {
        jobs: vec![supervise_wish(record, now)],
        frames: vec![frame(record, now)],
        transitions: vec![transition],
        ..Effects::default()
    };
    tell(record, None, None, Source::User, &mut effects, now);
    effects
}

/// The wish that somebody looks after a bot: launches it, stops it, clears it away.
pub fn supervise_wish(record: &BotRecord, now: Timestamp) -> NewJob {
    wish(SUPERVISE_KIND, record, now)
}

/// The stream of a meeting's frames.
pub fn stream_of(id: super::MeetingId) -> String {
    format!("{STREAM_PREFIX}{id}")
}

/// Owned by the system, so that a user cannot cancel what keeps a promise to them.
fn wish(kind: &str, record: &BotRecord, now: Timestamp) -> NewJob {
    NewJob {
        user_id: UserId::SYSTEM,
        kind: KindName::new(kind).expect("a built-in kind has a valid name"),
        key: JobKey::new(&record.meeting.id.to_string()).ok(),
        payload: Json::null(),
        priority: 0,
        run_at: now,
        max_attempts: None,
        tenant: None,
    }
}

/// The bot came further within `starting`: no new status, but Vexa's clients see one.
fn take_stage(
    record: &mut BotRecord,
    stage: Option<Stage>,
    source: Source,
    effects: &mut Effects,
    now: Timestamp,
) {
    let from = record.vexa_status();
    record.bot.stage = stage;
    // Whoever is starting is at the door already in Vexa's words: nothing new to tell.
    if record.vexa_status() == from {
        return;
    }
    remember_step(record, from, None, source, now);
    effects.frames.push(frame(record, now));
    tell(record, Some(from), None, source, effects, now);
}

fn take_step(
    record: &mut BotRecord,
    to: BotStatus,
    step: &BotStep,
    source: Source,
    effects: &mut Effects,
    now: Timestamp,
) {
    let (from, from_vexa) = (record.status, record.vexa_status());
    record.status = to;
    to.as_str().clone_into(&mut record.meeting.status);
    record.bot.entered_at = now;
    record.bot.stage = step.stage.filter(|_| to == BotStatus::Starting);
    record.bot.was_active |= to == BotStatus::Active;
    if to == BotStatus::Starting && record.meeting.start_time.is_none() {
        record.meeting.start_time = Some(now);
    }
    let ending = step.ending.as_ref().filter(|_| to.is_over());
    if let Some(ending) = ending {
        record.meeting.end_time = Some(now);
        record.bot.completion_reason.clone_from(&ending.completion_reason);
        record.bot.failure_stage = ending.failure_stage.map(ToOwned::to_owned);
        record.bot.exit_code = ending.exit_code;
        record.bot.end_reason = Some(ending.reason.clone());
    }
    let reason = ending.map(|ending| ending.reason.as_str());
    effects.transitions.push(Transition {
        entity: "meeting",
        entity_id: record.meeting.id.get(),
        from_state: Some(from.as_str().to_owned()),
        to_state: to.as_str().to_owned(),
        cause: source.as_str().to_owned(),
        detail: detail(record, reason),
    });
    remember_step(record, from_vexa, reason, source, now);
    if let Some(ending) = ending {
        remember_ending(record, ending.error_details.as_deref(), now);
    }
    effects.frames.push(frame(record, now));
    tell(record, Some(from_vexa), reason, source, effects, now);
}

/// What a person would want to know of this step later.
fn detail(record: &BotRecord, reason: Option<&str>) -> Option<Json> {
    let mut members = Map::new();
    members.insert("attempt".to_owned(), json!(record.bot.attempt));
    if let Some(reason) = reason {
        members.insert("reason".to_owned(), json!(reason));
    }
    if record.status.is_over() {
        members.insert("exit_code".to_owned(), json!(record.bot.exit_code));
        members.insert("completion_reason".to_owned(), json!(record.bot.completion_reason));
        members.insert("failure_stage".to_owned(), json!(record.bot.failure_stage));
    }
    Json::from_value(&Value::Object(members)).ok()
}

fn frame(record: &BotRecord, now: Timestamp) -> NewFrame {
    let body = Json::from_stored(status_frame(record, now).to_string());
    NewFrame { stream: stream_of(record.meeting.id), body }
}

/// Tells the user's endpoint of a status, if they have one.
fn tell(
    record: &BotRecord,
    from: Option<&str>,
    reason: Option<&str>,
    source: Source,
    effects: &mut Effects,
    now: Timestamp,
) {
    let to = record.vexa_status();
    let id = event_id(&[record.bot.connection_id.as_str(), "meeting.status_change", to]);
    let status_change = json!({
        "from": from,
        "to": to,
        "state": record.status.as_str(),
        "reason": reason,
        "timestamp": now.naive(),
        "transition_source": source.as_vexa(),
    });
    let meeting = meeting_body(&record.meeting, Some(&record.bot));
    let data = json!({ "meeting": meeting, "status_change": status_change });
    WebhookEvent::new(record.meeting.user_id, id, "meeting.status_change", data, now)
        .add_to(effects, now);
}

/// Vexa keeps a meeting's steps in its data, where its clients look for them.
fn remember_step(
    record: &mut BotRecord,
    from: &str,
    reason: Option<&str>,
    source: Source,
    now: Timestamp,
) {
    let mut entry = json!({
        "from": from,
        "to": record.vexa_status(),
        "state": record.status.as_str(),
        "timestamp": now.naive(),
        "source": source.as_vexa(),
    });
    if let Some(reason) = reason {
        entry["reason"] = json!(reason);
    }
    if record.status.is_over() {
        entry["completion_reason"] = json!(record.bot.completion_reason);
        entry["failure_stage"] = json!(record.bot.failure_stage);
    }
    edit_data(record, |data| {
        let steps = data.entry("status_transition").or_insert_with(|| json!([]));
        if !steps.is_array() {
            *steps = json!([]);
        }
        if let Some(steps) = steps.as_array_mut() {
            steps.push(entry);
            let surplus = steps.len().saturating_sub(STATUS_STEPS_KEPT_MAX);
            steps.drain(..surplus);
        }
    });
}

fn remember_ending(record: &mut BotRecord, error_details: Option<&str>, now: Timestamp) {
    let bot = record.bot.clone();
    let failed = record.status == BotStatus::Failed;
    let details = error_details.map(|text| {
        serde_json::from_str::<Value>(text).unwrap_or_else(|_| Value::String(text.to_owned()))
    });
    edit_data(record, |data| {
        if let Some(reason) = &bot.completion_reason {
            data.insert("completion_reason".to_owned(), json!(reason));
        }
        if let Some(stage) = &bot.failure_stage {
            data.insert("failure_stage".to_owned(), json!(stage));
        }
        if failed {
            let error = json!({
                "exit_code": bot.exit_code,
                "reason": bot.end_reason,
                "timestamp": now.naive(),
                "error_details": details,
            });
            data.insert("last_error".to_owned(), error);
        }
    });
}

/// Changes the meeting's data. A row that somebody made into something else than an object starts
/// anew: there is nothing in it that could be kept.
fn edit_data(record: &mut BotRecord, edit: impl FnOnce(&mut Map<String, Value>)) {
    let mut data = match record.meeting.data.to_value() {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    edit(&mut data);
    record.meeting.data = Json::from_stored(Value::Object(data).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bots::{BotWish, ConnectionId, ExitReport, MeetingId, NewBot, Platform};

    fn reserved() -> BotRecord {
        NewBot {
            user_id: UserId::new(3),
            platform: Platform::GoogleMeet,
            native_id: "abc-defg-hij".to_owned(),
            connection_id: ConnectionId::from_stored("c-1".to_owned()),
            language: None,
            task: None,
            wish: BotWish::default(),
        }
        .record(MeetingId::new(7), Timestamp::EPOCH)
    }

    fn after(events: &[BotEvent]) -> (BotRecord, Effects) {
        let mut record = reserved();
        let mut effects = reservation_effects(&record, Timestamp::EPOCH);
        for (event, second) in events.iter().zip(1i64..) {
            let now = Timestamp::from_micros(second * 1_000_000);
            let change = change(record, event.clone(), Source::Callback, now).unwrap();
            record = change.record;
            effects.jobs.extend(change.effects.jobs);
            effects.frames.extend(change.effects.frames);
            effects.transitions.extend(change.effects.transitions);
            effects.webhooks.extend(change.effects.webhooks);
        }
        (record, effects)
    }

    fn exit(code: i32) -> BotEvent {
        BotEvent::Exited(ExitReport { exit_code: Some(code), ..ExitReport::default() })
    }

    #[test]
    fn a_whole_life_is_logged_told_and_ended_once() {
        let life = [
            BotEvent::Started,
            BotEvent::AtStage(Stage::AwaitingAdmission),
            BotEvent::Joined,
            BotEvent::Leaving,
            exit(0),
        ];
        let (record, effects) = after(&life);
        assert_eq!(record.status, BotStatus::Completed);
        assert_eq!(record.meeting.start_time, Some(Timestamp::from_micros(1_000_000)));
        assert_eq!(record.meeting.end_time, Some(Timestamp::from_micros(5_000_000)));
        let states: Vec<&str> =
            effects.transitions.iter().map(|step| step.to_state.as_str()).collect();
        assert_eq!(states, ["reserved", "starting", "active", "stopping", "completed"]);
        let told: Vec<Value> = effects
            .webhooks
            .iter()
            .map(|event| event.body.to_value()["status_change"]["to"].clone())
            .collect();
        let words =
            ["requested", "joining", "awaiting_admission", "active", "stopping", "completed"];
        assert_eq!(told, words);
        assert_eq!(effects.frames.len(), words.len());
        let finishing = effects.jobs.iter().filter(|job| job.kind.as_str() == FINISH_KIND);
        assert_eq!(finishing.count(), 1);
    }

    #[test]
    fn every_event_of_a_life_has_an_id_of_its_own() {
        let life = [BotEvent::Started, BotEvent::Joined, BotEvent::Leaving, exit(0)];
        let (_, effects) = after(&life);
        let mut ids: Vec<&str> = effects.webhooks.iter().map(|event| &*event.event_id).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }

    #[test]
    fn the_end_is_kept_where_vexas_clients_look() {
        let (record, _) = after(&[BotEvent::Started, BotEvent::Joined, exit(137)]);
        let data = record.meeting.data.to_value();
        assert_eq!(data["failure_stage"], "active");
        assert_eq!(data["last_error"]["exit_code"], 137);
        assert_eq!(data["status_transition"][2]["to"], "failed");
        assert_eq!(record.bot.exit_code, Some(137));
    }

    #[test]
    fn a_stage_that_looks_the_same_is_kept_and_not_told() {
        let (record, effects) = after(&[BotEvent::Started, BotEvent::AtStage(Stage::Joining)]);
        assert_eq!(record.bot.stage, Some(Stage::Joining));
        assert_eq!(effects.frames.len(), 2, "reserved and starting");
        assert_eq!(
            record.meeting.data.to_value()["status_transition"].as_array().unwrap().len(),
            1
        );
    }

    #[test]
    fn a_session_begins_with_what_may_begin_one_and_once() {
        let events = [
            BotEvent::Started,
            BotEvent::AtStage(Stage::AwaitingAdmission),
            BotEvent::Joined,
            BotEvent::Leaving,
            exit(0),
            BotEvent::Absent { reason: "gone".to_owned() },
            BotEvent::TimedOut { reason: "heartbeat_timeout" },
        ];
        for event in &events {
            let first =
                change(reserved(), event.clone(), Source::Callback, Timestamp::EPOCH).unwrap();
            assert_eq!(first.begins_session, event.may_begin_session(), "{event:?}");
            for next in &events {
                let record = first.record.clone();
                let second = change(record, next.clone(), Source::Callback, Timestamp::EPOCH);
                let begins = second.is_ok_and(|change| change.begins_session);
                let is_over = first.record.status.is_over();
                assert!(!begins || (!first.begins_session && !is_over), "{event:?}, {next:?}");
            }
        }
    }

    #[test]
    fn a_repeat_writes_nothing() {
        let (record, _) = after(&[BotEvent::Started]);
        let change =
            change(record.clone(), BotEvent::Started, Source::Callback, Timestamp::MAX).unwrap();
        assert!(!change.changed && change.effects.is_empty());
        assert_eq!(change.record, record);
    }
}
