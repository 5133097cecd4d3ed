//! Whoever does not agree to being recorded has the media erased; the latest word of each counts.

use std::sync::Arc;

use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{JobState, Json};
use roundsman_core::ports::Scope;
use roundsman_core::recordings::{Announcement, Consent, ERASE_KIND, Recording, RecordingStatus};
use roundsman_core::users::UserId;

use super::attend::{jobs_of, user};
use super::fixture::Fixture;
use super::record::{
    Snapshot, announcement, begun, consents, conversation, erased, new_begun, new_recording,
    recording, recording_in, save, says_of_consent, to_erase, waiting,
};
use super::visit::{deactivate, open, room};
use super::wishes::{MINUTE, SECOND, done};

pub async fn what_people_say_is_kept(fx: &Arc<Fixture>) {
    let (id, other) = (room(fx, "weekly").await, room(fx, "other").await);
    assert_eq!(consents(fx, id).await, vec![]);
    let odd = "Ada's 😀 \"name\" \\ \u{202e}ü; -- %s $1 ?1";
    let long = "ä".repeat(200);
    let mut expected = Vec::new();
    for (person, given) in [("ann", true), (odd, false), (long.as_str(), true), ("Ann", false)] {
        fx.advance(SECOND);
        assert!(says_of_consent(fx, Scope::All, id, person, given).await);
        expected.push(Consent { person: person.to_owned(), given, at: fx.now() });
    }
    expected.sort_by(|a, b| a.person.cmp(&b.person));
    assert_eq!(consents(fx, id).await, expected);
    assert_eq!(consents(fx, other).await, vec![], "each meeting has its own");
    for nobody in [0, -1, 1_000_000, i64::MAX] {
        assert_eq!(consents(fx, MeetingId::new(nobody)).await, vec![]);
    }
    // What a database has no place for is left out.
    assert!(says_of_consent(fx, Scope::All, other, "a\0b", true).await);
    assert_eq!(consents(fx, other).await[0].person, "ab");
}

pub async fn the_latest_word_counts(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let over = recording_in(fx, "rec", "weekly", RecordingStatus::Completed).await;
    for given in [true, false, true, true, false, false] {
        fx.advance(SECOND);
        assert!(says_of_consent(fx, Scope::All, id, "ann", given).await);
        let at = fx.now();
        assert_eq!(consents(fx, id).await, [Consent { person: "ann".to_owned(), given, at }]);
        assert_eq!(to_erase(fx, id).await.is_empty(), given);
    }
    // A word that comes late is not the latest.
    let late = Consent { person: "ann".to_owned(), given: true, at: fx.now() - SECOND };
    assert!(fx.store.set_consent(Scope::All, id, late).await.expect("set_consent"));
    assert!(!consents(fx, id).await[0].given);
    // Nobody speaks for somebody else.
    fx.advance(SECOND);
    assert!(says_of_consent(fx, Scope::All, id, "bob", true).await);
    assert_eq!(to_erase(fx, id).await, [over]);
}

pub async fn a_denial_brings_one_job(fx: &Arc<Fixture>) {
    let (id, other) = (room(fx, "weekly").await, room(fx, "other").await);
    assert!(says_of_consent(fx, Scope::All, id, "ann", true).await);
    assert_eq!(jobs_of(fx, ERASE_KIND, id).await, vec![], "nobody has denied");
    for person in ["bob", "bob", "cat"] {
        fx.advance(SECOND);
        assert!(says_of_consent(fx, Scope::All, id, person, false).await);
        let jobs = jobs_of(fx, ERASE_KIND, id).await;
        assert_eq!(jobs.len(), 1, "one for all of them");
        let facts = jobs[0].facts();
        assert_eq!((facts.user_id, &facts.payload), (UserId::SYSTEM, &Json::null()));
        assert_eq!(jobs[0].state(fx.now()), JobState::Pending);
    }
    assert_eq!(jobs_of(fx, ERASE_KIND, other).await, vec![]);
    // While it runs, it may have looked already: another one follows.
    let job = fx.claim_one(ERASE_KIND).await;
    assert!(says_of_consent(fx, Scope::All, id, "dan", false).await);
    assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 1);
    fx.land(job.lease_ref(), done("null")).await;
    assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 1);
}

/// Whoever denies before there is anything to erase is remembered.
pub async fn a_denial_before_the_end_is_kept(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    assert!(says_of_consent(fx, Scope::All, id, "ann", false).await);
    run_eraser(fx, id).await;
    assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 0);
    fx.advance(MINUTE);
    save(fx, &begun.id, conversation(), guard).await;
    assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 1, "at its end somebody is asked to");
    assert_eq!(to_erase(fx, id).await, [recording(fx, &begun.id).await]);
}

pub async fn a_denial_after_the_end_is_enough(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    assert!(says_of_consent(fx, Scope::All, id, "ann", true).await);
    let over = recording_in(fx, "rec", "weekly", RecordingStatus::Completed).await;
    assert_eq!(jobs_of(fx, ERASE_KIND, id).await, vec![], "all have agreed");
    assert_eq!(to_erase(fx, id).await, vec![]);
    assert!(says_of_consent(fx, Scope::All, id, "ann", false).await);
    assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 1);
    assert_eq!(to_erase(fx, id).await, [over]);
}

/// A word that was taken back counts no more, neither before nor at the end.
pub async fn a_denial_that_was_taken_back_erases_nothing(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    for given in [false, true] {
        fx.advance(SECOND);
        assert!(says_of_consent(fx, Scope::All, id, "ann", given).await);
    }
    run_eraser(fx, id).await;
    recording_in(fx, "rec", "weekly", RecordingStatus::Completed).await;
    assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 0);
    assert_eq!(to_erase(fx, id).await, vec![]);
}

pub async fn all_recordings_of_a_meeting_are_erased(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let first = open(fx, ada, "weekly").await.id;
    let mut expected = Vec::new();
    for status in RecordingStatus::ALL {
        let made = recording_in(fx, status.as_str(), "weekly", status).await;
        if status != RecordingStatus::Pending {
            assert_eq!(made.meeting_id, Some(first));
            expected.push(made);
        }
    }
    deactivate(fx, first).await;
    fx.advance(MINUTE * 60);
    // The next meeting in the same room has agreed.
    let second = open(fx, ada, "weekly").await.id;
    let next = recording_in(fx, "next", "weekly", RecordingStatus::Completed).await;
    assert_eq!(next.meeting_id, Some(second));
    assert!(says_of_consent(fx, Scope::All, first, "ann", false).await);
    assert!(says_of_consent(fx, Scope::All, second, "ann", true).await);
    assert_eq!(to_erase(fx, first).await, expected);
    assert_eq!(to_erase(fx, second).await, vec![]);
    assert_eq!(to_erase(fx, MeetingId::new(1_000_000)).await, vec![]);
    // One that was announced before and is begun only now is one of them.
    let late = begin_late(fx).await;
    assert_eq!(late.meeting_id, Some(first));
    assert!(to_erase(fx, first).await.contains(&late));
}

pub async fn what_is_erased_is_erased_once(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let one = recording_in(fx, "one", "weekly", RecordingStatus::Completed).await;
    let two = recording_in(fx, "two", "weekly", RecordingStatus::Failed).await;
    assert!(says_of_consent(fx, Scope::All, id, "ann", false).await);
    let guard = fx.claim_one(ERASE_KIND).await.lease_ref();
    assert!(erased(fx, &one.id, Some("the provider is silent"), guard).await);
    let tried: Vec<Recording> = to_erase(fx, id).await;
    assert_eq!(tried.iter().map(|one| &one.id).collect::<Vec<_>>(), [&one.id, &two.id]);
    assert_eq!(tried[0].erase_error.as_deref(), Some("the provider is silent"));
    fx.advance(SECOND);
    assert!(erased(fx, &one.id, None, guard).await);
    let left = to_erase(fx, id).await;
    assert_eq!(left.iter().collect::<Vec<_>>(), [&two]);
    assert!(erased(fx, &two.id, None, guard).await);
    assert_eq!(to_erase(fx, id).await, vec![]);
    assert_eq!(recording(fx, &one.id).await.erased_at, Some(fx.now()));
    // Another denial finds nothing more to erase.
    assert!(says_of_consent(fx, Scope::All, id, "bob", false).await);
    assert_eq!(to_erase(fx, id).await, vec![]);
}

pub async fn nobody_speaks_in_the_meetings_of_others(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let id = open(fx, ada, "weekly").await.id;
    recording_in(fx, "rec", "weekly", RecordingStatus::Completed).await;
    let before = Snapshot::of(fx).await;
    for (scope, meeting) in [
        (Scope::User(bob), id),
        (Scope::User(UserId::SYSTEM), id),
        (Scope::User(ada), MeetingId::new(1_000_000)),
        (Scope::All, MeetingId::new(1_000_000)),
        (Scope::All, MeetingId::new(0)),
        (Scope::All, MeetingId::new(i64::MAX)),
    ] {
        for given in [true, false] {
            assert!(!says_of_consent(fx, scope, meeting, "ann", given).await, "{scope:?}");
        }
    }
    assert_eq!(Snapshot::of(fx).await, before);
    assert!(says_of_consent(fx, Scope::User(ada), id, "ann", true).await);
    assert!(says_of_consent(fx, Scope::All, id, "bob", true).await);
    // Whether it goes on does not matter.
    deactivate(fx, id).await;
    assert!(says_of_consent(fx, Scope::User(ada), id, "cat", false).await);
    assert_eq!(consents(fx, id).await.len(), 3);
}

/// Runs the job of a meeting to its end without doing anything.
async fn run_eraser(fx: &Fixture, id: MeetingId) {
    let job = fx.claim_one(ERASE_KIND).await;
    assert_eq!(job.facts.key, Some(super::wishes::key(&id.to_string())));
    fx.land(job.lease_ref(), done("null")).await;
}

/// A recording of the room's first meeting, an hour late.
async fn begin_late(fx: &Fixture) -> Recording {
    let started_at = fx.now() - MINUTE * 60;
    let made = new_recording(fx, Announcement { started_at, ..announcement(fx, "late", "weekly") });
    begun(fx, &made.await.id).await.0
}
