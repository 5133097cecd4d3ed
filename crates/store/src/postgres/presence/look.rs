//! Writing what a look has shown.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::CommitAnswer;
use roundsman_core::presence::{LookReport, PresenceRules, reconcile};

use super::columns::{meeting_of, session_columns, sessions};
use super::open::open_in_room;
use super::write::write_plan;
use super::{LOCK_PRESENCE, PRESENCE_OF};
use crate::postgres::effects::HOLD_LEASE;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::presence::named_sessions;

/// Whoever is there as far as we know, and those of the others who are named. The second look is by
/// name alone; the index of those who are there leads to none of them.
pub(super) const KNOWN_SESSIONS: &str = concat!(
    "-- known_sessions\nSELECT ",
    session_columns!(),
    "
  FROM roundsman.presence_sessions s
 WHERE s.meeting_id = $1 AND s.left_at IS NULL
UNION ALL
SELECT ",
    session_columns!(),
    "
  FROM unnest($2::text[]) AS named(id)
 CROSS JOIN LATERAL (
    SELECT * FROM roundsman.presence_sessions
     WHERE meeting_id = $1 AND session_id = named.id AND left_at IS NOT NULL
    OFFSET 0) s"
);

pub(super) struct CommitLook<'a> {
    pub(super) meeting: MeetingId,
    pub(super) report: LookReport,
    pub(super) rules: PresenceRules,
    pub(super) guard: LeaseRef,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for CommitLook<'_> {
    type Answer = CommitAnswer;

    async fn run(&self, session: &mut Session) -> Result<CommitAnswer, Failure> {
        session.begin();
        let answer = self.look(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl CommitLook<'_> {
    /// Everything is read by one round trip: each statement begins when the one before it is done,
    /// the locks before what they protect, and reads what is committed by then.
    async fn look(&self, session: &mut Session) -> Result<CommitAnswer, Failure> {
        let (job, lease_no) = (self.guard.id.get(), self.guard.lease_no.get());
        let id = self.meeting.get();
        let named: Vec<String> = named_sessions(&self.report).into_iter().collect();
        let [lease, _, found, known] = session
            .query_all([
                (HOLD_LEASE, &[&job, &lease_no]),
                (LOCK_PRESENCE, &[&id]),
                (PRESENCE_OF, &[&id]),
                (KNOWN_SESSIONS, &[&id, &named]),
            ])
            .await?;
        if lease.is_empty() {
            return Ok(CommitAnswer::LeaseLost);
        }
        let Some(meeting) = meeting_of(&found)? else {
            return Ok(CommitAnswer::NoSuchMeeting);
        };
        let (known, report) = (sessions(&known)?, self.report.clone());
        let Some(plan) = reconcile(&meeting, known, report, &self.rules, self.now) else {
            return Ok(CommitAnswer::Unchanged);
        };
        // Whoever is in the room now is in the meeting that was opened there since. One that is
        // being opened at this moment makes the write below fail, and the next try sees it.
        if plan.tally.healed && open_in_room(session, &meeting.room).await?.is_some() {
            return Ok(CommitAnswer::Unchanged);
        }
        let written = write_plan(session, &meeting, plan, self.catalog, self.now).await?;
        Ok(CommitAnswer::Written(written))
    }
}
