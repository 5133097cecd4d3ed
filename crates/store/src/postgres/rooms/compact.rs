//! A new snapshot.

use roundsman_core::Timestamp;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{CompactAnswer, NewSnapshot};
use roundsman_core::rooms::{ProjectId, RoomVersion, compacted};

use super::append::{LOCK_ROOMS, update_rooms};
use super::read::room;
use super::versions::keep;
use crate::postgres::effects::HOLD_LEASE;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::rooms::size_of;

const PUT_SNAPSHOT: &str = "-- put_snapshot
INSERT INTO roundsman.room_snapshots (project_id, bytes) VALUES ($1, $2)
ON CONFLICT (project_id) DO UPDATE SET bytes = excluded.bytes";

pub(super) const FORGET_UPDATES: &str = "-- forget_updates
DELETE FROM roundsman.room_updates WHERE project_id = $1 AND seq <= $2";

pub(super) const LOG_WEIGHT: &str = "-- log_weight
SELECT coalesce(sum(length(payload)), 0)::bigint FROM roundsman.room_updates WHERE project_id = $1";

pub(super) struct Compact {
    pub(super) project: ProjectId,
    pub(super) snapshot: NewSnapshot,
    pub(super) guard: LeaseRef,
    pub(super) now: Timestamp,
}

impl Operation for Compact {
    type Answer = CompactAnswer;

    async fn run(&self, session: &mut Session) -> Result<CompactAnswer, Failure> {
        session.begin();
        let answer = self.compact(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl Compact {
    async fn compact(&self, session: &mut Session) -> Result<CompactAnswer, Failure> {
        let (job, lease_no) = (self.guard.id.get(), self.guard.lease_no.get());
        let (snapshot, name) = (&self.snapshot, self.project.as_str());
        let names = [name];
        let [lease, rooms] = session
            .query_all([(HOLD_LEASE, &[&job, &lease_no]), (LOCK_ROOMS, &[&names.as_slice()])])
            .await?;
        if lease.is_empty() {
            return Ok(CompactAnswer::LeaseLost);
        }
        let Some(row) = rooms.first() else { return Ok(CompactAnswer::NoSuchRoom) };
        let found = room(row)?;
        if found.snapshot_seq != snapshot.from_seq || found.head_seq < snapshot.through_seq {
            return Ok(CompactAnswer::Superseded);
        }
        session.execute(PUT_SNAPSHOT, &[&name, &snapshot.bytes.as_ref()]).await?;
        session.execute(FORGET_UPDATES, &[&name, &snapshot.through_seq]).await?;
        let left: i64 = match session.query_opt(LOG_WEIGHT, &[&name]).await? {
            Some(row) => row.try_get(0)?,
            None => 0,
        };
        let bytes = size_of(&snapshot.bytes);
        let after = compacted(&found, snapshot.through_seq, bytes, left.unsigned_abs(), self.now);
        update_rooms(session, &[&after]).await?;
        let frontiers = snapshot.frontiers.clone();
        let version =
            RoomVersion { seq: snapshot.through_seq, frontiers, name: None, at: self.now };
        keep(session, &self.project, &version).await?;
        Ok(CompactAnswer::Compacted(Box::new(after)))
    }
}
