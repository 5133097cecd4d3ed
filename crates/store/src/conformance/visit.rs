//! Short names for what the cases of rooms do.

use std::collections::BTreeMap;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::{Frame, LoggedTransition, Transition};
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    CommitAnswer, EndAnswer, LookWritten, OpenAnswer, PresenceFilter, PresencePage, Scope,
    SessionFilter,
};
use roundsman_core::presence::{
    Hint, HintKind, Look, LookPlan, LookReport, NewPresenceMeeting, Participant, PresenceMeeting,
    PresenceRules, PresenceSession, RoomName, reconcile,
};
use roundsman_core::users::UserId;

use super::attend::{frames_of, log_of, user};
use super::fixture::Fixture;
use super::wishes::RENDER;

pub(super) const ALL_SESSIONS: SessionFilter =
    SessionFilter { open: None, after: None, rows_max: 100_000 };
pub(super) const ALL_MEETINGS: PresencePage = PresencePage { before: None, rows_max: 100_000 };

pub(super) fn room_name(text: &str) -> RoomName {
    RoomName::new(text).expect("the suite names valid rooms")
}

/// An unplanned meeting.
pub(super) fn new_meeting(user_id: UserId, room: &str) -> NewPresenceMeeting {
    NewPresenceMeeting { user_id, room: room_name(room), room_url: None, schedule: None }
}

pub(super) async fn try_open(fx: &Fixture, wish: NewPresenceMeeting) -> OpenAnswer {
    fx.store.open_presence(wish, fx.now()).await.expect("open_presence")
}

pub(super) async fn open(fx: &Fixture, user: UserId, room: &str) -> PresenceMeeting {
    match try_open(fx, new_meeting(user, room)).await {
        OpenAnswer::Opened(meeting) => *meeting,
        other => panic!("expected a meeting in {room}, got {other:?}"),
    }
}

/// Ada's meeting in a room.
pub(super) async fn room(fx: &Fixture, room: &str) -> MeetingId {
    let ada = user(fx, "ada").await;
    open(fx, ada, room).await.id
}

/// Ada's meeting in a room with these people, who came just now.
pub(super) async fn room_with(fx: &Fixture, name: &str, people: &[&str]) -> MeetingId {
    let id = room(fx, name).await;
    sees(fx, id, people).await;
    assert_eq!(open_ids(fx, id).await.len(), people.len());
    id
}

pub(super) async fn find(fx: &Fixture, id: MeetingId) -> Option<PresenceMeeting> {
    fx.store.presence_meeting(Scope::All, id).await.expect("presence_meeting")
}

/// The meeting as it is now.
pub(super) async fn meeting(fx: &Fixture, id: MeetingId) -> PresenceMeeting {
    find(fx, id).await.unwrap_or_else(|| panic!("meeting {id} is gone"))
}

pub(super) async fn meetings(
    fx: &Fixture,
    scope: Scope,
    filter: PresenceFilter,
) -> Vec<PresenceMeeting> {
    let found = fx.store.presence_meetings(scope, filter, ALL_MEETINGS).await;
    found.expect("presence_meetings")
}

/// All sessions of a meeting, by their ids.
pub(super) async fn sessions(fx: &Fixture, id: MeetingId) -> BTreeMap<String, PresenceSession> {
    let found = fx.store.presence_sessions(id, ALL_SESSIONS).await.expect("presence_sessions");
    let count = found.len();
    let by_id: BTreeMap<_, _> =
        found.into_iter().map(|session| (session.session_id.clone(), session)).collect();
    assert_eq!(by_id.len(), count, "one row for each session");
    by_id
}

/// Who is there.
pub(super) async fn open_ids(fx: &Fixture, id: MeetingId) -> Vec<String> {
    let all = sessions(fx, id).await;
    all.into_values().filter(PresenceSession::is_open).map(|session| session.session_id).collect()
}

/// Somebody who says a name and came just now.
pub(super) fn person(fx: &Fixture, id: &str) -> Participant {
    Participant {
        session_id: id.to_owned(),
        user_id: None,
        user_name: Some(id.to_uppercase()),
        joined_at: fx.now(),
    }
}

/// An event about somebody who came then; heard now.
pub(super) fn hint(
    fx: &Fixture,
    what: HintKind,
    id: &str,
    joined_at: Timestamp,
    left_at: Option<Timestamp>,
) -> Hint {
    Hint {
        what,
        session: Some(id.to_owned()),
        joined_at: Some(joined_at),
        left_at,
        ..Hint::look(&format!("{what:?}-{id}"), fx.now())
    }
}

/// A lease that nobody had before, so that what is written under it is newer than all else.
pub(super) async fn lease(fx: &Fixture) -> LeaseRef {
    const TRIES_MAX: usize = 1000;
    fx.put(fx.wish(RENDER)).await;
    // Of many who take theirs at once one may find what the others are just about to take.
    for _ in 0..TRIES_MAX {
        if let Some(job) = fx.claim(RENDER, 1).await.pop() {
            return job.lease_ref();
        }
        tokio::task::yield_now().await;
    }
    panic!("there is a job for everybody");
}

/// A look that begins now.
pub(super) fn report(fx: &Fixture, lease: LeaseRef, look: Look, hints: &[Hint]) -> LookReport {
    LookReport { no: lease.lease_no.get(), began_at: fx.now(), look, hints: hints.to_vec() }
}

pub(super) async fn commit(
    fx: &Fixture,
    id: MeetingId,
    report: LookReport,
    guard: LeaseRef,
) -> CommitAnswer {
    let rules = PresenceRules::default();
    fx.store.commit_look(id, report, rules, guard, fx.now()).await.expect("commit_look")
}

/// Looks under a lease of its own, and compares everything that is answered and written with what
/// the rules say.
pub(super) async fn look(fx: &Fixture, id: MeetingId, look: Look, hints: &[Hint]) -> LookWritten {
    let guard = lease(fx).await;
    let report = report(fx, guard, look, hints);
    let before = Snapshot::of(fx, id).await;
    let known = before.sessions.values().cloned().collect();
    let plan =
        reconcile(&before.meeting, known, report.clone(), &PresenceRules::default(), fx.now());
    let plan = plan.expect("its lease is newer than all others");
    let written = written(commit(fx, id, report, guard).await);
    assert_written(fx, before, &plan, &written).await;
    written
}

/// Looks and sees these people. Whoever is new came just now.
pub(super) async fn sees(fx: &Fixture, id: MeetingId, people: &[&str]) -> LookWritten {
    look(fx, id, seen(fx, people), &[]).await
}

pub(super) fn seen(fx: &Fixture, people: &[&str]) -> Look {
    Look::Seen(people.iter().map(|id| person(fx, id)).collect())
}

pub(super) fn failed(reason: &str) -> Look {
    Look::Failed { reason: reason.to_owned() }
}

pub(super) fn written(answer: CommitAnswer) -> LookWritten {
    match answer {
        CommitAnswer::Written(written) => *written,
        other => panic!("expected that something was written, got {other:?}"),
    }
}

/// A meeting with all that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Snapshot {
    pub(super) meeting: PresenceMeeting,
    pub(super) sessions: BTreeMap<String, PresenceSession>,
    pub(super) log: Vec<LoggedTransition>,
    pub(super) frames: Vec<Frame>,
}

impl Snapshot {
    pub(super) async fn of(fx: &Fixture, id: MeetingId) -> Self {
        Snapshot {
            meeting: meeting(fx, id).await,
            sessions: sessions(fx, id).await,
            log: log_of(fx, id).await,
            frames: frames_of(fx, id).await,
        }
    }
}

/// The plan, all of it and nothing else, was answered and written.
pub(super) async fn assert_written(
    fx: &Fixture,
    before: Snapshot,
    plan: &LookPlan,
    written: &LookWritten,
) {
    assert_eq!(written.meeting, plan.meeting);
    assert_eq!((written.tally, written.again_at), (plan.tally, plan.again_at));
    assert_eq!(written.hints, plan.hints);
    let id = plan.meeting.id;
    let after = Snapshot::of(fx, id).await;
    assert_eq!(after.meeting, plan.meeting);
    let mut expected = before.sessions;
    for session in &plan.sessions {
        expected.insert(session.session_id.clone(), session.clone());
    }
    assert_eq!(after.sessions, expected);
    let inside = after.sessions.values().filter(|session| session.is_open()).count();
    assert_eq!(inside, after.meeting.num_clients as usize, "R4");
    let (old, new) = after.log.split_at(before.log.len());
    assert_eq!(old, before.log);
    let step = |step: &LoggedTransition| Transition {
        entity: "meeting",
        entity_id: step.entity_id,
        from_state: step.from_state.clone(),
        to_state: step.to_state.clone(),
        cause: step.cause.clone(),
        detail: step.detail.clone(),
    };
    assert_eq!(new.iter().map(step).collect::<Vec<_>>(), plan.effects.transitions);
    assert!(new.iter().all(|step| step.at == fx.now()));
    let (old, new) = after.frames.split_at(before.frames.len());
    assert_eq!((old, new), (&before.frames[..], &written.frames[..]));
    let bodies: Vec<_> = new.iter().map(|frame| &frame.body).collect();
    assert_eq!(bodies, plan.effects.frames.iter().map(|frame| &frame.body).collect::<Vec<_>>());
}

pub(super) async fn judge(fx: &Fixture, id: MeetingId) -> CommitAnswer {
    let guard = lease(fx).await;
    let judged = fx.store.judge_presence(id, PresenceRules::default(), guard, fx.now()).await;
    judged.expect("judge_presence")
}

pub(super) async fn end(fx: &Fixture, scope: Scope, id: MeetingId) -> EndAnswer {
    fx.store.end_presence(scope, id, fx.now()).await.expect("end_presence")
}

/// Its owner ends a meeting that is open.
pub(super) async fn deactivate(fx: &Fixture, id: MeetingId) -> PresenceMeeting {
    match end(fx, Scope::All, id).await {
        EndAnswer::Ended(written) => written.meeting,
        other => panic!("expected the end of {id}, got {other:?}"),
    }
}

/// Everybody leaves, and the meeting is over when the grace is.
pub(super) async fn everyone_leaves(fx: &Fixture, id: MeetingId) -> PresenceMeeting {
    let rules = PresenceRules::default();
    for wait in [rules.lag, rules.lag] {
        fx.advance(wait);
        sees(fx, id, &[]).await;
    }
    assert_eq!(meeting(fx, id).await.num_clients, 0);
    fx.advance(rules.empty_grace);
    written(judge(fx, id).await).meeting
}

pub(super) async fn note_joining(
    fx: &Fixture,
    id: MeetingId,
    connection: &str,
    wait: Duration,
) -> bool {
    let noted = fx.store.note_joining(id, connection.to_owned(), fx.now() + wait).await;
    noted.expect("note_joining")
}

pub(super) async fn meeting_of_room(fx: &Fixture, room: &str) -> Option<MeetingId> {
    let found = fx.store.meetings_of_rooms(vec![room_name(room)]).await;
    found.expect("meetings_of_rooms").remove(0)
}
