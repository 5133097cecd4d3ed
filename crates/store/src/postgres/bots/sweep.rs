//! Giving up bots that have been silent for too long.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotClock, BotEvent, BotTimeouts, Source, change, overdue};
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{Announced, BotSweep};

use super::columns::{record, record_columns};
use super::event::write_changes;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

/// The bots that [`overdue`] would name, so that those which are not due never use up the limit.
/// $1 to $6 are the times before which something must have happened (lifetime, reserved, starting,
/// active, media, stopping); NULL where that cannot be said yet, and then nothing is before it.
///
/// A heartbeat that was committed while this looked at the row is read when its lock is taken, and
/// the row is compared again; one that comes later waits, and learns that the bot is over.
pub(super) const OVERDUE: &str = concat!(
    "-- overdue\nSELECT ",
    record_columns!(),
    "
  FROM roundsman.bots b JOIN public.meetings m ON m.id = b.meeting_id
 WHERE b.live
   AND (b.reserved_at < $1
        OR CASE
             WHEN m.status IN ('reserved', 'requested') THEN b.entered_at < $2
             WHEN m.status IN ('starting', 'joining', 'awaiting_admission') THEN b.entered_at < $3
             WHEN m.status = 'active' THEN
                 (b.beats OR $7)
                 AND greatest(b.entered_at,
                              CASE WHEN b.beats THEN b.heartbeat_at ELSE b.seen_at END) < $4
                 OR b.media_at IS NOT NULL AND greatest(b.entered_at, b.media_at) < $5
             WHEN m.status = 'stopping' THEN b.entered_at < $6
           END)
 ORDER BY b.meeting_id
 LIMIT $8
   FOR NO KEY UPDATE OF b, m SKIP LOCKED"
);

pub(super) struct SweepBots<'a> {
    pub(super) request: BotSweep,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for SweepBots<'_> {
    type Answer = Vec<Announced>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Announced>, Failure> {
        let BotSweep { timeouts, serving_since, runtime_answered, rows_max } = self.request;
        let BotTimeouts { reserved, starting, active, stopping, media, lifetime } = timeouts;
        session.begin();
        let rows = session
            .query(
                OVERDUE,
                &[
                    &self.before(lifetime),
                    &self.before(reserved),
                    &self.before(starting),
                    &self.before(active),
                    &media.and_then(|media| self.before(media)),
                    &self.before(stopping),
                    &runtime_answered,
                    &i64::from(rows_max),
                ],
            )
            .await?;
        let mut changes = Vec::with_capacity(rows.len());
        for row in &rows {
            let record = record(row)?;
            let clock = BotClock::of(&record, runtime_answered);
            let Some(due) = overdue(clock, &timeouts, serving_since, self.now) else {
                continue;
            };
            let event = BotEvent::TimedOut { reason: due.reason };
            if let Ok(change) = change(record, event, Source::Sweeper, self.now) {
                changes.push(change);
            }
        }
        let given_up = write_changes(session, changes, self.catalog, self.now).await?;
        session.commit().await?;
        Ok(given_up)
    }
}

impl SweepBots<'_> {
    /// What happened before this was longer ago than `limit`; `None` while we have not been
    /// listening for that long ourselves.
    fn before(&self, limit: Duration) -> Option<Time> {
        let before = self.now - limit;
        (before > self.request.serving_since).then_some(Time(before))
    }
}
