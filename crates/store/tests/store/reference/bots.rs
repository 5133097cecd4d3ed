//! Meetings and bots.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::{
    BotClock, BotEvent, BotRecord, BotStatus, BotWish, ConnectionId, MeetingId, NewBot, Source,
    StopWish, WorkloadId, finish, overdue, reservation_effects, supervise_wish,
};
use roundsman_core::jobs::{Json, LeaseRef};
use roundsman_core::ports::{
    Announced, AnonymiseAnswer, BeatAnswer, BotBeat, BotHappened, BotStore, BotSweep, BotTarget,
    ConfigAnswer, ConfigChange, EventAnswer, MeetingFilter, MeetingPage, MeetingRow, ReserveAnswer,
    RuntimeNote, Seen, StopAnswer, StoreError,
};
use roundsman_core::users::UserId;
use serde_json::{Map, Value};

use super::Reference;
use super::meetings::{adopted, event_of_gone, object, renewed};

#[async_trait]
impl BotStore for Reference {
    async fn reserve_bot(&self, bot: NewBot, now: Timestamp) -> Result<ReserveAnswer, StoreError> {
        let mut state = self.lock();
        let Some(user) = state.users.iter().find(|user| user.id == bot.user_id) else {
            return Ok(ReserveAnswer::NoSuchUser);
        };
        let max = user.max_concurrent_bots;
        let target =
            BotTarget::Address { platform: bot.platform, native_id: bot.native_id.clone() };
        if let Some(row) = state.live_at(bot.user_id, &target).first() {
            return Ok(ReserveAnswer::AlreadyLive { meeting: row.meeting.id });
        }
        let live = state.rows().filter(|row| row.meeting.user_id == bot.user_id && is_live(row));
        let live = u32::try_from(live.count()).expect("a test writes few rows");
        if i64::from(live) >= i64::from(max) {
            return Ok(ReserveAnswer::LimitReached { live, max });
        }
        let record = bot.record(state.next_meeting(), now);
        state.put(&record);
        let effects = reservation_effects(&record, now);
        let frames = state.apply(&self.rules, effects, now);
        Ok(ReserveAnswer::Reserved(Box::new(Announced { record, frames })))
    }

    async fn bot(&self, meeting: MeetingId) -> Result<Option<BotRecord>, StoreError> {
        Ok(self.lock().record(meeting))
    }

    async fn bot_by_connection(
        &self,
        connection: ConnectionId,
    ) -> Result<Option<BotRecord>, StoreError> {
        Ok(self.lock().records().find(|record| record.bot.connection_id == connection))
    }

    async fn bot_event(
        &self,
        happened: BotHappened,
        guard: Option<LeaseRef>,
        now: Timestamp,
    ) -> Result<EventAnswer, StoreError> {
        let mut state = self.lock();
        if guard.is_some_and(|lease| !state.holds(lease)) {
            return Ok(EventAnswer::LeaseLost);
        }
        let Some(mut record) = state.record(happened.workload.meeting_id) else {
            return Ok(EventAnswer::NoSuchBot);
        };
        if happened.connection.is_some_and(|given| given != record.bot.connection_id) {
            return Ok(EventAnswer::NoSuchBot);
        }
        if happened.workload != record.workload() {
            return Ok(EventAnswer::Superseded);
        }
        record.bot.beats |= happened.beats && !record.status.is_over();
        state.put(&record);
        let answer =
            state.happen(&self.rules, record.clone(), happened.event, happened.source, now);
        Ok(match answer {
            Some(announced) => EventAnswer::Changed(Box::new(announced)),
            None => EventAnswer::Unchanged(Box::new(record)),
        })
    }

    async fn bot_heartbeats(
        &self,
        beats: Vec<BotBeat>,
        now: Timestamp,
    ) -> Result<Vec<BeatAnswer>, StoreError> {
        let mut state = self.lock();
        Ok(beats.iter().map(|beat| state.hear(beat, now)).collect())
    }

    async fn wish_stop(
        &self,
        user: UserId,
        target: BotTarget,
        by: &'static str,
        now: Timestamp,
    ) -> Result<StopAnswer, StoreError> {
        let mut state = self.lock();
        let live = state.live_at(user, &target);
        if live.is_empty() {
            let latest = state.target(user, &target);
            return Ok(latest.map_or(StopAnswer::NotFound, |row| StopAnswer::Over(Box::new(row))));
        }
        let mut wished = Vec::new();
        for row in live {
            let mut record = state.bot_of(&self.rules, &row, now);
            record.bot.stop.get_or_insert(StopWish { at: now, by: by.to_owned() });
            state.put(&record);
            state.enqueue(&self.rules, supervise_wish(&record, now), now);
            wished.push(record);
        }
        Ok(StopAnswer::Wished(wished))
    }

    async fn wish_config(
        &self,
        user: UserId,
        target: BotTarget,
        change: ConfigChange,
        now: Timestamp,
    ) -> Result<ConfigAnswer, StoreError> {
        let mut state = self.lock();
        let Some(row) = state.target(user, &target) else { return Ok(ConfigAnswer::NotFound) };
        let active = row.meeting.bot_status() == Ok(BotStatus::Active);
        if !is_live(&row) || change.only_active && !active {
            return Ok(ConfigAnswer::WrongState(Box::new(row)));
        }
        let mut record = state.bot_of(&self.rules, &row, now);
        record.bot.config.version += 1;
        record.bot.config.language = change.language.or(record.bot.config.language);
        record.bot.config.task = change.task.or(record.bot.config.task);
        state.put(&record);
        Ok(ConfigAnswer::Wished(Box::new(record)))
    }

    async fn bot_launched(
        &self,
        workload: WorkloadId,
        handle: String,
        guard: LeaseRef,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let known = state.record(workload.meeting_id).filter(|record| {
            record.workload() == workload && !record.status.is_over() && state.holds(guard)
        });
        let Some(mut record) = known else { return Ok(false) };
        record.meeting.container_id = Some(handle);
        state.put(&record);
        Ok(true)
    }

    async fn next_attempt(
        &self,
        workload: WorkloadId,
        guard: LeaseRef,
    ) -> Result<Option<BotRecord>, StoreError> {
        let mut state = self.lock();
        let known = state.record(workload.meeting_id).filter(|record| {
            let current = record.workload() == workload;
            current && record.status == BotStatus::Reserved && state.holds(guard)
        });
        Ok(known.map(|record| {
            let record = renewed(record);
            state.put(&record);
            record
        }))
    }

    async fn note_runtime(
        &self,
        notes: Vec<RuntimeNote>,
        misses_max: u32,
        now: Timestamp,
    ) -> Result<Vec<Announced>, StoreError> {
        let mut state = self.lock();
        let mut ended = Vec::new();
        for note in notes {
            let Some(mut record) = state.record(note.workload.meeting_id) else { continue };
            if record.status.is_over() || record.workload() != note.workload {
                continue;
            }
            record.bot.missed = if note.seen == Seen::Running { 0 } else { record.bot.missed + 1 };
            if note.seen == Seen::Running {
                record.bot.seen_at = Some(now);
            }
            state.put(&record);
            if record.bot.missed >= misses_max {
                let event = event_of_gone(note.seen);
                ended.extend(state.happen(&self.rules, record, event, Source::Sweeper, now));
            }
        }
        Ok(ended)
    }

    async fn sweep_bots(
        &self,
        request: BotSweep,
        now: Timestamp,
    ) -> Result<Vec<Announced>, StoreError> {
        let mut state = self.lock();
        let due = |record: BotRecord| {
            let clock = BotClock::of(&record, request.runtime_answered);
            let found = overdue(clock, &request.timeouts, request.serving_since, now)?;
            Some((record, BotEvent::TimedOut { reason: found.reason }))
        };
        let overdue: Vec<_> =
            state.records().filter_map(due).take(request.rows_max as usize).collect();
        let mut swept = Vec::new();
        for (record, event) in overdue {
            swept.extend(state.happen(&self.rules, record, event, Source::Sweeper, now));
        }
        Ok(swept)
    }

    async fn adopt_meetings(&self, rows_max: u32, now: Timestamp) -> Result<u32, StoreError> {
        let mut state = self.lock();
        let orphans: Vec<MeetingRow> = state
            .rows()
            .filter(|row| row.bot.is_none() && is_live(row))
            .take(rows_max as usize)
            .collect();
        for row in &orphans {
            state.bot_of(&self.rules, row, now);
        }
        Ok(u32::try_from(orphans.len()).expect("a test writes few rows"))
    }

    async fn live_bots(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<BotRecord>, StoreError> {
        let state = self.lock();
        let live = state
            .records()
            .filter(|record| !record.status.is_over() && Some(record.meeting.id) > after);
        Ok(live.take(rows_max as usize).collect())
    }

    async fn live_workloads(
        &self,
        workloads: Vec<WorkloadId>,
    ) -> Result<Vec<WorkloadId>, StoreError> {
        let state = self.lock();
        let live = |workload: &WorkloadId| {
            state
                .record(workload.meeting_id)
                .is_some_and(|record| record.workload() == *workload && !record.status.is_over())
        };
        Ok(workloads.into_iter().filter(live).collect())
    }

    async fn meetings(
        &self,
        user: UserId,
        filter: MeetingFilter,
        page: MeetingPage,
    ) -> Result<Vec<MeetingRow>, StoreError> {
        let state = self.lock();
        let wanted = |row: &MeetingRow| {
            let meeting = &row.meeting;
            meeting.user_id == user
                && page.before.is_none_or(|before| meeting.id < before)
                && (!filter.live || is_live(row))
                && filter.status.is_none_or(|status| meeting.bot_status() == Ok(status))
                && filter.platform.is_none_or(|platform| meeting.platform == platform.as_str())
        };
        let rows = state.rows().rev().filter(wanted).skip(page.skip as usize);
        Ok(rows.take(page.rows_max as usize).collect())
    }

    async fn meeting(
        &self,
        user: UserId,
        target: BotTarget,
    ) -> Result<Option<MeetingRow>, StoreError> {
        Ok(self.lock().target(user, &target))
    }

    async fn merge_meeting_data(
        &self,
        user: UserId,
        target: BotTarget,
        members: Map<String, Value>,
        now: Timestamp,
    ) -> Result<Option<MeetingRow>, StoreError> {
        let mut state = self.lock();
        let Some(mut row) = state.target(user, &target) else { return Ok(None) };
        let mut data = object(&row.meeting.data);
        data.extend(members);
        row.meeting.data = Json::from_stored(Value::Object(data).to_string());
        row.meeting.updated_at = now;
        state.meetings.insert(row.meeting.id, row.meeting.clone());
        Ok(Some(row))
    }

    async fn anonymise_meeting(
        &self,
        user: UserId,
        target: BotTarget,
        now: Timestamp,
    ) -> Result<AnonymiseAnswer, StoreError> {
        const KEPT: [&str; 4] = ["status_transition", "completion_reason", "error", "diagnostics"];
        let mut state = self.lock();
        let Some(row) = state.target(user, &target) else { return Ok(AnonymiseAnswer::NotFound) };
        let mut data = object(&row.meeting.data);
        if !row.meeting.bot_status().is_ok_and(BotStatus::is_over) {
            return Ok(AnonymiseAnswer::NotOver(Box::new(row)));
        }
        if data.get("redacted") == Some(&Value::Bool(true)) {
            return Ok(AnonymiseAnswer::Already);
        }
        data.retain(|name, _| KEPT.contains(&name.as_str()));
        data.insert("redacted".to_owned(), Value::Bool(true));
        let mut meeting = row.meeting;
        meeting.native_id = None;
        meeting.data = Json::from_stored(Value::Object(data).to_string());
        meeting.updated_at = now;
        state.forget(meeting.id);
        // Some of them are found by the room, which is forgotten next.
        state.forget_recordings(&self.rules, meeting.id, meeting.user_id, now);
        state.forget_people(meeting.id);
        if let Some(bot) = state.bots.get_mut(&meeting.id) {
            bot.wish = BotWish::default();
        }
        state.meetings.insert(meeting.id, meeting);
        Ok(AnonymiseAnswer::Done)
    }

    async fn finish_meeting(
        &self,
        meeting: MeetingId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let known = state.record(meeting).filter(|record| {
            record.status.is_over() && record.bot.finished_at.is_none() && state.holds(guard)
        });
        let Some(record) = known else { return Ok(false) };
        let (record, effects) = finish(record, &state.summary(meeting), now);
        state.put(&record);
        state.apply(&self.rules, effects, now);
        Ok(true)
    }

    async fn bot_counts(&self) -> Result<Vec<(BotStatus, u64)>, StoreError> {
        let state = self.lock();
        let live = BotStatus::ALL.into_iter().filter(|status| !status.is_over());
        let count = |status| state.records().filter(|record| record.status == status).count();
        Ok(live.map(|status| (status, count(status) as u64)).collect())
    }
}

fn is_live(row: &MeetingRow) -> bool {
    adopted::is_live(&row.meeting)
}
