//! Meetings in video rooms: every method of the port is one closure over one transaction, and the
//! statements of each are in the module of its name.
//!
//! Invariants: `presence.open` is written together with `meetings.status`, sessions together with
//! their number; both only as `roundsman_core::presence` says. There is one writer, so nothing that
//! is read in a write changes before it is written.

pub(super) mod check;
mod columns;
pub(super) mod forget;
mod inbox;
mod joining;
mod look;
mod open;
#[cfg(test)]
mod plans;
mod prune;
mod read;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    CommitAnswer, EndAnswer, InboxEvent, InboxFilter, NewInboxEvent, OpenAnswer, OpenPresence,
    PresenceCounts, PresenceFilter, PresencePage, PresencePrune, PresenceStore, Scope,
    SessionFilter, StoreError,
};
use roundsman_core::presence::{
    LookReport, NewPresenceMeeting, PresenceMeeting, PresenceRules, PresenceSession, RoomName,
};

use super::SqliteStore;

#[async_trait]
impl PresenceStore for SqliteStore {
    async fn open_presence(
        &self,
        wish: NewPresenceMeeting,
        now: Timestamp,
    ) -> Result<OpenAnswer, StoreError> {
        self.write("store.presence_open", move |conn, catalog| open::open(conn, catalog, wish, now))
            .await
    }

    async fn presence_meeting(
        &self,
        scope: Scope,
        meeting: MeetingId,
    ) -> Result<Option<PresenceMeeting>, StoreError> {
        self.read(move |conn| read::meeting(conn, scope, meeting)).await
    }

    async fn presence_meetings(
        &self,
        scope: Scope,
        filter: PresenceFilter,
        page: PresencePage,
    ) -> Result<Vec<PresenceMeeting>, StoreError> {
        self.read(move |conn| read::meetings(conn, scope, &filter, page)).await
    }

    async fn presence_sessions(
        &self,
        meeting: MeetingId,
        filter: SessionFilter,
    ) -> Result<Vec<PresenceSession>, StoreError> {
        self.read(move |conn| read::sessions(conn, meeting, &filter)).await
    }

    async fn meetings_of_rooms(
        &self,
        rooms: Vec<RoomName>,
    ) -> Result<Vec<Option<MeetingId>>, StoreError> {
        self.read(move |conn| rooms.iter().map(|room| read::meeting_of(conn, room)).collect()).await
    }

    async fn commit_look(
        &self,
        meeting: MeetingId,
        report: LookReport,
        rules: PresenceRules,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CommitAnswer, StoreError> {
        self.write("store.presence_look", move |conn, catalog| {
            look::commit(conn, catalog, meeting, report, &rules, guard, now)
        })
        .await
    }

    async fn judge_presence(
        &self,
        meeting: MeetingId,
        rules: PresenceRules,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CommitAnswer, StoreError> {
        self.write("store.presence_judge", move |conn, catalog| {
            look::judge_meeting(conn, catalog, meeting, &rules, guard, now)
        })
        .await
    }

    async fn end_presence(
        &self,
        scope: Scope,
        meeting: MeetingId,
        now: Timestamp,
    ) -> Result<EndAnswer, StoreError> {
        self.write("store.presence_end", move |conn, catalog| {
            look::end(conn, catalog, scope, meeting, now)
        })
        .await
    }

    async fn open_presences(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<OpenPresence>, StoreError> {
        self.read(move |conn| read::open_presences(conn, after, rows_max)).await
    }

    async fn empty_presences(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<MeetingId>, StoreError> {
        self.read(move |conn| read::empty_presences(conn, after, rows_max)).await
    }

    async fn note_joining(
        &self,
        meeting: MeetingId,
        connection: String,
        until: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write("store.presence_joining", move |conn, _| {
            joining::note(conn, meeting, &connection, until)
        })
        .await
    }

    async fn end_joining(
        &self,
        meeting: MeetingId,
        connection: String,
    ) -> Result<bool, StoreError> {
        self.write("store.presence_joining", move |conn, _| {
            joining::end(conn, meeting, &connection)
        })
        .await
    }

    async fn keep_inbox(
        &self,
        events: Vec<NewInboxEvent>,
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        self.write("store.presence_inbox", move |conn, _| inbox::keep(conn, events, now)).await
    }

    async fn inbox(
        &self,
        filter: InboxFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<InboxEvent>, StoreError> {
        self.read(move |conn| inbox::list(conn, &filter, before, rows_max)).await
    }

    async fn inbox_event(&self, id: i64) -> Result<Option<InboxEvent>, StoreError> {
        self.read(move |conn| inbox::one(conn, id)).await
    }

    async fn note_domain_look(&self, began_at: Timestamp) -> Result<(), StoreError> {
        self.write("store.presence_domain", move |conn, _| read::note_domain_look(conn, began_at))
            .await
    }

    async fn last_domain_look(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(read::last_domain_look).await
    }

    async fn prune_presence(&self, request: PresencePrune) -> Result<u64, StoreError> {
        self.write("store.presence_prune", move |conn, _| prune::prune(conn, request)).await
    }

    async fn presence_counts(&self) -> Result<PresenceCounts, StoreError> {
        self.read(read::counts).await
    }
}
