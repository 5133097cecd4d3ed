//! What an announcement makes of the record.

use super::{
    RECORDING_ENTITY, Recording, RecordingId, RecordingKind, RecordingStatus, Track, process_wish,
};
use crate::Timestamp;
use crate::effects::{Effects, Transition};
use crate::presence::RoomName;

/// How it was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Event,
    Poll,
}

impl Via {
    pub fn as_str(self) -> &'static str {
        match self {
            Via::Event => "event",
            Via::Poll => "poll",
        }
    }
}

/// A recording that can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    pub id: RecordingId,
    pub room: RoomName,
    pub kind: RecordingKind,
    pub started_at: Timestamp,
    pub duration_ms: i64,
    pub tracks: Vec<Track>,
    pub via: Via,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    pub recording: Recording,
    /// It was known: nothing is begun a second time.
    pub is_repeated: bool,
    pub effects: Effects,
}

/// What an announcement comes to. Only a new recording is processed for it: one that has failed is
/// tried again by the night's round or by hand, and one that waits has its job.
pub fn announce(known: Option<Recording>, announcement: Announcement, now: Timestamp) -> Announced {
    if let Some(mut recording) = known {
        recording.repeats = recording.repeats.saturating_add(1);
        recording.updated_at = now;
        // A second announcement may know of tracks that the first did not. Their names have the room's
        // in them.
        if recording.tracks.is_empty() && !recording.is_anonymous() {
            recording.tracks = announcement.tracks;
        }
        return Announced { recording, is_repeated: true, effects: Effects::default() };
    }
    let Announcement { id, room, kind, started_at, duration_ms, tracks, via } = announcement;
    let jobs = vec![process_wish(&id, now)];
    let recording = Recording {
        no: 0,
        id,
        meeting_id: None,
        user_id: None,
        room,
        kind,
        started_at,
        duration_ms,
        tracks,
        media: Vec::new(),
        status: RecordingStatus::Pending,
        error: None,
        repeats: 0,
        segments: 0,
        announced_at: now,
        updated_at: now,
        completed_at: None,
        erased_at: None,
        erase_error: None,
    };
    let effects = Effects {
        jobs,
        transitions: vec![Transition {
            entity: RECORDING_ENTITY,
            // The store fills in the number that the row gets.
            entity_id: 0,
            from_state: None,
            to_state: RecordingStatus::Pending.as_str().to_owned(),
            cause: via.as_str().to_owned(),
            detail: None,
        }],
        ..Effects::default()
    };
    Announced { recording, is_repeated: false, effects }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(via: Via) -> Announcement {
        Announcement {
            id: RecordingId::new("rec-123").unwrap(),
            room: RoomName::new("room").unwrap(),
            kind: RecordingKind::Cloud,
            started_at: Timestamp::EPOCH,
            duration_ms: 5000,
            tracks: Vec::new(),
            via,
        }
    }

    #[test]
    fn only_the_first_announcement_begins_work() {
        let now = Timestamp::from_micros(7);
        let first = announce(None, announcement(Via::Event), now);
        assert!(!first.is_repeated);
        assert_eq!(first.effects.jobs.len(), 1);
        for status in RecordingStatus::ALL {
            let known = Recording { status, ..first.recording.clone() };
            let again = announce(Some(known), announcement(Via::Poll), now);
            assert!(again.is_repeated && again.effects.is_empty(), "{status:?}");
            assert_eq!((again.recording.repeats, again.recording.status), (1, status));
        }
    }
}
