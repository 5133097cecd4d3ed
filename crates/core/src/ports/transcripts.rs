//! Transcripts in the database.
//!
//! Invariants: `live_segments` is the truth about what may still change and `transcriptions` about
//! what is final; a segment is in one of them, never in both; every change of what somebody would
//! render is written together with the frame that tells of it, in one transaction, and the changes
//! of one meeting happen one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::{BotTarget, MeetingRow, StoreError};
use crate::Timestamp;
use crate::bots::MeetingId;
use crate::effects::Frame;
use crate::jobs::LeaseRef;
use crate::transcripts::{
    DropReason, Line, MessageBody, SearchQuery, SegmentKey, SeqRange, SpeakerEvent,
    TranscriptionFilter,
};
use crate::users::UserId;

/// Stores what is said.
#[async_trait]
pub trait TranscriptStore: Send + Sync {
    /// Takes messages in the order given, in one transaction, and answers each. What a message
    /// changes is decided by [`crate::transcripts::collect`] and
    /// [`crate::transcripts::declare_start`]; a message that changes nothing writes nothing.
    /// [`MessageBody::Speaker`] is not for this call.
    async fn take_messages(
        &self,
        messages: Vec<NewMessage>,
        now: Timestamp,
    ) -> Result<Vec<MessageAnswer>, StoreError>;

    /// Keeps who began or ended to speak. Without a meeting an event is heard in whatever meeting
    /// has its session. What is known already, and what is over the limit of a session, is left out.
    async fn keep_speaker_events(
        &self,
        events: Vec<(Option<MeetingId>, SpeakerEvent)>,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Meetings that have live segments, by ascending number.
    async fn live_meetings(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<LiveMeeting>, StoreError>;

    /// The live segments of a meeting (without those that were dropped), in the order of their keys.
    async fn live_lines(&self, meeting: MeetingId) -> Result<Vec<Line>, StoreError>;

    /// Moves the segments of a meeting that have not changed since `stable_before` to the final
    /// table, as [`crate::transcripts::settle`] decides. With a guard, only while that lease is held
    /// (else an empty answer).
    async fn settle_segments(
        &self,
        meeting: MeetingId,
        request: SettleRequest,
        guard: Option<LeaseRef>,
        now: Timestamp,
    ) -> Result<SettledSegments, StoreError>;

    /// What was said in a meeting, final and live, in one consistent read and in no order. `None`
    /// if the user has no such meeting.
    async fn transcript(
        &self,
        user: UserId,
        target: BotTarget,
        since: Option<i64>,
    ) -> Result<Option<Transcript>, StoreError>;

    /// The last place given in each of these meetings' streams; 0 for one without.
    async fn stream_ends(&self, meetings: Vec<MeetingId>) -> Result<Vec<i64>, StoreError>;

    /// Segments of a user's meetings with these words: live ones first (without a number), then
    /// final ones, newest first.
    async fn search_transcripts(
        &self,
        user: UserId,
        query: SearchQuery,
        page: SearchPage,
    ) -> Result<Vec<SearchHit>, StoreError>;

    /// Makes rows that somebody else has written searchable, at most `rows_max` at a time. Returns
    /// how many rows were looked at.
    async fn index_transcriptions(&self, rows_max: u32) -> Result<u32, StoreError>;

    /// Calls a speaker of a meeting by another name, in all that was said and will be said.
    async fn rename_speaker(
        &self,
        user: UserId,
        target: BotTarget,
        rename: Rename,
        now: Timestamp,
    ) -> Result<Option<Rewritten>, StoreError>;

    /// Deletes all that was said in a meeting and everything that was kept for it: sessions' events,
    /// names, links. The frames that told of it go too, but their numbers stay used.
    async fn delete_transcript(
        &self,
        user: UserId,
        target: BotTarget,
        now: Timestamp,
    ) -> Result<Option<Rewritten>, StoreError>;

    /// Lets whoever has the secret read a meeting's transcript for a while. `None` if the user has
    /// no such meeting.
    async fn share_transcript(
        &self,
        user: UserId,
        target: BotTarget,
        share: NewShare,
        now: Timestamp,
    ) -> Result<Option<Share>, StoreError>;

    /// The link with this secret, if it holds.
    async fn share(
        &self,
        secret_hash: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Share>, StoreError>;

    /// A user's links to one meeting that hold, newest first.
    async fn shares(
        &self,
        user: UserId,
        meeting: MeetingId,
        now: Timestamp,
    ) -> Result<Vec<Share>, StoreError>;

    /// Ends a link. `false` if the user has no such link.
    async fn end_share(&self, user: UserId, share: i64) -> Result<bool, StoreError>;

    /// Notes which frames were handed to the bus. What was noted stays so, as far as
    /// [`crate::transcripts::Published`] remembers it.
    async fn frames_published(&self, ranges: Vec<(MeetingId, SeqRange)>) -> Result<(), StoreError>;

    /// Frames of meetings, stored between these times, of which it is not noted that they were
    /// handed to the bus, whatever is noted of later ones; in the order of stream and place.
    async fn unpublished_frames(
        &self,
        from: Timestamp,
        until: Timestamp,
        rows_max: u32,
    ) -> Result<Vec<Frame>, StoreError>;

    /// Puts messages away that could not be taken.
    async fn put_dead_letters(
        &self,
        letters: Vec<NewDeadLetter>,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Messages that were put away, newest first, those with a lower number than `before`.
    async fn dead_letters(
        &self,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<DeadLetter>, StoreError>;

    async fn dead_letter(&self, id: i64) -> Result<Option<DeadLetter>, StoreError>;

    /// `false` if there is none with this number.
    async fn delete_dead_letter(&self, id: i64) -> Result<bool, StoreError>;

    /// Deletes what is no longer needed, at most `rows_max` rows of each sort. Returns how many.
    async fn prune_transcripts(&self, request: TranscriptPrune) -> Result<u64, StoreError>;

    /// How many segments are live, for metrics.
    async fn live_segment_count(&self) -> Result<u64, StoreError>;
}

/// A message whose token was good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    pub meeting_id: MeetingId,
    /// Whose meeting it must be.
    pub user_id: UserId,
    pub token_issued_at: Timestamp,
    /// Orders messages: see [`crate::transcripts::Segment::version`].
    pub version: i64,
    /// The start of its session as the cache has it; taken only if the database has none.
    pub start_hint: Option<Timestamp>,
    pub body: MessageBody,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageAnswer {
    Taken(Taken),
    /// There is no such meeting, it is another user's, or it was anonymised.
    NoSuchMeeting,
}

/// What a message has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    pub changed: u32,
    pub frames: Vec<Frame>,
    /// The live segments that are now different, for the cache.
    pub live: Vec<Line>,
    /// The start of the message's session, if it is known.
    pub session_start: Option<Timestamp>,
}

/// A meeting with live segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveMeeting {
    pub meeting_id: MeetingId,
    pub segments: u64,
    /// The longest that one of them has not changed.
    pub unchanged_since: Timestamp,
}

/// Which segments are final.
#[derive(Debug, Clone)]
pub struct SettleRequest {
    /// Those that have not changed since; `None` for all.
    pub stable_before: Option<Timestamp>,
    pub filter: Arc<TranscriptionFilter>,
    pub rows_max: u32,
}

/// What became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettledSegments {
    pub kept: u32,
    pub dropped: BTreeMap<DropReason, u32>,
    pub frames: Vec<Frame>,
    /// No longer in the cache.
    pub gone: Vec<SegmentKey>,
    /// How many are still live.
    pub left: u64,
    /// The meeting's sessions, once nothing is left.
    pub sessions: Vec<String>,
}

/// What was said in a meeting.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    pub row: MeetingRow,
    /// The place of the last frame that this contains.
    pub seq: i64,
    /// Those that have changed since the place that was asked for, or all.
    pub lines: Vec<Line>,
    /// Those that were dropped since; only if a place was asked for.
    pub retracted: Vec<Line>,
}

/// Which part of what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchPage {
    /// Only final segments with a lower number; then no live ones.
    pub before: Option<i64>,
    pub rows_max: u32,
}

/// A segment that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// Of a final segment.
    pub id: Option<i64>,
    pub meeting_id: MeetingId,
    pub platform: String,
    pub native_id: Option<String>,
    pub line: Line,
}

/// Another name for a speaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    pub from: String,
    pub to: String,
}

/// Segments were changed or deleted by a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    pub meeting_id: MeetingId,
    pub changed: u64,
    pub frames: Vec<Frame>,
    /// Live segments that are now different, for the cache.
    pub live: Vec<Line>,
    /// Sessions whose keys in the cache go with a deleted transcript.
    pub sessions: Vec<String>,
}

/// A link to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewShare {
    pub secret_hash: [u8; 32],
    pub expires_at: Timestamp,
}

/// A link to a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub id: i64,
    pub user_id: UserId,
    pub meeting_id: MeetingId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A message that could not be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeadLetter {
    /// Where it came from, such as the name of a stream.
    pub source: String,
    /// What it was called there. One letter for each source and entry.
    pub entry: String,
    pub reason: String,
    pub deliveries: u32,
    /// As it came, cut to [`crate::transcripts::DEAD_LETTER_BYTES_MAX`].
    pub payload: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: i64,
    pub letter: NewDeadLetter,
    pub at: Timestamp,
}

/// What is no longer needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranscriptPrune {
    /// Who spoke when, heard before this.
    pub speaker_events_before: Timestamp,
    pub dead_letters_before: Timestamp,
    /// Links that ended before this.
    pub shares_before: Timestamp,
    /// Dropped segments, dropped before this.
    pub dropped_before: Timestamp,
    pub rows_max: u32,
}
