//! Meetings and their bots in the database.
//!
//! Invariants: `meetings.status` is the only truth about a bot and is written by nobody but
//! [`reserve_bot`](BotStore::reserve_bot), [`bot_event`](BotStore::bot_event),
//! [`note_runtime`](BotStore::note_runtime) and [`sweep_bots`](BotStore::sweep_bots), each of which
//! reads the rows under a lock, asks [`crate::bots::change`] and writes what it is told, with all
//! effects, in one transaction. Wishes, heartbeats and attempts are kept in a table of our own.

use async_trait::async_trait;

use super::StoreError;
use crate::Timestamp;
use crate::bots::{
    Bot, BotConfig, BotEvent, BotRecord, BotStatus, BotTimeouts, ConnectionId, Meeting, MeetingId,
    NewBot, Platform, Source, Stage, WorkloadId,
};
use crate::effects::Frame;
use crate::jobs::LeaseRef;
use crate::users::UserId;

/// Stores meetings and bots.
#[async_trait]
pub trait BotStore: Send + Sync {
    /// Reserves a slot: locks the user, counts their live bots against their limit (0: none) and
    /// looks for a live bot in the same meeting, then inserts meeting and bot with
    /// [`crate::bots::reservation_effects`]. A refusal writes nothing.
    async fn reserve_bot(&self, bot: NewBot, now: Timestamp) -> Result<ReserveAnswer, StoreError>;

    /// One bot with its meeting.
    async fn bot(&self, meeting: MeetingId) -> Result<Option<BotRecord>, StoreError>;

    /// The bot with this connection: how callbacks of stock bots name it.
    async fn bot_by_connection(
        &self,
        connection: ConnectionId,
    ) -> Result<Option<BotRecord>, StoreError>;

    /// Something happened to a bot. With a guard, only while that lease is held.
    async fn bot_event(
        &self,
        happened: BotHappened,
        guard: Option<LeaseRef>,
        now: Timestamp,
    ) -> Result<EventAnswer, StoreError>;

    /// Signs of life, answered in order. Also touches `meetings.updated_at`. One transaction; a bot
    /// that is over is told so, and nothing of it changes.
    async fn bot_heartbeats(
        &self,
        beats: Vec<BotBeat>,
        now: Timestamp,
    ) -> Result<Vec<BeatAnswer>, StoreError>;

    /// Keeps the wish that bots leave, with a supervise job for each. Never touches `meetings`.
    /// A wish that is there already stays as it is, but its job is made due again.
    async fn wish_stop(
        &self,
        user: UserId,
        target: BotTarget,
        by: &'static str,
        now: Timestamp,
    ) -> Result<StopAnswer, StoreError>;

    /// Keeps a new configuration under the next version. Never touches `meetings`. Members that are
    /// `None` in the change stay as they are.
    async fn wish_config(
        &self,
        user: UserId,
        target: BotTarget,
        change: ConfigChange,
        now: Timestamp,
    ) -> Result<ConfigAnswer, StoreError>;

    /// The workload runs: sets `bot_container_id` and nothing else of the meeting. `false` if the
    /// attempt is not the current one, the bot is over, or the lease is lost.
    async fn bot_launched(
        &self,
        workload: WorkloadId,
        handle: String,
        guard: LeaseRef,
    ) -> Result<bool, StoreError>;

    /// Begins the next attempt of a bot that is still reserved: what the earlier one says is no
    /// longer heard, and its container is no longer the meeting's. `None` if the attempt is not the current one, the bot is not reserved any
    /// more, or the lease is lost.
    async fn next_attempt(
        &self,
        workload: WorkloadId,
        guard: LeaseRef,
    ) -> Result<Option<BotRecord>, StoreError>;

    /// What the runtime says about bots that are live. A running one has been seen (`seen_at`, no
    /// misses); one that is gone has one more miss, and after `misses_max` in a row
    /// [`BotEvent::Exited`] (with a code) or [`BotEvent::Absent`] happens to it. Notes about other
    /// attempts, or about bots that are over, change nothing. Returns those that ended.
    async fn note_runtime(
        &self,
        notes: Vec<RuntimeNote>,
        misses_max: u32,
        now: Timestamp,
    ) -> Result<Vec<Announced>, StoreError>;

    /// Gives up at most `rows_max` overdue bots, by [`crate::bots::overdue`] looked at again under
    /// the lock of each row. Rows that somebody else has locked are left for the next sweep.
    async fn sweep_bots(
        &self,
        request: BotSweep,
        now: Timestamp,
    ) -> Result<Vec<Announced>, StoreError>;

    /// Gives at most `rows_max` live meetings that have no bot (of an existing Vexa database) one,
    /// so that they too end; the log begins with the state they are in. A bot that is adopted is
    /// named by its latest session, or `adopted-{meeting}`. Returns how many.
    async fn adopt_meetings(&self, rows_max: u32, now: Timestamp) -> Result<u32, StoreError>;

    /// Live bots by ascending number of their meeting, for comparing with the runtime.
    async fn live_bots(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<BotRecord>, StoreError>;

    /// Which of these workloads belong to a live bot and are its current attempt.
    async fn live_workloads(
        &self,
        workloads: Vec<WorkloadId>,
    ) -> Result<Vec<WorkloadId>, StoreError>;

    /// A user's meetings, newest first.
    async fn meetings(
        &self,
        user: UserId,
        filter: MeetingFilter,
        page: MeetingPage,
    ) -> Result<Vec<MeetingRow>, StoreError>;

    /// One meeting of a user: by number, or the latest at an address.
    async fn meeting(
        &self,
        user: UserId,
        target: BotTarget,
    ) -> Result<Option<MeetingRow>, StoreError>;

    /// Merges members into the data of the latest meeting at an address. `None` if there is none.
    async fn merge_meeting_data(
        &self,
        user: UserId,
        target: BotTarget,
        members: serde_json::Map<String, serde_json::Value>,
        now: Timestamp,
    ) -> Result<Option<MeetingRow>, StoreError>;

    /// Deletes what was said in a finished meeting and what could name it: its transcriptions, its
    /// native id, and all of its data but `status_transition`, `completion_reason`, `error`,
    /// `diagnostics` (and `redacted: true` is added).
    async fn anonymise_meeting(
        &self,
        user: UserId,
        target: BotTarget,
        now: Timestamp,
    ) -> Result<AnonymiseAnswer, StoreError>;

    /// The work after a meeting, once: gathers who spoke, in what languages, and for how long from
    /// its transcriptions into its data ([`crate::bots::finish`]), and tells the user's endpoint.
    /// `false` if it was done before, the meeting is not over, or the lease is lost.
    async fn finish_meeting(
        &self,
        meeting: MeetingId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// How many bots there are in each live state, for metrics.
    async fn bot_counts(&self) -> Result<Vec<(BotStatus, u64)>, StoreError>;
}

/// Which bot or meeting of a user is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BotTarget {
    Meeting(MeetingId),
    /// The latest one there; for stopping, every live one.
    Address {
        platform: Platform,
        native_id: String,
    },
}

/// What a reservation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveAnswer {
    Reserved(Box<Announced>),
    NoSuchUser,
    LimitReached {
        live: u32,
        max: i32,
    },
    /// The user has a live bot in this meeting.
    AlreadyLive {
        meeting: MeetingId,
    },
}

/// Something that happened to a bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BotHappened {
    pub workload: WorkloadId,
    /// Of a callback: must be the bot's.
    pub connection: Option<ConnectionId>,
    pub event: BotEvent,
    pub source: Source,
    /// The bot speaks the protocol that has heartbeats.
    pub beats: bool,
}

/// Rows that changed, with the frames for whoever listens: the caller publishes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    pub record: BotRecord,
    pub frames: Vec<Frame>,
}

/// What an event came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventAnswer {
    Changed(Box<Announced>),
    /// It was known already, or the bot is over; this is how it is.
    Unchanged(Box<BotRecord>),
    /// There is no such bot, or the connection is not its.
    NoSuchBot,
    /// A later attempt has taken its place.
    Superseded,
    /// The state excludes it.
    Refused {
        current: BotStatus,
    },
    /// The guard's lease is not held; nothing was written.
    LeaseLost,
}

/// A bot's sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BotBeat {
    pub workload: WorkloadId,
    pub connection: ConnectionId,
    /// How far its media has come; a number that has not grown is no progress.
    pub media_progress: Option<i64>,
    /// The version of the configuration it has applied.
    pub config_applied: Option<u32>,
}

/// What a sign of life learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeatAnswer {
    Heard {
        status: BotStatus,
        /// How far it is, while it is starting.
        stage: Option<Stage>,
        stop_wanted: bool,
        config: BotConfig,
    },
    /// The bot is over: it must exit.
    Over {
        status: BotStatus,
    },
    Superseded,
    NoSuchBot,
}

/// What a wish to stop came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopAnswer {
    /// These are to leave.
    Wished(Vec<BotRecord>),
    /// All of them are over already; the latest is this.
    Over(Box<MeetingRow>),
    NotFound,
}

/// What to change of a bot's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigChange {
    pub language: Option<String>,
    pub task: Option<String>,
    /// Only a bot in its meeting takes it, as on Vexa's surface; otherwise any live one does.
    pub only_active: bool,
}

/// What a new configuration came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigAnswer {
    Wished(Box<BotRecord>),
    /// The latest there is not in a state to take it.
    WrongState(Box<MeetingRow>),
    NotFound,
}

/// What the runtime says about one workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeNote {
    pub workload: WorkloadId,
    pub seen: Seen,
}

/// Whether a workload was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Running,
    /// It ended by itself.
    Exited {
        exit_code: Option<i32>,
    },
    /// The runtime has none.
    Absent,
}

/// How far a sweep of bots goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BotSweep {
    pub timeouts: BotTimeouts,
    /// Since when bots could be heard without a break.
    pub serving_since: Timestamp,
    /// The runtime could be asked in this round. If not, bots that send no heartbeats are not given
    /// up for silence: it is ours.
    pub runtime_answered: bool,
    pub rows_max: u32,
}

/// Which meetings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MeetingFilter {
    /// Only those with a live bot.
    pub live: bool,
    pub status: Option<BotStatus>,
    pub platform: Option<Platform>,
}

/// Which part of a list, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeetingPage {
    /// Only meetings with a lower number.
    pub before: Option<MeetingId>,
    /// Leave out this many of them.
    pub skip: u32,
    pub rows_max: u32,
}

/// A meeting and, if it ever had one, its bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeetingRow {
    pub meeting: Meeting,
    pub bot: Option<Bot>,
}

/// What forgetting a meeting came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnonymiseAnswer {
    Done,
    /// It is not over yet.
    NotOver(Box<MeetingRow>),
    /// It was done before.
    Already,
    NotFound,
}

/// What was said in a meeting, in short; `finish` turns it into data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpokenSummary {
    /// Each once, sorted.
    pub speakers: Vec<String>,
    pub languages: Vec<String>,
    pub segments: u64,
    /// Seconds.
    pub spoken_secs: f64,
}
