//! Ending a meeting: because it is over, or because its owner says so.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{CommitAnswer, EndAnswer, Scope};
use roundsman_core::presence::{
    EndReason, PresenceMeeting, PresenceRules, Verdict, end_meeting, judge,
};

use super::columns::{meeting_of, session_columns, sessions};
use super::write::write_plan;
use super::{LOCK_PRESENCE, PRESENCE_OF};
use crate::postgres::effects::{HOLD_LEASE, write_effects};
use crate::postgres::error::Failure;
use crate::postgres::jobs::user_of;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::presence::ended_by_owner_too;

pub(super) const OPEN_SESSIONS: &str = concat!(
    "-- open_sessions\nSELECT ",
    session_columns!(),
    "
  FROM roundsman.presence_sessions s
 WHERE s.meeting_id = $1 AND s.left_at IS NULL"
);

/// Whoever says to be on their way locks the meeting as well, so nobody is missed. `OFFSET 0` keeps
/// the planner from walking down everybody's times until it meets one of this meeting.
pub(super) const JOINING_UNTIL: &str = "-- joining_until
SELECT max(until)
  FROM (SELECT until FROM roundsman.presence_joining WHERE meeting_id = $1 OFFSET 0) joining";

pub(super) struct JudgeMeeting<'a> {
    pub(super) meeting: MeetingId,
    pub(super) rules: PresenceRules,
    pub(super) guard: LeaseRef,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for JudgeMeeting<'_> {
    type Answer = CommitAnswer;

    async fn run(&self, session: &mut Session) -> Result<CommitAnswer, Failure> {
        session.begin();
        let answer = self.judge(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl JudgeMeeting<'_> {
    async fn judge(&self, session: &mut Session) -> Result<CommitAnswer, Failure> {
        let (job, lease_no) = (self.guard.id.get(), self.guard.lease_no.get());
        let id = self.meeting.get();
        let [lease, _, found, open, joining] = session
            .query_all([
                (HOLD_LEASE, &[&job, &lease_no]),
                (LOCK_PRESENCE, &[&id]),
                (PRESENCE_OF, &[&id]),
                (OPEN_SESSIONS, &[&id]),
                (JOINING_UNTIL, &[&id]),
            ])
            .await?;
        if lease.is_empty() {
            return Ok(CommitAnswer::LeaseLost);
        }
        let Some(meeting) = meeting_of(&found)? else {
            return Ok(CommitAnswer::NoSuchMeeting);
        };
        let joining: Option<Time> = joining.first().ok_or(Failure::Raced)?.try_get(0)?;
        let joining_until = joining.map(|Time(until)| until);
        match judge(&meeting, joining_until, &self.rules, self.now) {
            Verdict::Keep => Ok(CommitAnswer::Unchanged),
            Verdict::End(reason) => {
                let plan = end_meeting(&meeting, sessions(&open)?, reason, self.now);
                let written = write_plan(session, &meeting, plan, self.catalog, self.now).await?;
                Ok(CommitAnswer::Written(written))
            }
        }
    }
}

/// When it ended, and who was there, is as it was.
const SET_END_REASON: &str = "-- set_end_reason
UPDATE roundsman.presence SET end_reason = $2 WHERE meeting_id = $1";

pub(super) struct EndMeeting<'a> {
    pub(super) scope: Scope,
    pub(super) meeting: MeetingId,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for EndMeeting<'_> {
    type Answer = EndAnswer;

    async fn run(&self, session: &mut Session) -> Result<EndAnswer, Failure> {
        session.begin();
        let answer = self.end(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl EndMeeting<'_> {
    async fn end(&self, session: &mut Session) -> Result<EndAnswer, Failure> {
        let id = self.meeting.get();
        let [_, found, open] = session
            .query_all([(LOCK_PRESENCE, &[&id]), (PRESENCE_OF, &[&id]), (OPEN_SESSIONS, &[&id])])
            .await?;
        let is_in_scope = |meeting: &PresenceMeeting| {
            user_of(self.scope).is_none_or(|user| user == meeting.user_id.get())
        };
        let Some(meeting) = meeting_of(&found)?.filter(is_in_scope) else {
            return Ok(EndAnswer::NotFound);
        };
        if !meeting.is_active() {
            return self.end_too(session, meeting).await;
        }
        let plan = end_meeting(&meeting, sessions(&open)?, EndReason::Deactivated, self.now);
        let written = write_plan(session, &meeting, plan, self.catalog, self.now).await?;
        Ok(EndAnswer::Ended(written))
    }

    /// Its owner's word, about a meeting that is over.
    async fn end_too(
        &self,
        session: &mut Session,
        meeting: PresenceMeeting,
    ) -> Result<EndAnswer, Failure> {
        let Some((ended, effects)) = ended_by_owner_too(&meeting) else {
            return Ok(EndAnswer::WasOver(Box::new(meeting)));
        };
        let reason = ended.end_reason.map(EndReason::as_str);
        session.execute(SET_END_REASON, &[&ended.id.get(), &reason]).await?;
        write_effects(session, &[&effects], self.catalog, self.now).await?;
        Ok(EndAnswer::WasOver(Box::new(ended)))
    }
}
