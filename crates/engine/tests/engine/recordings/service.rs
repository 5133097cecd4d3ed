//! What users and operators see of recordings.

use roundsman_core::ports::{MediaError, RecordingFilter, Scope};
use roundsman_core::recordings::RecordingStatus;
use roundsman_core::users::UserId;
use roundsman_engine::Error;
use roundsman_engine::recordings::RetryReply;

use super::{ROOM, RecordingWorld};
use crate::backend::{Backend, on_every_database};

on_every_database! {
    recordings_are_listed_for_whom_they_belong_to
    one_that_has_failed_is_tried_again_by_hand
    what_happens_is_counted
}

async fn recordings_are_listed_for_whom_they_belong_to(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    let meeting = world.meeting(ROOM).await;
    for n in 1..=3 {
        world.announce(&world.recorded(&format!("rec-{n}"))).await;
        world.run_due().await;
    }
    world.announce(&world.recorded("rec-4")).await;
    let list = async |scope, filter: RecordingFilter, before, rows_max| {
        let found = world.recordings.list(scope, filter, before, rows_max).await.unwrap();
        found.iter().map(|r| r.id.as_str().to_owned()).collect::<Vec<_>>()
    };
    let all = RecordingFilter::default();
    let (user, stranger) = (Scope::User(world.user), Scope::User(UserId::new(9999)));
    assert_eq!(list(Scope::All, all.clone(), None, 10).await, ["rec-4", "rec-3", "rec-2", "rec-1"]);
    assert_eq!(list(user, all.clone(), None, 10).await, ["rec-3", "rec-2", "rec-1"]);
    assert_eq!(list(user, all.clone(), None, 0).await, ["rec-3"], "at least one");
    let third = world.recording("rec-3").await.no;
    assert_eq!(list(user, all.clone(), Some(third), 10).await, ["rec-2", "rec-1"]);
    assert_eq!(list(stranger, all, None, 10).await, Vec::<String>::new());
    let of_meeting = RecordingFilter { meeting: Some(meeting), status: None };
    assert_eq!(list(user, of_meeting, None, 10).await.len(), 3);
    let pending = RecordingFilter { meeting: None, status: Some(RecordingStatus::Pending) };
    assert_eq!(list(Scope::All, pending, None, 10).await, ["rec-4"]);
    let service = &world.recordings;
    assert!(service.get(user, "rec-1").await.unwrap().is_some());
    for (scope, id) in [(stranger, "rec-1"), (user, "rec-4"), (user, ""), (user, "a\0b")] {
        assert_eq!(service.get(scope, id).await.unwrap(), None, "{id}");
    }
    world.check().await;
}

async fn one_that_has_failed_is_tried_again_by_hand(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.outside.media_fails("transcribe", MediaError::Refused("not yet".to_owned()));
    world.announce(&world.recorded("rec-1")).await;
    world.run_due().await;
    assert_eq!(world.status("rec-1").await, RecordingStatus::Failed);
    let (user, stranger) = (Scope::User(world.user), Scope::User(UserId::new(9999)));
    for (scope, id) in [(stranger, "rec-1"), (user, "rec-2"), (user, "")] {
        let refused = world.recordings.retry(scope, id).await;
        assert!(matches!(refused, Err(Error::NotFound { .. })), "{id}: {refused:?}");
    }
    assert!(matches!(world.recordings.retry(user, "rec-1").await, Ok(RetryReply::Waits(_))));
    assert!(matches!(world.recordings.retry(user, "rec-1").await, Ok(RetryReply::NotFailed(_))));
    world.run_due().await;
    world.assert_done("rec-1").await;
    assert!(matches!(world.recordings.retry(user, "rec-1").await, Ok(RetryReply::NotFailed(_))));
    world.check().await;
}

async fn what_happens_is_counted(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    let first = world.recorded("rec-1");
    world.announce(&first).await;
    world.announce(&first).await;
    world.run_due().await;
    world.outside.media_fails("transcribe", MediaError::Refused("no".to_owned()));
    world.announce(&world.recorded("rec-2")).await;
    world.run_due().await;
    world.poll().await;
    let text = world.world.metrics.encode();
    for line in [
        "roundsman_recordings_announced_total{via=\"event\",outcome=\"new\"} 2",
        "roundsman_recordings_announced_total{via=\"event\",outcome=\"repeated\"} 1",
        "roundsman_recordings_suppressed_total 1",
        "roundsman_recordings_completed_total 1",
        "roundsman_recordings_failed_total{code=\"refused\"} 1",
        "roundsman_recordings{status=\"failed\"} 1",
        "roundsman_recording_files_downloaded_total 2",
        "roundsman_recording_files_heard_total 1",
        "roundsman_recording_segments_total 1",
        "roundsman_recording_pages_total{result=\"read\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let counts = world.recordings.counts().await.unwrap();
    assert!(counts.contains(&(RecordingStatus::Failed, 1)), "{counts:?}");
    world.check().await;
}
