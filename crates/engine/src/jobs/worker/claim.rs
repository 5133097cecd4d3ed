//! Claiming: as many jobs as there are free slots.

use std::time::Duration;

use roundsman_core::failpoint;
use roundsman_core::jobs::{KindSpec, Lane, RunningJob};
use roundsman_core::ports::{ClaimRequest, LaneDemand, StoreError};
use roundsman_core::users::UserId;
use tokio::sync::watch;

use super::Worker;
use super::running::Held;
use crate::jobs::gates::GATED_POLL_EVERY;
use crate::jobs::handler::Registered;
use crate::wake::WakeListener;

/// Outcomes that wait to be written, per slot; with more the worker claims nothing new.
const UNSETTLED_PER_SLOT_MAX: usize = 4;

impl Worker {
    /// Listens on every lane this worker claims from.
    pub(super) fn listen(&self) -> WakeListener {
        let lanes: Vec<Lane> = self.specs.iter().map(lane).collect();
        self.deps.wakes.listen(&lanes)
    }

    /// Claims once and starts what was claimed. Returns how long to wait for the next claim unless
    /// woken: nothing while there is more to be had.
    pub async fn claim_tick(&self) -> Result<Duration, StoreError> {
        let request = self.claim_request();
        if request.demands.is_empty() {
            // A slot that becomes free wakes the loop.
            return Ok(self.options.poll_every);
        }
        let wanted = request.total_max as usize;
        // Monotonic time from before the claim is sent: the lease cannot have begun earlier.
        let asked = self.deps.clock.monotonic();
        let now = self.deps.clock.now();
        let answer = self.deps.store.claim(request, now).await?;
        failpoint::hit("worker.claimed");
        self.deps.metrics.claimed(&answer.jobs, now);
        let claimed = answer.jobs.len();
        for job in answer.jobs {
            self.start(job, asked);
        }
        if claimed >= wanted {
            return Ok(if self.running.active() < self.options.slots {
                Duration::ZERO
            } else {
                self.options.poll_every
            });
        }
        let poll_every = if answer.gated {
            self.options.poll_every.min(GATED_POLL_EVERY)
        } else {
            self.options.poll_every
        };
        let until_due = answer.next_due_at.map(|due_at| due_at.since(now));
        Ok(until_due.map_or(poll_every, |due| due.min(poll_every)))
    }

    fn claim_request(&self) -> ClaimRequest {
        let free = self.options.slots.saturating_sub(self.running.active());
        let unsettled = self.running.len() - self.running.active().min(self.running.len());
        let overloaded = unsettled > self.options.slots * UNSETTLED_PER_SLOT_MAX;
        let free = if overloaded { 0 } else { free };
        let total_max = u32::try_from(free).unwrap_or(u32::MAX).min(self.options.claim_max);
        let demand = |spec: &KindSpec| {
            let running = self.running.active_of(&spec.kind);
            let left = spec.concurrency.map_or(free, |most| most.saturating_sub(running));
            LaneDemand {
                lane: lane(spec),
                max: u32::try_from(left).unwrap_or(u32::MAX).min(total_max),
                lease_ttl: spec.lease_ttl,
                deadline: spec.deadline,
            }
        };
        ClaimRequest {
            worker: self.options.name.clone(),
            owner: self.options.owner,
            demands: self.specs.iter().map(demand).filter(|demand| demand.max > 0).collect(),
            total_max,
        }
    }

    fn start(&self, job: RunningJob, asked: Duration) {
        let lease = job.lease_ref();
        let Some(Registered { handler, spec }) = self.deps.handlers.get(&job.facts.kind) else {
            // Only lanes with a handler are claimed from; a stray job is left to expire.
            tracing::error!(kind = %job.facts.kind, "claimed a job without a handler");
            return;
        };
        let (stop, stopped) = watch::channel(None);
        let (progress, reported) = watch::channel(None);
        self.running.insert(
            lease,
            Held {
                kind: job.facts.kind.clone(),
                lease_ttl: job.lease.ttl,
                heartbeat_every: spec.heartbeat_every,
                lease_ends: asked + job.lease.ttl,
                next_beat: asked + spec.heartbeat_every,
                deadline: spec.deadline.map(|deadline| asked + deadline),
                stop,
                progress: reported,
                active: true,
                claimed: asked,
            },
        );
        failpoint::hit("worker.starting");
        self.spawn(handler, job, progress, stopped);
    }
}

/// Built-in kinds have one lane for all users.
fn lane(spec: &KindSpec) -> Lane {
    Lane::of(UserId::SYSTEM, &spec.kind)
}
