//! Live transcripts: what is told of a meeting's speech, what of it is new, and when it is final.
//!
//! Invariants: a frame is made only when what somebody would render has changed; the same instant
//! is always the same string; nothing is decided here that is not decided from what is passed in.

mod collect;
mod export;
mod filter;
mod lines;
mod message;
mod published;
#[cfg(test)]
mod samples;
mod search;
mod segment;
mod session;
mod speakers;
mod stable;
mod wire;

pub use collect::{Known, Place, Reach, START_SHIFT_MS_MAX, Speakers, collect, reach_of};
pub use export::{ExportFormat, ExportMeeting, UnknownFormat, csv_cell, export};
pub use filter::{
    DropReason, FilterConfig, FilterSegment, InvalidNoisePattern, KeptSpan, TranscriptionFilter,
    Verdict,
};
pub use lines::{Line, in_order, instant, line_body, without_repeats};
pub use message::{Message, MessageBody, RefusedMessage, RefusedSegment, ToldSegment};
pub use published::{InvalidSeqRange, Published, SEQ_RANGES_MAX, SeqRange, SeqRanges};
pub use search::{
    Highlight, InvalidQuery, QUERY_BYTES_MAX, QUERY_TERMS_MAX, SearchQuery, WORD_CHARS_MAX,
    highlight, matches, searchable, to_tsvector, tokens,
};
pub use segment::{
    FieldStyle, Segment, SegmentContent, SegmentKey, SpeakerStatus, field_of, millis_of, seconds_of,
};
pub use session::{KnownStart, bare_uid, declare_start};
pub use speakers::{
    InvalidSpeakerEvent, SpeakerEvent, SpeakerEventKind, SpeakerTimeline, map_speaker,
};
pub use stable::{Settled, settle};
pub use wire::{
    FRAME_BYTES_MAX, cache_value, mutable_frames, reset_frame, retracted_body, retracted_frames,
};

/// A time within a session is at most this: a day.
pub const TIME_MS_MAX: i64 = 24 * 60 * 60 * 1000;
/// The text of one segment.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// The name of a session, or a producer's name for a segment.
pub const UID_BYTES_MAX: usize = 255;
/// The name of a speaker, as wide as the column for it.
pub const NAME_CHARS_MAX: usize = 255;
/// A language's code, as wide as the column for it.
pub const LANGUAGE_CHARS_MAX: usize = 10;
/// Segments in one message.
pub const SEGMENTS_PER_MESSAGE_MAX: usize = 1000;
/// One message of a producer.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// What is kept of a message that could not be taken: all that a message may be, so that every one
/// that might have been taken can be tried again.
pub const DEAD_LETTER_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
/// What is kept of the reason.
pub const DEAD_LETTER_REASON_BYTES_MAX: usize = 4 * 1024;
/// What is kept of who spoke when in one session.
pub const SPEAKER_EVENTS_PER_SESSION_MAX: u32 = 20_000;
/// So many of the latest events before the end of a segment say who spoke in it.
pub const SPEAKER_EVENTS_READ_MAX: u32 = 512;
/// How long after the end of a segment an event may still be about it.
pub const SPEAKER_EVENT_SLACK_MS: i64 = 500;
