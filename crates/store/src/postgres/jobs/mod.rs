//! The jobs: one file per operation of the port, and what several of them share.

mod alarms;
mod batches;
mod bulk;
mod by_hand;
mod claim;
mod copy;
mod depths;
mod enqueue;
mod gated;
mod gates;
mod gone;
mod heartbeat;
mod landing;
mod links;
mod process;
mod prune;
mod read;
mod schedules;
mod settle;
mod sweep;
mod waiting;

pub(super) use enqueue::write_wishes;
pub(super) use gated::GatedLanes;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{Job, JobId, LeaseOwner, RunningJob, Settle, Settled};
use roundsman_core::ports::{
    CancelAnswer, ClaimAnswer, ClaimRequest, EnqueueAnswer, EnqueueRequest, Heartbeat,
    HeartbeatAnswer, JobStore, KindDepth, ListFilter, ListPage, ProcessStart, PruneReport,
    PruneRequest, RetryAnswer, Scope, StoreError, SweepReport, SweepRequest,
};

use super::PostgresStore;

#[async_trait]
impl JobStore for PostgresStore {
    async fn enqueue(
        &self,
        request: EnqueueRequest,
        now: Timestamp,
    ) -> Result<EnqueueAnswer, StoreError> {
        let catalog = &self.catalog;
        self.change("store.enqueue", &enqueue::Enqueue { request: &request, catalog, now }).await
    }

    async fn claim(
        &self,
        request: ClaimRequest,
        now: Timestamp,
    ) -> Result<ClaimAnswer, StoreError> {
        self.claim_all(&request, now).await
    }

    async fn heartbeat(
        &self,
        beats: Vec<Heartbeat>,
        now: Timestamp,
    ) -> Result<Vec<HeartbeatAnswer>, StoreError> {
        self.change("store.heartbeat", &heartbeat::Extend { beats: &beats, now }).await
    }

    async fn settle(
        &self,
        settles: Vec<Settle>,
        jitter: u64,
        now: Timestamp,
    ) -> Result<Vec<Settled>, StoreError> {
        let catalog = &self.catalog;
        let operation = settle::SettleRuns::new(&settles, catalog, jitter, now);
        self.change("store.settle", &operation).await
    }

    async fn sweep(
        &self,
        request: SweepRequest,
        now: Timestamp,
    ) -> Result<SweepReport, StoreError> {
        self.change("store.sweep", &sweep::Sweep { request, catalog: &self.catalog, now }).await
    }

    async fn begin_process(&self, _: u64, _: Timestamp) -> Result<ProcessStart, StoreError> {
        self.change("store.begin_process", &process::BeginProcess).await
    }

    async fn keep_process(&self, owner: LeaseOwner, now: Timestamp) -> Result<(), StoreError> {
        match owner {
            LeaseOwner::Process(number) => self.alive.keep(&self.pool, number, now).await,
            LeaseOwner::Outside => Ok(()),
        }
    }

    async fn cancel(
        &self,
        scope: Scope,
        id: JobId,
        now: Timestamp,
    ) -> Result<CancelAnswer, StoreError> {
        self.change("store.cancel", &by_hand::Cancel { scope, id, catalog: &self.catalog, now })
            .await
    }

    async fn retry(
        &self,
        scope: Scope,
        id: JobId,
        now: Timestamp,
    ) -> Result<RetryAnswer, StoreError> {
        self.change("store.retry", &by_hand::Retry { scope, id, now }).await
    }

    async fn job(&self, scope: Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        self.pool.run(&read::OneJob { scope, id }).await
    }

    async fn jobs(
        &self,
        scope: Scope,
        filter: ListFilter,
        page: ListPage,
        now: Timestamp,
    ) -> Result<Vec<Job>, StoreError> {
        self.pool.run(&read::Jobs { scope, filter: &filter, page, now }).await
    }

    async fn leases(&self, scope: Scope, page: ListPage) -> Result<Vec<RunningJob>, StoreError> {
        self.pool.run(&read::Leases { scope, page }).await
    }

    async fn prune(&self, request: PruneRequest) -> Result<PruneReport, StoreError> {
        self.change("store.prune", &prune::Prune { request }).await
    }

    async fn depths(&self, now: Timestamp) -> Result<Vec<KindDepth>, StoreError> {
        self.pool.run(&depths::Depths { now }).await
    }
}

/// The user whose rows may be touched; `None` for everybody's.
pub(super) fn user_of(scope: Scope) -> Option<i64> {
    match scope {
        Scope::User(user) => Some(user.get()),
        Scope::All => None,
    }
}

/// The statements whose plans are tested.
#[cfg(test)]
pub(super) fn hot_statements() -> [&'static str; 15] {
    [
        claim::CLAIM,
        claim::PROMOTE_DUE,
        settle::FINISH,
        settle::TAKE,
        heartbeat::EXTEND,
        sweep::SKIPPING.expired,
        sweep::SKIPPING.overdue,
        waiting::LOCK_WAITING,
        read::JOBS_OF_USER,
        read::DEAD_OF_USER,
        read::DEAD_OF_ALL,
        gated::LANES_WAITING,
        gated::LANES_RUNNING,
        bulk::DEAD_KINDS,
        bulk::PRUNE_DEAD,
    ]
}
