//! Places in the history of documents.

use roundsman_core::rooms::{ProjectId, RoomVersion};
use tokio_postgres::Row;

use super::append::LOCK_ROOMS;
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

const KEEP_VERSION: &str = "-- keep_version
INSERT INTO roundsman.room_versions AS known (project_id, seq, frontiers, name, at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (project_id, seq) DO UPDATE SET name = coalesce(excluded.name, known.name)";

pub(super) async fn keep(
    session: &mut Session,
    project: &ProjectId,
    version: &RoomVersion,
) -> Result<(), Failure> {
    let RoomVersion { seq, frontiers, name, at } = version;
    session.execute(KEEP_VERSION, &[&project.as_str(), seq, frontiers, name, &Time(*at)]).await?;
    Ok(())
}

pub(super) struct Keep {
    pub(super) project: ProjectId,
    pub(super) version: RoomVersion,
}

impl Operation for Keep {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let names = [self.project.as_str()];
        let found = session.query_opt(LOCK_ROOMS, &[&names.as_slice()]).await?.is_some();
        if found {
            keep(session, &self.project, &self.version).await?;
        }
        session.commit().await?;
        Ok(found)
    }
}

fn version(row: &Row) -> Result<RoomVersion, Failure> {
    let mut reader = Reader::new(row);
    Ok(RoomVersion {
        seq: reader.value()?,
        frontiers: reader.value()?,
        name: reader.value()?,
        at: reader.time()?,
    })
}

pub(super) const ROOM_VERSIONS: &str = "-- room_versions
SELECT seq, frontiers, name, at FROM roundsman.room_versions
 WHERE project_id = $1 AND seq < $2 ORDER BY project_id DESC, seq DESC LIMIT $3";

pub(super) struct Versions {
    pub(super) project: ProjectId,
    pub(super) before: Option<i64>,
    pub(super) rows_max: u32,
}

impl Operation for Versions {
    type Answer = Vec<RoomVersion>;

    async fn run(&self, session: &mut Session) -> Result<Vec<RoomVersion>, Failure> {
        let (before, rows_max) = (self.before.unwrap_or(i64::MAX), i64::from(self.rows_max));
        let values = (self.project.as_str(), before, rows_max);
        let rows = session.query(ROOM_VERSIONS, &[&values.0, &values.1, &values.2]).await?;
        rows.iter().map(version).collect()
    }
}

const ONE_VERSION: &str = "-- one_version
SELECT seq, frontiers, name, at FROM roundsman.room_versions WHERE project_id = $1 AND seq = $2";

pub(super) struct OneVersion {
    pub(super) project: ProjectId,
    pub(super) seq: i64,
}

impl Operation for OneVersion {
    type Answer = Option<RoomVersion>;

    async fn run(&self, session: &mut Session) -> Result<Option<RoomVersion>, Failure> {
        let row = session.query_opt(ONE_VERSION, &[&self.project.as_str(), &self.seq]).await?;
        row.as_ref().map(version).transpose()
    }
}
