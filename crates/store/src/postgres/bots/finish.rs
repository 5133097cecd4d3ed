//! The work after a meeting.

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, finish};
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::SpokenSummary;
use tokio_postgres::Row;

use super::columns::update_records;
use super::lock_record;
use crate::postgres::columns::Reader;
use crate::postgres::effects::{holds_lease, write_effects};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::bots::{SpokenGroup, summarise};

/// By speaker and language, which are few. The order makes the sum of the parts always the same.
const SPOKEN: &str = "-- spoken
SELECT speaker::text, language::text, count(*), sum(greatest(end_time - start_time, 0))
  FROM public.transcriptions
 WHERE meeting_id = $1::bigint
 GROUP BY speaker, language
 ORDER BY speaker, language";

pub(super) struct Finish<'a> {
    pub(super) meeting: MeetingId,
    pub(super) guard: LeaseRef,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Finish<'_> {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let done = holds_lease(session, Some(self.guard)).await? && self.finish(session).await?;
        session.commit().await?;
        Ok(done)
    }
}

impl Finish<'_> {
    async fn finish(&self, session: &mut Session) -> Result<bool, Failure> {
        let Some(record) = lock_record(session, self.meeting).await? else {
            return Ok(false);
        };
        if !record.status.is_over() || record.bot.finished_at.is_some() {
            return Ok(false);
        }
        let said = spoken(session, self.meeting).await?;
        let (record, effects) = finish(record, &said, self.now);
        update_records(session, &[&record]).await?;
        write_effects(session, &[&effects], self.catalog, self.now).await?;
        Ok(true)
    }
}

async fn spoken(session: &mut Session, meeting: MeetingId) -> Result<SpokenSummary, Failure> {
    let rows = session.query(SPOKEN, &[&meeting.get()]).await?;
    let group = |row: &Row| -> Result<SpokenGroup, Failure> {
        let mut reader = Reader::new(row);
        Ok(SpokenGroup {
            speaker: reader.value()?,
            language: reader.value()?,
            segments: reader.value()?,
            spoken_secs: reader.value()?,
        })
    };
    Ok(summarise(rows.iter().map(group).collect::<Result<Vec<_>, _>>()?))
}
