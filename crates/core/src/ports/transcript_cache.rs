//! The cache of live segments that others read.
//!
//! Invariant: it is never the truth. What is in it was committed before; whatever is lost is written
//! again from the database.

use async_trait::async_trait;

use crate::Timestamp;
use crate::bots::MeetingId;
use crate::transcripts::{Line, SegmentKey, SpeakerEvent};

/// Keys and values that consumers of the seed's protocol know.
#[async_trait]
pub trait TranscriptCache: Send + Sync {
    /// Writes changed live segments of a meeting, and that it is active.
    async fn put_lines(&self, meeting: MeetingId, lines: &[Line]) -> Result<(), CacheError>;

    /// Removes segments; a meeting without any is no longer active.
    async fn remove(&self, meeting: MeetingId, gone: &[SegmentKey]) -> Result<(), CacheError>;

    /// Makes the meeting's segments exactly these. Returns how many values had to be written or
    /// removed.
    async fn repair(&self, meeting: MeetingId, lines: &[Line]) -> Result<u64, CacheError>;

    /// Removes everything about a meeting and its sessions.
    async fn forget(&self, meeting: MeetingId, sessions: &[String]) -> Result<(), CacheError>;

    /// Meetings that the cache calls active, at most `rows_max`.
    async fn active(&self, rows_max: u32) -> Result<Vec<MeetingId>, CacheError>;

    /// The starts of sessions, as far as they are known here.
    async fn starts(&self, sessions: &[String]) -> Result<Vec<Option<Timestamp>>, CacheError>;

    async fn put_start(&self, session: &str, start: Timestamp) -> Result<(), CacheError>;

    async fn end_session(&self, session: &str) -> Result<(), CacheError>;

    async fn put_speaker_events(&self, events: &[SpeakerEvent]) -> Result<(), CacheError>;
}

/// The cache cannot be reached; it is repaired later.
#[derive(Debug, thiserror::Error)]
#[error("the cache is unavailable: {0}")]
pub struct CacheError(pub String);
