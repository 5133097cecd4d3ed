//! Deleting what is no longer needed, a bounded piece at a time.

use roundsman_core::ports::TranscriptPrune;

use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

/// By physical address: the rows were found a moment ago in the same statement and are locked.
macro_rules! prune_old {
    ($name:literal, $table:literal, $old:literal) => {
        concat!(
            "-- ",
            $name,
            "
WITH old AS MATERIALIZED (
    SELECT ctid FROM roundsman.",
            $table,
            "
     WHERE ",
            $old,
            "
     LIMIT $2
       FOR UPDATE SKIP LOCKED
)
DELETE FROM roundsman.",
            $table,
            " gone USING old WHERE gone.ctid = old.ctid"
        )
    };
}

pub(in crate::postgres) use prune_old;

pub(super) const PRUNE_EVENTS: &str =
    prune_old!("prune_speaker_events", "speaker_events", "heard_at < $1 ORDER BY heard_at");
const PRUNE_LETTERS: &str = prune_old!("prune_letters", "dead_letters", "at < $1 ORDER BY at");
const PRUNE_SHARES: &str =
    prune_old!("prune_shares", "transcript_shares", "expires_at < $1 ORDER BY expires_at");
/// Whoever has just read such a segment to revive it finds no row to change and makes a new one.
pub(super) const PRUNE_DROPPED: &str =
    prune_old!("prune_dropped", "live_segments", "dropped AND updated_at < $1");

pub(super) struct Prune {
    pub(super) request: TranscriptPrune,
}

impl Operation for Prune {
    type Answer = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Failure> {
        let request = &self.request;
        let sorts = [
            (PRUNE_EVENTS, request.speaker_events_before),
            (PRUNE_LETTERS, request.dead_letters_before),
            (PRUNE_SHARES, request.shares_before),
            (PRUNE_DROPPED, request.dropped_before),
        ];
        let rows_max = i64::from(request.rows_max);
        let mut pruned = 0;
        session.begin();
        for (statement, before) in sorts {
            pruned += session.execute(statement, &[&Time(before), &rows_max]).await?;
        }
        session.commit().await?;
        Ok(pruned)
    }
}
