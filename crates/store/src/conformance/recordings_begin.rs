//! A recording belongs to the meeting of its room that began nearest to it, and is processed under
//! the lease of its job.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{JobId, LeaseNo, LeaseRef};
use roundsman_core::ports::{BeginAnswer, PresenceFilter, Scope};
use roundsman_core::recordings::{
    self as rules, Announcement, MATCH_WITHIN, PROCESS_KIND, Recording, RecordingStatus, nearest,
};

use super::attend::{lose_leases, reserve, user};
use super::fixture::Fixture;
use super::record::{
    Snapshot, announcement, assert_changed, begin, begun, conversation, find, log_of, new_begun,
    new_recording, recording, recording_id, recording_in, save, states_of,
};
use super::visit::{deactivate, lease, meetings, open, room, room_name, sees};
use super::wishes::{MINUTE, SECOND, done, key};

const HOUR: Duration = Duration::from_secs(3600);

pub async fn a_recording_finds_its_meeting(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    open(fx, ada, "elsewhere").await;
    let id = open(fx, bob, "weekly").await.id;
    fx.advance(SECOND);
    let made = new_recording(fx, announcement(fx, "rec", "weekly")).await;
    fx.advance(MINUTE);
    let (guard, log) = (lease(fx).await, log_of(fx, made.no).await);
    let answer = begin(fx, &made.id, guard).await;
    let changed = rules::begin(made, id, bob, fx.now());
    let expected = &changed.recording;
    assert_eq!(answer, BeginAnswer::Begun(Box::new(expected.clone())));
    assert_changed(fx, &log, &changed).await;
    assert_eq!(states_of(fx, expected).await, ["pending", "processing"]);
    assert_eq!(find(fx, Scope::User(bob), &expected.id).await.as_ref(), Some(expected));
}

/// Names of rooms are used again: it belongs to the meeting that began nearest to it.
pub async fn the_nearest_meeting_of_the_room_is_meant(fx: &Arc<Fixture>) {
    let users = [user(fx, "ada").await, user(fx, "bob").await];
    let begin_at = fx.now();
    for number in 0..6 {
        fx.advance(HOUR * 2);
        let id = open(fx, users[number % 2], "weekly").await.id;
        open(fx, users[0], &format!("Weekly-{number}")).await;
        // Some began later than they were made.
        if number % 3 == 1 {
            fx.advance(HOUR);
            sees(fx, id, &["a"]).await;
        }
        fx.advance(MINUTE);
        deactivate(fx, id).await;
    }
    let filter = PresenceFilter { active: None, room: Some(room_name("weekly")) };
    let all = meetings(fx, Scope::All, filter).await;
    let starts: Vec<(MeetingId, Timestamp)> =
        all.iter().map(|one| (one.id, one.started_at.unwrap_or(one.created_at))).collect();
    assert_eq!(starts.len(), 6);
    let mut meant = BTreeSet::new();
    for number in 0..60u32 {
        let started_at = begin_at + Duration::from_secs(20 * 60) * number;
        let wish =
            Announcement { started_at, ..announcement(fx, &format!("r-{number}"), "weekly") };
        let made = new_recording(fx, wish).await;
        let (found, _) = begun(fx, &made.id).await;
        let expected = nearest(started_at, starts.iter().copied()).expect("all are near");
        assert_eq!(found.meeting_id, Some(expected), "{started_at}");
        let owner = all.iter().find(|one| one.id == expected).map(|one| one.user_id);
        assert_eq!(found.user_id, owner);
        meant.insert(expected);
    }
    assert_eq!(meant.len(), 6, "each is the nearest to some");
}

/// However often a room was used, the one that is near is found.
pub async fn one_of_many_meetings_of_a_room_is_found(fx: &Arc<Fixture>) {
    const MEETINGS: usize = 250;
    let ada = user(fx, "ada").await;
    let mut ids = Vec::new();
    for _ in 0..MEETINGS {
        fx.advance(MINUTE);
        let made = open(fx, ada, "daily").await;
        deactivate(fx, made.id).await;
        ids.push(made);
    }
    for place in [0, 1, MEETINGS / 2, MEETINGS - 1] {
        let started_at = ids[place].created_at + SECOND;
        let name = format!("rec-{place}");
        let wish = Announcement { started_at, ..announcement(fx, &name, "daily") };
        let made = new_recording(fx, wish).await;
        assert_eq!(begun(fx, &made.id).await.0.meeting_id, Some(ids[place].id));
    }
}

/// Of two that are as near the one with the lower number.
pub async fn of_two_as_near_the_first_is_meant(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let first = open(fx, ada, "weekly").await;
    deactivate(fx, first.id).await;
    fx.advance(MINUTE * 2);
    let second = open(fx, ada, "weekly").await;
    let started_at = first.created_at + MINUTE;
    for (micros, expected) in [(0, first.id), (1, second.id)] {
        let started_at = started_at + Duration::from_micros(micros);
        let name = format!("rec-{micros}");
        let wish = Announcement { started_at, ..announcement(fx, &name, "weekly") };
        let made = new_recording(fx, wish).await;
        assert_eq!(begun(fx, &made.id).await.0.meeting_id, Some(expected));
    }
}

pub async fn a_meeting_that_is_far_away_is_another_one(fx: &Arc<Fixture>) {
    fx.advance(MATCH_WITHIN * 2);
    let ada = user(fx, "ada").await;
    let made = open(fx, ada, "weekly").await;
    let micro = Duration::from_micros(1);
    let cases = [
        (made.created_at + MATCH_WITHIN, true),
        (made.created_at - MATCH_WITHIN, true),
        (made.created_at + MATCH_WITHIN + micro, false),
        (made.created_at - MATCH_WITHIN - micro, false),
        (Timestamp::EPOCH, false),
        (Timestamp::MAX, false),
    ];
    for (number, (started_at, is_near)) in cases.into_iter().enumerate() {
        let name = format!("rec-{number}");
        let wish = Announcement { started_at, ..announcement(fx, &name, "weekly") };
        let recording = new_recording(fx, wish).await;
        let guard = lease(fx).await;
        let before = Snapshot::of(fx).await;
        let answer = begin(fx, &recording.id, guard).await;
        if is_near {
            assert!(matches!(answer, BeginAnswer::Begun(_)), "{started_at}: {answer:?}");
        } else {
            assert_eq!(answer, BeginAnswer::NoMeeting, "{started_at}");
            assert_eq!(Snapshot::of(fx).await, before, "nothing is written");
        }
    }
}

pub async fn a_meeting_may_come_later(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    // A bot with this name is in no room.
    reserve(fx, ada, "weekly").await;
    for other in ["Weekly", "weekly-", "weekl"] {
        open(fx, ada, other).await;
    }
    let made = new_recording(fx, announcement(fx, "rec", "weekly")).await;
    for _ in 0..2 {
        let guard = lease(fx).await;
        assert_eq!(begin(fx, &made.id, guard).await, BeginAnswer::NoMeeting);
        assert_eq!(recording(fx, &made.id).await, made);
    }
    fx.advance(MINUTE);
    let id = open(fx, ada, "weekly").await.id;
    assert_eq!(begun(fx, &made.id).await.0.meeting_id, Some(id));
}

pub async fn a_meeting_that_was_found_stays(fx: &Arc<Fixture>) {
    let first = room(fx, "weekly").await;
    fx.advance(HOUR);
    let (before, _) = new_begun(fx, "rec", "weekly").await;
    assert_eq!(before.meeting_id, Some(first));
    deactivate(fx, first).await;
    let bob = user(fx, "bob").await;
    open(fx, bob, "weekly").await;
    lose_leases(fx).await;
    let (after, _) = begun(fx, &before.id).await;
    assert_eq!(after, Recording { updated_at: fx.now(), ..before });
}

pub async fn beginning_needs_the_lease(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let made = new_recording(fx, announcement(fx, "rec", "weekly")).await;
    let guard = lease(fx).await;
    lose_leases(fx).await;
    let never = LeaseRef { id: guard.id, lease_no: LeaseNo::new(i64::MAX) };
    let nobodys = LeaseRef { id: JobId::new(1_000_000), lease_no: guard.lease_no };
    let before = Snapshot::of(fx).await;
    for guard in [guard, never, nobodys] {
        assert_eq!(begin(fx, &made.id, guard).await, BeginAnswer::LeaseLost);
        assert_eq!(Snapshot::of(fx).await, before);
    }
}

pub async fn what_is_done_is_not_begun(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let over = recording_in(fx, "rec", "weekly", RecordingStatus::Completed).await;
    let guard = lease(fx).await;
    fx.advance(MINUTE);
    let before = Snapshot::of(fx).await;
    assert_eq!(begin(fx, &over.id, guard).await, BeginAnswer::Done);
    assert_eq!(begin(fx, &recording_id("other"), guard).await, BeginAnswer::NotFound);
    assert_eq!(Snapshot::of(fx).await, before);
}

/// Whoever began it has died, or has given it up.
pub async fn what_was_left_is_begun_again(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    for status in [RecordingStatus::Processing, RecordingStatus::Failed] {
        let left = recording_in(fx, status.as_str(), "weekly", status).await;
        let log = log_of(fx, left.no).await;
        fx.advance(MINUTE);
        let (again, _) = begun(fx, &left.id).await;
        let owner = left.user_id.expect("it is somebody's");
        let changed = rules::begin(left, id, owner, fx.now());
        assert_eq!((&again, &again.error), (&changed.recording, &None));
        assert_changed(fx, &log, &changed).await;
    }
}

/// The usual way: the job of the announcement is claimed, and what it writes is written under it.
pub async fn a_recording_is_processed_by_its_job(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    for name in ["one", "two"] {
        let made = new_recording(fx, announcement(fx, name, "weekly")).await;
        let job = fx.claim_one(PROCESS_KIND).await;
        assert_eq!(job.facts.key, Some(key(name)));
        let guard = job.lease_ref();
        assert!(matches!(begin(fx, &made.id, guard).await, BeginAnswer::Begun(_)));
        save(fx, &made.id, conversation(), guard).await;
        fx.land(guard, done("null")).await;
        assert_eq!(states_of(fx, &made).await, ["pending", "processing", "completed"]);
    }
    fx.assert_nothing_to_claim(PROCESS_KIND).await;
}
