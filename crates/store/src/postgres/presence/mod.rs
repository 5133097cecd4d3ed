//! Meetings in video rooms: one file per group of operations, and what several of them share.
//!
//! Invariants:
//! - whoever changes a meeting or its sessions holds the lock of its row in `roundsman.presence`,
//!   which is taken before any other row of it; so `public.meetings` is read after that lock and
//!   needs none of its own;
//! - a lease that guards a change is held before the lock;
//! - `presence.open` is written with the status of the meeting and never without it, and the number
//!   of clients is counted by the statement that writes it, after the sessions.

pub(super) mod check;
mod columns;
mod domain;
mod end;
mod forget;
mod inbox;
mod joining;
mod look;
mod open;
mod prune;
mod read;
mod write;

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

use self::columns::presence_columns;
pub(super) use self::forget::{forget_people, lock_presence};
use super::PostgresStore;

#[async_trait]
impl PresenceStore for PostgresStore {
    async fn open_presence(
        &self,
        wish: NewPresenceMeeting,
        now: Timestamp,
    ) -> Result<OpenAnswer, StoreError> {
        let catalog = &self.catalog;
        self.change("store.presence_open", &open::OpenMeeting { wish, catalog, now }).await
    }

    async fn presence_meeting(
        &self,
        scope: Scope,
        meeting: MeetingId,
    ) -> Result<Option<PresenceMeeting>, StoreError> {
        self.pool.run(&read::OneMeeting { scope, meeting }).await
    }

    async fn presence_meetings(
        &self,
        scope: Scope,
        filter: PresenceFilter,
        page: PresencePage,
    ) -> Result<Vec<PresenceMeeting>, StoreError> {
        self.pool.run(&read::Meetings { scope, filter, page }).await
    }

    async fn presence_sessions(
        &self,
        meeting: MeetingId,
        filter: SessionFilter,
    ) -> Result<Vec<PresenceSession>, StoreError> {
        self.pool.run(&read::Sessions { meeting, filter }).await
    }

    async fn meetings_of_rooms(
        &self,
        rooms: Vec<RoomName>,
    ) -> Result<Vec<Option<MeetingId>>, StoreError> {
        self.pool.run(&read::OfRooms { rooms: &rooms }).await
    }

    async fn commit_look(
        &self,
        meeting: MeetingId,
        report: LookReport,
        rules: PresenceRules,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CommitAnswer, StoreError> {
        let catalog = &self.catalog;
        let look = look::CommitLook { meeting, report, rules, guard, catalog, now };
        self.change("store.presence_look", &look).await
    }

    async fn judge_presence(
        &self,
        meeting: MeetingId,
        rules: PresenceRules,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CommitAnswer, StoreError> {
        let catalog = &self.catalog;
        let judge = end::JudgeMeeting { meeting, rules, guard, catalog, now };
        self.change("store.presence_judge", &judge).await
    }

    async fn end_presence(
        &self,
        scope: Scope,
        meeting: MeetingId,
        now: Timestamp,
    ) -> Result<EndAnswer, StoreError> {
        let catalog = &self.catalog;
        self.change("store.presence_end", &end::EndMeeting { scope, meeting, catalog, now }).await
    }

    async fn open_presences(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<OpenPresence>, StoreError> {
        self.pool.run(&read::OpenPresences { after, rows_max }).await
    }

    async fn empty_presences(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<MeetingId>, StoreError> {
        self.pool.run(&read::EmptyPresences { after, rows_max }).await
    }

    async fn note_joining(
        &self,
        meeting: MeetingId,
        connection: String,
        until: Timestamp,
    ) -> Result<bool, StoreError> {
        let note = joining::NoteJoining { meeting, connection, until };
        self.change("store.presence_joining", &note).await
    }

    async fn end_joining(
        &self,
        meeting: MeetingId,
        connection: String,
    ) -> Result<bool, StoreError> {
        let end = joining::EndJoining { meeting, connection };
        self.change("store.presence_joining", &end).await
    }

    async fn keep_inbox(
        &self,
        events: Vec<NewInboxEvent>,
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        self.change("store.presence_inbox", &inbox::KeepInbox::new(events, now)).await
    }

    async fn inbox(
        &self,
        filter: InboxFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<InboxEvent>, StoreError> {
        self.pool.run(&inbox::Inbox { filter, before, rows_max }).await
    }

    async fn inbox_event(&self, id: i64) -> Result<Option<InboxEvent>, StoreError> {
        self.pool.run(&inbox::OneEvent { id }).await
    }

    async fn note_domain_look(&self, began_at: Timestamp) -> Result<(), StoreError> {
        self.change("store.presence_domain", &domain::NoteDomainLook { began_at }).await
    }

    async fn last_domain_look(&self) -> Result<Option<Timestamp>, StoreError> {
        self.pool.run(&domain::LastDomainLook).await
    }

    async fn prune_presence(&self, request: PresencePrune) -> Result<u64, StoreError> {
        self.change("store.presence_prune", &prune::Prune { request }).await
    }

    async fn presence_counts(&self) -> Result<PresenceCounts, StoreError> {
        self.pool.run(&read::Counts).await
    }
}

/// From here on nobody else changes the meeting or its sessions, until the transaction ends. Whoever
/// waits here for another change sees it afterwards: every later statement of a transaction that is
/// `READ COMMITTED` reads what is committed when it begins.
const LOCK_PRESENCE: &str = "-- lock_presence
SELECT FROM roundsman.presence WHERE meeting_id = $1 FOR NO KEY UPDATE";

const PRESENCE_OF: &str = concat!(
    "-- presence_of\nSELECT ",
    presence_columns!(),
    "
  FROM roundsman.presence p JOIN public.meetings m ON m.id = p.meeting_id
 WHERE p.meeting_id = $1"
);

/// The statements whose plans are tested.
#[cfg(test)]
pub(super) fn hot_statements() -> Vec<&'static str> {
    vec![
        LOCK_PRESENCE,
        PRESENCE_OF,
        open::OPEN_IN_ROOM,
        look::KNOWN_SESSIONS,
        end::OPEN_SESSIONS,
        end::JOINING_UNTIL,
        forget::FORGET_EVENTS,
        write::PUT_SESSIONS,
        write::UPDATE_PRESENCE,
        read::ALL_MEETINGS,
        read::MEETINGS_OF_USER,
        read::MEETINGS_IN_ROOM,
        read::OPEN_MEETINGS,
        read::SESSIONS_OF,
        read::SESSIONS_OPEN,
        read::MEETINGS_OF_ROOMS,
        read::OPEN_PRESENCES,
        read::EMPTY_PRESENCES,
        read::COUNTS,
        joining::NOTE_JOINING,
        inbox::KEEP_EVENTS,
        inbox::INBOX,
        inbox::INBOX_OF_ROOM,
        inbox::INBOX_OF_OUTCOME,
        prune::PRUNE_INBOX,
        prune::PRUNE_JOINING,
    ]
}
