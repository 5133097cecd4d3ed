//! The ports: what the rules and loops need from the world, as traits.
//!
//! Adapters live in `store`, `bus` and `providers`; each port has one conformance suite that every
//! adapter runs. All ports are used as `Arc<dyn Port>`.

mod audits;
mod batches;
mod bots;
mod bulk;
mod bus;
mod clock;
mod database;
mod effects;
mod error;
mod executor;
mod gates;
mod ingest_stream;
mod jobs;
mod keys;
mod launcher;
mod pages;
mod presence;
mod random;
mod recordings;
mod rooms;
mod schedules;
mod tasks;
mod transcript_cache;
mod transcripts;
mod users;
mod video_recordings;
mod video_rooms;
mod webhook_sender;
mod webhooks;

pub use audits::{
    AuditFilter, AuditStore, ChangeRecurringAnswer, CreateAuditAnswer, CreateRecurringAnswer,
    DueAnswer,
};
pub use batches::{AfterAnswer, BatchAnswer, BatchStore};
pub use bots::{
    Announced, AnonymiseAnswer, BeatAnswer, BotBeat, BotHappened, BotStore, BotSweep, BotTarget,
    ConfigAnswer, ConfigChange, EventAnswer, MeetingFilter, MeetingPage, MeetingRow, ReserveAnswer,
    RuntimeNote, Seen, SpokenSummary, StopAnswer,
};
pub use bulk::{BulkStore, DeleteAnswer, ReprioritiseAnswer};
pub use bus::{Bus, BusError, BusMessage, BusSubscription, MESSAGE_BYTES_MAX};
pub use clock::Clock;
pub use database::{Database, Store};
pub use effects::EffectStore;
pub use error::StoreError;
pub use executor::{
    Cancelled, Executor, ExecutorCapabilities, ExecutorClash, Executors, ExternalTask, FailureCode,
    Idempotency, LookedUp, PollSchedule, Polled, Refusal, ResultContent, ResultFile, Submission,
    Submitted, TaskFailure, TaskRequest, TaskResult, Unclear, Unverified, WebhookDelivery,
};
pub use gates::GateStore;
pub use ingest_stream::{IngestStream, StreamEntry, StreamError, StreamState};
pub use jobs::{
    CancelAnswer, ClaimAnswer, ClaimRequest, DEPTH_COUNT_MAX, EnqueueAnswer, EnqueueRequest,
    Enqueued, Heartbeat, HeartbeatAnswer, IdempotencyKey, JobStore, KindDepth, LaneDemand,
    ListFilter, ListPage, PROCESS_GONE_AFTER, ProcessStart, PruneReport, PruneRequest, RetryAnswer,
    Scope, SweepReport, SweepRequest,
};
pub use keys::KeyStore;
pub use launcher::{LaunchSpec, Launched, Launcher, Removed, SeenWorkload, Sighting, Unanswered};
pub use pages::{ObserveError, ObserveErrorKind, ObserveProgress, ObserveStep, ObserveWish, Pages};
pub use presence::{
    CommitAnswer, EndAnswer, INBOX_PAYLOAD_BYTES_MAX, InboxEvent, InboxFilter, InboxOutcome,
    LookWritten, NewInboxEvent, OpenAnswer, OpenPresence, PresenceCounts, PresenceFilter,
    PresencePage, PresencePrune, PresenceStore, SessionFilter,
};
pub use random::Random;
pub use recordings::{AnnounceAnswer, BeginAnswer, FinishAnswer, RecordingFilter, RecordingStore};
pub use rooms::{
    AppendAnswer, CompactAnswer, DocumentError, KeepPresenceAnswer, KeptPresence, NewSnapshot,
    OpenRoomAnswer, RoomCounts, RoomDocuments, RoomStore, RoomTail, StoredRoom,
};
pub use schedules::{Fired, ScheduleStore};
pub use tasks::{AlarmStore, ChangeAnswer, Rearmed, TaskChange, TaskFilter, TaskStore};
pub use transcript_cache::{CacheError, TranscriptCache};
pub use transcripts::{
    DeadLetter, LiveMeeting, MessageAnswer, NewDeadLetter, NewMessage, NewShare, Rename, Rewritten,
    SearchHit, SearchPage, SettleRequest, SettledSegments, Share, Taken, Transcript,
    TranscriptPrune, TranscriptStore,
};
pub use users::UserStore;
pub use video_recordings::{
    Fetched, MediaError, MediaFetcher, MediaStore, RecordingsPage, Transcriber, VideoRecordings,
    files_of,
};
pub use video_rooms::{
    CreatedRoom, NewRoom, NewRoomToken, NewSubscription, RoomsError, Subscription, Urgency,
    VideoRooms,
};
pub use webhook_sender::{NotSent, WebhookAnswer, WebhookRequest, WebhookSender};
pub use webhooks::{DeliveryEntry, WebhookStore};
