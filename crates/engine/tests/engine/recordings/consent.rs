//! People who do not agree to being recorded.

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{MediaError, RoomsError, Scope};
use roundsman_core::recordings::RecordingStatus;
use roundsman_core::users::UserId;
use roundsman_engine::Error;
use roundsman_engine::recordings::{ConsentWish, RetryReply};

use super::steps::Death;
use super::{ROOM, RecordingWorld, ends};
use crate::backend::{Backend, on_every_database};
use crate::support::{secs, until};

on_every_database! {
    a_denial_deletes_media_and_says_so
    a_denial_while_it_is_processed_deletes_media_afterwards
    a_denial_deletes_what_has_failed_and_it_is_not_tried_again
    a_partial_failure_does_not_say_that_media_are_deleted
    nobody_to_ask_is_told_and_asked_for_again
    whoever_agrees_deletes_nothing
    consent_is_the_word_of_a_person_in_a_meeting_of_theirs
    a_process_may_die_while_it_deletes
}

/// A meeting with a recording that is done.
async fn recorded(backend: Backend) -> (RecordingWorld, MeetingId) {
    let world = RecordingWorld::new(backend).await;
    let meeting = world.meeting(ROOM).await;
    world.announce(&world.recorded("rec-1")).await;
    world.run_due().await;
    world.assert_done("rec-1").await;
    assert_eq!(world.outside.blobs().len(), 1);
    (world, meeting)
}

async fn says(world: &RecordingWorld, meeting: MeetingId, person: Option<&str>, given: bool) {
    let wish = ConsentWish { person: person.map(str::to_owned), given };
    world.recordings.consent(Scope::User(world.user), meeting, wish).await.unwrap();
}

async fn assert_erased(world: &RecordingWorld) {
    let recording = world.recording("rec-1").await;
    assert!(recording.erased_at.is_some() && recording.erase_error.is_none(), "{recording:?}");
    assert_eq!(world.outside.blobs(), Vec::<String>::new());
    assert!(world.outside.deleted().contains(&"rec-1".to_owned()));
    world.check().await;
}

async fn a_denial_deletes_media_and_says_so(backend: Backend) {
    let (world, meeting) = recorded(backend).await;
    says(&world, meeting, Some("ada"), true).await;
    says(&world, meeting, None, false).await;
    world.run_due().await;
    assert_erased(&world).await;
    world.assert_done("rec-1").await;
    // Once is enough.
    says(&world, meeting, Some("bob"), false).await;
    world.run_due().await;
    assert_eq!(world.outside.deleted().len(), 1);
}

async fn a_denial_while_it_is_processed_deletes_media_afterwards(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    let meeting = world.meeting(ROOM).await;
    let transcribing = world.steps.hold("transcribe");
    world.announce(&world.recorded("rec-1")).await;
    world.begin_and_wait_at("transcribe").await;
    says(&world, meeting, Some("ada"), false).await;
    // The job that deletes leaves it to the one that works on it.
    let other = world.another_worker();
    other.claim_tick().await.unwrap();
    ends(&other).await;
    assert_eq!(world.steps.count("recordings_to_erase"), 1);
    assert_eq!(world.outside.blobs().len(), 1);
    transcribing.open(1);
    ends(&world.worker).await;
    world.run_due().await;
    world.assert_done("rec-1").await;
    assert_erased(&world).await;
}

async fn a_denial_deletes_what_has_failed_and_it_is_not_tried_again(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    let meeting = world.meeting(ROOM).await;
    // The denial comes while it is processed, and then it fails.
    let transcribing = world.steps.hold("transcribe");
    world.outside.media_fails("transcribe", MediaError::Refused("no".to_owned()));
    world.announce(&world.recorded("rec-1")).await;
    world.begin_and_wait_at("transcribe").await;
    says(&world, meeting, Some("ada"), false).await;
    transcribing.open(5);
    ends(&world.worker).await;
    world.run_due().await;
    assert_eq!(world.status("rec-1").await, RecordingStatus::Failed);
    assert_erased(&world).await;
    let retried = world.recordings.retry(Scope::All, "rec-1").await.unwrap();
    assert!(matches!(retried, RetryReply::Waits(_)), "{retried:?}");
    world.run_due().await;
    let recording = world.recording("rec-1").await;
    assert_eq!(recording.status, RecordingStatus::Failed);
    assert!(recording.error.unwrap().starts_with("erased: "));
    assert_eq!(world.steps.count("download"), 1);
}

async fn a_partial_failure_does_not_say_that_media_are_deleted(backend: Backend) {
    for is_provider in [false, true] {
        let (world, meeting) = recorded(backend).await;
        if is_provider {
            let down = RoomsError::Unavailable("down".to_owned());
            world.outside.provider_fails("delete_recording", down);
        } else {
            world.outside.media_fails("delete", MediaError::Failed("disk".to_owned()));
        }
        says(&world, meeting, Some("ada"), false).await;
        world.run_due().await;
        let recording = world.recording("rec-1").await;
        assert_eq!(recording.erased_at, None);
        let error = recording.erase_error.unwrap();
        assert!(error.contains(if is_provider { "down" } else { "disk" }), "{error}");
        // What could be deleted is.
        assert_eq!(world.outside.blobs().is_empty(), is_provider);
        assert_eq!(world.outside.deleted().is_empty(), is_provider);
        world.pass(secs(120)).await;
        assert_erased(&world).await;
    }
}

async fn nobody_to_ask_is_told_and_asked_for_again(backend: Backend) {
    let (mut world, meeting) = recorded(backend).await;
    let provider = world.work.provider.take();
    world.worker = world.another_worker();
    says(&world, meeting, Some("ada"), false).await;
    world.run_due().await;
    let recording = world.recording("rec-1").await;
    assert_eq!(recording.erased_at, None);
    assert!(recording.erase_error.unwrap().starts_with("not_configured: "));
    assert_eq!(world.outside.blobs(), Vec::<String>::new(), "ours are deleted all the same");
    world.work.provider = provider;
    world.worker = world.another_worker();
    world.pass(secs(120)).await;
    assert_erased(&world).await;
}

async fn whoever_agrees_deletes_nothing(backend: Backend) {
    let (world, meeting) = recorded(backend).await;
    says(&world, meeting, Some("ada"), true).await;
    says(&world, meeting, None, true).await;
    // The latest word of a person counts.
    says(&world, meeting, Some("bob"), false).await;
    says(&world, meeting, Some("bob"), true).await;
    world.run_due().await;
    let recording = world.recording("rec-1").await;
    assert_eq!((recording.erased_at, recording.erase_error), (None, None));
    assert_eq!((world.outside.blobs().len(), world.outside.deleted().len()), (1, 0));
    world.check().await;
}

async fn consent_is_the_word_of_a_person_in_a_meeting_of_theirs(backend: Backend) {
    let (world, meeting) = recorded(backend).await;
    let stranger = Scope::User(UserId::new(world.user.get() + 1000));
    let service = &world.recordings;
    let denial = ConsentWish { person: Some("eve".to_owned()), given: false };
    let denied = service.consent(stranger, meeting, denial.clone()).await;
    assert!(matches!(denied, Err(Error::NotFound { .. })), "{denied:?}");
    assert!(matches!(service.consents(stranger, meeting).await, Err(Error::NotFound { .. })));
    let nowhere = service.consent(Scope::All, MeetingId::new(999_999), denial).await;
    assert!(matches!(nowhere, Err(Error::NotFound { .. })), "{nowhere:?}");
    for odd in ["", "  ", "a\0b", &"x".repeat(201)] {
        let wish = ConsentWish { person: Some(odd.to_owned()), given: true };
        let refused = service.consent(Scope::All, meeting, wish).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{odd}: {refused:?}");
    }
    says(&world, meeting, None, true).await;
    says(&world, meeting, None, true).await;
    says(&world, meeting, Some(" ada "), true).await;
    says(&world, meeting, Some("ada"), true).await;
    let consents = service.consents(Scope::User(world.user), meeting).await.unwrap();
    let people: Vec<&str> = consents.iter().map(|consent| consent.person.as_str()).collect();
    assert_eq!(people.len(), 3, "{people:?}");
    assert_eq!(people.iter().filter(|person| **person == "ada").count(), 1);
    world.run_due().await;
    assert_eq!(world.outside.deleted(), Vec::<String>::new());
    world.check().await;
}

async fn a_process_may_die_while_it_deletes(backend: Backend) {
    // To ask what is to be deleted, to delete it here and there, and to say so.
    for step in 0..4 {
        for death in [Death::Before, Death::After] {
            let (mut world, meeting) = recorded(backend).await;
            says(&world, meeting, Some("ada"), false).await;
            world.steps.die_at(step, death);
            world.worker.claim_tick().await.unwrap();
            until("it dies", || world.steps.is_dead()).await;
            world.die().await;
            world.run_due().await;
            assert_erased(&world).await;
        }
    }
}
