//! Recordings are listed for whom they concern, and counted; how far the provider's list was read is
//! kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{RecordingFilter, Scope};
use roundsman_core::recordings::{RECORDING_ID_BYTES_MAX, Recording, RecordingId, RecordingStatus};
use roundsman_core::users::UserId;

use super::attend::user;
use super::fixture::Fixture;
use super::record::{
    Snapshot, announcement, find, new_recording, recording, recording_id, recording_in, recordings,
};
use super::visit::open;
use super::wishes::{MINUTE, SECOND};

pub async fn a_user_has_those_of_their_meetings(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    open(fx, ada, "weekly").await;
    open(fx, bob, "other").await;
    let mine = recording_in(fx, "mine", "weekly", RecordingStatus::Completed).await;
    let theirs = recording_in(fx, "theirs", "other", RecordingStatus::Processing).await;
    // Nobody has looked yet whose it is.
    let nobodys = recording_in(fx, "nobodys", "weekly", RecordingStatus::Pending).await;
    let everybody = [Scope::All, Scope::User(ada), Scope::User(bob), nobody(), system()];
    for (one, seen) in [
        (&mine, [true, true, false, false, false]),
        (&theirs, [true, false, true, false, false]),
        (&nobodys, [true, false, false, false, false]),
    ] {
        for (scope, seen) in everybody.into_iter().zip(seen) {
            let expected = seen.then(|| one.clone());
            assert_eq!(find(fx, scope, &one.id).await, expected, "{scope:?}");
            let listed = recordings(fx, scope, RecordingFilter::default()).await;
            assert_eq!(listed.contains(one), seen, "{scope:?}");
        }
    }
    for other in ["Mine", "mine ", "nowhere"] {
        assert_eq!(find(fx, Scope::All, &recording_id(other)).await, None);
    }
}

pub async fn recordings_are_listed_in_pages(fx: &Arc<Fixture>) {
    let users = [user(fx, "ada").await, user(fx, "bob").await];
    let mut meetings = Vec::new();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        meetings.push(open(fx, users[number % 2], name).await.id);
    }
    let mut ids = Vec::new();
    for round in 0..2 {
        for room in ["a", "b", "c"] {
            for status in RecordingStatus::ALL {
                let name = format!("{room}-{round}-{}", status.as_str());
                ids.insert(0, recording_in(fx, &name, room, status).await.id);
                fx.advance(SECOND);
            }
        }
    }
    let mut rows = Vec::new();
    for id in ids {
        rows.push(recording(fx, &id).await);
    }
    assert!(rows.is_sorted_by(|one, next| one.no > next.no), "newest first");
    let scopes = [Scope::All, Scope::User(users[0]), Scope::User(users[1]), nobody()];
    let of = meetings.iter().copied().map(Some).chain([None, Some(MeetingId::new(1_000_000))]);
    let filters: Vec<RecordingFilter> = of
        .flat_map(|meeting| {
            let states = RecordingStatus::ALL.into_iter().map(Some).chain([None]);
            states.map(move |status| RecordingFilter { meeting, status })
        })
        .collect();
    for scope in scopes {
        for filter in &filters {
            let expected: Vec<_> =
                rows.iter().filter(|row| is_wanted(row, scope, filter)).cloned().collect();
            assert_eq!(
                recordings(fx, scope, filter.clone()).await,
                expected,
                "{scope:?} {filter:?}"
            );
            assert_pages(fx, scope, filter, &expected).await;
        }
    }
}

/// What is announced while somebody reads does not move the pages.
pub async fn pages_stay_where_they_are(fx: &Arc<Fixture>) {
    for number in 0..6 {
        new_recording(fx, announcement(fx, &format!("rec-{number}"), "weekly")).await;
    }
    let page = async |before: Option<i64>| {
        let rows = fx.store.recordings(Scope::All, RecordingFilter::default(), before, 3).await;
        rows.expect("recordings")
    };
    let first = page(None).await;
    new_recording(fx, announcement(fx, "newer", "weekly")).await;
    let second = page(first.last().map(|one| one.no)).await;
    let names: Vec<&str> = second.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(names, ["rec-2", "rec-1", "rec-0"]);
    assert_eq!(page(second.last().map(|one| one.no)).await, vec![]);
    for before in [0, -1, i64::MIN] {
        assert_eq!(page(Some(before)).await, vec![]);
    }
    assert_eq!(page(Some(i64::MAX)).await, page(None).await);
}

pub async fn how_far_the_list_was_read_is_kept(fx: &Arc<Fixture>) {
    let cursor = async || fx.store.recording_cursor().await.expect("recording_cursor");
    assert_eq!(cursor().await, None, "nobody has read it");
    let odd = "Ada's 😀 \"x\" \\ ü; -- %s $1 ?1";
    // Which of two is newer only the provider knows.
    for name in ["b", "a", "a", odd, &"r".repeat(RECORDING_ID_BYTES_MAX), "b"] {
        fx.advance(MINUTE);
        let id: RecordingId = recording_id(name);
        let set = fx.store.set_recording_cursor(id.clone(), fx.now()).await;
        set.expect("set_recording_cursor");
        assert_eq!(cursor().await, Some(id));
    }
    let known = fx.store.known_recordings(vec![recording_id("b")]).await;
    assert_eq!(known.expect("known_recordings"), [false], "that says nothing of the recording");
    assert_eq!(Snapshot::of(fx).await.recordings, vec![]);
}

pub async fn recordings_are_counted(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    open(fx, ada, "weekly").await;
    let mut expected: BTreeMap<RecordingStatus, u64> = BTreeMap::new();
    assert_counts(fx, &expected).await;
    let states = [
        RecordingStatus::Failed,
        RecordingStatus::Pending,
        RecordingStatus::Completed,
        RecordingStatus::Processing,
        RecordingStatus::Failed,
        RecordingStatus::Failed,
        RecordingStatus::Pending,
    ];
    for (number, status) in states.into_iter().enumerate() {
        recording_in(fx, &format!("rec-{number}"), "weekly", status).await;
        *expected.entry(status).or_default() += 1;
        assert_counts(fx, &expected).await;
    }
}

/// A state without recordings, and those that are completed, may be left out.
async fn assert_counts(fx: &Fixture, expected: &BTreeMap<RecordingStatus, u64>) {
    let told = fx.store.recording_counts().await.expect("recording_counts");
    let counts: BTreeMap<RecordingStatus, u64> = told.iter().copied().collect();
    assert_eq!(counts.len(), told.len(), "each state once");
    for status in RecordingStatus::ALL {
        let count = expected.get(&status).copied().unwrap_or(0);
        match counts.get(&status) {
            Some(told) => assert_eq!(*told, count, "{status:?}"),
            None => assert!(count == 0 || status == RecordingStatus::Completed, "{status:?}"),
        }
    }
}

fn is_wanted(recording: &Recording, scope: Scope, filter: &RecordingFilter) -> bool {
    let sees = match scope {
        Scope::All => true,
        Scope::User(user) => recording.user_id == Some(user),
    };
    sees && filter.status.is_none_or(|status| recording.status == status)
        && filter.meeting.is_none_or(|meeting| recording.meeting_id == Some(meeting))
}

async fn assert_pages(
    fx: &Fixture,
    scope: Scope,
    filter: &RecordingFilter,
    expected: &[Recording],
) {
    let page = async |before: Option<i64>, rows_max: u32| {
        let rows = fx.store.recordings(scope, filter.clone(), before, rows_max).await;
        rows.expect("recordings")
    };
    let mut found: Vec<Recording> = Vec::new();
    loop {
        let rows = page(found.last().map(|one| one.no), 5).await;
        assert!(rows.len() <= 5);
        if rows.is_empty() {
            break;
        }
        found.extend(rows);
    }
    assert_eq!(found, expected, "{scope:?} {filter:?}");
    assert_eq!(page(None, 0).await, vec![]);
}

fn nobody() -> Scope {
    Scope::User(UserId::new(1_000_000))
}

fn system() -> Scope {
    Scope::User(UserId::SYSTEM)
}
