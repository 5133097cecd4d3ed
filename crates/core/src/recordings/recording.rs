//! A recording as it is known.

use serde::{Deserialize, Serialize};

use super::Track;
use crate::Timestamp;
use crate::bots::MeetingId;
use crate::presence::RoomName;
use crate::users::UserId;

/// Longest id that is taken; it is the key of a job.
pub const RECORDING_ID_BYTES_MAX: usize = 128;

/// The provider's name for a recording.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordingId(String);

impl RecordingId {
    /// `None` if it cannot be kept as it is.
    pub fn new(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= RECORDING_ID_BYTES_MAX;
        (fits && !text.chars().any(char::is_control)).then(|| RecordingId(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordingKind {
    /// All in one picture.
    Cloud,
    CloudAudioOnly,
    /// A file for every track of every person.
    RawTracks,
}

impl RecordingKind {
    pub const ALL: [RecordingKind; 3] =
        [RecordingKind::Cloud, RecordingKind::CloudAudioOnly, RecordingKind::RawTracks];

    pub fn as_str(self) -> &'static str {
        match self {
            RecordingKind::Cloud => "cloud",
            RecordingKind::CloudAudioOnly => "cloud-audio-only",
            RecordingKind::RawTracks => "raw-tracks",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        RecordingKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordingStatus {
    Pending,
    Processing,
    Completed,
    Failed,
}

impl RecordingStatus {
    pub const ALL: [RecordingStatus; 4] = [
        RecordingStatus::Pending,
        RecordingStatus::Processing,
        RecordingStatus::Completed,
        RecordingStatus::Failed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            RecordingStatus::Pending => "pending",
            RecordingStatus::Processing => "processing",
            RecordingStatus::Completed => "completed",
            RecordingStatus::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        RecordingStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// A recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Ours: grows with every new one. 0 before it is stored.
    pub no: i64,
    pub id: RecordingId,
    /// `None` until a meeting near it is found.
    pub meeting_id: Option<MeetingId>,
    /// Whose meeting that is.
    pub user_id: Option<UserId>,
    pub room: RoomName,
    pub kind: RecordingKind,
    pub started_at: Timestamp,
    pub duration_ms: i64,
    pub tracks: Vec<Track>,
    pub media: Vec<Media>,
    pub status: RecordingStatus,
    pub error: Option<String>,
    /// How often it was announced beyond the first time.
    pub repeats: u32,
    /// How many segments its transcript has.
    pub segments: u32,
    pub announced_at: Timestamp,
    pub updated_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    /// When its media were deleted.
    pub erased_at: Option<Timestamp>,
    /// Why they could not be.
    pub erase_error: Option<String>,
}

impl Recording {
    /// Its meeting was anonymised: it has no room any more.
    pub fn is_anonymous(&self) -> bool {
        self.room.as_str().is_empty()
    }
}

/// A file of a recording that we keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// The provider's name for the track; empty for a recording that is one file.
    pub track: String,
    /// Where it is in the blob store.
    pub blob: String,
    pub bytes: u64,
    pub sha256: String,
}

/// What somebody says about being recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    pub person: String,
    pub given: bool,
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for kind in RecordingKind::ALL {
            assert_eq!(RecordingKind::parse(kind.as_str()), Some(kind));
        }
        for status in RecordingStatus::ALL {
            assert_eq!(RecordingStatus::parse(status.as_str()), Some(status));
        }
    }

    #[test]
    fn ids_are_kept_whole_or_not_at_all() {
        assert!(RecordingId::new("08fa0b24-9220-44c5-846c-3f116cf8e738").is_some());
        for bad in ["", "a\n", &"x".repeat(RECORDING_ID_BYTES_MAX + 1)] {
            assert_eq!(RecordingId::new(bad), None);
        }
    }
}
