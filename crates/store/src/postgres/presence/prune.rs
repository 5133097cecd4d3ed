//! Deleting what is no longer needed, a bounded piece at a time.

use roundsman_core::ports::PresencePrune;

use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::transcripts::prune_old;
use crate::postgres::types::Time;

pub(super) const PRUNE_INBOX: &str = prune_old!("prune_inbox", "inbox", "at < $1 ORDER BY at");
pub(super) const PRUNE_JOINING: &str =
    prune_old!("prune_joining", "presence_joining", "until < $1 ORDER BY until");

pub(super) struct Prune {
    pub(super) request: PresencePrune,
}

impl Operation for Prune {
    type Answer = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Failure> {
        let PresencePrune { inbox_before, joining_before, rows_max } = self.request;
        let rows_max = i64::from(rows_max);
        session.begin();
        let events = session.execute(PRUNE_INBOX, &[&Time(inbox_before), &rows_max]).await?;
        let joining = session.execute(PRUNE_JOINING, &[&Time(joining_before), &rows_max]).await?;
        session.commit().await?;
        Ok(events + joining)
    }
}
