//! Announcing a server process.

use roundsman_core::jobs::LeaseOwner;
use roundsman_core::ports::ProcessStart;

use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;

/// Differs from SQLite, where a new process knows that all others are dead: here other servers may
/// be alive, and the leases of those that are not expire.
const NEXT_PROCESS: &str = "-- next_process
SELECT nextval('roundsman.process_no_seq')";

pub(super) struct BeginProcess;

impl Operation for BeginProcess {
    type Answer = ProcessStart;

    async fn run(&self, session: &mut Session) -> Result<ProcessStart, Failure> {
        let row = session.query_opt(NEXT_PROCESS, &[]).await?.ok_or(Failure::Raced)?;
        Ok(ProcessStart { owner: LeaseOwner::Process(row.try_get(0)?), rescued: 0 })
    }
}
