//! What the reference keeps of meetings, and the steps that several of its operations share.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::{
    self, Bot, BotEvent, BotRecord, BotStatus, ExitReport, Meeting, MeetingId, NewBot, Platform,
    Source, Stage,
};
use roundsman_core::effects::{Effects, Transition};
use roundsman_core::jobs::{Json, KindCatalog};
use roundsman_core::ports::{
    Announced, BeatAnswer, BotBeat, BotTarget, MeetingRow, Seen, SpokenSummary,
};
use roundsman_core::users::UserId;
use roundsman_store::conformance::{Backdoor, Said};
use serde_json::{Map, Value};

use super::speech::Row;
use super::{Reference, State};

impl State {
    pub(super) fn next_meeting(&self) -> MeetingId {
        MeetingId::new(self.meetings.keys().next_back().map_or(1, |last| last.get() + 1))
    }

    /// All meetings by ascending number.
    pub(super) fn rows(&self) -> impl DoubleEndedIterator<Item = MeetingRow> + '_ {
        self.meetings.values().map(|meeting| MeetingRow {
            meeting: meeting.clone(),
            bot: self.bots.get(&meeting.id).cloned(),
        })
    }

    /// All bots by ascending number.
    pub(super) fn records(&self) -> impl Iterator<Item = BotRecord> + '_ {
        self.bots.keys().filter_map(|id| self.record(*id))
    }

    pub(super) fn record(&self, id: MeetingId) -> Option<BotRecord> {
        let (meeting, bot) = (self.meetings.get(&id)?.clone(), self.bots.get(&id)?.clone());
        Some(BotRecord::new(meeting, bot).expect("only a bot's meeting has one"))
    }

    pub(super) fn put(&mut self, record: &BotRecord) {
        self.meetings.insert(record.meeting.id, record.meeting.clone());
        self.bots.insert(record.meeting.id, record.bot.clone());
    }

    /// The one that is meant: the latest at an address.
    pub(super) fn target(&self, user: UserId, target: &BotTarget) -> Option<MeetingRow> {
        self.rows().rev().find(|row| is_meant(&row.meeting, user, target))
    }

    /// The live ones that are meant, by ascending number.
    pub(super) fn live_at(&self, user: UserId, target: &BotTarget) -> Vec<MeetingRow> {
        let live = |row: &MeetingRow| {
            is_meant(&row.meeting, user, target) && adopted::is_live(&row.meeting)
        };
        self.rows().filter(live).collect()
    }

    /// Lets an event happen; `None` if nothing followed.
    pub(super) fn happen(
        &mut self,
        rules: &KindCatalog,
        record: BotRecord,
        event: BotEvent,
        source: Source,
        now: Timestamp,
    ) -> Option<Announced> {
        let change = bots::change(record, event, source, now).ok()?;
        if !change.changed {
            return None;
        }
        let record = change.record;
        let (id, uid) = (record.meeting.id, record.bot.connection_id.as_str());
        let mut moved = Vec::new();
        if change.begins_session && self.session_start(id, uid).is_none() {
            moved = self.moved_by(id, uid, now);
            self.set_start(id, uid, now);
        }
        self.put(&record);
        let mut frames = self.apply(rules, change.effects, now);
        frames.extend(self.publish(rules, id, moved, now).0);
        Some(Announced { record, frames })
    }

    pub(super) fn hear(&mut self, beat: &BotBeat, now: Timestamp) -> BeatAnswer {
        let known = self.record(beat.workload.meeting_id);
        let Some(mut record) = known.filter(|known| known.bot.connection_id == beat.connection)
        else {
            return BeatAnswer::NoSuchBot;
        };
        if record.workload() != beat.workload {
            return BeatAnswer::Superseded;
        }
        if record.status.is_over() {
            return BeatAnswer::Over { status: record.status };
        }
        let bot = &mut record.bot;
        bot.beats = true;
        bot.heartbeat_at = Some(now);
        if beat.media_progress > bot.media_progress {
            bot.media_progress = beat.media_progress;
            bot.media_at = Some(now);
        }
        bot.config.applied = bot.config.applied.max(beat.config_applied.unwrap_or(0));
        record.meeting.updated_at = now;
        self.put(&record);
        BeatAnswer::Heard {
            status: record.status,
            stage: record.bot.stage,
            stop_wanted: record.bot.stop.is_some(),
            config: record.bot.config,
        }
    }

    /// The bot of a live meeting, made if it has none.
    pub(super) fn bot_of(
        &mut self,
        rules: &KindCatalog,
        row: &MeetingRow,
        now: Timestamp,
    ) -> BotRecord {
        let id = row.meeting.id;
        if row.bot.is_none() {
            let session = self.sessions.iter().filter(|session| session.0 == id);
            let latest = session.max_by_key(|session| session.2).map(|session| session.1.clone());
            let (bot, effects) = adopted::bot(&row.meeting, latest, now);
            self.bots.insert(id, bot);
            self.apply(rules, effects, now);
        }
        self.record(id).expect("it has one now")
    }

    pub(super) fn summary(&self, id: MeetingId) -> SpokenSummary {
        let rows = self.speech.rows.iter().filter(|row| row.meeting_id == id);
        let said: Vec<&Said> = rows.map(|row| &row.said).collect();
        let names = |name: fn(&Said) -> Option<&String>| {
            let names: BTreeSet<&String> = said.iter().filter_map(|said| name(said)).collect();
            names.into_iter().cloned().collect()
        };
        SpokenSummary {
            speakers: names(|said| said.speaker.as_ref()),
            languages: names(|said| said.language.as_ref()),
            segments: said.len() as u64,
            spoken_secs: said.iter().fold(0.0, |sum, said| sum + said.end - said.start),
        }
    }
}

/// What others write.
pub(crate) struct ReferenceDoor(pub(crate) Arc<Reference>);

#[async_trait]
impl Backdoor for ReferenceDoor {
    async fn put_meeting(&self, meeting: Meeting) {
        self.0.lock().meetings.insert(meeting.id, meeting);
    }

    async fn put_session(&self, meeting: MeetingId, session_uid: &str, at: Timestamp) {
        self.0.lock().sessions.push((meeting, session_uid.to_owned(), at));
    }

    async fn sessions(&self, meeting: MeetingId) -> Vec<(String, Timestamp)> {
        let state = self.0.lock();
        let mine = state.sessions.iter().filter(|(id, _, _)| *id == meeting);
        mine.map(|(_, uid, at)| (uid.clone(), *at)).collect()
    }

    async fn put_said(&self, meeting: MeetingId, said: Said) {
        let speech = &mut self.0.lock().speech;
        speech.last_row += 1;
        speech.rows.push(Row {
            id: speech.last_row,
            meeting_id: meeting,
            said,
            created_at: Timestamp::EPOCH,
            kept: None,
            is_searchable: false,
        });
    }

    async fn count_said(&self, meeting: MeetingId) -> usize {
        self.said(meeting).await.len()
    }

    async fn said(&self, meeting: MeetingId) -> Vec<(i64, Said)> {
        let state = self.0.lock();
        let rows = state.speech.rows.iter().filter(|row| row.meeting_id == meeting);
        rows.map(|row| (row.id, row.said.clone())).collect()
    }

    async fn traces(&self, word: &str) -> Vec<String> {
        self.0.lock().traces(word)
    }
}

/// Bots for meetings that somebody else began.
pub(super) mod adopted {
    use super::{
        Bot, BotStatus, Effects, Meeting, NewBot, Platform, Source, Stage, Timestamp, Transition,
    };
    use roundsman_core::bots::{BotWish, ConnectionId};

    pub(in super::super) fn is_live(meeting: &Meeting) -> bool {
        meeting.bot_status().is_ok_and(|status| !status.is_over())
    }

    pub(super) fn bot(
        meeting: &Meeting,
        session: Option<String>,
        now: Timestamp,
    ) -> (Bot, Effects) {
        let status = meeting.bot_status().expect("it is live");
        let name = session.unwrap_or_else(|| format!("adopted-{}", meeting.id));
        let new = NewBot {
            user_id: meeting.user_id,
            platform: Platform::GoogleMeet,
            native_id: String::new(),
            connection_id: ConnectionId::from_stored(name),
            language: None,
            task: None,
            wish: BotWish::default(),
        };
        let mut bot = new.record(meeting.id, now).bot;
        bot.reserved_at = meeting.created_at;
        bot.stage = Stage::parse(&meeting.status).ok();
        bot.was_active = status == BotStatus::Active
            || status == BotStatus::Stopping && meeting.start_time.is_some();
        let beginning = Transition {
            entity: "meeting",
            entity_id: meeting.id.get(),
            from_state: None,
            to_state: status.as_str().to_owned(),
            cause: Source::Adopted.as_str().to_owned(),
            detail: None,
        };
        (bot, Effects { transitions: vec![beginning], ..Effects::default() })
    }
}

/// The bot at the beginning of its next attempt: what the earlier one said is forgotten.
pub(super) fn renewed(mut record: BotRecord) -> BotRecord {
    record.meeting.container_id = None;
    let bot = &mut record.bot;
    bot.attempt += 1;
    bot.beats = false;
    bot.heartbeat_at = None;
    bot.seen_at = None;
    bot.missed = 0;
    bot.media_progress = None;
    bot.media_at = None;
    bot.config.applied = 0;
    record
}

pub(super) fn event_of_gone(seen: Seen) -> BotEvent {
    match seen {
        Seen::Exited { exit_code: Some(code) } => {
            BotEvent::Exited(ExitReport { exit_code: Some(code), ..ExitReport::default() })
        }
        _ => BotEvent::Absent { reason: "workload_gone".to_owned() },
    }
}

pub(super) fn object(data: &Json) -> Map<String, Value> {
    match data.to_value() {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn is_meant(meeting: &Meeting, user: UserId, target: &BotTarget) -> bool {
    meeting.user_id == user
        && match target {
            BotTarget::Meeting(id) => meeting.id == *id,
            BotTarget::Address { platform, native_id } => {
                meeting.platform == platform.as_str()
                    && meeting.native_id.as_ref() == Some(native_id)
            }
        }
}
