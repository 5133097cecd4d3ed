//! What an operator may set. The defaults are what consumers of the protocol expect.

use roundsman_core::transcripts::FieldStyle;

/// Names and lifetimes of the keys of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptCacheOptions {
    /// How long `meeting:{id}:segments` lives after it was last written.
    pub segment_ttl_secs: u64,
    /// How long `meeting_session:{uid}:start` lives.
    pub session_start_ttl_secs: u64,
    /// How long `speaker_events:{uid}` lives after it was last written.
    pub speaker_event_ttl_secs: u64,
    /// What stands before `:{uid}` there.
    pub speaker_event_prefix: String,
    pub field_style: FieldStyle,
}

impl Default for TranscriptCacheOptions {
    fn default() -> Self {
        Self {
            segment_ttl_secs: 3600,
            session_start_ttl_secs: 7200,
            speaker_event_ttl_secs: 86_400,
            speaker_event_prefix: "speaker_events".to_owned(),
            field_style: FieldStyle::default(),
        }
    }
}

/// One stream and who reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestStreamOptions {
    pub stream: String,
    pub group: String,
    /// Unique to this process: two that share a name would take each other's entries for their own.
    pub consumer: String,
    /// How long a read waits for the first entry.
    pub block_ms: u64,
}

impl IngestStreamOptions {
    /// What transcribers write.
    pub fn transcription_segments(consumer: &str) -> Self {
        Self {
            stream: "transcription_segments".to_owned(),
            group: "collector_group".to_owned(),
            consumer: consumer.to_owned(),
            block_ms: 2000,
        }
    }

    /// What bots tell of speakers.
    pub fn speaker_events(consumer: &str) -> Self {
        Self {
            stream: "speaker_events_relative".to_owned(),
            group: "collector_speaker_group".to_owned(),
            consumer: format!("{consumer}-speaker"),
            block_ms: 2000,
        }
    }
}
