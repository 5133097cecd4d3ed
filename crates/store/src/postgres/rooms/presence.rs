//! Presence that is kept.

use std::collections::BTreeMap;

use bytes::Bytes;
use roundsman_core::ports::{KeepPresenceAnswer, KeptPresence};
use roundsman_core::rooms::ProjectId;

use super::append::LOCK_ROOMS;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;

pub(super) const KEPT_PRESENCE: &str = "-- kept_presence
SELECT version, bytes FROM roundsman.room_presence WHERE project_id = $1";

pub(super) struct Kept {
    pub(super) project: ProjectId,
}

impl Operation for Kept {
    type Answer = Option<KeptPresence>;

    async fn run(&self, session: &mut Session) -> Result<Option<KeptPresence>, Failure> {
        let row = session.query_opt(KEPT_PRESENCE, &[&self.project.as_str()]).await?;
        let Some(row) = row else { return Ok(None) };
        let bytes: Vec<u8> = row.try_get(1)?;
        Ok(Some(KeptPresence { version: row.try_get(0)?, bytes: bytes.into() }))
    }
}

pub(super) const KEPT_PRESENCE_VERSIONS: &str = "-- kept_presence_versions
SELECT p.project_id, p.version
  FROM unnest($1::text[]) AS given(id)
  JOIN roundsman.room_presence p ON p.project_id = given.id";

pub(super) struct Versions {
    pub(super) projects: Vec<ProjectId>,
}

impl Operation for Versions {
    type Answer = Vec<i64>;

    async fn run(&self, session: &mut Session) -> Result<Vec<i64>, Failure> {
        let names: Vec<&str> = self.projects.iter().map(ProjectId::as_str).collect();
        let rows = session.query(KEPT_PRESENCE_VERSIONS, &[&names]).await?;
        let mut versions: BTreeMap<&str, i64> = BTreeMap::new();
        for row in &rows {
            versions.insert(row.try_get(0)?, row.try_get(1)?);
        }
        Ok(names.iter().map(|name| versions.get(name).copied().unwrap_or(0)).collect())
    }
}

const KEEP_PRESENCE: &str = "-- keep_presence
INSERT INTO roundsman.room_presence (project_id, version, bytes) VALUES ($1, $2, $3)
ON CONFLICT (project_id) DO UPDATE SET version = excluded.version, bytes = excluded.bytes";

pub(super) struct Keep {
    pub(super) project: ProjectId,
    pub(super) from_version: i64,
    pub(super) bytes: Bytes,
}

impl Operation for Keep {
    type Answer = KeepPresenceAnswer;

    async fn run(&self, session: &mut Session) -> Result<KeepPresenceAnswer, Failure> {
        session.begin();
        let answer = self.keep(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl Keep {
    async fn keep(&self, session: &mut Session) -> Result<KeepPresenceAnswer, Failure> {
        let name = self.project.as_str();
        let names = [name];
        // The lock comes first: what is read after it nobody else changes.
        if session.query_opt(LOCK_ROOMS, &[&names.as_slice()]).await?.is_none() {
            return Ok(KeepPresenceAnswer::NoSuchRoom);
        }
        let found = session.query_opt(KEPT_PRESENCE_VERSIONS, &[&names.as_slice()]).await?;
        let known: i64 = found.map_or(Ok(0), |row| row.try_get(1))?;
        if known != self.from_version {
            return Ok(KeepPresenceAnswer::Superseded);
        }
        let version = self.from_version + 1;
        session.execute(KEEP_PRESENCE, &[&name, &version, &self.bytes.as_ref()]).await?;
        Ok(KeepPresenceAnswer::Kept { version })
    }
}
