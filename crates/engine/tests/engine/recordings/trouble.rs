//! Recordings that cannot be processed, and when they are tried again.

use std::time::Duration;

use roundsman_core::jobs::{FinishedState, Job, JobState};
use roundsman_core::ports::{MediaError, RoomsError, Scope};
use roundsman_core::recordings::{RETRY_KIND, RecordingStatus};
use roundsman_engine::recordings::{RetryReply, next_night, recording_wishes};

use super::{ATTEMPTS_MAX, ROOM, RecordingWorld};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{secs, until_running};

on_every_database! {
    what_may_work_later_is_tried_again_and_then_given_up
    what_will_not_work_is_given_up_at_once
    whoever_is_not_configured_is_named
    what_has_failed_is_tried_again_at_night
    a_recording_far_from_every_meeting_waits_for_one
    the_provider_may_say_when_to_come_back
    a_database_that_is_away_says_nothing_about_a_recording
}

const HOURS: Duration = Duration::from_secs(3 * 3600);

/// A recording that was announced.
async fn announced(backend: Backend) -> RecordingWorld {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.announce(&world.recorded("rec-1")).await;
    world
}

fn attempts_max() -> usize {
    usize::try_from(ATTEMPTS_MAX).unwrap()
}

async fn error_of(world: &RecordingWorld) -> String {
    let recording = world.recording("rec-1").await;
    assert_eq!(recording.status, RecordingStatus::Failed);
    recording.error.unwrap()
}

async fn what_may_work_later_is_tried_again_and_then_given_up(backend: Backend) {
    let down = || RoomsError::Unavailable("down".to_owned());
    let failed = || MediaError::Failed("reset".to_owned());
    for step in ["access_link", "download", "keep", "transcribe"] {
        // One less than it takes.
        for failures in [ATTEMPTS_MAX - 1, ATTEMPTS_MAX] {
            let world = announced(backend).await;
            for _ in 0..failures {
                match step {
                    "access_link" => world.outside.provider_fails(step, down()),
                    step => world.outside.media_fails(step, failed()),
                }
            }
            world.run_due().await;
            assert_eq!(world.status("rec-1").await, RecordingStatus::Processing);
            world.pass(HOURS).await;
            assert_eq!(world.steps.count(step), attempts_max(), "{step}");
            if failures < ATTEMPTS_MAX {
                world.assert_done("rec-1").await;
            } else {
                let error = error_of(&world).await;
                assert!(error.contains("down") || error.contains("reset"), "{error}");
                let [Job::Finished(job)] = &world.jobs().await[..] else { panic!("{step}") };
                assert!(matches!(job.state, FinishedState::Failed { .. }), "{:?}", job.state);
            }
            world.check().await;
        }
    }
}

async fn what_will_not_work_is_given_up_at_once(backend: Backend) {
    for step in ["access_link", "download", "keep", "transcribe"] {
        let world = announced(backend).await;
        match step {
            "access_link" => {
                world.outside.provider_fails(step, RoomsError::Refused("nope".to_owned()));
            }
            step => world.outside.media_fails(step, MediaError::Refused("nope".to_owned())),
        }
        world.run_due().await;
        let error = error_of(&world).await;
        assert!(error.starts_with("refused: ") && error.contains("nope"), "{error}");
        world.pass(HOURS).await;
        assert_eq!(world.steps.count(step), 1);
        world.check().await;
    }
}

async fn whoever_is_not_configured_is_named(backend: Backend) {
    let world = RecordingWorld::with(backend, |work| work.transcriber = None).await;
    world.meeting(ROOM).await;
    world.announce(&world.recorded("rec-1")).await;
    world.run_due().await;
    assert_eq!(error_of(&world).await, "not_configured: no transcriber is configured");
    assert_eq!(world.steps.count("download"), 0);
    world.check().await;

    let world = RecordingWorld::with(backend, |work| work.provider = None).await;
    world.meeting(ROOM).await;
    world.announce(&world.recorded("rec-1")).await;
    world.run_due().await;
    assert_eq!(error_of(&world).await, "not_configured: no provider of recordings is configured");
    world.check().await;

    let world = announced(backend).await;
    world.outside.media_fails("transcribe", MediaError::NotConfigured);
    world.run_due().await;
    assert!(error_of(&world).await.starts_with("not_configured: "));
    world.check().await;
}

async fn what_has_failed_is_tried_again_at_night(backend: Backend) {
    let world = announced(backend).await;
    let start = world.now();
    let [_, nightly] = recording_wishes(start).try_into().unwrap();
    world.wish(nightly).await;
    // Two nights in a row it does not work.
    for _ in 0..3 {
        world.outside.media_fails("transcribe", MediaError::Refused("not yet".to_owned()));
    }
    world.run_due().await;
    assert!(error_of(&world).await.contains("not yet"));
    world.jump(next_night(start).since(start).saturating_sub(secs(60))).await;
    assert_eq!(world.steps.count("begin_recording"), 1, "not before the night");
    world.jump(secs(60)).await;
    assert_eq!(world.steps.count("begin_recording"), 2);
    // A process that starts in between wishes the same, and changes nothing.
    world.wish(recording_wishes(world.now()).remove(1)).await;
    world.jump(secs(24 * 3600)).await;
    assert_eq!(world.steps.count("begin_recording"), 3);
    assert!(error_of(&world).await.contains("not yet"));
    world.jump(secs(24 * 3600)).await;
    world.assert_done("rec-1").await;
    // What is done is not tried again.
    world.jump(secs(24 * 3600)).await;
    assert_eq!(world.outside.heard().len(), 1);
    let waiting = world.world.all_jobs(Some(RETRY_KIND)).await;
    let waiting: Vec<_> = waiting.iter().map(|job| world.state_of(job)).collect();
    assert_eq!(waiting, [JobState::Scheduled]);
    world.check().await;
}

async fn a_recording_far_from_every_meeting_waits_for_one(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.world.clock.advance(secs(8 * 24 * 3600));
    world.announce(&world.recorded("rec-1")).await;
    world.run_due().await;
    assert_eq!(world.status("rec-1").await, RecordingStatus::Pending);
    world.pass(HOURS).await;
    assert!(error_of(&world).await.starts_with("no_meeting: "));
    assert_eq!(world.steps.count("begin_recording"), attempts_max());
    assert_eq!(world.steps.count("download"), 0);
    world.check().await;
}

async fn the_provider_may_say_when_to_come_back(backend: Backend) {
    let world = announced(backend).await;
    let patience = RoomsError::RateLimited { after: Some(secs(1234)) };
    world.outside.provider_fails("access_link", patience);
    let asked = world.now();
    world.run_due().await;
    let [Job::Waiting(job)] = &world.jobs().await[..] else { panic!("it does not wait") };
    assert_eq!(job.due_at(), asked + secs(1234));
    world.pass(secs(1300)).await;
    world.assert_done("rec-1").await;
    world.check().await;
}

async fn a_database_that_is_away_says_nothing_about_a_recording(backend: Backend) {
    let world = announced(backend).await;
    let transcribing = world.steps.hold("transcribe");
    world.begin_and_wait_at("transcribe").await;
    world.world.store.set("finish_recording", Fault::Down);
    transcribing.open(5);
    until_running(&world.worker, 0).await;
    world.world.store.mend();
    world.worker.settle_tick().await.unwrap();
    assert_eq!(world.status("rec-1").await, RecordingStatus::Processing);
    world.pass(secs(300)).await;
    world.assert_done("rec-1").await;
    let retried = world.recordings.retry(Scope::All, "rec-1").await.unwrap();
    assert!(matches!(retried, RetryReply::NotFailed(_)));
    world.check().await;
}
