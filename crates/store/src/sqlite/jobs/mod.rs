//! The jobs: every method of the port is one closure over one transaction, and the statements of
//! each are in the module of its name.

mod alarms;
mod batches;
mod bulk;
mod by_hand;
mod claim;
pub(super) mod columns;
mod depths;
pub(super) mod enqueue;
mod gated;
mod gates;
mod heartbeat;
mod links;
#[cfg(test)]
mod plans;
mod process;
mod prune;
mod read;
mod schedules;
mod settle;
mod sweep;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{Job, JobId, LeaseOwner, RunningJob, Settle, Settled};
use roundsman_core::ports::{
    CancelAnswer, ClaimAnswer, ClaimRequest, EnqueueAnswer, EnqueueRequest, Heartbeat,
    HeartbeatAnswer, JobStore, KindDepth, ListFilter, ListPage, ProcessStart, PruneReport,
    PruneRequest, RetryAnswer, Scope, StoreError, SweepReport, SweepRequest,
};
use rusqlite::Connection;

use super::SqliteStore;
use super::error::Result as InTransaction;

#[async_trait]
impl JobStore for SqliteStore {
    async fn enqueue(
        &self,
        request: EnqueueRequest,
        now: Timestamp,
    ) -> Result<EnqueueAnswer, StoreError> {
        self.write("store.enqueue", move |conn, catalog| {
            enqueue::enqueue(conn, catalog, request, now)
        })
        .await
    }

    async fn claim(
        &self,
        request: ClaimRequest,
        now: Timestamp,
    ) -> Result<ClaimAnswer, StoreError> {
        self.write("store.claim", move |conn, _| claim::claim(conn, &request, now)).await
    }

    async fn heartbeat(
        &self,
        beats: Vec<Heartbeat>,
        now: Timestamp,
    ) -> Result<Vec<HeartbeatAnswer>, StoreError> {
        self.write("store.heartbeat", move |conn, _| heartbeat::heartbeat(conn, &beats, now)).await
    }

    async fn settle(
        &self,
        settles: Vec<Settle>,
        jitter: u64,
        now: Timestamp,
    ) -> Result<Vec<Settled>, StoreError> {
        self.write("store.settle", move |conn, catalog| {
            settle::settle(conn, catalog, settles, jitter, now)
        })
        .await
    }

    async fn sweep(
        &self,
        request: SweepRequest,
        now: Timestamp,
    ) -> Result<SweepReport, StoreError> {
        self.write("store.sweep", move |conn, catalog| sweep::sweep(conn, catalog, request, now))
            .await
    }

    async fn begin_process(&self, jitter: u64, now: Timestamp) -> Result<ProcessStart, StoreError> {
        self.write("store.begin_process", move |conn, catalog| {
            process::begin_process(conn, catalog, jitter, now)
        })
        .await
    }

    /// Nobody else can have the file while this process lives.
    async fn keep_process(&self, _: LeaseOwner, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }

    async fn cancel(
        &self,
        scope: Scope,
        id: JobId,
        now: Timestamp,
    ) -> Result<CancelAnswer, StoreError> {
        self.write("store.cancel", move |conn, catalog| {
            by_hand::cancel(conn, catalog, scope, id, now)
        })
        .await
    }

    async fn retry(
        &self,
        scope: Scope,
        id: JobId,
        now: Timestamp,
    ) -> Result<RetryAnswer, StoreError> {
        self.write("store.retry", move |conn, _| by_hand::retry(conn, scope, id, now)).await
    }

    async fn job(&self, scope: Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        self.read(move |conn| read::job(conn, scope, id)).await
    }

    async fn jobs(
        &self,
        scope: Scope,
        filter: ListFilter,
        page: ListPage,
        now: Timestamp,
    ) -> Result<Vec<Job>, StoreError> {
        self.read(move |conn| read::jobs(conn, scope, &filter, page, now)).await
    }

    async fn leases(&self, scope: Scope, page: ListPage) -> Result<Vec<RunningJob>, StoreError> {
        self.read(move |conn| read::leases(conn, scope, page)).await
    }

    async fn prune(&self, request: PruneRequest) -> Result<PruneReport, StoreError> {
        self.write("store.prune", move |conn, _| prune::prune(conn, request)).await
    }

    async fn depths(&self, now: Timestamp) -> Result<Vec<KindDepth>, StoreError> {
        self.read(move |conn| depths::depths(conn, now)).await
    }
}

const DRAW_NUMBERS: &str = "-- draw_numbers
    UPDATE counters SET value = value + ?2 WHERE name = ?1 RETURNING value";

/// Draws `count` numbers that were never drawn before and returns the first of them.
fn draw_numbers(conn: &Connection, counter: &'static str, count: usize) -> InTransaction<i64> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let last: i64 = conn
        .prepare_cached(DRAW_NUMBERS)?
        .query_row(rusqlite::params![counter, count], |row| row.get(0))?;
    Ok(last - count + 1)
}
