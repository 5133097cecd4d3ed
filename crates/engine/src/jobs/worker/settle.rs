//! Writing how runs ended.

use std::sync::Arc;

use roundsman_core::effects::Effects;
use roundsman_core::failpoint;
use roundsman_core::jobs::{ErrorCode, JobError, LeaseRef, Outcome, Settle, Settled};
use roundsman_core::ports::StoreError;
use tokio::sync::Notify;

use super::Worker;
use super::running::RunningSet;
use crate::metrics::EndedRun;

/// Outcomes in one transaction.
const SETTLES_PER_BATCH_MAX: usize = 2_000;

/// The worker's side of a handler that ends.
pub(super) struct Ending {
    running: Arc<RunningSet>,
    ended: Arc<Notify>,
    hungry: Arc<Notify>,
}

impl Ending {
    pub(super) fn end(&self, lease: LeaseRef, settle: Option<Settle>) {
        self.running.end(lease, settle);
        self.ended.notify_one();
        self.hungry.notify_one();
    }
}

impl Worker {
    pub(super) fn ending(&self) -> Ending {
        Ending {
            running: self.running.clone(),
            ended: self.ended.clone(),
            hungry: self.hungry.clone(),
        }
    }

    /// Writes every outcome that waits, batch by batch. After an error the outcomes that were not
    /// written are still there.
    pub async fn settle_tick(&self) -> Result<(), StoreError> {
        loop {
            let settles = self.running.take_ended(SETTLES_PER_BATCH_MAX);
            if settles.is_empty() {
                return Ok(());
            }
            match self.write(&settles).await {
                Ok(()) => {}
                Err(error) if error.is_transient() => {
                    self.running.put_back(settles);
                    return Err(error);
                }
                Err(_) => self.settle_each(settles).await?,
            }
        }
    }

    async fn write(&self, settles: &[Settle]) -> Result<(), StoreError> {
        let jitter = self.deps.random.below(u64::MAX);
        let now = self.deps.clock.now();
        failpoint::hit("worker.settling");
        let answers = self.deps.store.settle(settles.to_vec(), jitter, now).await?;
        failpoint::hit("worker.settled");
        self.settled(settles, &answers);
        Ok(())
    }

    /// The database will never take these outcomes together: each is written by itself. One that
    /// is refused alone, because of its result or its effects, becomes a failed attempt; otherwise
    /// it would hold its lease, and the outcomes of all other jobs, for ever.
    async fn settle_each(&self, settles: Vec<Settle>) -> Result<(), StoreError> {
        let mut unwritten = Vec::new();
        let mut failure = None;
        for settle in settles {
            let mut settle = settle;
            let mut written = self.write(std::slice::from_ref(&settle)).await;
            if let Err(error) = &written
                && !error.is_transient()
            {
                tracing::error!(job = settle.lease.id.get(), %error, "an outcome was refused");
                settle = refused(settle.lease, error);
                written = self.write(std::slice::from_ref(&settle)).await;
            }
            if let Err(error) = written {
                unwritten.push(settle);
                failure = Some(error);
            }
        }
        self.running.put_back(unwritten);
        failure.map_or(Ok(()), Err)
    }

    fn settled(&self, settles: &[Settle], answers: &[Settled]) {
        let now = self.deps.clock.monotonic();
        let leases: Vec<LeaseRef> = settles.iter().map(|settle| settle.lease).collect();
        let held = self.running.remove_all(&leases);
        let mut ended = Vec::with_capacity(settles.len());
        for ((settle, answer), held) in settles.iter().zip(answers).zip(held) {
            match answer {
                Settled::Landed { state } => {
                    self.deps
                        .wakes
                        .signal(settle.effects.jobs.iter().map(|job| (job.base_lane(), 1)));
                    let Some((kind, claimed)) = held else { continue };
                    let took_secs = now.saturating_sub(claimed).as_secs_f64();
                    let error = error_code(&settle.outcome).cloned();
                    ended.push(EndedRun { kind, took_secs, state: *state, error });
                }
                Settled::LeaseLost => {
                    self.deps.metrics.lease_lost();
                    tracing::info!(job = settle.lease.id.get(), "an outcome came too late");
                }
            }
        }
        self.deps.metrics.ran(&ended);
        // A job with the same key may have waited for one of these to end.
        self.hungry.notify_one();
    }
}

/// What is written for an outcome that the database refused.
fn refused(lease: LeaseRef, error: &StoreError) -> Settle {
    let error = JobError::new("outcome_refused", error.to_string());
    Settle { lease, outcome: Outcome::Retry { error, after: None }, effects: Effects::default() }
}

fn error_code(outcome: &Outcome) -> Option<&ErrorCode> {
    match outcome {
        Outcome::Retry { error, .. } | Outcome::Fail { error } => Some(&error.code),
        Outcome::Done { .. } | Outcome::Again { .. } | Outcome::Cancelled | Outcome::Release => {
            None
        }
    }
}
