//! Recordings with a track for every person.

use roundsman_core::ports::{EffectStore, MediaError, PresenceStore, Scope};
use roundsman_core::recordings::{RecordingKind, RecordingStatus, Track, TrackMedium};

use super::{ROOM, RecordingWorld, ends};
use crate::backend::{Backend, on_every_database};
use crate::support::{secs, until};

on_every_database! {
    tracks_become_one_transcript_by_time
    a_recording_without_speech_is_done
    one_track_that_cannot_be_heard_fails_the_recording_by_name
    a_recording_belongs_to_the_nearest_meeting_of_its_room
    defect_11_rooms_of_one_name_have_their_own_recordings
    a_transcriber_without_times_has_said_it_all_at_once
}

const ADA: &str = "0c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f10";
const BOB: &str = "1c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f11";
const NAMELESS: &str = "2c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f12";
const UNSEEN: &str = "3c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f13";

const BEGAN_MS: i64 = 1_760_988_935_484;

fn track(session: &str, source: &str, offset_ms: i64) -> Track {
    let medium = if source == "cam-video" { TrackMedium::Video } else { TrackMedium::Audio };
    let key = format!("domain/room/{BEGAN_MS}-{session}-{source}-{}", BEGAN_MS + offset_ms);
    Track { medium, key, bytes: Some(10) }
}

async fn tracks_become_one_transcript_by_time(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.joins(ADA, Some("Ada"));
    world.joins(BOB, Some("Bob"));
    world.joins(NAMELESS, None);
    let meeting = world.meeting(ROOM).await;
    let mut announcement = world.recorded("rec-1");
    announcement.kind = RecordingKind::RawTracks;
    announcement.tracks = vec![
        track(ADA, "cam-video", 0),
        track(ADA, "cam-audio", 0),
        track(BOB, "cam-audio", 1500),
        track(BOB, "screen-audio", 1600),
        track(NAMELESS, "cam-audio", 3000),
        track(UNSEEN, "cam-audio", 4000),
        track(ADA, "cam-audio", 5000),
    ];
    let says = |index: usize, content: &str| {
        world.outside.says(&announcement.id, &announcement.tracks[index].key, content);
    };
    says(1, "0-1000 good morning\n2600-3000 how are you");
    says(2, "0-1000 hello\n2000-2500 fine");
    says(4, "0-100 yes");
    says(5, "0-100 me too");
    says(6, "0-200 bye");
    world.announce(&announcement).await;
    world.run_due().await;
    let named = |start, end, speaker: &str, text: &str| {
        (start, end, Some(speaker.to_owned()), text.to_owned())
    };
    let expected = [
        named(0, 1000, "Ada", "good morning"),
        named(1500, 2500, "Bob", "hello"),
        named(2600, 3000, "Ada", "how are you"),
        named(3000, 3100, "Speaker 1", "yes"),
        named(3500, 4000, "Bob", "fine"),
        named(4000, 4100, "Speaker 2", "me too"),
        named(5000, 5200, "Ada", "bye"),
    ];
    assert_eq!(world.said("rec-1").await, expected);
    assert_eq!(world.outside.heard().len(), 5, "one call for each track that somebody speaks in");
    assert_eq!(world.recording("rec-1").await.media.len(), 5);
    let frames = world.world.store.frames(format!("meeting:{meeting}"), 0, 100).await.unwrap();
    assert!(frames.iter().any(|frame| frame.body.as_str().contains("transcript.")), "{frames:?}");
    world.check().await;
}

async fn a_recording_without_speech_is_done(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    let mut announcement = world.recorded("rec-1");
    announcement.tracks = vec![track(ADA, "cam-video", 0), track(ADA, "screen-audio", 0)];
    world.announce(&announcement).await;
    let mut muted = world.recorded("rec-2");
    muted.tracks = vec![track(BOB, "cam-audio", 0)];
    world.outside.says(&muted.id, &muted.tracks[0].key, "");
    world.announce(&muted).await;
    world.run_due().await;
    for id in ["rec-1", "rec-2"] {
        assert_eq!(world.said(id).await, []);
        assert_eq!(world.status(id).await, RecordingStatus::Completed);
    }
    assert_eq!(world.outside.heard(), Vec::<String>::new());
    world.check().await;
}

async fn one_track_that_cannot_be_heard_fails_the_recording_by_name(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    let mut announcement = world.recorded("rec-1");
    announcement.tracks = vec![track(ADA, "cam-audio", 0), track(BOB, "cam-audio", 0)];
    for track in &announcement.tracks {
        world.outside.says(&announcement.id, &track.key, &format!("0-1 {}", track.key));
    }
    let transcribing = world.steps.hold("transcribe");
    world.announce(&announcement).await;
    world.begin_and_wait_at("transcribe").await;
    transcribing.open(1);
    until("the second is to be heard", || world.outside.heard().len() == 1).await;
    world.outside.media_fails("transcribe", MediaError::Refused("not audio".to_owned()));
    transcribing.open(1);
    ends(&world.worker).await;
    let recording = world.recording("rec-1").await;
    assert_eq!(recording.status, RecordingStatus::Failed);
    let error = recording.error.unwrap();
    assert!(error.starts_with("refused: ") && error.contains(BOB), "{error}");
    world.check().await;
}

async fn a_recording_belongs_to_the_nearest_meeting_of_its_room(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    let other = world.meeting("another-room").await;
    let meeting = world.meeting(ROOM).await;
    world.announce(&world.recorded("rec-1")).await;
    world.run_due().await;
    let recording = world.recording("rec-1").await;
    assert_eq!((recording.meeting_id, recording.user_id), (Some(meeting), Some(world.user)));
    assert_ne!(recording.meeting_id, Some(other));
    world.check().await;
}

async fn defect_11_rooms_of_one_name_have_their_own_recordings(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    let store = &world.world.store;
    let mut meetings = Vec::new();
    for number in 0..3 {
        meetings.push(world.meeting(ROOM).await);
        // It is told of when a later meeting is open in a room of the same name.
        let late = world.recorded(&format!("rec-{number}"));
        store.end_presence(Scope::All, meetings[number], world.now()).await.unwrap();
        world.world.clock.advance(secs(3600));
        world.outside.list(&late);
    }
    world.poll().await;
    for (number, meeting) in meetings.into_iter().enumerate() {
        let id = format!("rec-{number}");
        assert_eq!(world.recording(&id).await.meeting_id, Some(meeting));
        world.assert_done(&id).await;
    }
    world.check().await;
}

async fn a_transcriber_without_times_has_said_it_all_at_once(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    let announcement = world.recorded("rec-1");
    world.outside.says(&announcement.id, "", "0-0 all of it");
    world.announce(&announcement).await;
    world.run_due().await;
    assert_eq!(world.said("rec-1").await, [(0, 5000, None, "all of it".to_owned())]);
    world.check().await;
}
