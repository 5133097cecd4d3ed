//! Processes that die, hang and come back at every step of a recording.

use roundsman_core::recordings::{Announcement, RecordingStatus, Track, TrackMedium};

use super::steps::Death;
use super::{ROOM, RecordingWorld, ends};
use crate::backend::{Backend, on_every_database};
use crate::support::until;

on_every_database! {
    a_process_may_die_between_any_two_steps
    processes_may_die_again_and_again
    one_that_hangs_and_comes_back_changes_nothing
    one_that_dies_every_time_is_given_up
    what_was_kept_and_lost_is_downloaded_again
}

const ADA: &str = "0c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f10";
const BOB: &str = "1c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f11";

/// A recording of two people.
fn two_tracks(world: &RecordingWorld) -> Announcement {
    let mut announcement = world.recorded("rec-1");
    for (session, offset, said) in [(ADA, 0, "0-1000 hello"), (BOB, 500, "0-1000 hi")] {
        let track_ms = 1_760_988_935_484_i64 + offset;
        let key = format!("d/r/1760988935484-{session}-cam-audio-{track_ms}");
        world.outside.says(&announcement.id, &key, said);
        announcement.tracks.push(Track { medium: TrackMedium::Audio, key, bytes: None });
    }
    announcement
}

async fn begun(backend: Backend) -> RecordingWorld {
    let world = RecordingWorld::new(backend).await;
    world.joins(ADA, Some("Ada"));
    world.joins(BOB, Some("Bob"));
    world.meeting(ROOM).await;
    let announcement = two_tracks(&world);
    world.announce(&announcement).await;
    world.steps.forget();
    world
}

async fn assert_heard(world: &RecordingWorld) {
    let named = |name: &str| Some(name.to_owned());
    let said =
        [(0, 1000, named("Ada"), "hello".to_owned()), (500, 1500, named("Bob"), "hi".to_owned())];
    assert_eq!(world.said("rec-1").await, said);
    let recording = world.recording("rec-1").await;
    assert_eq!(recording.status, RecordingStatus::Completed);
    let mut kept: Vec<String> = recording.media.iter().map(|media| media.blob.clone()).collect();
    kept.sort();
    assert_eq!(kept, world.outside.blobs(), "what is kept is known");
    world.check().await;
}

/// Runs until it has ended or died.
async fn run(world: &RecordingWorld) {
    world.worker.claim_tick().await.unwrap();
    let ended = || world.steps.is_dead() || world.worker.running_count() == 0;
    until("it ends or dies", ended).await;
    world.worker.settle_tick().await.unwrap();
}

async fn a_process_may_die_between_any_two_steps(backend: Backend) {
    let world = begun(backend).await;
    run(&world).await;
    assert_heard(&world).await;
    let steps = world.steps.taken();
    assert_eq!(steps.len(), 12, "{steps:?}");
    for step in 0..steps.len() {
        for death in [Death::Before, Death::After] {
            let mut world = begun(backend).await;
            world.steps.die_at(step, death);
            run(&world).await;
            assert!(world.steps.is_dead(), "{step} {death:?}");
            world.die().await;
            world.run_due().await;
            assert_heard(&world).await;
            // Nothing is asked for twice that was heard of once.
            let asked = world.outside.heard().len();
            assert!(asked <= 3, "{asked} at {step} {death:?}");
        }
    }
}

async fn processes_may_die_again_and_again(backend: Backend) {
    for seed in 0..8_usize {
        let mut world = begun(backend).await;
        // One try less than there are, or it would be given up.
        for round in 0..3_usize {
            let death = if (seed + round).is_multiple_of(2) { Death::Before } else { Death::After };
            world.steps.die_at((seed * 5 + round * 3) % 11, death);
            run(&world).await;
            if !world.steps.is_dead() {
                break;
            }
            world.die().await;
        }
        world.steps.live_again();
        world.run_due().await;
        assert_heard(&world).await;
    }
}

async fn one_that_hangs_and_comes_back_changes_nothing(backend: Backend) {
    let mut world = begun(backend).await;
    let saving = world.steps.hold("finish_recording");
    world.begin_and_wait_at("finish_recording").await;
    // Its lease is over, and another one does the same.
    world.world.clock.advance(super::LEASE_OVER);
    let hangs = world.take_over().await;
    world.worker.claim_tick().await.unwrap();
    until("both are about to save", || world.steps.waiting("finish_recording") == 2).await;
    // The one that hung is first, and has nothing to say any more.
    saving.open(2);
    ends(&hangs).await;
    ends(&world.worker).await;
    assert_heard(&world).await;
    assert_eq!(world.jobs().await.len(), 1);
}

async fn one_that_dies_every_time_is_given_up(backend: Backend) {
    let mut world = begun(backend).await;
    for _ in 0..super::ATTEMPTS_MAX {
        world.steps.forget();
        world.steps.die_at(1, Death::Before);
        run(&world).await;
        assert!(world.steps.is_dead());
        world.die().await;
    }
    world.run_due().await;
    let recording = world.recording("rec-1").await;
    assert_eq!(recording.status, RecordingStatus::Failed);
    assert!(recording.error.unwrap().starts_with("gave_up: "));
    world.check().await;
}

async fn what_was_kept_and_lost_is_downloaded_again(backend: Backend) {
    let mut world = begun(backend).await;
    let transcribing = world.steps.hold("transcribe");
    world.begin_and_wait_at("transcribe").await;
    world.outside.lose_blobs();
    world.die().await;
    transcribing.open(10);
    world.run_due().await;
    assert_heard(&world).await;
    assert_eq!(world.steps.count("download"), 4);
}
