//! What the job that looks after a bot notes about its launches.

use roundsman_core::bots::{BotRecord, BotStatus, MeetingId, WorkloadId};
use roundsman_core::jobs::LeaseRef;

use super::read::{bot_of, place};
use crate::postgres::columns::count;
use crate::postgres::effects::holds_lease;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::bots::begin_next_attempt;

/// Nothing else of the meeting, not even `updated_at`: that a bot was launched is not a sign of it.
const SET_CONTAINER: &str = "-- set_container
WITH held AS MATERIALIZED (
    SELECT meeting_id FROM roundsman.bots
     WHERE meeting_id = $1 AND attempt = $2 AND live
       FOR NO KEY UPDATE
)
UPDATE public.meetings m SET bot_container_id = $3 FROM held WHERE m.id = held.meeting_id";

pub(super) struct Launched {
    pub(super) workload: WorkloadId,
    pub(super) handle: String,
    pub(super) guard: LeaseRef,
}

impl Operation for Launched {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let held = holds_lease(session, Some(self.guard)).await?;
        let (meeting, attempt) = place(self.workload);
        let set =
            held && session.execute(SET_CONTAINER, &[&meeting, &attempt, &self.handle]).await? > 0;
        session.commit().await?;
        Ok(set)
    }
}

const LOCK_BOT: &str = "-- lock_bot
SELECT FROM roundsman.bots WHERE meeting_id = $1 FOR NO KEY UPDATE";

/// Locks a bot and returns it with its meeting, which is not locked: who changes the status has to
/// lock the bot first, so it stays as it is read here.
pub(super) async fn hold_bot(
    session: &mut Session,
    meeting: MeetingId,
) -> Result<Option<BotRecord>, Failure> {
    if session.query_opt(LOCK_BOT, &[&meeting.get()]).await?.is_none() {
        return Ok(None);
    }
    bot_of(session, meeting).await
}

const BEGIN_ATTEMPT: &str = "-- begin_attempt
UPDATE roundsman.bots
   SET attempt = $2, beats = $3, heartbeat_at = NULL, seen_at = NULL, missed = 0,
       media_progress = NULL, media_at = NULL, config_applied = 0
 WHERE meeting_id = $1";

const FORGET_CONTAINER: &str = "-- forget_container
UPDATE public.meetings SET bot_container_id = NULL WHERE id = $1::bigint";

pub(super) struct NextAttempt {
    pub(super) workload: WorkloadId,
    pub(super) guard: LeaseRef,
}

impl Operation for NextAttempt {
    type Answer = Option<BotRecord>;

    async fn run(&self, session: &mut Session) -> Result<Option<BotRecord>, Failure> {
        session.begin();
        let begun = if holds_lease(session, Some(self.guard)).await? {
            self.begin(session).await?
        } else {
            None
        };
        session.commit().await?;
        Ok(begun)
    }
}

impl NextAttempt {
    async fn begin(&self, session: &mut Session) -> Result<Option<BotRecord>, Failure> {
        let meeting = self.workload.meeting_id;
        let Some(mut record) = hold_bot(session, meeting).await? else {
            return Ok(None);
        };
        if record.workload() != self.workload || record.status != BotStatus::Reserved {
            return Ok(None);
        }
        begin_next_attempt(&mut record);
        let attempt = count(record.bot.attempt);
        session.execute(BEGIN_ATTEMPT, &[&meeting.get(), &attempt, &record.bot.beats]).await?;
        session.execute(FORGET_CONTAINER, &[&meeting.get()]).await?;
        Ok(Some(record))
    }
}
