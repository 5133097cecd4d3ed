//! One store under comparison. Numbers of meetings and of looks are translated into places of
//! appearance, because a database may skip numbers.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::{Frame, replay};
use roundsman_core::jobs::{JobId, Lane, LeaseNo, LeaseOwner, LeaseRef, NewJob, WorkerName};
use roundsman_core::ports::{
    BotTarget, ClaimRequest, CommitAnswer, EndAnswer, EnqueueRequest, InboxFilter, InboxOutcome,
    LaneDemand, LookWritten, MeetingFilter, MeetingPage, NewInboxEvent, OpenAnswer, OpenPresence,
    PresenceCounts, PresenceFilter, PresencePage, PresencePrune, Scope, SessionFilter, Store,
    StoreError,
};
use roundsman_core::presence::{
    DAILY, Hint, HintKind, Look, LookReport, NewPresenceMeeting, Participant, PresenceMeeting,
    PresenceRules, PresenceSession, RoomName, Schedule,
};
use roundsman_core::users::{NewUser, UserId};
use roundsman_store::conformance::{ADA, RENDER, json, kind};
use serde_json::Value;

use super::super::START;
use super::ops::{Event, Heard, Lease, Op, Person, Pick, Seen};

const ROOMS: [&str; 3] = ["one", "two", "Two"];
const SESSIONS: [&str; 5] = ["a", "b", "c", "d", "ä 😀"];
const NAMES: [&str; 3] = ["Ann", "Bob", "\u{202e}אדה"];
const KINDS: [HintKind; 4] =
    [HintKind::Joined, HintKind::Left, HintKind::MeetingEnded, HintKind::Look];

pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) store: Arc<dyn Store>,
    users: Vec<UserId>,
    /// Every meeting that was made, by its place.
    meetings: Vec<MeetingId>,
    /// The place of every number that a look has had.
    looks: BTreeMap<i64, i64>,
    _keep: Box<dyn Any>,
}

/// Everything that can be seen, by places.
#[derive(Debug, PartialEq)]
pub(super) struct Visible {
    rooms: Vec<Room>,
    listed: Vec<MeetingId>,
    open: Vec<OpenPresence>,
    empty: Vec<MeetingId>,
    meant: Vec<Option<MeetingId>>,
    counts: PresenceCounts,
    inbox: Vec<(NewInboxEvent, Timestamp)>,
    looked_at_all: Option<Timestamp>,
    /// What the table of all meetings shows.
    rows: Vec<String>,
}

#[derive(Debug, PartialEq)]
struct Room {
    meeting: PresenceMeeting,
    sessions: Vec<PresenceSession>,
    frames: Vec<(i64, Timestamp, Value)>,
    log: Vec<String>,
    state: String,
}

impl Subject {
    pub(super) async fn new(name: &'static str, store: Arc<dyn Store>, keep: impl Any) -> Self {
        let mut users = Vec::new();
        for email in ["ada@example.org", "bob@example.org"] {
            let person = NewUser {
                email: email.to_owned(),
                name: None,
                image_url: None,
                max_concurrent_bots: 1,
            };
            let (user, _) = store.find_or_create_user(person, START).await.expect("a user");
            users.push(user.id);
        }
        let (meetings, looks) = (Vec::new(), BTreeMap::from([(0, 0)]));
        Subject { name, store, users, meetings, looks, _keep: Box::new(keep) }
    }

    /// Does what `op` says and tells what was answered.
    pub(super) async fn perform(&mut self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        match op {
            Op::Advance { .. } => Ok(String::new()),
            Op::Open { by, room, planned } => self.open(*by, *room, *planned, now).await,
            Op::Look { meeting, look, heard, lease } => {
                let id = self.meeting(*meeting);
                let last = self.last_look(id).await?;
                let guard = self.lease(*lease, now).await?;
                let no = if *lease == Lease::Stale { last } else { guard.lease_no.get() };
                let report = LookReport {
                    no,
                    began_at: now,
                    look: seen(look, now),
                    hints: heard.iter().map(|heard| hint(heard, now)).collect(),
                };
                let rules = PresenceRules::default();
                let answer = self.store.commit_look(id, report, rules, guard, now).await?;
                Ok(self.committed(answer))
            }
            Op::Judge { meeting, lease } => {
                let guard = self.lease(*lease, now).await?;
                let (id, rules) = (self.meeting(*meeting), PresenceRules::default());
                let answer = self.store.judge_presence(id, rules, guard, now).await?;
                Ok(self.committed(answer))
            }
            Op::End { by, meeting } => {
                let scope = by.map_or(Scope::All, |by| Scope::User(self.user(by)));
                Ok(match self.store.end_presence(scope, self.meeting(*meeting), now).await? {
                    EndAnswer::Ended(written) => format!("ended {:?}", self.written(*written)),
                    EndAnswer::WasOver(meeting) => format!("was over {:?}", self.placed(*meeting)),
                    EndAnswer::NotFound => "not found".to_owned(),
                })
            }
            _ => self.perform_around(op, now).await,
        }
    }

    /// What is not about who is in a room.
    async fn perform_around(&mut self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        let store = &self.store;
        match op {
            Op::Join { meeting, connection, secs } => {
                let until = now + Duration::from_secs(*secs);
                let id = self.meeting(*meeting);
                Ok(store.note_joining(id, connection.to_string(), until).await?.to_string())
            }
            Op::Arrive { meeting, connection } => {
                let id = self.meeting(*meeting);
                Ok(store.end_joining(id, connection.to_string()).await?.to_string())
            }
            Op::Keep { events } => {
                let events = events.iter().map(event).collect();
                Ok(format!("{:?}", store.keep_inbox(events, now).await?))
            }
            Op::LookAtAll { secs_ago } => {
                store.note_domain_look(now - Duration::from_secs(*secs_ago)).await?;
                Ok(String::new())
            }
            Op::Prune { older_than_secs } => {
                let limit = now - Duration::from_secs(*older_than_secs);
                let request =
                    PresencePrune { inbox_before: limit, joining_before: limit, rows_max: 1000 };
                Ok(store.prune_presence(request).await?.to_string())
            }
            Op::Note { meeting, number } => {
                let Some(owner) = self.owner(*meeting).await? else { return Ok(String::new()) };
                let target = BotTarget::Meeting(self.meeting(*meeting));
                let note = serde_json::Map::from_iter([("note".to_owned(), Value::from(*number))]);
                store.merge_meeting_data(owner, target, note, now).await?;
                Ok(String::new())
            }
            Op::Anonymise { meeting } => {
                let Some(owner) = self.owner(*meeting).await? else { return Ok(String::new()) };
                let target = BotTarget::Meeting(self.meeting(*meeting));
                let answer = store.anonymise_meeting(owner, target, now).await?;
                // What it shows of one that is not over is seen among the rows.
                Ok(format!("{:?}", std::mem::discriminant(&answer)))
            }
            other => panic!("{other:?} is about who is in a room"),
        }
    }

    pub(super) async fn look(&self) -> Result<Visible, StoreError> {
        let store = &self.store;
        let mut rooms = Vec::new();
        for id in &self.meetings {
            rooms.push(self.room(*id).await?);
        }
        let page = PresencePage { before: None, rows_max: 1000 };
        let listed = store.presence_meetings(Scope::All, PresenceFilter::default(), page).await?;
        let names = ROOMS.map(room_name).to_vec();
        let meant = store.meetings_of_rooms(names).await?;
        let kept = store.inbox(InboxFilter::default(), None, 1000).await?;
        let mut rows = Vec::new();
        for user in &self.users {
            let page = MeetingPage { before: None, skip: 0, rows_max: 1000 };
            for row in store.meetings(*user, MeetingFilter::default(), page).await? {
                let meeting = &row.meeting;
                let times = (meeting.start_time, meeting.end_time, meeting.updated_at);
                let words = (&meeting.platform, &meeting.native_id, &meeting.status);
                rows.push(format!("{words:?} {times:?} {}", meeting.data.to_value()));
            }
        }
        let mut open = store.open_presences(None, 1000).await?;
        for presence in &mut open {
            presence.meeting_id = self.place(presence.meeting_id);
        }
        let empty = store.empty_presences(None, 1000).await?;
        Ok(Visible {
            rooms,
            listed: listed.iter().map(|meeting| self.place(meeting.id)).collect(),
            open,
            empty: empty.into_iter().map(|id| self.place(id)).collect(),
            meant: meant.into_iter().map(|id| id.map(|id| self.place(id))).collect(),
            counts: store.presence_counts().await?,
            inbox: kept.into_iter().map(|kept| (kept.event, kept.at)).collect(),
            looked_at_all: store.last_domain_look().await?,
            rows,
        })
    }

    async fn room(&self, id: MeetingId) -> Result<Room, StoreError> {
        let meeting = self.store.presence_meeting(Scope::All, id).await?.expect("it was made");
        let all = SessionFilter { open: None, after: None, rows_max: 1000 };
        let frames = self.store.frames(stream_of(id), 0, 1000).await?;
        let log = self.store.transitions("meeting".to_owned(), id.get()).await?;
        let state = replay(&log).map_err(|broken| StoreError::Failed(broken.into()))?;
        let state = state.unwrap_or_default().to_owned();
        let step = |step: &roundsman_core::effects::LoggedTransition| {
            let detail = step.detail.as_ref().map(roundsman_core::jobs::Json::to_value);
            format!("{:?} {} {} {detail:?} {}", step.from_state, step.to_state, step.cause, step.at)
        };
        Ok(Room {
            meeting: self.placed(meeting),
            sessions: self.store.presence_sessions(id, all).await?,
            frames: frames.iter().map(|frame| self.told(frame)).collect(),
            log: log.iter().map(step).collect(),
            state,
        })
    }

    async fn open(
        &mut self,
        by: Pick,
        room: Pick,
        planned: bool,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let later = |secs| now + Duration::from_secs(secs);
        let wish = NewPresenceMeeting {
            user_id: self.user(by),
            room: room_name(ROOMS[usize::from(room) % ROOMS.len()]),
            room_url: None,
            schedule: planned.then(|| Schedule { starts_at: later(30), ends_at: later(600) }),
        };
        Ok(match self.store.open_presence(wish, now).await? {
            OpenAnswer::Opened(meeting) => {
                self.meetings.push(meeting.id);
                format!("{:?}", self.placed(*meeting))
            }
            OpenAnswer::RoomTaken { meeting } => format!("taken by {}", self.place(meeting)),
            OpenAnswer::NoSuchUser => "nobody".to_owned(),
        })
    }

    /// A lease of its own, or none.
    async fn lease(&mut self, lease: Lease, now: Timestamp) -> Result<LeaseRef, StoreError> {
        if lease == Lease::Lost {
            return Ok(LeaseRef { id: JobId::new(1), lease_no: LeaseNo::new(i64::MAX) });
        }
        let wish = NewJob {
            user_id: ADA,
            kind: kind(RENDER),
            key: None,
            payload: json("null"),
            priority: 0,
            run_at: now,
            max_attempts: None,
            tenant: None,
        };
        let lane = Lane::of(ADA, &wish.kind);
        self.store.enqueue(EnqueueRequest { jobs: vec![wish], idempotency: None }, now).await?;
        let ttl = Duration::from_secs(60);
        let demand = LaneDemand { lane, max: 1, lease_ttl: ttl, deadline: None };
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands: vec![demand],
            total_max: 1,
        };
        let claimed = self.store.claim(request, now).await?.jobs.remove(0).lease_ref();
        let place = i64::try_from(self.looks.len()).expect("a test looks seldom");
        self.looks.insert(claimed.lease_no.get(), place);
        Ok(claimed)
    }

    async fn last_look(&self, id: MeetingId) -> Result<i64, StoreError> {
        let found = self.store.presence_meeting(Scope::All, id).await?;
        Ok(found.map_or(0, |meeting| meeting.looks.last_no))
    }

    async fn owner(&self, meeting: Pick) -> Result<Option<UserId>, StoreError> {
        let found = self.store.presence_meeting(Scope::All, self.meeting(meeting)).await?;
        Ok(found.map(|meeting| meeting.user_id))
    }

    fn user(&self, pick: Pick) -> UserId {
        *self::pick(&self.users, pick)
    }

    /// Mostly one of the last few.
    fn meeting(&self, pick: Pick) -> MeetingId {
        let none = MeetingId::new(1_000_000);
        let back = usize::from(pick).checked_rem(self.meetings.len().min(3));
        back.map_or(none, |back| self.meetings[self.meetings.len() - 1 - back])
    }

    fn place(&self, id: MeetingId) -> MeetingId {
        let place = self.meetings.iter().position(|known| *known == id).expect("it was made");
        MeetingId::new(i64::try_from(place).expect("a test makes few"))
    }

    fn placed(&self, mut meeting: PresenceMeeting) -> PresenceMeeting {
        meeting.id = self.place(meeting.id);
        meeting.looks.last_no = self.looks[&meeting.looks.last_no];
        meeting
    }

    fn told(&self, frame: &Frame) -> (i64, Timestamp, Value) {
        let mut body = frame.body.to_value();
        let id = MeetingId::new(body["meeting"]["id"].as_i64().expect("it names its meeting"));
        assert_eq!(frame.stream, stream_of(id));
        body["meeting"]["id"] = Value::from(self.place(id).get());
        (frame.seq, frame.at, body)
    }

    fn written(&self, written: LookWritten) -> String {
        let LookWritten { meeting, tally, hints, again_at, frames } = written;
        let frames: Vec<_> = frames.iter().map(|frame| self.told(frame)).collect();
        format!("{:?} {tally:?} {hints:?} {again_at:?} {frames:?}", self.placed(meeting))
    }

    fn committed(&self, answer: CommitAnswer) -> String {
        match answer {
            CommitAnswer::Written(written) => self.written(*written),
            other => format!("{other:?}"),
        }
    }
}

impl Visible {
    /// R2, R4, R7: what must be so after any step.
    pub(super) fn follows(&self, before: Option<&Visible>) -> Result<(), String> {
        for (place, room) in self.rooms.iter().enumerate() {
            let meeting = &room.meeting;
            let open = room.sessions.iter().filter(|session| session.is_open()).count();
            if open != meeting.num_clients as usize || (open > 0 && !meeting.is_active()) {
                return Err(format!("{open} are in {meeting:?}"));
            }
            if room.state != meeting.status.as_str() {
                return Err(format!("the log says {}, the row {meeting:?}", room.state));
            }
            let odd = |session: &&PresenceSession| {
                session.closed.is_some_and(|closed| closed.at < session.joined_at)
            };
            if let Some(odd) = room.sessions.iter().find(odd) {
                return Err(format!("{odd:?} ended before it began"));
            }
            let Some(was) = before.and_then(|before| before.rooms.get(place)) else { continue };
            let (last, now) = (was.meeting.looks.last_no, meeting.looks.last_no);
            if now < last || (now == last && meeting.looks.looked_at != was.meeting.looks.looked_at)
            {
                return Err(format!("look {now} was written after {last}"));
            }
            let is_there = |gone: &PresenceSession| {
                room.sessions.iter().any(|session| session.session_id == gone.session_id)
            };
            if let Some(gone) = was.sessions.iter().find(|session| !is_there(session)) {
                return Err(format!("{gone:?} is gone"));
            }
        }
        Ok(())
    }
}

fn seen(look: &Seen, now: Timestamp) -> Look {
    let person = |person: &Person| Participant {
        session_id: (*pick(&SESSIONS, person.session)).to_owned(),
        user_id: person.name.map(|name| name.to_string()),
        user_name: name(person.name),
        joined_at: ago(now, person.joined_secs),
    };
    match look {
        Seen::People(people) => Look::Seen(people.iter().map(person).collect()),
        Seen::Gone => Look::Gone,
        Seen::Failed => Look::Failed { reason: "503".to_owned() },
    }
}

fn hint(heard: &Heard, now: Timestamp) -> Hint {
    let what = *pick(&KINDS, heard.what);
    let hint = Hint {
        what,
        session: Some((*pick(&SESSIONS, heard.session)).to_owned()),
        user: None,
        name: name(heard.name),
        joined_at: heard.joined_secs.map(|secs| ago(now, secs)),
        left_at: heard.left_secs.map(|secs| ago(now, secs)),
        ..Hint::look(&format!("event-{}", heard.session), ago(now, heard.ago_secs))
    };
    hint.sound()
}

fn event(event: &Event) -> NewInboxEvent {
    NewInboxEvent {
        service: DAILY,
        event: event.name.to_string(),
        kind: "participant.joined".to_owned(),
        room: event.room.map(|room| (*pick(&ROOMS, room)).to_owned()),
        outcome: *pick(&InboxOutcome::ALL, event.outcome),
        reason: None,
        payload: format!("{event:?}"),
    }
}

fn room_name(text: &str) -> RoomName {
    RoomName::new(text).expect("a room's name")
}

fn name(pick: Option<Pick>) -> Option<String> {
    pick.map(|pick| (*self::pick(&NAMES, pick)).to_owned())
}

fn ago(now: Timestamp, secs: i64) -> Timestamp {
    let by = Duration::from_secs(secs.unsigned_abs());
    if secs < 0 { now + by } else { now - by }
}

fn pick<T>(list: &[T], pick: Pick) -> &T {
    &list[usize::from(pick) % list.len()]
}
