//! A recording is announced any number of times and kept once, together with the job that processes
//! it.

use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::effects::Transition;
use roundsman_core::jobs::{JobState, Json};
use roundsman_core::ports::{AnnounceAnswer, RecordingFilter, Scope};
use roundsman_core::recordings::{
    self as rules, Announcement, RECORDING_ID_BYTES_MAX, Recording, RecordingKind, RecordingStatus,
    Track, TrackMedium, Via,
};
use roundsman_core::users::UserId;

use super::fixture::Fixture;
use super::record::{
    Snapshot, announce, announce_all, announcement, find, log_of, new_recording, process_jobs,
    recording, recording_id, recording_in, recordings, step, track,
};
use super::visit::{room, room_name};
use super::wishes::{MINUTE, SECOND, key};

pub async fn a_recording_is_kept_with_all_it_brings(fx: &Arc<Fixture>) {
    for (number, via) in [Via::Event, Via::Poll].into_iter().enumerate() {
        let name = format!("rec-{number}");
        let tracks = vec![track("a"), track("b")];
        let wish = Announcement { tracks, via, ..announcement(fx, &name, "weekly") };
        let id = wish.id.clone();
        assert_eq!(find(fx, Scope::All, &id).await, None);
        let answer = announce(fx, wish.clone()).await;
        let expected = rules::announce(None, wish, fx.now());
        let no = answer.recording.no;
        assert!(no > 0, "it has a number");
        let row = Recording { no, ..expected.recording };
        assert_eq!(answer, AnnounceAnswer { recording: row.clone(), is_repeated: false });
        assert_eq!(recording(fx, &id).await, row);
        let log = log_of(fx, no).await;
        assert_eq!(
            log.iter().map(step).collect::<Vec<_>>(),
            named(expected.effects.transitions, no)
        );
        assert_eq!((log.len(), log[0].at), (1, fx.now()));
        let jobs = process_jobs(fx, &id).await;
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].state(fx.now()), JobState::Pending);
        let facts = jobs[0].facts();
        assert_eq!((facts.user_id, &facts.payload), (UserId::SYSTEM, &Json::null()));
        assert_eq!(facts.key, Some(key(&name)));
        fx.advance(SECOND);
    }
}

pub async fn what_is_announced_comes_back_as_it_was_given(fx: &Arc<Fixture>) {
    let odd = "Ada's 😀 \"track\" \\ \u{202e}ü; -- %s $1 ?1 \0 \n.webm";
    let plain = |id: &str| announcement(fx, id, "weekly");
    let tracks = vec![
        Track { medium: TrackMedium::Audio, key: odd.to_owned(), bytes: None },
        Track { medium: TrackMedium::Video, key: String::new(), bytes: Some(u64::MAX) },
        Track { medium: TrackMedium::Audio, key: "k".repeat(100_000), bytes: Some(0) },
    ];
    let many = (0..500).map(|number| track(&format!("track-{number}"))).collect();
    let wishes = [
        plain("a"),
        plain("A"),
        plain("Ada's 😀 \"x\" \\ ü; -- %s $1 ?1"),
        plain(&"r".repeat(RECORDING_ID_BYTES_MAX)),
        plain(&"😀".repeat(RECORDING_ID_BYTES_MAX / 4)),
        Announcement { kind: RecordingKind::CloudAudioOnly, ..plain("audio") },
        Announcement { kind: RecordingKind::RawTracks, tracks, ..plain("raw") },
        Announcement { tracks: many, ..plain("many") },
        Announcement { duration_ms: 0, started_at: Timestamp::EPOCH, ..plain("old") },
        Announcement { duration_ms: i64::MAX, started_at: Timestamp::MAX, ..plain("long") },
        Announcement { room: room_name("-"), ..plain("elsewhere") },
    ];
    for wish in &wishes {
        let made = new_recording(fx, wish.clone()).await;
        let expected = rules::announce(None, wish.clone(), fx.now()).recording;
        let expected = Recording { no: made.no, ..expected };
        assert_eq!((&made, recording(fx, &wish.id).await), (&expected, expected.clone()));
    }
    let all = recordings(fx, Scope::All, RecordingFilter::default()).await;
    assert_eq!(all.len(), wishes.len());
    let ids: Vec<_> = wishes.iter().map(|wish| wish.id.clone()).collect();
    let known = fx.store.known_recordings(ids).await.expect("known_recordings");
    assert_eq!(known, vec![true; wishes.len()]);
}

/// Whatever has become of it, nothing is begun a second time.
pub async fn a_repetition_is_counted_and_changes_nothing(fx: &Arc<Fixture>) {
    for status in RecordingStatus::ALL {
        let name = status.as_str();
        room(fx, name).await;
        let known = recording_in(fx, name, name, status).await;
        let before = Snapshot::of(fx).await;
        fx.advance(MINUTE);
        let mut expected = known;
        for via in [Via::Poll, Via::Event, Via::Poll] {
            let again = Announcement {
                kind: RecordingKind::RawTracks,
                room: room_name("elsewhere"),
                duration_ms: 1,
                via,
                ..announcement(fx, name, name)
            };
            expected = rules::announce(Some(expected), again.clone(), fx.now()).recording;
            let answer = announce(fx, again).await;
            assert!(answer.is_repeated, "{status:?}");
            assert_eq!(answer.recording, expected);
        }
        assert_eq!((expected.repeats, expected.status), (3, status));
        assert_eq!(recording(fx, &expected.id).await, expected);
        let mut after = Snapshot::of(fx).await;
        after.recordings.clone_from(&before.recordings);
        assert_eq!(after, before, "{status:?}: nothing but the count");
    }
}

pub async fn tracks_that_are_told_later_are_kept(fx: &Arc<Fixture>) {
    let plain = || announcement(fx, "rec", "weekly");
    new_recording(fx, plain()).await;
    for (told, kept) in [(vec![], vec![]), (vec!["a"], vec!["a"]), (vec!["b", "c"], vec!["a"])] {
        let tracks = told.into_iter().map(track).collect();
        let answer = announce(fx, Announcement { tracks, ..plain() }).await;
        let expected: Vec<Track> = kept.into_iter().map(track).collect();
        assert_eq!(answer.recording.tracks, expected);
        assert_eq!(recording(fx, &answer.recording.id).await.tracks, expected);
    }
}

pub async fn a_batch_is_answered_in_order(fx: &Arc<Fixture>) {
    new_recording(fx, announcement(fx, "known", "weekly")).await;
    let names = ["b", "known", "a", "b", "c", "b", "known"];
    let batch = names.iter().map(|name| announcement(fx, name, "weekly")).collect();
    let answers = announce_all(fx, batch).await;
    let told: Vec<_> = answers
        .iter()
        .map(|answer| {
            let AnnounceAnswer { recording, is_repeated } = answer;
            (recording.id.as_str(), *is_repeated, recording.repeats)
        })
        .collect();
    let expected = [
        ("b", false, 0),
        ("known", true, 1),
        ("a", false, 0),
        ("b", true, 1),
        ("c", false, 0),
        ("b", true, 2),
        ("known", true, 2),
    ];
    assert_eq!(told, expected);
    let all = recordings(fx, Scope::All, RecordingFilter::default()).await;
    let listed: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(listed, ["c", "a", "b", "known"], "numbers grow in the order of the batch");
    for one in &all {
        assert_eq!(process_jobs(fx, &one.id).await.len(), 1, "{one:?}");
        assert_eq!(log_of(fx, one.no).await.len(), 1, "{one:?}");
    }
    let before = Snapshot::of(fx).await;
    assert_eq!(announce_all(fx, vec![]).await, vec![]);
    assert_eq!(Snapshot::of(fx).await, before);
}

pub async fn a_large_batch_is_kept_whole(fx: &Arc<Fixture>) {
    const COUNT: usize = 1000;
    let batch = |from: usize| {
        let names = (from..from + COUNT).map(|number| format!("rec-{number}"));
        names.map(|name| announcement(fx, &name, "weekly")).collect::<Vec<_>>()
    };
    assert!(announce_all(fx, batch(0)).await.iter().all(|answer| !answer.is_repeated));
    let again = announce_all(fx, batch(COUNT / 2)).await;
    for (place, answer) in again.iter().enumerate() {
        assert_eq!(answer.is_repeated, place < COUNT / 2, "{answer:?}");
    }
    let all = recordings(fx, Scope::All, RecordingFilter::default()).await;
    assert_eq!((all.len(), fx.all_jobs().await.len()), (COUNT * 3 / 2, COUNT * 3 / 2));
}

pub async fn whether_it_is_known_is_told_in_order(fx: &Arc<Fixture>) {
    for name in ["a", "b"] {
        new_recording(fx, announcement(fx, name, "weekly")).await;
    }
    let known = async |names: &[&str]| {
        let ids = names.iter().map(|name| recording_id(name)).collect();
        fx.store.known_recordings(ids).await.expect("known_recordings")
    };
    assert_eq!(known(&["c", "b", "A", "b", "a"]).await, [false, true, false, true, true]);
    assert_eq!(known(&[]).await, [false; 0]);
    assert_eq!(known(&["weekly"]).await, [false]);
}

/// The same steps of the recording with this number.
fn named(steps: Vec<Transition>, no: i64) -> Vec<Transition> {
    steps.into_iter().map(|step| Transition { entity_id: no, ..step }).collect()
}
