//! Trying again what has failed.

use roundsman_core::Timestamp;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::Scope;
use roundsman_core::recordings::{Recording, RecordingId, RecordingStatus, retry};
use roundsman_core::users::UserId;

use super::columns::{lock_recording, recording_columns, recordings, write};
use crate::postgres::error::Failure;
use crate::postgres::jobs::user_of;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;

/// The oldest, locked in the order of their ids, each by a look of its own. One that somebody else has
/// tried again while we waited is compared again, and left out.
pub(super) const LOCK_FAILED: &str = concat!(
    "-- lock_failed
WITH oldest AS MATERIALIZED (
    SELECT recording_id FROM roundsman.recordings
     WHERE status >= 'failed' AND status <= 'failed' AND ($1::bigint IS NULL OR user_id = $1)
     ORDER BY status, no
     LIMIT $2
)
SELECT ",
    recording_columns!(),
    "
  FROM (SELECT recording_id FROM oldest ORDER BY recording_id OFFSET 0) o
 CROSS JOIN LATERAL (
    SELECT * FROM roundsman.recordings
     WHERE recording_id = o.recording_id AND status || '' = 'failed'
       FOR NO KEY UPDATE) r"
);

pub(super) struct Retry<'a> {
    pub(super) scope: Scope,
    pub(super) id: Option<RecordingId>,
    pub(super) rows_max: u32,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Retry<'_> {
    type Answer = u32;

    async fn run(&self, session: &mut Session) -> Result<u32, Failure> {
        session.begin();
        let mut failed = self.failed(session).await?;
        // The jobs of the oldest come first.
        failed.sort_by_key(|recording| recording.no);
        let count = u32::try_from(failed.len()).unwrap_or(u32::MAX);
        if count > 0 {
            let changed = failed.into_iter().map(|known| retry(known, self.now)).collect();
            write(session, changed, self.catalog, self.now).await?;
        }
        session.commit().await?;
        Ok(count)
    }
}

impl Retry<'_> {
    async fn failed(&self, session: &mut Session) -> Result<Vec<Recording>, Failure> {
        let user = user_of(self.scope);
        let Some(id) = &self.id else {
            let rows = session.query(LOCK_FAILED, &[&user, &i64::from(self.rows_max)]).await?;
            return recordings(&rows);
        };
        let is_meant = |known: &Recording| {
            let is_theirs = user.is_none() || known.user_id.map(UserId::get) == user;
            known.status == RecordingStatus::Failed && is_theirs
        };
        let known = lock_recording(session, id).await?.filter(is_meant);
        Ok(known.into_iter().take(self.rows_max as usize).collect())
    }
}
