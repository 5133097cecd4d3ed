//! The worker protocol: how workers outside the process take part, with the same fence.
//!
//! Invariant: a worker outside never holds a job of the server's own kinds, and never one of
//! another user.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::failpoint;
use roundsman_core::jobs::{
    Job, JobError, Json, KindName, KindSpec, Lane, LeaseOwner, LeaseRef, Outcome, RunningJob,
    Settle, Settled, WorkerName,
};
use roundsman_core::limits::{LEASE_SECS_MAX, LEASE_SECS_MIN};
use roundsman_core::ports::{ClaimRequest, Heartbeat, HeartbeatAnswer, LaneDemand};
use roundsman_core::users::Authenticated;
use tokio::sync::oneshot;

use super::gates::GATED_POLL_EVERY;
use super::service::{Jobs, asker};
use crate::{Error, FieldError};

/// Where the answer to a claim goes.
type ClaimReply = oneshot::Sender<Result<Vec<RunningJob>, Error>>;

/// Kinds in one claim.
const KINDS_PER_CLAIM_MAX: usize = 100;

/// An outside worker's wish for work.
#[derive(Debug, Clone, Default)]
pub struct ClaimWish {
    pub worker: String,
    pub kinds: Vec<String>,
    pub max: Option<u32>,
    pub lease_secs: Option<u64>,
    pub wait_secs: Option<u64>,
}

impl Jobs {
    /// Claims for a worker outside the process, waiting for work if asked to. Should the caller go
    /// away meanwhile, what was claimed for them is handed back.
    pub async fn claim(
        &self,
        caller: &Authenticated,
        wish: ClaimWish,
    ) -> Result<Vec<RunningJob>, Error> {
        let (request, wait) = self.check_claim(caller, &wish)?;
        let (reply, answer) = oneshot::channel();
        let jobs = self.clone();
        // A task of its own: a caller that is dropped must not take a claim under way with it.
        self.deps.tasks.spawn(async move { jobs.claim_for(request, wait, reply).await });
        answer.await.unwrap_or(Err(Error::ShuttingDown))
    }

    async fn claim_for(&self, request: ClaimRequest, wait: Duration, mut reply: ClaimReply) {
        let claimed = self.claim_when_there_is_work(request, wait, &mut reply).await;
        if let Err(Ok(unheard)) = reply.send(claimed) {
            for job in unheard {
                let lease = job.lease_ref();
                let settle =
                    Settle { lease, outcome: Outcome::Release, effects: Effects::default() };
                if let Err(error) = self.batchers.settle(settle).await {
                    tracing::debug!(%error, job = lease.id.get(), "left to its lease");
                }
            }
        }
    }

    async fn claim_when_there_is_work(
        &self,
        request: ClaimRequest,
        wait: Duration,
        reply: &mut ClaimReply,
    ) -> Result<Vec<RunningJob>, Error> {
        let deps = &self.deps;
        let lanes: Vec<Lane> = request.demands.iter().map(|demand| demand.lane.clone()).collect();
        // The listener is armed before the first look, so that nothing falls between the two.
        let mut listener = deps.wakes.listen(&lanes);
        let give_up_at = deps.clock.monotonic() + wait;
        loop {
            let now = deps.clock.now();
            let answer = deps.store.claim(request.clone(), now).await?;
            failpoint::hit("outside.claimed");
            deps.metrics.claimed(&answer.jobs, now);
            let left = give_up_at.saturating_sub(deps.clock.monotonic());
            if !answer.jobs.is_empty() || left.is_zero() || deps.wakes.is_closed() {
                return Ok(answer.jobs);
            }
            let until_due = answer.next_due_at.map_or(left, |due_at| due_at.since(now));
            let until_due = if answer.gated { until_due.min(GATED_POLL_EVERY) } else { until_due };
            // Only the waiting may be cut short: a look under way may be claiming.
            tokio::select! {
                biased;
                () = reply.closed() => return Ok(Vec::new()),
                () = listener.wait(left.min(until_due).min(deps.limits.poll_every)) => {}
            }
        }
    }

    /// A worker's sign of life, with its progress if it has any to report.
    pub async fn heartbeat(
        &self,
        caller: &Authenticated,
        lease: LeaseRef,
        lease_secs: Option<u64>,
        progress: Option<String>,
    ) -> Result<(Timestamp, bool), Error> {
        self.check_holder(caller, lease).await?;
        let ttl = lease_secs.map(check_lease_secs).transpose();
        let ttl = ttl.map_err(|problem| Error::Invalid(vec![problem]))?;
        let progress = progress.map(|text| self.check_json("progress", &text)).transpose()?;
        match self.batchers.heartbeat(Heartbeat { lease, ttl, progress }).await? {
            HeartbeatAnswer::Extended { until, cancel_requested } => {
                failpoint::hit("outside.extended");
                Ok((until, cancel_requested))
            }
            HeartbeatAnswer::LeaseLost => {
                self.deps.metrics.lease_lost();
                Err(Error::LeaseLost)
            }
        }
    }

    /// The work is done.
    pub async fn complete(
        &self,
        caller: &Authenticated,
        lease: LeaseRef,
        result: Option<String>,
    ) -> Result<Job, Error> {
        let result = match result {
            Some(text) => self.check_json("result", &text)?,
            None => Json::null(),
        };
        self.settle(caller, lease, Outcome::Done { result }).await
    }

    /// The work failed; `fatal` says that trying again is pointless.
    pub async fn fail(
        &self,
        caller: &Authenticated,
        lease: LeaseRef,
        error: JobError,
        fatal: bool,
        retry_after: Option<Duration>,
    ) -> Result<Job, Error> {
        let outcome = if fatal {
            Outcome::Fail { error }
        } else {
            Outcome::Retry { error, after: retry_after }
        };
        self.settle(caller, lease, outcome).await
    }

    /// The work is handed back unfinished, without using an attempt.
    pub async fn release(&self, caller: &Authenticated, lease: LeaseRef) -> Result<Job, Error> {
        self.settle(caller, lease, Outcome::Release).await
    }

    /// The worker stopped because it was told to.
    pub async fn cancelled(&self, caller: &Authenticated, lease: LeaseRef) -> Result<Job, Error> {
        self.settle(caller, lease, Outcome::Cancelled).await
    }

    async fn settle(
        &self,
        caller: &Authenticated,
        lease: LeaseRef,
        outcome: Outcome,
    ) -> Result<Job, Error> {
        let kind = self.check_holder(caller, lease).await?;
        let settle = Settle { lease, outcome, effects: Effects::default() };
        match self.batchers.settle(settle).await? {
            Settled::LeaseLost => {
                self.deps.metrics.lease_lost();
                Err(Error::LeaseLost)
            }
            Settled::Landed { .. } => {
                failpoint::hit("outside.settled");
                let job = self.job(caller, lease.id).await?;
                self.deps.metrics.settled(&kind, &job);
                // A job with the same key may have waited for this one to end.
                self.deps.wakes.signal([(job.facts().base_lane(), 1)]);
                Ok(job)
            }
        }
    }

    /// The fence itself is the token; this only keeps users out of each other's jobs, and tells a
    /// job that never was from a lease that is gone.
    async fn check_holder(
        &self,
        caller: &Authenticated,
        lease: LeaseRef,
    ) -> Result<KindName, Error> {
        let job = self.job(caller, lease.id).await?;
        match &job {
            Job::Running(running) if running.lease.lease_no == lease.lease_no => {
                if running.lease.owner == LeaseOwner::Outside {
                    Ok(running.facts.kind.clone())
                } else {
                    let reason = "this job is run by the server itself".to_owned();
                    Err(Error::Forbidden { reason })
                }
            }
            _ => {
                self.deps.metrics.lease_lost();
                Err(Error::LeaseLost)
            }
        }
    }

    /// Checks a claim and reports every problem at once.
    fn check_claim(
        &self,
        caller: &Authenticated,
        wish: &ClaimWish,
    ) -> Result<(ClaimRequest, Duration), Error> {
        let limits = &self.deps.limits;
        let mut problems = Vec::new();
        if wish.worker.trim().is_empty() {
            problems.push(FieldError::new("worker", "must name the worker"));
        }
        if wish.kinds.is_empty() || wish.kinds.len() > KINDS_PER_CLAIM_MAX {
            let reason = format!("must hold 1 to {KINDS_PER_CLAIM_MAX} kinds");
            problems.push(FieldError::new("kinds", reason));
        }
        let max = wish.max.unwrap_or(1);
        if max == 0 || max > limits.claim_max {
            let reason = format!("must be from 1 to {}", limits.claim_max);
            problems.push(FieldError::new("max", reason));
        }
        let lease_ttl = match wish.lease_secs.map(check_lease_secs).transpose() {
            Ok(ttl) => ttl,
            Err(problem) => {
                problems.push(problem);
                None
            }
        };
        let mut demands: Vec<LaneDemand> = Vec::with_capacity(wish.kinds.len());
        for (index, text) in wish.kinds.iter().enumerate() {
            match self.check_kind(caller, text) {
                Ok((lane, spec)) if demands.iter().all(|demand| demand.lane != lane) => {
                    let lease_ttl = lease_ttl.unwrap_or(spec.lease_ttl);
                    demands.push(LaneDemand { lane, max, lease_ttl, deadline: spec.deadline });
                }
                Ok(_) => {}
                Err(reason) => problems.push(FieldError::new(format!("kinds[{index}]"), reason)),
            }
        }
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        let worker = WorkerName::new(&wish.worker);
        let request = ClaimRequest { worker, owner: LeaseOwner::Outside, demands, total_max: max };
        let wait = Duration::from_secs(wish.wait_secs.unwrap_or(0)).min(limits.wait_max);
        Ok((request, wait))
    }

    fn check_kind(&self, caller: &Authenticated, text: &str) -> Result<(Lane, KindSpec), String> {
        let kind = KindName::new(text).map_err(|error| error.to_string())?;
        if kind.is_reserved() {
            return Err("this kind is run by the server itself".to_owned());
        }
        let lane = Lane::of(asker(caller).user_id, &kind);
        Ok((lane, self.deps.catalog.spec(&kind)))
    }

    fn check_json(&self, field: &'static str, text: &str) -> Result<Json, Error> {
        let bytes_max = self.deps.limits.result_bytes_max;
        if text.len() > bytes_max {
            return Err(Error::TooLarge { field, bytes: text.len(), bytes_max });
        }
        let refuse = |e| Error::Invalid(vec![FieldError::new(field, format!("{e}"))]);
        Json::parse(text).map_err(refuse)
    }
}

fn check_lease_secs(secs: u64) -> Result<Duration, FieldError> {
    if (LEASE_SECS_MIN..=LEASE_SECS_MAX).contains(&secs) {
        return Ok(Duration::from_secs(secs));
    }
    let reason = format!("must be from {LEASE_SECS_MIN} to {LEASE_SECS_MAX}");
    Err(FieldError::new("lease_secs", reason))
}
