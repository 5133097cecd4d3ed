//! Meetings in video rooms in the database.
//!
//! Invariants: sessions and the number of clients are written only by [`commit_look`],
//! [`judge_presence`] and [`end_presence`], each of which reads the rows under a lock, asks
//! [`crate::presence`] and writes what it is told, with all effects, in one transaction; at most one
//! meeting is open in a room.
//!
//! [`commit_look`]: PresenceStore::commit_look
//! [`judge_presence`]: PresenceStore::judge_presence
//! [`end_presence`]: PresenceStore::end_presence

use async_trait::async_trait;

use super::{Scope, StoreError};
use crate::Timestamp;
use crate::bots::MeetingId;
use crate::effects::Frame;
use crate::jobs::LeaseRef;
use crate::presence::{
    Hint, LookReport, LookTally, NewPresenceMeeting, PresenceMeeting, PresenceRules,
    PresenceSession, RoomName,
};

/// Stores who is where.
#[async_trait]
pub trait PresenceStore: Send + Sync {
    /// Makes a meeting, with the first step of its log and a wish for a first look
    /// ([`crate::presence::opening_effects`]).
    async fn open_presence(
        &self,
        wish: NewPresenceMeeting,
        now: Timestamp,
    ) -> Result<OpenAnswer, StoreError>;

    async fn presence_meeting(
        &self,
        scope: Scope,
        meeting: MeetingId,
    ) -> Result<Option<PresenceMeeting>, StoreError>;

    /// Meetings, newest first.
    async fn presence_meetings(
        &self,
        scope: Scope,
        filter: PresenceFilter,
        page: PresencePage,
    ) -> Result<Vec<PresenceMeeting>, StoreError>;

    /// The sessions of a meeting, in the order in which they began (then by their ids).
    async fn presence_sessions(
        &self,
        meeting: MeetingId,
        filter: SessionFilter,
    ) -> Result<Vec<PresenceSession>, StoreError>;

    /// The meeting that events of each room are about: the open one, else the latest, if people who
    /// are seen there would open it again.
    async fn meetings_of_rooms(
        &self,
        rooms: Vec<RoomName>,
    ) -> Result<Vec<Option<MeetingId>>, StoreError>;

    /// Writes what a look has shown, as [`crate::presence::reconcile`] decides, while the lease is
    /// held.
    async fn commit_look(
        &self,
        meeting: MeetingId,
        report: LookReport,
        rules: PresenceRules,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CommitAnswer, StoreError>;

    /// Ends a meeting if [`crate::presence::judge`] says that it is over, while the lease is held.
    async fn judge_presence(
        &self,
        meeting: MeetingId,
        rules: PresenceRules,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CommitAnswer, StoreError>;

    /// Ends a meeting because its owner says so.
    async fn end_presence(
        &self,
        scope: Scope,
        meeting: MeetingId,
        now: Timestamp,
    ) -> Result<EndAnswer, StoreError>;

    /// Open meetings by ascending number, with the ids of their open sessions.
    async fn open_presences(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<OpenPresence>, StoreError>;

    /// Open meetings with nobody in them, by ascending number: those that may be over.
    async fn empty_presences(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<MeetingId>, StoreError>;

    /// Somebody is on their way until then. `false` if there is no such open meeting.
    async fn note_joining(
        &self,
        meeting: MeetingId,
        connection: String,
        until: Timestamp,
    ) -> Result<bool, StoreError>;

    /// They have arrived, or will not. `false` if they were not on their way.
    async fn end_joining(&self, meeting: MeetingId, connection: String)
    -> Result<bool, StoreError>;

    /// Keeps events of the provider for whoever wants to see them. An event that is there already
    /// stays as it was. Answers in order whether each is new.
    async fn keep_inbox(
        &self,
        events: Vec<NewInboxEvent>,
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError>;

    /// Events, newest first, those with a lower number than `before`.
    async fn inbox(
        &self,
        filter: InboxFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<InboxEvent>, StoreError>;

    async fn inbox_event(&self, id: i64) -> Result<Option<InboxEvent>, StoreError>;

    /// All rooms were compared with the record: those that were not looked at by themselves are as
    /// fresh as this. Never moves backwards.
    async fn note_domain_look(&self, began_at: Timestamp) -> Result<(), StoreError>;

    /// When all rooms were last compared.
    async fn last_domain_look(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Deletes what is no longer needed, at most `rows_max` rows of each sort. Returns how many.
    async fn prune_presence(&self, request: PresencePrune) -> Result<u64, StoreError>;

    /// For metrics.
    async fn presence_counts(&self) -> Result<PresenceCounts, StoreError>;
}

/// What making a meeting came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenAnswer {
    Opened(Box<PresenceMeeting>),
    /// A meeting is open in this room.
    RoomTaken {
        meeting: MeetingId,
    },
    NoSuchUser,
}

/// Which meetings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PresenceFilter {
    pub active: Option<bool>,
    pub room: Option<RoomName>,
}

/// Which part of a list, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresencePage {
    /// Only meetings with a lower number.
    pub before: Option<MeetingId>,
    pub rows_max: u32,
}

/// Which sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only those that are open, or only those that are not.
    pub open: Option<bool>,
    /// Only those that come after the one that began then and has this id.
    pub after: Option<(Timestamp, String)>,
    pub rows_max: u32,
}

/// What writing a look, or deciding about a meeting, came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitAnswer {
    Written(Box<LookWritten>),
    /// Nothing is to be done: a later look was written, or the meeting goes on.
    Unchanged,
    NoSuchMeeting,
    /// The guard's lease is not held; nothing was written.
    LeaseLost,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookWritten {
    pub meeting: PresenceMeeting,
    pub tally: LookTally,
    /// For the next look.
    pub hints: Vec<Hint>,
    pub again_at: Option<Timestamp>,
    /// For whoever listens: the caller publishes them.
    pub frames: Vec<Frame>,
}

/// What ending a meeting came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndAnswer {
    Ended(Box<LookWritten>),
    /// It was over already; this is how it is. Its owner's word stays: it is not opened again.
    WasOver(Box<PresenceMeeting>),
    NotFound,
}

/// An open meeting and who is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPresence {
    pub meeting_id: MeetingId,
    pub room: RoomName,
    pub open: Vec<String>,
}

/// An event of the provider, to be kept as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInboxEvent {
    /// Who sent it: `daily`.
    pub service: &'static str,
    /// The provider's name for it; one row for each.
    pub event: String,
    pub kind: String,
    pub room: Option<String>,
    /// What became of it.
    pub outcome: InboxOutcome,
    /// Why nothing did.
    pub reason: Option<String>,
    /// As it came, cut to [`INBOX_PAYLOAD_BYTES_MAX`].
    pub payload: String,
}

/// Longer events are cut when they are kept.
pub const INBOX_PAYLOAD_BYTES_MAX: usize = 16 * 1024;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InboxOutcome {
    /// It asked for a look or for work.
    Taken,
    /// It is of a sort, or about a room, that is nothing to us.
    Ignored,
    /// It could not be understood.
    Odd,
}

impl InboxOutcome {
    pub const ALL: [InboxOutcome; 3] =
        [InboxOutcome::Taken, InboxOutcome::Ignored, InboxOutcome::Odd];

    pub fn as_str(self) -> &'static str {
        match self {
            InboxOutcome::Taken => "taken",
            InboxOutcome::Ignored => "ignored",
            InboxOutcome::Odd => "odd",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        InboxOutcome::ALL.into_iter().find(|outcome| outcome.as_str() == text)
    }
}

/// An event that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxEvent {
    pub id: i64,
    pub event: NewInboxEvent,
    pub at: Timestamp,
}

/// Which events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InboxFilter {
    pub outcome: Option<InboxOutcome>,
    pub room: Option<String>,
}

/// What is no longer needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresencePrune {
    /// Events that were kept before this.
    pub inbox_before: Timestamp,
    /// Who was expected before this.
    pub joining_before: Timestamp,
    pub rows_max: u32,
}

/// How presence is, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PresenceCounts {
    pub open: u64,
    pub clients: u64,
    /// Open meetings whose last look was not answered.
    pub failing: u64,
}
