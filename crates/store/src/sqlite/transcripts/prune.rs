//! Forgets what is no longer needed, a bounded piece at a time.

use roundsman_core::ports::TranscriptPrune;
use rusqlite::{Connection, params};

use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn prune(conn: &Connection, request: TranscriptPrune) -> Result<u64> {
    let sorts = [
        (PRUNE_EVENTS, request.speaker_events_before),
        (PRUNE_LETTERS, request.dead_letters_before),
        (PRUNE_SHARES, request.shares_before),
        (PRUNE_DROPPED, request.dropped_before),
    ];
    let mut pruned = 0;
    for (statement, before) in sorts {
        let some = params![At(before), request.rows_max];
        pruned += conn.prepare_cached(statement)?.execute(some)? as u64;
    }
    Ok(pruned)
}

pub(super) const PRUNE_EVENTS: &str = "-- prune_events
    DELETE FROM speaker_events
     WHERE (session_uid, meeting_id, at_ms, kind, participant) IN
           (SELECT session_uid, meeting_id, at_ms, kind, participant FROM speaker_events
             WHERE heard_at < ?1 ORDER BY heard_at LIMIT ?2)";

pub(super) const PRUNE_LETTERS: &str = "-- prune_letters
    DELETE FROM dead_letters
     WHERE id IN (SELECT id FROM dead_letters WHERE at < ?1 ORDER BY at LIMIT ?2)";

pub(super) const PRUNE_SHARES: &str = "-- prune_shares
    DELETE FROM transcript_shares
     WHERE id IN (SELECT id FROM transcript_shares WHERE expires_at < ?1
                   ORDER BY expires_at LIMIT ?2)";

pub(super) const PRUNE_DROPPED: &str = "-- prune_dropped
    DELETE FROM live_segments
     WHERE (meeting_id, session_uid, field) IN
           (SELECT meeting_id, session_uid, field FROM live_segments
             WHERE dropped = 1 AND updated_at < ?1 ORDER BY updated_at LIMIT ?2)";
