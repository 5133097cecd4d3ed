//! Meetings in video rooms.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::{Meeting, MeetingId};
use roundsman_core::effects::{Effects, Transition};
use roundsman_core::jobs::{Json, KindCatalog, LeaseRef};
use roundsman_core::ports::{
    CommitAnswer, EndAnswer, INBOX_PAYLOAD_BYTES_MAX, InboxEvent, InboxFilter, LookWritten,
    NewInboxEvent, OpenAnswer, OpenPresence, PresenceCounts, PresenceFilter, PresencePage,
    PresencePrune, PresenceStore, Scope, SessionFilter, StoreError,
};
use roundsman_core::presence::{
    EndReason, LookPlan, LookReport, NewPresenceMeeting, PresenceMeeting, PresenceRules,
    PresenceSession, RoomName, Verdict, end_meeting, judge, opening_effects, reconcile,
};

use super::{Reference, State, next_id, sees};

/// Who is where.
#[derive(Default)]
pub(super) struct Rooms {
    meetings: BTreeMap<MeetingId, PresenceMeeting>,
    sessions: BTreeMap<(MeetingId, String), PresenceSession>,
    joining: BTreeMap<(MeetingId, String), Timestamp>,
    /// How many events were ever kept.
    kept: usize,
    inbox: Vec<InboxEvent>,
    domain_look: Option<Timestamp>,
}

#[async_trait]
impl PresenceStore for Reference {
    async fn open_presence(
        &self,
        wish: NewPresenceMeeting,
        now: Timestamp,
    ) -> Result<OpenAnswer, StoreError> {
        let mut state = self.lock();
        if !state.users.iter().any(|user| user.id == wish.user_id) {
            return Ok(OpenAnswer::NoSuchUser);
        }
        if let Some(meeting) = state.rooms.open_in(&wish.room) {
            return Ok(OpenAnswer::RoomTaken { meeting });
        }
        let meeting = wish.meeting(state.next_meeting(), now);
        let row = Meeting {
            id: meeting.id,
            user_id: meeting.user_id,
            platform: "daily".to_owned(),
            native_id: Some(meeting.room.as_str().to_owned()),
            status: "open".to_owned(),
            container_id: None,
            start_time: None,
            end_time: None,
            data: Json::from_stored("{}".to_owned()),
            created_at: now,
            updated_at: now,
        };
        state.meetings.insert(meeting.id, row);
        state.rooms.meetings.insert(meeting.id, meeting.clone());
        state.apply(&self.rules, opening_effects(&meeting, now), now);
        Ok(OpenAnswer::Opened(Box::new(meeting)))
    }

    async fn presence_meeting(
        &self,
        scope: Scope,
        meeting: MeetingId,
    ) -> Result<Option<PresenceMeeting>, StoreError> {
        Ok(self.lock().rooms.find(scope, meeting))
    }

    async fn presence_meetings(
        &self,
        scope: Scope,
        filter: PresenceFilter,
        page: PresencePage,
    ) -> Result<Vec<PresenceMeeting>, StoreError> {
        let state = self.lock();
        let wanted = |meeting: &&PresenceMeeting| {
            sees(scope, meeting.user_id)
                && page.before.is_none_or(|before| meeting.id < before)
                && filter.active.is_none_or(|active| meeting.is_active() == active)
                && filter.room.as_ref().is_none_or(|room| meeting.room == *room)
        };
        let found = state.rooms.meetings.values().rev().filter(wanted);
        Ok(found.take(page.rows_max as usize).cloned().collect())
    }

    async fn presence_sessions(
        &self,
        meeting: MeetingId,
        filter: SessionFilter,
    ) -> Result<Vec<PresenceSession>, StoreError> {
        let place = |session: &PresenceSession| (session.joined_at, session.session_id.clone());
        let mut sessions = self.lock().rooms.of(meeting);
        sessions.sort_by_key(place);
        sessions.retain(|session| {
            filter.open.is_none_or(|open| session.is_open() == open)
                && filter.after.as_ref().is_none_or(|after| place(session) > *after)
        });
        sessions.truncate(filter.rows_max as usize);
        Ok(sessions)
    }

    async fn meetings_of_rooms(
        &self,
        rooms: Vec<RoomName>,
    ) -> Result<Vec<Option<MeetingId>>, StoreError> {
        let known = &self.lock().rooms;
        let meeting_of = |room: &RoomName| {
            let latest = known.meetings.values().rev().find(|meeting| meeting.room == *room);
            let latest =
                latest.filter(|meeting| meeting.end_reason != Some(EndReason::Deactivated));
            known.open_in(room).or(latest.map(|meeting| meeting.id))
        };
        Ok(rooms.iter().map(meeting_of).collect())
    }

    async fn commit_look(
        &self,
        meeting: MeetingId,
        report: LookReport,
        rules: PresenceRules,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CommitAnswer, StoreError> {
        let mut state = self.lock();
        if !state.holds(guard) {
            return Ok(CommitAnswer::LeaseLost);
        }
        let Some(known) = state.rooms.find(Scope::All, meeting) else {
            return Ok(CommitAnswer::NoSuchMeeting);
        };
        let plan = reconcile(&known, state.rooms.of(meeting), report, &rules, now);
        let taken = state.rooms.open_in(&known.room).is_some_and(|other| other != meeting);
        Ok(match plan.filter(|plan| !(taken && plan.meeting.is_active())) {
            Some(plan) => CommitAnswer::Written(state.carry_out(&self.rules, plan, now)),
            None => CommitAnswer::Unchanged,
        })
    }

    async fn judge_presence(
        &self,
        meeting: MeetingId,
        rules: PresenceRules,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CommitAnswer, StoreError> {
        let mut state = self.lock();
        if !state.holds(guard) {
            return Ok(CommitAnswer::LeaseLost);
        }
        let Some(known) = state.rooms.find(Scope::All, meeting) else {
            return Ok(CommitAnswer::NoSuchMeeting);
        };
        let coming = state.rooms.joining.iter().filter(|((id, _), _)| *id == meeting);
        let until = coming.map(|(_, until)| *until).max();
        Ok(match judge(&known, until, &rules, now) {
            Verdict::Keep => CommitAnswer::Unchanged,
            Verdict::End(reason) => {
                CommitAnswer::Written(state.end(&self.rules, &known, reason, now))
            }
        })
    }

    async fn end_presence(
        &self,
        scope: Scope,
        meeting: MeetingId,
        now: Timestamp,
    ) -> Result<EndAnswer, StoreError> {
        let mut state = self.lock();
        let Some(mut known) = state.rooms.find(scope, meeting) else {
            return Ok(EndAnswer::NotFound);
        };
        let reason = EndReason::Deactivated;
        if known.is_active() {
            return Ok(EndAnswer::Ended(state.end(&self.rules, &known, reason, now)));
        }
        if known.end_reason.replace(reason) != Some(reason) {
            state.rooms.meetings.insert(meeting, known.clone());
            let over = || known.status.as_str().to_owned();
            let step = Transition {
                entity: "meeting",
                entity_id: meeting.get(),
                from_state: Some(over()),
                to_state: over(),
                cause: reason.as_str().to_owned(),
                detail: None,
            };
            let effects = Effects { transitions: vec![step], ..Effects::default() };
            state.apply(&self.rules, effects, now);
        }
        Ok(EndAnswer::WasOver(Box::new(known)))
    }

    async fn open_presences(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<OpenPresence>, StoreError> {
        let rooms = &self.lock().rooms;
        let open = rooms.meetings.values().filter(|one| one.is_active() && Some(one.id) > after);
        let inside = |meeting: &PresenceMeeting| OpenPresence {
            meeting_id: meeting.id,
            room: meeting.room.clone(),
            open: rooms.open_of(meeting.id).into_iter().map(|one| one.session_id).collect(),
        };
        Ok(open.take(rows_max as usize).map(inside).collect())
    }

    async fn empty_presences(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<MeetingId>, StoreError> {
        let state = self.lock();
        let empty = state.rooms.meetings.values().filter(|meeting| {
            meeting.is_active() && meeting.num_clients == 0 && Some(meeting.id) > after
        });
        Ok(empty.take(rows_max as usize).map(|meeting| meeting.id).collect())
    }

    async fn note_joining(
        &self,
        meeting: MeetingId,
        connection: String,
        until: Timestamp,
    ) -> Result<bool, StoreError> {
        let rooms = &mut self.lock().rooms;
        let open = rooms.meetings.get(&meeting).is_some_and(PresenceMeeting::is_active);
        if open {
            rooms.joining.insert((meeting, connection), until);
        }
        Ok(open)
    }

    async fn end_joining(
        &self,
        meeting: MeetingId,
        connection: String,
    ) -> Result<bool, StoreError> {
        Ok(self.lock().rooms.joining.remove(&(meeting, connection)).is_some())
    }

    async fn keep_inbox(
        &self,
        events: Vec<NewInboxEvent>,
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        let rooms = &mut self.lock().rooms;
        let keep = |event: NewInboxEvent| {
            let event = storable(event);
            let same = |kept: &InboxEvent| {
                kept.event.service == event.service && kept.event.event == event.event
            };
            let new = !rooms.inbox.iter().any(same);
            if new {
                rooms.kept += 1;
                let id = next_id(rooms.kept);
                rooms.inbox.push(InboxEvent { id, event, at: now });
            }
            new
        };
        Ok(events.into_iter().map(keep).collect())
    }

    async fn inbox(
        &self,
        filter: InboxFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<InboxEvent>, StoreError> {
        let state = self.lock();
        let wanted = |kept: &&InboxEvent| {
            before.is_none_or(|before| kept.id < before)
                && filter.outcome.is_none_or(|outcome| kept.event.outcome == outcome)
                && (filter.room.is_none() || kept.event.room == filter.room)
        };
        let found = state.rooms.inbox.iter().rev().filter(wanted);
        Ok(found.take(rows_max as usize).cloned().collect())
    }

    async fn inbox_event(&self, id: i64) -> Result<Option<InboxEvent>, StoreError> {
        Ok(self.lock().rooms.inbox.iter().find(|kept| kept.id == id).cloned())
    }

    async fn note_domain_look(&self, began_at: Timestamp) -> Result<(), StoreError> {
        let rooms = &mut self.lock().rooms;
        rooms.domain_look = rooms.domain_look.max(Some(began_at));
        Ok(())
    }

    async fn last_domain_look(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.lock().rooms.domain_look)
    }

    async fn prune_presence(&self, request: PresencePrune) -> Result<u64, StoreError> {
        let rooms = &mut self.lock().rooms;
        let rows_max = request.rows_max as usize;
        let mut events: Vec<(Timestamp, i64)> =
            rooms.inbox.iter().map(|kept| (kept.at, kept.id)).collect();
        events.retain(|(at, _)| *at < request.inbox_before);
        events.sort_unstable();
        events.truncate(rows_max);
        rooms.inbox.retain(|kept| !events.contains(&(kept.at, kept.id)));
        let mut late: Vec<_> =
            rooms.joining.iter().map(|(who, until)| (*until, who.clone())).collect();
        late.retain(|(until, _)| *until < request.joining_before);
        late.sort_unstable();
        late.truncate(rows_max);
        for (_, who) in &late {
            rooms.joining.remove(who);
        }
        Ok((events.len() + late.len()) as u64)
    }

    async fn presence_counts(&self) -> Result<PresenceCounts, StoreError> {
        let state = self.lock();
        let open = || state.rooms.meetings.values().filter(|meeting| meeting.is_active());
        Ok(PresenceCounts {
            open: open().count() as u64,
            clients: open().map(|meeting| u64::from(meeting.num_clients)).sum(),
            failing: open().filter(|meeting| meeting.looks.failures > 0).count() as u64,
        })
    }
}

impl Rooms {
    pub(super) fn find(&self, scope: Scope, id: MeetingId) -> Option<PresenceMeeting> {
        self.meetings.get(&id).filter(|meeting| sees(scope, meeting.user_id)).cloned()
    }

    /// All meetings that there were in a room.
    pub(super) fn all_in(&self, room: &RoomName) -> impl Iterator<Item = &PresenceMeeting> {
        self.meetings.values().filter(move |meeting| meeting.room == *room)
    }

    fn open_in(&self, room: &RoomName) -> Option<MeetingId> {
        let mut meetings = self.meetings.values();
        meetings.find(|one| one.is_active() && one.room == *room).map(|one| one.id)
    }

    /// All sessions of a meeting, by their ids.
    fn of(&self, id: MeetingId) -> Vec<PresenceSession> {
        let from = (id, String::new());
        let mine = self.sessions.range(from..).take_while(|((meeting, _), _)| *meeting == id);
        mine.map(|(_, session)| session.clone()).collect()
    }

    fn open_of(&self, id: MeetingId) -> Vec<PresenceSession> {
        let mut open = self.of(id);
        open.retain(PresenceSession::is_open);
        open
    }

    /// Tables of which traces are looked for.
    pub(super) fn tables(&self) -> [(&'static str, String); 4] {
        [
            ("presence", format!("{:?}", self.meetings)),
            ("presence_sessions", format!("{:?}", self.sessions)),
            ("presence_joining", format!("{:?}", self.joining)),
            ("inbox", format!("{:?}", self.inbox)),
        ]
    }
}

impl State {
    fn end(
        &mut self,
        rules: &KindCatalog,
        meeting: &PresenceMeeting,
        reason: EndReason,
        now: Timestamp,
    ) -> Box<LookWritten> {
        let open = self.rooms.open_of(meeting.id);
        self.carry_out(rules, end_meeting(meeting, open, reason, now), now)
    }

    /// Does what a plan says.
    fn carry_out(
        &mut self,
        rules: &KindCatalog,
        plan: LookPlan,
        now: Timestamp,
    ) -> Box<LookWritten> {
        let LookPlan { meeting, sessions, hints, again_at, tally, effects } = plan;
        let row = self.meetings.get_mut(&meeting.id).expect("both rows are there");
        let before = row.clone();
        meeting.status.as_str().clone_into(&mut row.status);
        (row.start_time, row.end_time) = (meeting.started_at, meeting.ended_at);
        if *row != before {
            row.updated_at = now;
        }
        for session in sessions {
            let key = (meeting.id, session.session_id.clone());
            self.rooms.sessions.insert(key, session);
        }
        self.rooms.meetings.insert(meeting.id, meeting.clone());
        let frames = self.apply(rules, effects, now);
        Box::new(LookWritten { meeting, tally, hints, again_at, frames })
    }

    /// Forgets who was in a meeting that is over, and where it was.
    pub(super) fn forget_people(&mut self, id: MeetingId) {
        let rooms = &mut self.rooms;
        let Some(meeting) = rooms.meetings.get_mut(&id) else { return };
        let room = std::mem::replace(&mut meeting.room, RoomName::from_stored(String::new()));
        meeting.room_url = None;
        meeting.looks.failure = None;
        meeting.end_reason = Some(EndReason::Deactivated);
        for (_, session) in rooms.sessions.iter_mut().filter(|((owner, _), _)| *owner == id) {
            (session.user_id, session.user_name) = (None, None);
        }
        rooms.joining.retain(|(owner, _), _| *owner != id);
        let of_room = |kept: &InboxEvent| kept.event.room.as_deref() == Some(room.as_str());
        rooms.inbox.retain(|kept| !of_room(kept) || kept.at < meeting.created_at);
        let stream = roundsman_core::bots::stream_of(id);
        self.frames.retain(|frame| frame.stream != stream);
    }
}

/// Without what some databases have no place for, and cut.
fn storable(mut event: NewInboxEvent) -> NewInboxEvent {
    for text in [&mut event.event, &mut event.kind, &mut event.payload] {
        *text = text.replace('\0', "");
    }
    for text in [&mut event.room, &mut event.reason].into_iter().flatten() {
        *text = text.replace('\0', "");
    }
    let end = event.payload.floor_char_boundary(INBOX_PAYLOAD_BYTES_MAX);
    event.payload.truncate(end);
    event
}
