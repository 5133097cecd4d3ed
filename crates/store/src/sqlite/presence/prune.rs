//! Forgets what is no longer needed, a bounded piece at a time.

use roundsman_core::ports::PresencePrune;
use rusqlite::{Connection, params};

use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn prune(conn: &Connection, request: PresencePrune) -> Result<u64> {
    let sorts = [(PRUNE_INBOX, request.inbox_before), (PRUNE_JOINING, request.joining_before)];
    let mut pruned = 0;
    for (statement, before) in sorts {
        let some = params![At(before), request.rows_max];
        pruned += conn.prepare_cached(statement)?.execute(some)? as u64;
    }
    Ok(pruned)
}

pub(super) const PRUNE_INBOX: &str = "-- prune_inbox
    DELETE FROM inbox
     WHERE id IN (SELECT id FROM inbox WHERE at < ?1 ORDER BY at LIMIT ?2)";

pub(super) const PRUNE_JOINING: &str = "-- prune_joining
    DELETE FROM presence_joining
     WHERE (meeting_id, connection) IN
           (SELECT meeting_id, connection FROM presence_joining
             WHERE until < ?1 ORDER BY until LIMIT ?2)";
