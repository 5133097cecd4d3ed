//! Runs jobs inside the process: claims them, keeps their leases, settles them.
//!
//! Three loops share one set of running jobs. Claiming takes as many jobs as there are free slots;
//! keeping extends leases with one statement for all and stops what may no longer run; settling
//! writes what ended while the write before was under way. A slot is free when its handler has
//! ended; the lease is kept until the outcome is written.

mod claim;
mod keep;
mod run;
mod running;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{KindSpec, LeaseOwner, Role, WorkerName};
use roundsman_core::ports::{Clock, Random, Store};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::running::RunningSet;
pub(super) use self::running::StopReason;
use super::HandlerRegistry;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::wake::{Wakes, rest};

/// What a worker is made of.
#[derive(Clone)]
pub struct WorkerDeps {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub wakes: Wakes,
    pub metrics: Metrics,
    pub health: Health,
    pub handlers: HandlerRegistry,
    /// Where handlers run.
    pub tasks: TaskTracker,
}

/// How a worker behaves.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    pub name: WorkerName,
    pub owner: LeaseOwner,
    /// Kinds of these roles are claimed.
    pub roles: Vec<Role>,
    /// Jobs running at once.
    pub slots: usize,
    /// Jobs in one claim.
    pub claim_max: u32,
    /// How often to look although nobody woke us.
    pub poll_every: Duration,
}

/// How often leases and deadlines are looked at.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// How long to wait after the database failed, before trying again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A worker inside the process.
pub struct Worker {
    deps: WorkerDeps,
    options: WorkerOptions,
    specs: Vec<KindSpec>,
    running: Arc<RunningSet>,
    /// Wakes the claiming loop.
    hungry: Arc<Notify>,
    /// Wakes the settling loop.
    ended: Arc<Notify>,
}

impl Worker {
    pub fn new(deps: WorkerDeps, options: WorkerOptions) -> Self {
        let in_role = |spec: &KindSpec| options.roles.contains(&spec.role);
        let specs = deps.handlers.specs().into_iter().filter(in_role).collect();
        Worker {
            deps,
            options,
            specs,
            running: Arc::default(),
            hungry: Arc::default(),
            ended: Arc::default(),
        }
    }

    /// Works until `stop`, then finishes what runs within `grace` and hands back the rest.
    pub async fn run(self: Arc<Self>, stop: CancellationToken, grace: Duration) {
        if self.specs.is_empty() {
            return;
        }
        let done = CancellationToken::new();
        let keeping = self.deps.tasks.spawn(self.clone().keep_loop(done.clone()));
        let settling = self.deps.tasks.spawn(self.clone().settle_loop(done.clone()));
        self.claim_loop(&stop).await;
        if !self.finish_within(grace).await {
            tracing::warn!(jobs = self.running.len(), "handing back unfinished jobs");
            self.running.stop_all(StopReason::Shutdown);
            self.finish_within(RETRY_AFTER * 8).await;
        }
        done.cancel();
        let _ = keeping.await;
        let _ = settling.await;
    }

    /// Waits until nothing runs and everything is settled. Returns whether that was so in time.
    pub async fn finish_within(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.running.emptied()).await.is_ok()
    }

    /// How many handlers are running now.
    pub fn running_count(&self) -> usize {
        self.running.active()
    }

    async fn claim_loop(&self, stop: &CancellationToken) {
        let pulse = self.deps.health.register("worker.claim", self.options.poll_every);
        let mut cancels = self.deps.wakes.cancels();
        let mut listener = self.listen();
        while !stop.is_cancelled() {
            let wait = match self.claim_tick().await {
                Ok(wait) => {
                    pulse.beat();
                    wait
                }
                Err(error) => {
                    pulse.failed(&error);
                    tracing::warn!(%error, "cannot claim jobs");
                    RETRY_AFTER
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.hungry.notified() => {}
                () = listener.wait(wait) => {}
                Ok(id) = cancels.recv() => self.running.stop_job(id, StopReason::Cancelled),
            }
        }
    }

    async fn keep_loop(self: Arc<Self>, done: CancellationToken) {
        let pulse = self.deps.health.register("worker.keep", KEEP_EVERY * 5);
        while rest(KEEP_EVERY, &done).await {
            match self.keep_tick().await {
                Ok(()) => pulse.beat(),
                Err(error) => {
                    pulse.failed(&error);
                    tracing::warn!(%error, "cannot extend leases");
                }
            }
        }
    }

    async fn settle_loop(self: Arc<Self>, done: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = self.ended.notified() => {}
                () = done.cancelled() => return,
            }
            while let Err(error) = self.settle_tick().await {
                tracing::warn!(%error, "cannot settle jobs; will try again");
                if !rest(RETRY_AFTER, &done).await {
                    return;
                }
            }
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("options", &self.options).finish_non_exhaustive()
    }
}
