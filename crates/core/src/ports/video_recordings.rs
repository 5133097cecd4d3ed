//! The provider's recordings, where their files are kept, and who hears what is said in them.

use std::path::Path;

use async_trait::async_trait;

use super::RoomsError;
use crate::recordings::{Announcement, HeardSegment, Recording, RecordingId, Track};

/// The provider's recordings.
#[async_trait]
pub trait VideoRecordings: Send + Sync {
    /// A page of the list, newest first, beginning after the named one. Entries that are not
    /// finished, or cannot be understood, are counted and left out.
    async fn recordings_page(&self, after: Option<&str>) -> Result<RecordingsPage, RoomsError>;

    /// An address under which a recording can be read for a while; of a track, if one is named.
    async fn access_link(
        &self,
        id: &RecordingId,
        track: Option<&Track>,
    ) -> Result<String, RoomsError>;

    /// `false` if there is none.
    async fn delete_recording(&self, id: &RecordingId) -> Result<bool, RoomsError>;

    /// Deletes the files of a recording that are not deleted with it; those that are gone already
    /// are as good.
    async fn delete_tracks(&self, _tracks: &[Track]) -> Result<(), RoomsError> {
        Ok(())
    }
}

/// A page of the list of recordings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingsPage {
    pub finished: Vec<Announcement>,
    /// Ids of those that are not finished yet: the list is not read whole before they are.
    pub unfinished: Vec<String>,
    /// Could not be understood.
    pub odd: u32,
    /// Where the next page begins; `None` at the end.
    pub next_after: Option<String>,
}

/// Gets files from addresses that the provider named.
#[async_trait]
pub trait MediaFetcher: Send + Sync {
    /// Downloads into a file, going on where it ends if a part is there already and the source can.
    async fn download(&self, link: &str, to: &Path) -> Result<Fetched, MediaError>;
}

/// A file that was downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub bytes: u64,
    /// Of the whole file, in hexadecimal.
    pub sha256: String,
}

/// Keeps files by their content.
#[async_trait]
pub trait MediaStore: Send + Sync {
    /// Keeps a file; one with the same content is kept once. Returns its name here.
    async fn keep(&self, file: &Path, sha256: &str) -> Result<String, MediaError>;

    /// Writes what is kept into a file.
    async fn read(&self, blob: &str, to: &Path) -> Result<(), MediaError>;

    /// `false` if there is none.
    async fn delete(&self, blob: &str) -> Result<bool, MediaError>;
}

/// Hears what is said in a file.
#[async_trait]
pub trait Transcriber: Send + Sync {
    async fn transcribe(&self, audio: &Path) -> Result<Vec<HeardSegment>, MediaError>;
}

/// Why a file could not be had, kept or heard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    #[error("there is no such file")]
    NotFound,
    /// Trying again will not help.
    #[error("refused: {0}")]
    Refused(String),
    /// It may work later.
    #[error("{0}")]
    Failed(String),
    #[error("nobody is configured for it")]
    NotConfigured,
}

/// What a recording is made of, as far as somebody can be heard in it.
pub fn files_of(recording: &Recording) -> Vec<Option<&Track>> {
    match recording.tracks.as_slice() {
        [] => vec![None],
        tracks => tracks.iter().filter(|track| track.is_speech()).map(Some).collect(),
    }
}
