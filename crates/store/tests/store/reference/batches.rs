//! Jobs that wait for others, and batches.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    Batch, BatchId, CancelCause, FinishedJob, FinishedState, HELD_UNTIL, Job, JobId, JobState,
    KindCatalog, LinkEnd, NewBatch, NewJob, OnFailure, WaitingJob, first_wait,
};
use roundsman_core::ports::{
    AfterAnswer, BatchAnswer, BatchStore, Enqueued, IdempotencyKey, Scope, StoreError,
};

use super::{Reference, Remembered, State, sees};

/// Who waits for whom, and what belongs together.
#[derive(Default)]
pub(super) struct Linked {
    /// By parent and child.
    links: BTreeMap<(JobId, JobId), OnFailure>,
    batches: BTreeMap<BatchId, Members>,
    last_batch: i64,
}

struct Members {
    batch: Batch,
    callback: Option<NewJob>,
    jobs: BTreeMap<JobId, Option<JobState>>,
}

#[async_trait]
impl BatchStore for Reference {
    async fn enqueue_after(
        &self,
        wish: NewJob,
        after: Vec<JobId>,
        on_failure: OnFailure,
        now: Timestamp,
    ) -> Result<AfterAnswer, StoreError> {
        let mut state = self.lock();
        let (mut parents, mut cancel) = (Vec::new(), false);
        for id in after.into_iter().collect::<BTreeSet<_>>() {
            match state.job(Scope::User(wish.user_id), id) {
                None => return Ok(AfterAnswer::NoSuchJob(id)),
                Some(job @ Job::Finished(_)) => match on_failure.after(job.state(now)) {
                    LinkEnd::Satisfied => {}
                    LinkEnd::Cancelled => cancel = true,
                    LinkEnd::Stays => parents.push(id),
                },
                Some(_) => parents.push(id),
            }
        }
        if let Some(by) = state.waiting_with_key(wish.user_id, &wish.kind, wish.key.as_ref()) {
            return Ok(AfterAnswer::KeyTaken { by });
        }
        state.note_tenant(&wish);
        state.last_job += 1;
        let id = JobId::new(state.last_job);
        let mut job = first_wait(id, wish, now);
        if cancel {
            state.finished.insert(id, cancelled(job, now));
            return Ok(AfterAnswer::Stored(id));
        }
        if !parents.is_empty() {
            job.not_before = Some(HELD_UNTIL);
        }
        state.waiting.insert(id, job);
        for parent in parents {
            state.linked.links.insert((parent, id), on_failure);
            state.mark(parent);
        }
        Ok(AfterAnswer::Stored(id))
    }

    async fn waits_for(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        let state = self.lock();
        let links = state.linked.links.keys().filter(|(_, child)| *child == id);
        Ok(links.map(|(parent, _)| *parent).collect())
    }

    async fn create_batch(
        &self,
        batch: NewBatch,
        idempotency: Option<IdempotencyKey>,
        now: Timestamp,
    ) -> Result<BatchAnswer, StoreError> {
        let mut state = self.lock();
        let name = idempotency.map(|one| ((one.user_id, one.route, one.key), one.body_hash));
        if let Some((name, body_hash)) = &name
            && let Some(known) = state.idempotency.get(name)
        {
            return Ok(match known.batch {
                Some(id) if known.body_hash == *body_hash => {
                    BatchAnswer::Replayed(id, known.answer.clone())
                }
                _ => BatchAnswer::KeyReused,
            });
        }
        let wishes = batch.jobs.into_iter();
        let enqueued: Vec<Enqueued> =
            wishes.map(|wish| state.enqueue(&self.rules, wish, now)).collect();
        let jobs: BTreeMap<JobId, Option<JobState>> =
            enqueued.iter().map(|job| (job.id, None)).collect();
        for id in jobs.keys() {
            state.mark(*id);
        }
        state.linked.last_batch += 1;
        let id = BatchId::new(state.linked.last_batch);
        let shown = Batch {
            id,
            user_id: batch.user_id,
            name: batch.name,
            created_at: now,
            finished_at: None,
            callback: None,
            total: jobs.len() as u64,
            counts: [0; 6],
        };
        let members = Members { batch: shown, callback: batch.callback, jobs };
        state.linked.batches.insert(id, members);
        if let Some((name, body_hash)) = name {
            let answer = enqueued.clone();
            let remembered = Remembered { body_hash, answer, batch: Some(id), created_at: now };
            state.idempotency.insert(name, remembered);
        }
        Ok(BatchAnswer::Stored(id, enqueued))
    }

    async fn batch(
        &self,
        scope: Scope,
        id: BatchId,
        now: Timestamp,
    ) -> Result<Option<Batch>, StoreError> {
        let state = self.lock();
        let Some(members) = state.linked.batches.get(&id) else { return Ok(None) };
        let mut batch = members.batch.clone();
        for (job, ended) in &members.jobs {
            let at = ended.or_else(|| state.job(Scope::All, *job).map(|job| job.state(now)));
            let place = JobState::ALL.iter().position(|state| Some(*state) == at);
            batch.counts[place.expect("it is somewhere")] += 1;
        }
        Ok(Some(batch).filter(|batch| sees(scope, batch.user_id)))
    }

    async fn prune_batches(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let old = state.linked.batches.values();
        let old = old.filter(|one| one.batch.finished_at.is_some_and(|at| at < before));
        let old: Vec<BatchId> = old.map(|one| one.batch.id).take(rows_max as usize).collect();
        for id in &old {
            state.linked.batches.remove(id);
        }
        Ok(old.len() as u64)
    }
}

fn cancelled(job: WaitingJob, now: Timestamp) -> FinishedJob {
    let state = FinishedState::Cancelled { cause: CancelCause::Requested };
    FinishedJob { facts: job.facts, state, finished_at: now, progress: None }
}

impl State {
    fn mark(&mut self, id: JobId) {
        if let Some(job) = self.waiting.get_mut(&id) {
            job.facts.linked = true;
        }
        if let Some(job) = self.running.get_mut(&id) {
            job.facts.linked = true;
        }
    }

    /// Writes a job that has ended and tells whoever waits for it.
    pub(super) fn finish(&mut self, rules: &KindCatalog, mut job: FinishedJob, now: Timestamp) {
        let (id, linked) = (job.facts.id, job.facts.linked);
        job.facts.linked = false;
        self.linked.links.retain(|(_, child), _| *child != id);
        self.finish_job(rules, &job);
        if !linked {
            return;
        }
        if let FinishedState::Cancelled { cause: CancelCause::Folded { into } } = job.state {
            self.hand_over(id, into);
            return;
        }
        let ended = Job::Finished(Box::new(job)).state(now);
        let children: Vec<(JobId, OnFailure)> = self
            .linked
            .links
            .iter()
            .filter(|((parent, _), _)| *parent == id)
            .map(|((_, child), policy)| (*child, *policy))
            .collect();
        let mut gone = Vec::new();
        for (child, policy) in children {
            let held = self.waiting.get(&child).filter(|job| job.not_before == Some(HELD_UNTIL));
            let held = held.cloned();
            match policy.after(ended) {
                LinkEnd::Stays => {}
                LinkEnd::Satisfied => {
                    self.linked.links.remove(&(id, child));
                    let waits = self.linked.links.keys().any(|(_, other)| *other == child);
                    if let Some(job) = held.filter(|_| !waits) {
                        self.waiting.insert(child, WaitingJob { not_before: None, ..job });
                    }
                }
                LinkEnd::Cancelled => {
                    self.linked.links.remove(&(id, child));
                    if let Some(job) = held {
                        self.waiting.remove(&child);
                        gone.push(cancelled(job, now));
                    }
                }
            }
        }
        self.leave_batches(rules, id, ended, now);
        for job in gone {
            self.finish(rules, job, now);
        }
    }

    fn leave_batches(&mut self, rules: &KindCatalog, id: JobId, ended: JobState, now: Timestamp) {
        let mut calls = Vec::new();
        for members in self.linked.batches.values_mut() {
            match members.jobs.get_mut(&id) {
                Some(state) if state.is_none() => *state = Some(ended),
                _ => continue,
            }
            if members.jobs.values().all(Option::is_some) {
                members.batch.finished_at = Some(now);
                calls.push((members.batch.id, members.callback.clone()));
            }
        }
        for (batch, callback) in calls {
            let Some(wish) = callback else { continue };
            let called = self.enqueue(rules, NewJob { run_at: now, ..wish }, now);
            let members = self.linked.batches.get_mut(&batch).expect("it just ended");
            members.batch.callback = Some(called.id);
        }
    }

    fn hand_over(&mut self, id: JobId, into: JobId) {
        let links: Vec<_> =
            self.linked.links.keys().filter(|(one, _)| *one == id).copied().collect();
        for (parent, child) in links {
            let policy = self.linked.links.remove(&(parent, child)).expect("it was just found");
            self.linked.links.entry((into, child)).or_insert(policy);
        }
        for members in self.linked.batches.values_mut() {
            if members.jobs.get(&id) == Some(&None) {
                members.jobs.remove(&id);
                members.jobs.entry(into).or_insert(None);
                members.batch.total = members.jobs.len() as u64;
            }
        }
        self.mark(into);
    }

    /// A job that was over waits again.
    pub(super) fn rejoin(&mut self, id: JobId) {
        let mut linked = self.linked.links.keys().any(|(parent, _)| *parent == id);
        for members in self.linked.batches.values_mut() {
            if members.batch.finished_at.is_none()
                && let Some(state) = members.jobs.get_mut(&id)
            {
                *state = None;
                linked = true;
            }
        }
        if linked {
            self.mark(id);
        }
    }
}
