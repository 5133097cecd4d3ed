//! The recording scenarios of seed 000, each under its name.

use roundsman_core::jobs::JobState;
use roundsman_core::recordings::{Announcement, RecordingStatus, process_wish};
use roundsman_engine::recordings::{AnnounceReply, process_spec};

use super::{ROOM, RecordingWorld, ends};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    scenario_1_webhook_vs_polling_race
    scenario_1_the_poll_is_first
    scenario_2_lost_webhook_poll_backup
    scenario_3_duplicate_webhook_delivery
    scenario_3_a_duplicate_after_the_end
}

/// A recording that the provider has both told of and lists.
async fn recording_123(world: &RecordingWorld) -> Announcement {
    world.meeting(ROOM).await;
    let announcement = world.recorded("rec-123");
    world.outside.list(&announcement);
    announcement
}

async fn scenario_1_webhook_vs_polling_race(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    let announcement = recording_123(&world).await;
    let transcribing = world.steps.hold("transcribe");
    assert!(matches!(world.announce(&announcement).await, AnnounceReply::New(_)));
    world.begin_and_wait_at("transcribe").await;
    // The lock of the seed is the lease of the job, same name, same numbers.
    let [job] = world.jobs().await.try_into().unwrap();
    let spec = process_spec(2);
    assert_eq!(spec.lease_name_of(job.facts().id, job.facts().key.as_ref()), "recording:rec-123");
    assert_eq!((spec.lease_ttl, spec.heartbeat_every), (secs(600), secs(60)));
    assert_eq!(world.state_of(&job), JobState::Processing);
    assert_eq!(world.status("rec-123").await, RecordingStatus::Processing);

    // The poll lists it, finds it known and queues nothing.
    let other = world.another_worker();
    world.wish_poll().await;
    other.claim_tick().await.unwrap();
    ends(&other).await;
    assert_eq!(world.steps.count("recordings_page"), 1);
    assert_eq!(world.jobs().await.len(), 1);

    transcribing.open(1);
    ends(&world.worker).await;
    world.assert_done("rec-123").await;
    assert_eq!(world.outside.heard().len(), 1, "only one transcription runs");
    world.check().await;
}

async fn scenario_1_the_poll_is_first(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    let announcement = recording_123(&world).await;
    // The poll has seen that it is not known when the event comes.
    let looking = world.steps.hold("announce_recordings");
    world.wish_poll().await;
    world.begin_and_wait_at("announce_recordings").await;
    looking.open(2);
    let event = world.announce(&announcement).await;
    ends(&world.worker).await;
    world.run_due().await;
    assert!(!matches!(event, AnnounceReply::UnknownRoom));
    assert_eq!(world.counted("roundsman_recordings_suppressed"), 1);
    assert_eq!(world.jobs().await.len(), 1);
    world.assert_done("rec-123").await;
    assert_eq!(world.outside.heard().len(), 1);
    world.check().await;
}

async fn scenario_2_lost_webhook_poll_backup(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    recording_123(&world).await;
    world.poll().await;
    world.assert_done("rec-123").await;
    world.poll().await;
    assert_eq!(world.outside.heard().len(), 1);
    assert_eq!(world.recording("rec-123").await.repeats, 0, "a poll does not ask twice");
    world.check().await;
}

async fn scenario_3_duplicate_webhook_delivery(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    let announcement = recording_123(&world).await;
    let transcribing = world.steps.hold("transcribe");
    assert!(matches!(world.announce(&announcement).await, AnnounceReply::New(_)));
    // Before it is begun, and while it is processed.
    assert!(matches!(world.announce(&announcement).await, AnnounceReply::Repeated(_)));
    world.begin_and_wait_at("transcribe").await;
    assert!(matches!(world.announce(&announcement).await, AnnounceReply::Repeated(_)));
    transcribing.open(1);
    ends(&world.worker).await;
    world.run_due().await;
    world.assert_done("rec-123").await;
    assert_eq!(world.jobs().await.len(), 1);
    assert_eq!(world.outside.heard().len(), 1, "no duplicate processing");
    assert_eq!(world.counted("roundsman_recordings_suppressed"), 2);
    assert_eq!(world.recording("rec-123").await.repeats, 2);
    world.check().await;
}

async fn scenario_3_a_duplicate_after_the_end(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    let announcement = recording_123(&world).await;
    world.announce(&announcement).await;
    world.run_due().await;
    world.assert_done("rec-123").await;
    assert!(matches!(world.announce(&announcement).await, AnnounceReply::Repeated(_)));
    world.run_due().await;
    assert_eq!(world.jobs().await.len(), 1);
    // And even a job that should not be there does nothing.
    world.wish(process_wish(&announcement.id, world.now())).await;
    world.run_due().await;
    assert_eq!(world.jobs().await.len(), 2);
    world.assert_done("rec-123").await;
    assert_eq!(world.outside.heard().len(), 1);
    assert_eq!(world.counted("roundsman_recordings_suppressed"), 2);
    world.check().await;
}
