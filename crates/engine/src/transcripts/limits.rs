//! The limits of transcripts that an operator may move.

use roundsman_core::transcripts::MESSAGE_BYTES_MAX;

/// Each has its unit in its name.
#[derive(Debug, Clone, Copy)]
pub struct TranscriptLimits {
    /// Messages in one transaction.
    pub batch_messages_max: usize,
    /// One message of a producer.
    pub message_bytes_max: usize,
    /// Frames of one meeting that are kept in memory while somebody listens to it.
    pub ring_frames_max: usize,
    pub ring_bytes_max: usize,
    /// The same for all meetings of a node together.
    pub rings_bytes_max: usize,
    /// A listener that has taken all before, and then has more frames than this to read at once,
    /// gets them joined.
    pub coalesce_frames_min: usize,
    /// Frames of one meeting in any second for a listener that is behind: while it took the last ones
    /// more than one has come. What would be more is joined. At least two.
    pub behind_frames_per_sec_max: u32,
    /// Segments of one meeting that become final in one transaction.
    pub settled_rows_max: u32,
    /// Links to one meeting that hold at the same time.
    pub shares_per_meeting_max: usize,
    /// Segments found by one search, and dead letters in one list.
    pub page_rows_max: u32,
}

impl Default for TranscriptLimits {
    fn default() -> Self {
        TranscriptLimits {
            batch_messages_max: 256,
            message_bytes_max: MESSAGE_BYTES_MAX,
            ring_frames_max: 256,
            ring_bytes_max: 1024 * 1024,
            rings_bytes_max: 256 * 1024 * 1024,
            coalesce_frames_min: 64,
            behind_frames_per_sec_max: 10,
            settled_rows_max: 500,
            shares_per_meeting_max: 100,
            page_rows_max: 200,
        }
    }
}
