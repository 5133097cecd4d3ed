//! The database as such.

use async_trait::async_trait;

use super::{
    AlarmStore, AuditStore, BatchStore, BotStore, BulkStore, EffectStore, GateStore, JobStore,
    KeyStore, PresenceStore, RecordingStore, RoomStore, ScheduleStore, StoreError, TaskStore,
    TranscriptStore, UserStore, WebhookStore,
};
use crate::Timestamp;

/// What is true of the database whatever is stored in it.
#[async_trait]
pub trait Database: Send + Sync {
    /// The database's wall clock. For the embedded database that is this machine's.
    async fn now(&self) -> Result<Timestamp, StoreError>;

    /// Does one trivial write, so that "ready" means that writing works.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Name and version as shown to operators, such as `sqlite 3.53.1`.
    fn describe(&self) -> String;

    /// Finishes what was accepted and closes. Nothing may be called afterwards.
    async fn close(&self);
}

/// All of storage. One adapter implements every port over one database, so that what belongs
/// together commits together.
pub trait Store:
    Database
    + JobStore
    + UserStore
    + EffectStore
    + BotStore
    + WebhookStore
    + KeyStore
    + TranscriptStore
    + PresenceStore
    + RecordingStore
    + GateStore
    + ScheduleStore
    + BulkStore
    + BatchStore
    + AuditStore
    + RoomStore
    + TaskStore
    + AlarmStore
{
}

impl<T> Store for T where
    T: Database
        + JobStore
        + UserStore
        + EffectStore
        + BotStore
        + WebhookStore
        + KeyStore
        + TranscriptStore
        + PresenceStore
        + RecordingStore
        + GateStore
        + ScheduleStore
        + BulkStore
        + BatchStore
        + AuditStore
        + RoomStore
        + TaskStore
        + AlarmStore
{
}
