//! Reserving a slot.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, MeetingId, NewBot, reservation_effects};
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{Announced, ReserveAnswer};

use super::columns::{insert_bot, storable_json};
use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::bots::{live_statuses, refused_reservation};

/// One reservation of a user at a time: the next one waits here and then counts this one too.
/// The lock lets rows be made that refer to the user.
const LOCK_USER: &str = "-- lock_user
SELECT max_concurrent_bots FROM public.users WHERE id = $1::bigint FOR NO KEY UPDATE";

/// Read after the lock was taken, and therefore by a snapshot that has all earlier reservations.
/// The words are spelt out so that the index by status can serve, where that is shorter than all
/// meetings of the user.
pub(super) const LIVE_OF_USER: &str = concat!(
    "-- live_of_user
SELECT count(*),
       max(id::bigint) FILTER (WHERE platform = $2 AND platform_specific_id = $3)
  FROM public.meetings
 WHERE user_id = $1::bigint AND status IN ",
    live_statuses!()
);

const INSERT_MEETING: &str = "-- insert_meeting
INSERT INTO public.meetings
    (user_id, platform, platform_specific_id, status, data, created_at, updated_at)
VALUES ($1::bigint, $2, $3, $4, $5::text::jsonb, $6::timestamptz AT TIME ZONE 'UTC',
        $6 AT TIME ZONE 'UTC')
RETURNING id::bigint";

pub(super) struct Reserve<'a> {
    pub(super) bot: NewBot,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Reserve<'_> {
    type Answer = ReserveAnswer;

    async fn run(&self, session: &mut Session) -> Result<ReserveAnswer, Failure> {
        session.begin();
        if let Some(refusal) = self.refusal(session).await? {
            session.commit().await?;
            return Ok(refusal);
        }
        let record = self.insert(session).await?;
        let effects = reservation_effects(&record, self.now);
        let frames = write_effects(session, &[&effects], self.catalog, self.now).await?;
        session.commit().await?;
        Ok(ReserveAnswer::Reserved(Box::new(Announced { record, frames })))
    }
}

impl Reserve<'_> {
    async fn refusal(&self, session: &mut Session) -> Result<Option<ReserveAnswer>, Failure> {
        let user = self.bot.user_id.get();
        let Some(row) = session.query_opt(LOCK_USER, &[&user]).await? else {
            return Ok(Some(ReserveAnswer::NoSuchUser));
        };
        let max: i32 = row.try_get(0)?;
        let platform = self.bot.platform.as_str();
        let row = session
            .query_opt(LIVE_OF_USER, &[&user, &platform, &self.bot.native_id])
            .await?
            .ok_or(Failure::Raced)?;
        let live = u32::try_from(row.try_get::<_, i64>(0)?).unwrap_or(u32::MAX);
        let in_same_meeting = row.try_get::<_, Option<i64>>(1)?.map(MeetingId::new);
        Ok(refused_reservation(live, max, in_same_meeting))
    }

    /// The database gives the number; everything else of the rows is known before.
    async fn insert(&self, session: &mut Session) -> Result<BotRecord, Failure> {
        let unnumbered = self.bot.clone().record(MeetingId::new(0), self.now).meeting;
        let row = session
            .query_opt(
                INSERT_MEETING,
                &[
                    &unnumbered.user_id.get(),
                    &unnumbered.platform,
                    &unnumbered.native_id,
                    &unnumbered.status,
                    &storable_json(&unnumbered.data),
                    &Time(self.now),
                ],
            )
            .await?
            .ok_or(Failure::Raced)?;
        let record = self.bot.clone().record(MeetingId::new(row.try_get(0)?), self.now);
        if insert_bot(session, &record).await? {
            return Ok(record);
        }
        let what = "a bot with the same connection";
        Err(roundsman_core::ports::StoreError::Conflict { what }.into())
    }
}
