//! Deleting what is no longer needed.

use roundsman_core::Timestamp;

use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

pub(super) const PRUNE_ROOM_TOKENS: &str = "-- prune_room_tokens
DELETE FROM roundsman.room_tokens WHERE id = ANY (ARRAY(
    SELECT id FROM roundsman.room_tokens WHERE expires_at < $1
     ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))";

/// Of every room the newest stay.
const PRUNE_VERSIONS: &str = "-- prune_room_versions
DELETE FROM roundsman.room_versions v
 USING (SELECT project_id, seq FROM (
            SELECT project_id, seq,
                   row_number() OVER (PARTITION BY project_id ORDER BY seq DESC) AS place
              FROM roundsman.room_versions WHERE name IS NULL) placed
         WHERE place > $1 LIMIT $2) old
 WHERE v.project_id = old.project_id AND v.seq = old.seq";

pub(super) struct Prune {
    pub(super) tokens_before: Timestamp,
    pub(super) versions_max: u32,
    pub(super) rows_max: u32,
}

impl Operation for Prune {
    type Answer = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Failure> {
        let rows_max = i64::from(self.rows_max);
        session.begin();
        let tokens =
            session.execute(PRUNE_ROOM_TOKENS, &[&Time(self.tokens_before), &rows_max]).await?;
        let versions_max = i64::from(self.versions_max);
        let versions = session.execute(PRUNE_VERSIONS, &[&versions_max, &rows_max]).await?;
        session.commit().await?;
        Ok(tokens + versions)
    }
}
