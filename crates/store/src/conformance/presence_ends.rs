//! When a meeting is over, who may say so, and when it was not.

use std::sync::Arc;

use roundsman_core::jobs::{JobId, LeaseNo, LeaseRef};
use roundsman_core::ports::{CommitAnswer, EndAnswer, OpenAnswer, Scope};
use roundsman_core::presence::{
    ClosedBy, EndReason, Hint, HintKind, Look, NewPresenceMeeting, PresenceRules, Schedule,
    end_meeting,
};

use super::attend::{everything, log_of, lose_leases, meetings_of, states_of, user};
use super::fixture::Fixture;
use super::visit::{
    Snapshot, assert_written, commit, deactivate, end, everyone_leaves, failed, judge, lease, look,
    meeting, meeting_of_room, new_meeting, note_joining, open, open_ids, report, room, room_with,
    seen, sees, sessions, try_open, written,
};
use super::wishes::{MINUTE, SECOND};

/// Everybody has been away for long enough, and somebody has looked.
pub async fn a_meeting_ends_when_everyone_has_left(fx: &Arc<Fixture>) {
    let rules = PresenceRules::default();
    let id = room_with(fx, "weekly", &["a"]).await;
    fx.advance(MINUTE);
    assert_eq!(judge(fx, id).await, CommitAnswer::Unchanged, "somebody is there");
    let ended = Hint { what: HintKind::MeetingEnded, ..Hint::look("met-end", fx.now()) };
    look(fx, id, seen(fx, &[]), &[ended]).await;
    fx.advance(rules.empty_grace.saturating_sub(SECOND));
    let before = Snapshot::of(fx, id).await;
    assert_eq!(judge(fx, id).await, CommitAnswer::Unchanged, "they may come back");
    assert_eq!(Snapshot::of(fx, id).await, before);
    fx.advance(SECOND);
    let plan = end_meeting(&before.meeting, vec![], EndReason::EveryoneLeft, fx.now());
    let over = written(judge(fx, id).await);
    assert_written(fx, before, &plan, &over).await;
    assert_eq!((over.meeting.ended_at, over.frames.len()), (Some(fx.now()), 1));
    assert_eq!(states_of(fx, id).await, ["open", "completed"]);
    let ada = user(fx, "ada").await;
    let row = meetings_of(fx, ada).await.remove(0).meeting;
    assert_eq!((row.status.as_str(), row.end_time), ("completed", Some(fx.now())));
    assert_eq!(judge(fx, id).await, CommitAnswer::Unchanged, "once");
}

pub async fn a_meeting_that_nobody_came_to_ends(fx: &Arc<Fixture>) {
    let rules = PresenceRules::default();
    let ada = user(fx, "ada").await;
    let unplanned = open(fx, ada, "unplanned").await.id;
    let schedule = Schedule {
        starts_at: fx.now() + rules.unused_for,
        ends_at: fx.now() + rules.unused_for * 2,
    };
    let wish = NewPresenceMeeting { schedule: Some(schedule), ..new_meeting(ada, "planned") };
    let OpenAnswer::Opened(planned) = try_open(fx, wish).await else { panic!("it is free") };
    fx.advance(rules.unused_for.saturating_sub(SECOND));
    assert_eq!(judge(fx, unplanned).await, CommitAnswer::Unchanged);
    fx.advance(SECOND);
    let over = written(judge(fx, unplanned).await);
    assert_eq!(over.tally.ended, Some(EndReason::NeverUsed));
    assert_eq!(judge(fx, planned.id).await, CommitAnswer::Unchanged, "its time has not come");
    fx.advance(rules.unused_for.saturating_sub(SECOND));
    assert_eq!(judge(fx, planned.id).await, CommitAnswer::Unchanged);
    fx.advance(SECOND);
    let over = written(judge(fx, planned.id).await);
    assert_eq!(over.meeting.end_reason, Some(EndReason::ScheduleOver));
    assert_eq!(over.meeting.schedule, Some(schedule));
    assert_eq!(meeting(fx, planned.id).await, over.meeting);
}

/// Who leaves and comes back is for a moment in no answer of the provider.
pub async fn whoever_is_on_their_way_keeps_a_meeting_open(fx: &Arc<Fixture>) {
    let id = almost_over(fx, "weekly").await;
    assert!(note_joining(fx, id, "c-1", MINUTE).await);
    assert!(note_joining(fx, id, "c-2", MINUTE * 2).await);
    assert_eq!(judge(fx, id).await, CommitAnswer::Unchanged);
    fx.advance(MINUTE);
    assert_eq!(judge(fx, id).await, CommitAnswer::Unchanged, "the other one may still come");
    // They ask for more time, and then come.
    assert!(note_joining(fx, id, "c-2", MINUTE * 5).await);
    fx.advance(MINUTE * 4);
    assert_eq!(judge(fx, id).await, CommitAnswer::Unchanged);
    let arrived = fx.store.end_joining(id, "c-2".to_owned()).await;
    assert!(arrived.expect("end_joining"));
    assert_eq!(written(judge(fx, id).await).tally.ended, Some(EndReason::EveryoneLeft));
    // Whoever is expected elsewhere keeps nothing open here.
    let (here, elsewhere) = (almost_over(fx, "here").await, room(fx, "elsewhere").await);
    assert!(note_joining(fx, elsewhere, "c-1", MINUTE).await);
    assert!(matches!(judge(fx, here).await, CommitAnswer::Written(_)));
}

pub async fn who_is_on_their_way_is_known_once(fx: &Arc<Fixture>) {
    let id = almost_over(fx, "weekly").await;
    assert!(note_joining(fx, id, "c-1", MINUTE * 10).await);
    // The last word counts, also if it is shorter.
    assert!(note_joining(fx, id, "c-1", SECOND).await);
    let end_joining = async |id, connection: &str| {
        fx.store.end_joining(id, connection.to_owned()).await.expect("end_joining")
    };
    fx.advance(SECOND);
    assert!(matches!(judge(fx, id).await, CommitAnswer::Written(_)));
    assert!(end_joining(id, "c-1").await);
    assert!(!end_joining(id, "c-1").await, "they were on their way once");
    assert!(!end_joining(id, "c-2").await);
    assert!(!note_joining(fx, id, "c-1", MINUTE).await, "it is over");
    let nowhere = roundsman_core::bots::MeetingId::new(1_000_000);
    assert!(!note_joining(fx, nowhere, "c-1", MINUTE).await);
    assert!(!end_joining(nowhere, "c-1").await);
}

pub async fn nobody_ends_a_meeting_while_the_provider_is_silent(fx: &Arc<Fixture>) {
    let id = almost_over(fx, "weekly").await;
    look(fx, id, failed("503"), &[]).await;
    fx.advance(MINUTE * 60);
    assert_eq!(judge(fx, id).await, CommitAnswer::Unchanged);
    sees(fx, id, &[]).await;
    assert!(matches!(judge(fx, id).await, CommitAnswer::Written(_)));
}

pub async fn judging_needs_its_lease(fx: &Arc<Fixture>) {
    let id = almost_over(fx, "weekly").await;
    let lost = lease(fx).await;
    lose_leases(fx).await;
    let before = Snapshot::of(fx, id).await;
    let never = LeaseRef { id: JobId::new(1), lease_no: LeaseNo::new(i64::MAX) };
    for guard in [lost, never] {
        let judged = fx.store.judge_presence(id, PresenceRules::default(), guard, fx.now()).await;
        assert_eq!(judged.expect("judge_presence"), CommitAnswer::LeaseLost);
    }
    assert_eq!(Snapshot::of(fx, id).await, before);
}

pub async fn its_owner_ends_a_meeting(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let id = room_with(fx, "weekly", &["a", "b"]).await;
    fx.advance(MINUTE);
    let before = Snapshot::of(fx, id).await;
    assert_eq!(end(fx, Scope::User(bob), id).await, EndAnswer::NotFound);
    let nowhere = roundsman_core::bots::MeetingId::new(1_000_000);
    assert_eq!(end(fx, Scope::All, nowhere).await, EndAnswer::NotFound);
    let open = before.sessions.values().cloned().collect();
    let plan = end_meeting(&before.meeting, open, EndReason::Deactivated, fx.now());
    let EndAnswer::Ended(over) = end(fx, Scope::User(ada), id).await else {
        panic!("it is theirs");
    };
    assert_written(fx, before, &plan, &over).await;
    assert_eq!((over.meeting.num_clients, over.tally.left), (0, 2));
    for session in sessions(fx, id).await.values() {
        let closed = session.closed.expect("all have left");
        assert_eq!((closed.at, closed.by), (fx.now(), ClosedBy::Deactivated));
    }
    let ended = Snapshot::of(fx, id).await;
    fx.advance(MINUTE);
    let again = end(fx, Scope::User(ada), id).await;
    assert_eq!(again, EndAnswer::WasOver(Box::new(ended.meeting.clone())));
    assert_eq!(Snapshot::of(fx, id).await, ended, "once");
    // An answer that was on its way does not open it again.
    let late = sees(fx, id, &["a", "b", "c"]).await;
    assert_eq!((late.meeting.is_active(), late.frames), (false, vec![]));
    assert_eq!(sessions(fx, id).await, ended.sessions);
    assert_eq!(meeting_of_room(fx, "weekly").await, None);
}

/// Its owner's word counts also when the meeting is over already.
pub async fn an_owner_has_the_last_word(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let id = room_with(fx, "weekly", &["a"]).await;
    let over = everyone_leaves(fx, id).await;
    assert_eq!(over.end_reason, Some(EndReason::EveryoneLeft));
    assert_eq!(meeting_of_room(fx, "weekly").await, Some(id), "it might be a mistake");
    let row = meetings_of(fx, ada).await;
    fx.advance(MINUTE);
    assert_eq!(end(fx, Scope::User(bob), id).await, EndAnswer::NotFound);
    let EndAnswer::WasOver(ended) = end(fx, Scope::User(ada), id).await else {
        panic!("it was over");
    };
    let mut expected = over;
    expected.end_reason = Some(EndReason::Deactivated);
    assert_eq!((&*ended, meeting(fx, id).await), (&expected, expected.clone()));
    let log = log_of(fx, id).await;
    let last = log.last().expect("a step");
    assert_eq!(
        (last.from_state.as_deref(), last.to_state.as_str()),
        (Some("completed"), "completed")
    );
    assert_eq!((last.cause.as_str(), last.at), ("deactivated", fx.now()));
    assert_eq!(meetings_of(fx, ada).await, row, "when it ended is as it was");
    assert_eq!(meeting_of_room(fx, "weekly").await, None);
    assert!(!sees(fx, id, &["a"]).await.tally.healed);
    let steps = log_of(fx, id).await.len();
    end(fx, Scope::All, id).await;
    assert_eq!(log_of(fx, id).await.len(), steps, "it was said");
}

/// People who are seen show that a meeting is not over.
pub async fn a_meeting_that_was_ended_by_mistake_is_healed(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for (number, reason) in
        [EndReason::EveryoneLeft, EndReason::NeverUsed, EndReason::RoomGone].into_iter().enumerate()
    {
        let id = open(fx, ada, &format!("room-{number}")).await.id;
        let ended = match reason {
            EndReason::EveryoneLeft => {
                sees(fx, id, &["a"]).await;
                everyone_leaves(fx, id).await
            }
            EndReason::RoomGone => {
                look(fx, id, Look::Gone, &[]).await;
                fx.advance(PresenceRules::default().gone_grace);
                look(fx, id, Look::Gone, &[]).await.meeting
            }
            _ => {
                fx.advance(PresenceRules::default().unused_for);
                written(judge(fx, id).await).meeting
            }
        };
        assert_eq!(ended.end_reason, Some(reason));
        let without = sees(fx, id, &[]).await;
        assert!(!without.tally.healed && !without.meeting.is_active(), "nobody is there");
        fx.advance(SECOND);
        let healed = sees(fx, id, &["a", "b"]).await;
        assert!(healed.tally.healed && healed.meeting.is_active());
        assert_eq!((healed.meeting.ended_at, healed.meeting.end_reason), (None, None));
        assert_eq!(states_of(fx, id).await.last().map(String::as_str), Some("open"));
        let row = meetings_of(fx, ada).await.remove(0).meeting;
        assert_eq!((row.id, row.status.as_str(), row.end_time), (id, "open", None));
        let taken = try_open(fx, new_meeting(ada, &format!("room-{number}"))).await;
        assert_eq!(taken, OpenAnswer::RoomTaken { meeting: id });
    }
}

/// Somebody else is in the room by now: who is seen there is theirs.
pub async fn a_room_that_was_taken_meanwhile_is_not_taken_back(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let first = room_with(fx, "weekly", &["a"]).await;
    everyone_leaves(fx, first).await;
    let second = open(fx, bob, "weekly").await;
    fx.advance(MINUTE);
    let guard = lease(fx).await;
    let before = everything(fx, &[ada, bob]).await;
    let was = Snapshot::of(fx, first).await;
    let look = report(fx, guard, seen(fx, &["a", "b"]), &[]);
    assert_eq!(commit(fx, first, look.clone(), guard).await, CommitAnswer::Unchanged);
    assert_eq!(Snapshot::of(fx, first).await, was, "not even that somebody looked");
    assert_eq!(everything(fx, &[ada, bob]).await, before);
    // What does not open it is written as ever.
    assert_eq!(sees(fx, first, &[]).await.meeting.num_clients, 0);
    assert_eq!(meeting_of_room(fx, "weekly").await, Some(second.id));
    written(commit(fx, second.id, look, guard).await);
    assert_eq!(open_ids(fx, second.id).await, ["a", "b"]);
    // Once that one is over, the first is the one of long ago.
    deactivate(fx, second.id).await;
    assert_eq!(meeting_of_room(fx, "weekly").await, None);
    let healed = sees(fx, first, &["a"]).await;
    assert!(healed.tally.healed, "but who looks at it, and sees somebody, is believed");
    assert_eq!(meeting_of_room(fx, "weekly").await, Some(first));
}

/// A meeting whose people have been away for long enough.
async fn almost_over(fx: &Fixture, name: &str) -> roundsman_core::bots::MeetingId {
    let id = room_with(fx, name, &["a"]).await;
    fx.advance(MINUTE);
    let ended = Hint { what: HintKind::MeetingEnded, ..Hint::look("met-end", fx.now()) };
    look(fx, id, seen(fx, &[]), &[ended]).await;
    fx.advance(PresenceRules::default().empty_grace);
    id
}
