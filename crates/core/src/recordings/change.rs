//! What becomes of a recording that is known.
//!
//! Invariants: one that is completed stays so, whoever comes late; one whose meeting was anonymised
//! names nobody, gets no transcript, and its media are erased.

use serde_json::json;

use super::{Media, Recording, RecordingStatus, erase_wish, process_wish};
use crate::Timestamp;
use crate::bots::MeetingId;
use crate::effects::{Effects, Transition};
use crate::presence::RoomName;
use crate::users::UserId;
use crate::webhooks::{WebhookEvent, event_id};

/// The entity under which recordings are logged, by their numbers.
pub const RECORDING_ENTITY: &str = "recording";

/// The type of the event that tells the owner of a meeting.
const READY: &str = "recording.ready";

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub recording: Recording,
    pub effects: Effects,
}

/// Its job has begun, for this meeting of this user.
pub fn begin(known: Recording, meeting: MeetingId, owner: UserId, now: Timestamp) -> Changed {
    let recording =
        Recording { meeting_id: Some(meeting), user_id: Some(owner), error: None, ..known };
    step(recording, RecordingStatus::Processing, "process", now)
}

/// These files are ours: they replace what was kept of the same tracks.
pub fn keep(mut recording: Recording, media: Vec<Media>, now: Timestamp) -> Recording {
    if recording.is_anonymous() {
        recording.media.extend(media);
        recording.media = nameless(recording.media);
    } else {
        for kept in media {
            recording.media.retain(|before| before.track != kept.track);
            recording.media.push(kept);
        }
    }
    recording.updated_at = now;
    recording
}

/// Its transcript of so many segments is saved, and its owner is told. `is_denied`: somebody does not
/// agree to being recorded.
pub fn finish(known: Recording, segments: u32, is_denied: bool, now: Timestamp) -> Changed {
    let recording = Recording { segments, error: None, completed_at: Some(now), ..known };
    let mut changed = step(recording, RecordingStatus::Completed, "process", now);
    let Changed { recording, effects } = &mut changed;
    if let (Some(meeting), Some(owner)) = (recording.meeting_id, recording.user_id) {
        ready(recording, meeting, owner, now).add_to(effects, now);
        effects.jobs.extend(is_denied.then(|| erase_wish(meeting, now)));
    }
    changed
}

/// It could not be processed.
pub fn fail(known: Recording, error: String, now: Timestamp) -> Changed {
    step(Recording { error: Some(error), ..known }, RecordingStatus::Failed, "process", now)
}

/// It is tried again.
pub fn retry(known: Recording, now: Timestamp) -> Changed {
    let mut changed = step(known, RecordingStatus::Pending, "retry", now);
    changed.effects.jobs.push(process_wish(&changed.recording.id, now));
    changed
}

/// Its media are gone, or this is why they are not.
pub fn erase(mut known: Recording, error: Option<String>, now: Timestamp) -> Recording {
    let erased_at = error.is_none().then_some(now);
    if known.is_anonymous() && erased_at.is_some() {
        known.tracks.clear();
    }
    Recording { erased_at, erase_error: error, updated_at: now, ..known }
}

/// Its meeting is anonymised: what could name anybody is taken away, and its media are erased. What
/// the provider calls its files may have the name of the room in it, but they are erased by these
/// names, so they go with the files. One that is being processed is left to its job, which ends it as
/// [`abandon`] says.
pub fn forget(known: Recording, meeting: MeetingId, owner: UserId, now: Timestamp) -> Changed {
    let tracks = if known.erased_at.is_some() { Vec::new() } else { known.tracks };
    let recording = Recording {
        meeting_id: Some(meeting),
        user_id: Some(owner),
        room: RoomName::from_stored(String::new()),
        tracks,
        media: nameless(known.media),
        error: None,
        erase_error: None,
        updated_at: now,
        ..known
    };
    match recording.status {
        RecordingStatus::Pending | RecordingStatus::Failed => abandon(recording, now),
        RecordingStatus::Processing | RecordingStatus::Completed => {
            let is_left = recording.erased_at.is_none();
            let jobs = is_left.then(|| erase_wish(meeting, now)).into_iter().collect();
            Changed { recording, effects: Effects { jobs, ..Effects::default() } }
        }
    }
}

/// One whose meeting was anonymised comes to its end: without a transcript.
pub fn abandon(known: Recording, now: Timestamp) -> Changed {
    let recording = Recording { error: None, completed_at: Some(now), ..known };
    let mut changed = step(recording, RecordingStatus::Completed, "anonymise", now);
    let Changed { recording, effects } = &mut changed;
    if let Some(meeting) = recording.meeting_id.filter(|_| recording.erased_at.is_none()) {
        effects.jobs.push(erase_wish(meeting, now));
    }
    changed
}

fn step(known: Recording, status: RecordingStatus, cause: &'static str, now: Timestamp) -> Changed {
    let from = known.status;
    let recording = Recording { status, updated_at: now, ..known };
    let logged = (from != status).then(|| Transition {
        entity: RECORDING_ENTITY,
        entity_id: recording.no,
        from_state: Some(from.as_str().to_owned()),
        to_state: status.as_str().to_owned(),
        cause: cause.to_owned(),
        detail: None,
    });
    let transitions = logged.into_iter().collect();
    Changed { recording, effects: Effects { transitions, ..Effects::default() } }
}

/// The names of tracks may have the room's in them; what erasing needs is where the files are.
fn nameless(media: Vec<Media>) -> Vec<Media> {
    let numbered = |(number, media): (usize, Media)| Media { track: number.to_string(), ..media };
    media.into_iter().enumerate().map(numbered).collect()
}

/// Says nothing that could not stay when the meeting is anonymised.
fn ready(recording: &Recording, meeting: MeetingId, owner: UserId, now: Timestamp) -> WebhookEvent {
    let data = json!({
        "recording": {
            "id": recording.id.as_str(),
            "meeting_id": meeting.get(),
            "type": recording.kind.as_str(),
            "started_at": recording.started_at.to_string(),
            "duration_ms": recording.duration_ms,
            "segments": recording.segments,
        },
    });
    WebhookEvent::new(owner, event_id(&[recording.id.as_str(), READY]), READY, data, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recordings::{
        Announcement, RecordingId, RecordingKind, Track, TrackMedium, Via, announce,
    };

    const MEETING: MeetingId = MeetingId::new(7);
    const OWNER: UserId = UserId::new(3);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn media(track: &str) -> Media {
        Media { track: track.to_owned(), blob: format!("b/{track}"), bytes: 1, sha256: "x".into() }
    }

    fn known(status: RecordingStatus) -> Recording {
        let announcement = Announcement {
            id: RecordingId::new("rec").unwrap(),
            room: RoomName::new("room").unwrap(),
            kind: RecordingKind::Cloud,
            started_at: at(0),
            duration_ms: 5000,
            tracks: Vec::new(),
            via: Via::Event,
        };
        let made = announce(None, announcement, at(1)).recording;
        Recording { no: 5, status, meeting_id: Some(MEETING), user_id: Some(OWNER), ..made }
    }

    fn kinds(effects: &Effects) -> Vec<&str> {
        effects.jobs.iter().map(|job| job.kind.as_str()).collect()
    }

    #[test]
    fn only_steps_to_another_state_are_logged() {
        let begun = begin(known(RecordingStatus::Failed), MEETING, OWNER, at(2));
        assert_eq!((begun.recording.status, begun.effects.transitions.len()), {
            (RecordingStatus::Processing, 1)
        });
        assert_eq!(begun.effects.transitions[0].entity_id, 5);
        let again = begin(begun.recording, MEETING, OWNER, at(3));
        assert!(again.effects.is_empty() && again.recording.updated_at == at(3));
    }

    #[test]
    fn the_owner_is_told_and_a_denial_erases() {
        let finished = finish(known(RecordingStatus::Processing), 4, false, at(9));
        assert_eq!(kinds(&finished.effects), ["webhooks.deliver"]);
        assert_eq!(finished.effects.webhooks[0].event_type, READY);
        assert!(crate::webhooks::EVENT_TYPES.contains(&READY));
        let denied = finish(known(RecordingStatus::Processing), 4, true, at(9));
        assert_eq!(kinds(&denied.effects), ["webhooks.deliver", "recordings.erase"]);
        assert_eq!((denied.recording.segments, denied.recording.completed_at), (4, Some(at(9))));
    }

    #[test]
    fn files_of_the_same_track_are_replaced() {
        let kept = keep(known(RecordingStatus::Processing), vec![media("a"), media("b")], at(2));
        let newer = Media { blob: "c".to_owned(), ..media("a") };
        let kept = keep(kept, vec![newer.clone()], at(3));
        assert_eq!(kept.media, [media("b"), newer]);
    }

    #[test]
    fn names_of_files_go_with_the_files() {
        let track = Track { medium: TrackMedium::Audio, key: "room/a".to_owned(), bytes: None };
        let named = Recording { tracks: vec![track], ..known(RecordingStatus::Completed) };
        let forgotten = forget(named.clone(), MEETING, OWNER, at(4)).recording;
        assert_eq!(forgotten.tracks, named.tracks, "they are erased by their names");
        let not_yet = erase(forgotten, Some("silence".to_owned()), at(5));
        assert_eq!((not_yet.tracks.len(), not_yet.erased_at), (1, None));
        let erased = erase(not_yet, None, at(6));
        assert_eq!((erased.tracks.len(), erased.erased_at), (0, Some(at(6))));
        let erased = erase(named, None, at(3));
        assert_eq!(erased.tracks.len(), 1, "nobody is to be forgotten");
        assert_eq!(forget(erased, MEETING, OWNER, at(4)).recording.tracks, []);
    }

    #[test]
    fn what_is_anonymised_names_nobody_and_comes_to_its_end() {
        for status in RecordingStatus::ALL {
            let named = Recording {
                media: vec![media("room/a"), media("room/b")],
                error: Some("room".to_owned()),
                ..known(status)
            };
            let Changed { recording, effects } = forget(named, MEETING, OWNER, at(4));
            assert!(recording.is_anonymous(), "{status:?}");
            let tracks: Vec<&str> = recording.media.iter().map(|m| m.track.as_str()).collect();
            assert_eq!((tracks, recording.error.as_deref()), (vec!["0", "1"], None));
            assert_eq!(kinds(&effects), ["recordings.erase"], "{status:?}");
            let ended = status != RecordingStatus::Processing;
            assert_eq!(recording.status == RecordingStatus::Completed, ended, "{status:?}");
            let kept = keep(recording, vec![media("room/c")], at(5));
            assert_eq!((kept.media.len(), kept.media[2].track.as_str()), (3, "2"));
        }
    }
}
