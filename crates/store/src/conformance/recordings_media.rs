//! Files of a recording are kept by their tracks, and erased or not.

use std::sync::Arc;

use roundsman_core::recordings::{self as rules, Media, RecordingStatus};

use super::attend::lose_leases;
use super::fixture::Fixture;
use super::record::{
    Snapshot, announcement, begun, conversation, erased, fail, keep, media, new_begun,
    new_recording, recording, recording_id, recording_in, save,
};
use super::visit::{lease, room};
use super::wishes::{MINUTE, SECOND};

pub async fn files_are_kept_by_their_tracks(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let (other, other_guard) = new_begun(fx, "other", "weekly").await;
    assert!(keep(fx, &other.id, vec![media("a", 1)], other_guard).await);
    let other = recording(fx, &other.id).await;
    let (mut expected, guard) = new_begun(fx, "rec", "weekly").await;
    let steps = [
        (vec![], vec![]),
        (vec![media("a", 1), media("b", 1)], vec![media("a", 1), media("b", 1)]),
        (vec![media("c", 2), media("b", 2)], vec![media("a", 1), media("b", 2), media("c", 2)]),
        (vec![media("a", 3), media("a", 4)], vec![media("a", 4), media("b", 2), media("c", 2)]),
        (vec![], vec![media("a", 4), media("b", 2), media("c", 2)]),
        (
            vec![media("", 5), media("A", 5)],
            vec![media("", 5), media("A", 5), media("a", 4), media("b", 2), media("c", 2)],
        ),
    ];
    for (kept, tracks) in steps {
        fx.advance(SECOND);
        assert!(keep(fx, &expected.id, kept.clone(), guard).await);
        expected = rules::keep(expected, kept, fx.now());
        assert_eq!(recording(fx, &expected.id).await, expected);
        assert_eq!(by_track(expected.media.clone()), tracks);
    }
    assert_eq!(recording(fx, &other.id).await, other, "nobody else's change");
}

pub async fn files_stay_through_all_that_happens(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let (begun_once, guard) = new_begun(fx, "rec", "weekly").await;
    let kept = vec![media("a", 1), media("b", 2)];
    assert!(keep(fx, &begun_once.id, kept.clone(), guard).await);
    lose_leases(fx).await;
    let (again, guard) = begun(fx, &begun_once.id).await;
    assert_eq!(by_track(again.media), kept);
    save(fx, &again.id, conversation(), guard).await;
    assert_eq!(by_track(recording(fx, &again.id).await.media), kept);
}

pub async fn whatever_a_file_is_called_comes_back(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    let odd = "Ada's 😀 \"file\" \\ \u{202e}ü; -- %s $1 ?1 \0 \n.webm";
    let mut kept = vec![
        Media { track: odd.to_owned(), blob: odd.to_owned(), bytes: 0, sha256: odd.to_owned() },
        Media { bytes: u64::MAX, ..media(&"t".repeat(50_000), 1) },
        Media { blob: "😀".repeat(25_000), ..media("", 1) },
    ];
    kept.extend((0..300).map(|number| media(&format!("track-{number:03}"), number)));
    assert!(keep(fx, &begun.id, kept.clone(), guard).await);
    assert_eq!(by_track(recording(fx, &begun.id).await.media), by_track(kept));
}

pub async fn keeping_needs_the_lease(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    assert!(keep(fx, &begun.id, vec![media("a", 1)], guard).await);
    lose_leases(fx).await;
    let before = Snapshot::of(fx).await;
    for kept in [vec![media("a", 2)], vec![media("b", 2)], vec![]] {
        assert!(!keep(fx, &begun.id, kept, guard).await);
        assert_eq!(Snapshot::of(fx).await, before);
    }
}

pub async fn that_media_are_gone_is_noted(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    for status in [RecordingStatus::Completed, RecordingStatus::Failed] {
        let known = recording_in(fx, status.as_str(), "weekly", status).await;
        let guard = lease(fx).await;
        let mut expected = known;
        for error in [Some("the provider is silent"), Some("it's \"still\" silent 😀"), None] {
            fx.advance(MINUTE);
            assert!(erased(fx, &expected.id, error, guard).await);
            expected = rules::erase(expected, error.map(ToOwned::to_owned), fx.now());
            assert_eq!(recording(fx, &expected.id).await, expected);
            assert_eq!(expected.erased_at.is_some(), error.is_none());
        }
        // What a database has no place for is left out.
        assert!(erased(fx, &expected.id, Some("not \0yet"), guard).await);
        let now = recording(fx, &expected.id).await;
        assert_eq!(now.erase_error.as_deref(), Some("not yet"));
    }
}

pub async fn erasing_needs_the_lease(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let known = recording_in(fx, "rec", "weekly", RecordingStatus::Completed).await;
    let guard = lease(fx).await;
    lose_leases(fx).await;
    let before = Snapshot::of(fx).await;
    for error in [None, Some("no")] {
        assert!(!erased(fx, &known.id, error, guard).await);
        assert_eq!(Snapshot::of(fx).await, before);
    }
}

pub async fn nobody_has_no_files(fx: &Arc<Fixture>) {
    new_recording(fx, announcement(fx, "rec", "weekly")).await;
    let guard = lease(fx).await;
    let before = Snapshot::of(fx).await;
    let nobody = recording_id("nobody");
    assert!(!keep(fx, &nobody, vec![media("a", 1)], guard).await);
    assert!(!erased(fx, &nobody, None, guard).await);
    assert!(!fail(fx, &nobody, "no", guard).await);
    assert_eq!(Snapshot::of(fx).await, before);
}

fn by_track(mut media: Vec<Media>) -> Vec<Media> {
    media.sort_by(|a, b| a.track.cmp(&b.track));
    media
}
