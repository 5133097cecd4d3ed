//! What could not be processed says why, and waits again when somebody asks for it.

use std::sync::Arc;

use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::Job;
use roundsman_core::ports::{RecordingFilter, Scope};
use roundsman_core::recordings::{
    self as rules, PROCESS_KIND, Recording, RecordingId, RecordingStatus,
};
use roundsman_core::users::UserId;

use super::attend::{lose_leases, user};
use super::fixture::Fixture;
use super::record::{
    Snapshot, announcement, assert_changed, begin, begun, conversation, fail, log_of, new_begun,
    new_recording, process_jobs, recording, recording_id, recording_in, recordings, retry, save,
    states_of, waiting,
};
use super::visit::{lease, open, room};
use super::wishes::{MINUTE, SECOND};

pub async fn why_it_failed_is_kept(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let odd = "it's \"broken\" \\ 😀 \u{202e}ü; -- %s $1 ?1\n";
    let long = "broken 😀 ".repeat(1000);
    for (number, error) in ["broken", "", odd, &long].into_iter().enumerate() {
        let (begun, guard) = new_begun(fx, &format!("rec-{number}"), "weekly").await;
        let log = log_of(fx, begun.no).await;
        fx.advance(SECOND);
        assert!(fail(fx, &begun.id, error, guard).await);
        let changed = rules::fail(begun, error.to_owned(), fx.now());
        assert_changed(fx, &log, &changed).await;
        let states = states_of(fx, &changed.recording).await;
        assert_eq!(states, ["pending", "processing", "failed"]);
    }
    // What a database has no place for is left out.
    let (begun, guard) = new_begun(fx, "nul", "weekly").await;
    assert!(fail(fx, &begun.id, "bro\0ken", guard).await);
    assert_eq!(recording(fx, &begun.id).await.error.as_deref(), Some("broken"));
}

/// No meeting was near it.
pub async fn what_has_not_begun_may_fail(fx: &Arc<Fixture>) {
    let made = new_recording(fx, announcement(fx, "rec", "weekly")).await;
    let guard = lease(fx).await;
    assert!(fail(fx, &made.id, "no_meeting", guard).await);
    let failed = recording(fx, &made.id).await;
    assert_eq!((failed.status, failed.meeting_id), (RecordingStatus::Failed, None));
    assert_eq!(states_of(fx, &failed).await, ["pending", "failed"]);
}

pub async fn failing_needs_the_lease(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    lose_leases(fx).await;
    let before = Snapshot::of(fx).await;
    assert!(!fail(fx, &begun.id, "broken", guard).await);
    assert_eq!(Snapshot::of(fx).await, before);
}

/// R8: what has a transcript never becomes something that gets another.
pub async fn what_is_done_does_not_fail(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    save(fx, &begun.id, conversation(), guard).await;
    fx.advance(SECOND);
    let before = Snapshot::of(fx).await;
    fail(fx, &begun.id, "broken", guard).await;
    assert_eq!(Snapshot::of(fx).await, before);
    assert_eq!(retry(fx, Scope::All, None, 100).await, 0);
}

pub async fn what_failed_waits_again(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let made = new_recording(fx, announcement(fx, "rec", "weekly")).await;
    let job = fx.claim_one(PROCESS_KIND).await;
    begin(fx, &made.id, job.lease_ref()).await;
    assert!(fail(fx, &made.id, "broken", job.lease_ref()).await);
    let failed = recording(fx, &made.id).await;
    fx.advance(MINUTE);
    // Its job may not have ended yet.
    assert_eq!(retry(fx, Scope::All, Some(&made.id), 1).await, 1);
    assert_waits(fx, &failed).await;
    let before = Snapshot::of(fx).await;
    for id in [Some(&made.id), None] {
        assert_eq!(retry(fx, Scope::All, id, 10).await, 0, "it waits already");
        assert_eq!(Snapshot::of(fx).await, before);
    }
    fx.land(job.lease_ref(), super::wishes::fail()).await;
    let job = fx.claim_one(PROCESS_KIND).await;
    begin(fx, &made.id, job.lease_ref()).await;
    save(fx, &made.id, conversation(), job.lease_ref()).await;
    let states = ["pending", "processing", "failed", "pending", "processing", "completed"];
    assert_eq!(states_of(fx, &made).await, states);
    assert_eq!(recording(fx, &made.id).await.error, None);
}

pub async fn only_what_has_failed_waits_again(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let mut known = Vec::new();
    for status in RecordingStatus::ALL.into_iter().filter(|one| *one != RecordingStatus::Failed) {
        known.push(recording_in(fx, status.as_str(), "weekly", status).await.id);
    }
    known.push(recording_id("nobody"));
    let before = Snapshot::of(fx).await;
    for id in known.iter().map(Some).chain([None]) {
        assert_eq!(retry(fx, Scope::All, id, 10).await, 0, "{id:?}");
    }
    assert_eq!(Snapshot::of(fx).await, before);
}

/// The night's round.
pub async fn the_oldest_wait_again_first(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let mut failed = Vec::new();
    for number in 0..5 {
        let name = |status: RecordingStatus| format!("{}-{number}", status.as_str());
        for status in RecordingStatus::ALL {
            let made = recording_in(fx, &name(status), "weekly", status).await;
            if status == RecordingStatus::Failed {
                failed.push(made);
            }
        }
    }
    let mut waits = 0;
    for (rows_max, expected) in [(0, 0), (2, 2), (1, 1), (10, 2), (10, 0)] {
        fx.advance(SECOND);
        assert_eq!(retry(fx, Scope::All, None, rows_max).await, expected);
        let now = waits + expected as usize;
        for one in &failed[waits..now] {
            assert_waits(fx, one).await;
        }
        waits = now;
        let left: Vec<RecordingId> = failed[waits..].iter().map(|one| one.id.clone()).collect();
        assert_eq!(still_failed(fx).await, left, "the newest are left");
    }
}

pub async fn nobody_retries_the_recordings_of_others(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    open(fx, ada, "weekly").await;
    open(fx, bob, "other").await;
    let mine = recording_in(fx, "mine", "weekly", RecordingStatus::Failed).await;
    let theirs = recording_in(fx, "theirs", "other", RecordingStatus::Failed).await;
    let nobodys = new_recording(fx, announcement(fx, "nobodys", "elsewhere")).await;
    let guard = lease(fx).await;
    assert!(fail(fx, &nobodys.id, "no_meeting", guard).await);
    let before = Snapshot::of(fx).await;
    for (user, id) in [
        (ada, &theirs.id),
        (bob, &mine.id),
        (ada, &nobodys.id),
        (UserId::SYSTEM, &nobodys.id),
        (UserId::new(1_000_000), &mine.id),
    ] {
        assert_eq!(retry(fx, Scope::User(user), Some(id), 10).await, 0, "{user:?} {id:?}");
    }
    assert_eq!(Snapshot::of(fx).await, before);
    assert_eq!(retry(fx, Scope::User(ada), None, 10).await, 1);
    assert_waits(fx, &mine).await;
    assert_eq!(still_failed(fx).await, [theirs.id.clone(), nobodys.id.clone()]);
    assert_eq!(retry(fx, Scope::User(bob), Some(&theirs.id), 10).await, 1);
    assert_eq!(retry(fx, Scope::All, None, 10).await, 1, "the operator's");
    assert_eq!(still_failed(fx).await, []);
}

/// Its meeting was found the first time; it is the same the next time.
pub async fn a_retry_keeps_what_is_known(fx: &Arc<Fixture>) {
    let id: MeetingId = room(fx, "weekly").await;
    let failed = recording_in(fx, "rec", "weekly", RecordingStatus::Failed).await;
    fx.advance(MINUTE);
    assert_eq!(retry(fx, Scope::All, Some(&failed.id), 1).await, 1);
    let (again, _) = begun(fx, &failed.id).await;
    assert_eq!((again.meeting_id, again.no), (Some(id), failed.no));
    assert_eq!((again.error, again.repeats), (None, 0));
}

/// It waits, with one job, and nothing else has changed.
async fn assert_waits(fx: &Fixture, failed: &Recording) {
    let now = recording(fx, &failed.id).await;
    assert_eq!(now, rules::retry(failed.clone(), fx.now()).recording);
    assert_eq!(now.status, RecordingStatus::Pending);
    let jobs = process_jobs(fx, &failed.id).await;
    assert_eq!(waiting(&jobs), 1);
    let owner = |job: &Job| job.facts().user_id;
    assert!(jobs.iter().all(|job| owner(job) == UserId::SYSTEM));
    let states = states_of(fx, &now).await;
    assert_eq!(states[states.len() - 2..], ["failed", "pending"]);
}

/// Those that have failed, oldest first.
async fn still_failed(fx: &Fixture) -> Vec<RecordingId> {
    let filter = RecordingFilter { status: Some(RecordingStatus::Failed), meeting: None };
    let found = recordings(fx, Scope::All, filter).await;
    found.into_iter().rev().map(|one| one.id).collect()
}
