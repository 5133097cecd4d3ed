//! Jobs, in the order in which the port lists its methods.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    CancelCause, Disposition, FinishedJob, FinishedState, Job, JobId, JobState, Lease, LeaseNo,
    LeaseOwner, Progress, Rescue, RunningJob, Settle, Settled, rescue, retry_by_hand, settle,
    spread,
};
use roundsman_core::ports::{
    CancelAnswer, ClaimAnswer, ClaimRequest, EnqueueAnswer, EnqueueRequest, Heartbeat,
    HeartbeatAnswer, JobStore, KindDepth, LaneDemand, ListFilter, ListPage, ProcessStart,
    PruneReport, PruneRequest, RetryAnswer, Scope, StoreError, SweepReport, SweepRequest,
};

use super::{Reference, Remembered, State, sees};

#[async_trait]
impl JobStore for Reference {
    async fn enqueue(
        &self,
        request: EnqueueRequest,
        now: Timestamp,
    ) -> Result<EnqueueAnswer, StoreError> {
        let mut state = self.lock();
        let name =
            request.idempotency.map(|one| ((one.user_id, one.route, one.key), one.body_hash));
        if let Some((name, body_hash)) = &name
            && let Some(known) = state.idempotency.get(name)
        {
            return Ok(if known.body_hash == *body_hash {
                EnqueueAnswer::Replayed(known.answer.clone())
            } else {
                EnqueueAnswer::KeyReused
            });
        }
        let wishes = request.jobs.into_iter();
        let answer: Vec<_> = wishes.map(|wish| state.enqueue(&self.rules, wish, now)).collect();
        if let Some((name, body_hash)) = name {
            let answer = answer.clone();
            let remembered = Remembered { body_hash, answer, batch: None, created_at: now };
            state.idempotency.insert(name, remembered);
        }
        Ok(EnqueueAnswer::Stored(answer))
    }

    async fn claim(
        &self,
        request: ClaimRequest,
        now: Timestamp,
    ) -> Result<ClaimAnswer, StoreError> {
        Ok(self.lock().claim(&request, now))
    }

    async fn heartbeat(
        &self,
        beats: Vec<Heartbeat>,
        now: Timestamp,
    ) -> Result<Vec<HeartbeatAnswer>, StoreError> {
        let mut state = self.lock();
        Ok(beats.into_iter().map(|beat| state.heartbeat(beat, now)).collect())
    }

    async fn settle(
        &self,
        settles: Vec<Settle>,
        jitter: u64,
        now: Timestamp,
    ) -> Result<Vec<Settled>, StoreError> {
        let mut state = self.lock();
        let answers = settles.into_iter().enumerate().map(|(place, one)| {
            if !state.holds(one.lease) {
                return Settled::LeaseLost;
            }
            let job = state.take_running(one.lease.id);
            let retry = self.rules.retry(&job.facts.kind);
            let disposition = settle(job, one.outcome, retry, spread(jitter, place), now);
            let job = self.dispose(&mut state, disposition, now);
            state.apply(&self.rules, one.effects, now);
            Settled::Landed { state: job.state(now) }
        });
        Ok(answers.collect())
    }

    async fn sweep(
        &self,
        request: SweepRequest,
        now: Timestamp,
    ) -> Result<SweepReport, StoreError> {
        let mut state = self.lock();
        let mut late: Vec<(JobId, Rescue)> = state
            .running
            .values()
            .filter_map(|job| Some((job.facts.id, overdue(job, request.serving_since, now)?)))
            .collect();
        late.truncate(request.rows_max as usize);
        let rescued = late.into_iter().enumerate().map(|(place, (id, why))| {
            let jitter = spread(request.jitter, place);
            let job = self.rescue(&mut state, id, why, jitter, now);
            (job.facts().kind.clone(), job.state(now))
        });
        Ok(SweepReport { rescued: rescued.collect() })
    }

    async fn begin_process(&self, jitter: u64, now: Timestamp) -> Result<ProcessStart, StoreError> {
        let mut state = self.lock();
        state.last_process += 1;
        let owner = LeaseOwner::Process(state.last_process);
        let inside = |job: &&RunningJob| job.lease.owner != LeaseOwner::Outside;
        let dead: Vec<JobId> =
            state.running.values().filter(inside).map(|job| job.facts.id).collect();
        for (place, id) in dead.iter().enumerate() {
            self.rescue(&mut state, *id, Rescue::OwnerGone, spread(jitter, place), now);
        }
        Ok(ProcessStart { owner, rescued: u32::try_from(dead.len()).unwrap_or(u32::MAX) })
    }

    async fn keep_process(&self, _: LeaseOwner, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }

    async fn cancel(
        &self,
        scope: Scope,
        id: JobId,
        now: Timestamp,
    ) -> Result<CancelAnswer, StoreError> {
        let mut state = self.lock();
        Ok(match state.job(scope, id) {
            None => CancelAnswer::NotFound,
            Some(Job::Waiting(job)) => {
                state.waiting.remove(&id);
                let cause = CancelCause::Requested;
                let ended = FinishedJob {
                    facts: job.facts,
                    state: FinishedState::Cancelled { cause },
                    finished_at: now,
                    progress: None,
                };
                state.finish(&self.rules, ended, now);
                CancelAnswer::Cancelled
            }
            Some(Job::Running(mut job)) => {
                job.cancel_requested = true;
                state.running.insert(id, *job);
                CancelAnswer::Requested
            }
            Some(job @ Job::Finished(_)) => CancelAnswer::Finished(job.state(now)),
        })
    }

    async fn retry(
        &self,
        scope: Scope,
        id: JobId,
        now: Timestamp,
    ) -> Result<RetryAnswer, StoreError> {
        let mut state = self.lock();
        Ok(match state.job(scope, id) {
            None => RetryAnswer::NotFound,
            Some(Job::Running(_)) => RetryAnswer::Running,
            Some(Job::Waiting(mut job)) => {
                job.facts.run_at = job.facts.run_at.min(now);
                job.not_before = None;
                state.waiting.insert(id, job);
                RetryAnswer::Requeued
            }
            Some(Job::Finished(job)) => {
                let facts = &job.facts;
                let key = facts.key.as_ref();
                if let Some(by) = state.waiting_with_key(facts.user_id, &facts.kind, key) {
                    return Ok(RetryAnswer::KeyTaken { by });
                }
                state.finished.remove(&id);
                state.waiting.insert(id, retry_by_hand(*job, now));
                state.rejoin(id);
                RetryAnswer::Requeued
            }
        })
    }

    async fn job(&self, scope: Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.lock().job(scope, id))
    }

    async fn jobs(
        &self,
        scope: Scope,
        filter: ListFilter,
        page: ListPage,
        now: Timestamp,
    ) -> Result<Vec<Job>, StoreError> {
        let state = self.lock();
        let places = state.waiting.keys().chain(state.running.keys()).chain(state.finished.keys());
        let mut ids: Vec<JobId> = places.copied().collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let wanted = |job: &Job| {
            filter.kind.as_ref().is_none_or(|kind| job.facts().kind == *kind)
                && filter.key.as_ref().is_none_or(|key| job.facts().key.as_ref() == Some(key))
                && filter.state.is_none_or(|state| job.state(now) == state)
                && super::bulk::fits(&filter, job)
        };
        let jobs = ids.into_iter().filter(|id| page.before.is_none_or(|before| *id < before));
        let jobs = jobs.filter_map(|id| state.job(scope, id)).filter(wanted);
        Ok(jobs.take(page.rows_max as usize).collect())
    }

    async fn leases(&self, scope: Scope, page: ListPage) -> Result<Vec<RunningJob>, StoreError> {
        let state = self.lock();
        let wanted = |job: &&RunningJob| {
            sees(scope, job.facts.user_id) && page.before.is_none_or(|id| job.facts.id < id)
        };
        let jobs = state.running.values().rev().filter(wanted).cloned();
        Ok(jobs.take(page.rows_max as usize).collect())
    }

    async fn prune(&self, request: PruneRequest) -> Result<PruneReport, StoreError> {
        Ok(self.lock().prune(&request))
    }

    async fn depths(&self, now: Timestamp) -> Result<Vec<KindDepth>, StoreError> {
        let state = self.lock();
        let mut depths: BTreeMap<_, KindDepth> = BTreeMap::new();
        let waiting = state.waiting.values().map(|job| (Job::Waiting(job.clone()), job.due_at()));
        let running = state.running.values().cloned();
        let running = running.map(|job| (Job::Running(Box::new(job)), now));
        for (job, due_at) in waiting.chain(running) {
            let kind = job.facts().kind.clone();
            let depth = depths.entry(kind.clone()).or_insert(KindDepth {
                kind,
                scheduled: 0,
                pending: 0,
                processing: 0,
                oldest_due_at: None,
            });
            match job.state(now) {
                JobState::Scheduled => depth.scheduled += 1,
                JobState::Pending => {
                    depth.pending += 1;
                    depth.oldest_due_at =
                        Some(depth.oldest_due_at.map_or(due_at, |o| o.min(due_at)));
                }
                _ => depth.processing += 1,
            }
        }
        Ok(depths.into_values().collect())
    }
}

impl Reference {
    fn rescue(
        &self,
        state: &mut State,
        id: JobId,
        why: Rescue,
        jitter: u64,
        now: Timestamp,
    ) -> Job {
        let job = state.take_running(id);
        let retry = self.rules.retry(&job.facts.kind);
        let disposition = rescue(job, why, retry, jitter, now);
        self.dispose(state, disposition, now)
    }

    fn dispose(&self, state: &mut State, disposition: Disposition, now: Timestamp) -> Job {
        match disposition {
            Disposition::Finish(job) => {
                state.finish(&self.rules, job.clone(), now);
                Job::Finished(Box::new(job))
            }
            Disposition::Requeue(job) => state.requeue(&self.rules, job, now),
        }
    }
}

impl State {
    /// Claims the best of the lanes that are wanted, at most so many.
    pub(super) fn claim_plain(
        &mut self,
        request: &ClaimRequest,
        demands: &[LaneDemand],
        jobs_max: usize,
        now: Timestamp,
    ) -> Vec<RunningJob> {
        let mut ready: Vec<_> = self
            .waiting
            .values()
            .filter(|job| job.due_at() <= now && !self.key_is_running(job))
            .map(|job| (job.rank(), job.facts.id, job.facts.lane()))
            .collect();
        ready.sort_unstable();
        let mut taken: BTreeMap<_, u32> = BTreeMap::new();
        let mut jobs = Vec::new();
        for (_, id, lane) in ready {
            let Some(terms) = demands.iter().find(|one| one.lane == lane) else {
                continue;
            };
            let of_lane = taken.entry(lane).or_default();
            if *of_lane < terms.max && jobs.len() < jobs_max {
                *of_lane += 1;
                jobs.push(self.hand_out(id, request, terms, now));
            }
        }
        jobs
    }

    pub(super) fn key_is_running(&self, job: &roundsman_core::jobs::WaitingJob) -> bool {
        let facts = &job.facts;
        facts.key.is_some()
            && self.running.values().any(|running| {
                let other = &running.facts;
                (other.user_id, &other.kind, &other.key) == (facts.user_id, &facts.kind, &facts.key)
            })
    }

    pub(super) fn hand_out(
        &mut self,
        id: JobId,
        request: &ClaimRequest,
        terms: &LaneDemand,
        now: Timestamp,
    ) -> RunningJob {
        let mut facts = self.waiting.remove(&id).expect("it was just found").facts;
        facts.attempt += 1;
        self.last_lease += 1;
        let lease = Lease {
            lease_no: LeaseNo::new(self.last_lease),
            until: now + terms.lease_ttl,
            ttl: terms.lease_ttl,
            worker: request.worker.clone(),
            owner: request.owner,
            claimed_at: now,
            heartbeat_at: now,
            deadline_at: terms.deadline.map(|deadline| now + deadline),
        };
        let job = RunningJob { facts, lease, progress: None, cancel_requested: false };
        self.running.insert(id, job.clone());
        job
    }

    fn heartbeat(&mut self, beat: Heartbeat, now: Timestamp) -> HeartbeatAnswer {
        if !self.holds(beat.lease) {
            return HeartbeatAnswer::LeaseLost;
        }
        let job = self.running.get_mut(&beat.lease.id).expect("it is held");
        job.lease.until = now + beat.ttl.unwrap_or(job.lease.ttl);
        job.lease.heartbeat_at = now;
        if let Some(progress) = beat.progress {
            job.progress = Some(Progress(progress));
        }
        let (until, cancel_requested) = (job.lease.until, job.cancel_requested);
        HeartbeatAnswer::Extended { until, cancel_requested }
    }

    fn prune(&mut self, request: &PruneRequest) -> PruneReport {
        let rows_max = request.rows_max as usize;
        let old = |job: &&FinishedJob| {
            job.finished_at
                < match job.state {
                    FinishedState::Completed { .. } => request.completed_before,
                    FinishedState::Failed { .. } => request.failed_before,
                    FinishedState::Cancelled { .. } => request.cancelled_before,
                }
        };
        let jobs: Vec<JobId> = self.finished.values().filter(old).map(|job| job.facts.id).collect();
        let keys = self.idempotency.iter();
        let keys = keys.filter(|(_, known)| known.created_at < request.idempotency_before);
        let keys: Vec<_> = keys.map(|(name, _)| name.clone()).collect();
        let frames = self.frames.iter().filter(|frame| frame.at < request.frames_before);
        let frames: Vec<_> = frames.map(|frame| (frame.stream.clone(), frame.seq)).collect();
        let counts = [jobs.len(), keys.len(), frames.len()];
        for id in jobs.iter().take(rows_max) {
            self.finished.remove(id);
        }
        for name in keys.iter().take(rows_max) {
            self.idempotency.remove(name);
        }
        for (stream, seq) in frames.iter().take(rows_max) {
            self.frames.retain(|frame| (&frame.stream, &frame.seq) != (stream, seq));
        }
        let [jobs, idempotency_keys, frames] = counts.map(|count| count.min(rows_max) as u64);
        let more = counts.iter().any(|count| *count >= rows_max);
        PruneReport { jobs, idempotency_keys, frames, more }
    }
}

/// Why the sweep takes this job, if it does.
fn overdue(job: &RunningJob, serving_since: Timestamp, now: Timestamp) -> Option<Rescue> {
    let until = match job.lease.owner {
        LeaseOwner::Outside => job.lease.until.max(serving_since + job.lease.ttl),
        LeaseOwner::Process(_) => job.lease.until,
    };
    if until < now {
        return Some(Rescue::LeaseExpired);
    }
    let over = job.lease.deadline_at.is_some_and(|deadline| deadline < now);
    over.then_some(Rescue::DeadlineExceeded)
}
