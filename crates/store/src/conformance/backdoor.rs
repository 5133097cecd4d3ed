//! What others write into the database: an existing Vexa installation, the transcripts.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::{Meeting, MeetingId};

/// Writes and reads rows that the ports of bots only read, or only write. A test of an adapter
/// provides one that speaks to the database past the store.
#[async_trait]
pub trait Backdoor: Send + Sync {
    /// A row of `meetings` that has no bot of ours.
    async fn put_meeting(&self, meeting: Meeting);

    async fn put_session(&self, meeting: MeetingId, session_uid: &str, at: Timestamp);

    /// (`session_uid`, start) of a meeting's sessions, oldest first.
    async fn sessions(&self, meeting: MeetingId) -> Vec<(String, Timestamp)>;

    async fn put_said(&self, meeting: MeetingId, said: Said);

    /// How many transcriptions a meeting has.
    async fn count_said(&self, meeting: MeetingId) -> usize;

    /// The transcriptions of a meeting with their numbers, by ascending number.
    async fn said(&self, meeting: MeetingId) -> Vec<(i64, Said)>;

    /// Where a word, given in lower case, is found: tables by name, whoever's row it is in.
    async fn traces(&self, word: &str) -> Vec<String>;
}

/// A row of `transcriptions`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Said {
    /// Seconds since the start of the session.
    pub start: f64,
    pub end: f64,
    pub text: String,
    pub speaker: Option<String>,
    pub language: Option<String>,
    pub session_uid: Option<String>,
}
