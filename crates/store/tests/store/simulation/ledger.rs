//! What must be true of every job, kept from the answers alone: the invariants of the simulation.
//!
//! The ledger knows who holds which lease until when, how many attempts are used, which key waits
//! and which runs. It never asks the store; the store's answers are held against it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    FinishedState, Job, JobId, JobState, LeaseNo, LeaseRef, Outcome, RetryPolicy, RunningJob,
    Settled,
};
use roundsman_core::ports::{CancelAnswer, Enqueued, HeartbeatAnswer, RetryAnswer};

use super::rules::{
    ATTEMPTS, BACKOFF, ENDS, FENCE, NO_LOST_TRIGGER, ONE_LEASE, ONE_PER_KEY, ONE_RESULT, ONE_STATE,
    hold,
};

/// A (user, kind, key), numbered by the world.
pub(super) type Slot = usize;
pub(super) type Held = Result<(), String>;

#[derive(Default)]
pub(super) struct Ledger {
    jobs: BTreeMap<JobId, Entry>,
    waiting: BTreeMap<Slot, JobId>,
    running: BTreeMap<Slot, JobId>,
    /// Every job that somebody holds, with or without a key.
    held: BTreeSet<JobId>,
    /// Keys whose latest trigger has not been followed by a claim.
    triggered: BTreeMap<Slot, u64>,
    triggers: u64,
    last_lease: Option<LeaseNo>,
    pub(super) folded: u64,
}

struct Entry {
    slot: Option<Slot>,
    attempt: u32,
    max_attempts: Option<u32>,
    run_at: Timestamp,
    not_before: Option<Timestamp>,
    cancel_requested: bool,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Waiting,
    Running { lease_no: LeaseNo, until: Timestamp, deadline_at: Option<Timestamp> },
    Ended { state: JobState, at: Timestamp, result: Option<LeaseNo> },
}

impl Ledger {
    pub(super) fn enqueued(
        &mut self,
        slot: Option<Slot>,
        (run_at, max_attempts): (Timestamp, Option<u32>),
        answer: Enqueued,
    ) -> Held {
        self.triggers += 1;
        if let Some(slot) = slot {
            self.triggered.insert(slot, self.triggers);
        }
        let waits = slot.and_then(|slot| self.waiting.get(&slot)).copied();
        if answer.coalesced {
            hold!(
                NO_LOST_TRIGGER,
                waits == Some(answer.id),
                "{answer:?} joined what does not wait"
            );
            let entry = self.entry(answer.id)?;
            entry.run_at = entry.run_at.min(run_at);
            return Ok(());
        }
        hold!(ONE_PER_KEY, waits.is_none(), "{answer:?} beside {waits:?}");
        let entry = Entry {
            slot,
            attempt: 0,
            max_attempts,
            run_at,
            not_before: None,
            cancel_requested: false,
            place: Place::Waiting,
        };
        let unknown = self.jobs.insert(answer.id, entry).is_none();
        hold!(ONE_STATE, unknown, "{answer:?} was given before");
        if let Some(slot) = slot {
            self.waiting.insert(slot, answer.id);
        }
        Ok(())
    }

    pub(super) fn claimed(&mut self, job: &RunningJob, now: Timestamp) -> Held {
        let lease_no = job.lease.lease_no;
        hold!(ONE_LEASE, Some(lease_no) > self.last_lease, "{lease_no:?} did not grow");
        self.last_lease = Some(lease_no);
        let entry = self.entry(job.facts.id)?;
        let (id, slot, place) = (job.facts.id, entry.slot, entry.place);
        hold!(ONE_LEASE, place == Place::Waiting, "job {id} was claimed while {place:?}");
        let due_at = entry.not_before.map_or(entry.run_at, |limit| entry.run_at.max(limit));
        hold!(BACKOFF, due_at <= now, "job {id} was claimed before {due_at}");
        entry.attempt += 1;
        let (attempt, max_attempts) = (entry.attempt, entry.max_attempts);
        let claimed = job.facts.attempt;
        hold!(ATTEMPTS, claimed == attempt, "job {id}: {claimed}, expected {attempt}");
        let allowed = max_attempts.is_none_or(|max| attempt <= max);
        hold!(ATTEMPTS, allowed, "job {id}: attempt {attempt} of {max_attempts:?}");
        let (until, deadline_at) = (job.lease.until, job.lease.deadline_at);
        entry.place = Place::Running { lease_no, until, deadline_at };
        entry.cancel_requested = false;
        self.held.insert(id);
        if let Some(slot) = slot {
            self.waiting.remove(&slot);
            self.triggered.remove(&slot);
            let other = self.running.insert(slot, id);
            hold!(ONE_PER_KEY, other.is_none(), "job {id} was claimed while {other:?} runs");
        }
        Ok(())
    }

    pub(super) fn heartbeat(
        &mut self,
        lease: LeaseRef,
        until_expected: Timestamp,
        answer: HeartbeatAnswer,
    ) -> Held {
        let held = self.holds(lease);
        match answer {
            HeartbeatAnswer::LeaseLost => {
                hold!(FENCE, !held, "the heartbeat of the holder {lease:?} was refused");
            }
            HeartbeatAnswer::Extended { until, cancel_requested } => {
                hold!(FENCE, held, "the heartbeat of the zombie {lease:?} was taken");
                hold!(FENCE, until == until_expected, "{lease:?} until {until}");
                let entry = self.entry(lease.id)?;
                let told = entry.cancel_requested == cancel_requested;
                hold!(FENCE, told, "{lease:?} was not told of the cancel");
                if let Place::Running { until, .. } = &mut entry.place {
                    *until = until_expected;
                }
            }
        }
        Ok(())
    }

    pub(super) fn guarded(&self, lease: LeaseRef, written: bool) -> Held {
        hold!(FENCE, written == self.holds(lease), "a guarded write of {lease:?}: {written}");
        Ok(())
    }

    pub(super) fn settled(
        &mut self,
        lease: LeaseRef,
        outcome: &Outcome,
        (retry, jitter): (RetryPolicy, u64),
        answer: Settled,
        now: Timestamp,
    ) -> Held {
        let held = self.holds(lease);
        let Settled::Landed { state } = answer else {
            hold!(FENCE, !held, "{outcome:?} of the holder {lease:?} was refused");
            return Ok(());
        };
        hold!(FENCE, held, "{outcome:?} of the zombie {lease:?} landed");
        let entry = self.stopped(lease.id)?;
        let cancelled = entry.cancel_requested;
        let used_up = entry.max_attempts.is_some_and(|max| entry.attempt >= max);
        let expected = match outcome {
            Outcome::Done { .. } => self.end(lease, JobState::Completed, now)?,
            Outcome::Fail { .. } => self.end(lease, JobState::Failed, now)?,
            Outcome::Cancelled => self.end(lease, JobState::Cancelled, now)?,
            _ if cancelled => self.end(lease, JobState::Cancelled, now)?,
            Outcome::Retry { .. } if used_up => self.end(lease, JobState::Failed, now)?,
            Outcome::Retry { after, .. } => {
                let wait = after.unwrap_or_else(|| retry.wait(entry.attempt, jitter));
                self.wait_again(lease.id, now + wait, Some(now + wait), now)?
            }
            Outcome::Release => {
                entry.attempt -= 1;
                let run_at = entry.run_at;
                self.wait_again(lease.id, run_at, None, now)?
            }
            Outcome::Again { at, .. } => {
                entry.attempt = 0;
                match self.wait_again(lease.id, *at, None, now)? {
                    JobState::Cancelled => self.end(lease, JobState::Completed, now)?,
                    state => state,
                }
            }
        };
        hold!(ONE_STATE, state == expected, "{outcome:?} left {state:?}, expected {expected:?}");
        Ok(())
    }

    /// The jobs that a sweep has to take now.
    pub(super) fn overdue(&self, now: Timestamp) -> Vec<JobId> {
        let late = |entry: &Entry| match entry.place {
            Place::Running { until, deadline_at, .. } => {
                until < now || deadline_at.is_some_and(|deadline| deadline < now)
            }
            _ => false,
        };
        self.held.iter().copied().filter(|id| late(&self.jobs[id])).collect()
    }

    /// A sweep took a job; returns the state it must be in.
    pub(super) fn rescued(
        &mut self,
        id: JobId,
        (retry, jitter): (RetryPolicy, u64),
        now: Timestamp,
    ) -> Result<(JobState, LeaseRef), String> {
        let entry = self.entry(id)?;
        let Place::Running { lease_no, until, .. } = entry.place else {
            return Err(format!("{FENCE}: job {id} was rescued while {:?}", entry.place));
        };
        let lease = LeaseRef { id, lease_no };
        let entry = self.stopped(id)?;
        let attempt = entry.attempt;
        let wait = match (until < now, entry.max_attempts) {
            (true, Some(_)) => Duration::ZERO,
            (true, None) => retry.wait(attempt.saturating_sub(1), jitter),
            (false, _) => retry.wait(attempt, jitter),
        };
        let used_up = entry.max_attempts.is_some_and(|max| attempt >= max);
        let state = if entry.cancel_requested {
            self.end(lease, JobState::Cancelled, now)?
        } else if used_up {
            self.end(lease, JobState::Failed, now)?
        } else {
            self.wait_again(id, now + wait, Some(now + wait), now)?
        };
        Ok((state, lease))
    }

    pub(super) fn cancelled(&mut self, id: JobId, answer: CancelAnswer, now: Timestamp) -> Held {
        let entry = self.entry(id)?;
        let place = entry.place;
        let expected = match place {
            Place::Waiting => CancelAnswer::Cancelled,
            Place::Running { .. } => CancelAnswer::Requested,
            Place::Ended { state, .. } => CancelAnswer::Finished(state),
        };
        hold!(ONE_STATE, answer == expected, "cancel of {place:?} {id}: {answer:?}");
        match place {
            Place::Waiting => {
                let state = JobState::Cancelled;
                entry.place = Place::Ended { state, at: now, result: None };
                if let Some(slot) = entry.slot {
                    self.waiting.remove(&slot);
                    self.triggered.remove(&slot);
                }
            }
            Place::Running { .. } => entry.cancel_requested = true,
            Place::Ended { .. } => {}
        }
        Ok(())
    }

    pub(super) fn retried(&mut self, id: JobId, answer: RetryAnswer, now: Timestamp) -> Held {
        let entry = self.jobs.get(&id).ok_or_else(|| format!("{ONE_STATE}: {id} is unknown"))?;
        let (place, slot) = (entry.place, entry.slot);
        let waits = slot.and_then(|slot| self.waiting.get(&slot)).copied();
        let expected = match (place, waits) {
            (Place::Running { .. }, _) => RetryAnswer::Running,
            (Place::Ended { .. }, Some(by)) => RetryAnswer::KeyTaken { by },
            _ => RetryAnswer::Requeued,
        };
        hold!(ONE_STATE, answer == expected, "retry of {place:?} {id}: {answer:?}");
        if answer != RetryAnswer::Requeued {
            return Ok(());
        }
        let entry = self.entry(id)?;
        if entry.place == Place::Waiting {
            entry.run_at = entry.run_at.min(now);
        } else {
            entry.attempt = 0;
            entry.run_at = now;
            entry.place = Place::Waiting;
        }
        entry.not_before = None;
        if let Some(slot) = slot {
            self.waiting.insert(slot, id);
        }
        Ok(())
    }

    /// Holds everything that can be seen in the store against the ledger.
    pub(super) fn audit(&self, jobs: &[(Job, Option<Slot>)]) -> Held {
        let mut waiting: BTreeMap<Slot, JobId> = BTreeMap::new();
        for (job, slot) in jobs {
            let facts = job.facts();
            let Some(entry) = self.jobs.get(&facts.id) else {
                return Err(format!("{ONE_STATE}: nobody asked for {job:?}"));
            };
            audit_one(job, entry)?;
            if let (Some(slot), Job::Waiting(_)) = (slot, job) {
                let other = waiting.insert(*slot, facts.id);
                hold!(ONE_PER_KEY, other.is_none(), "{} and {other:?} wait", facts.id);
            }
        }
        let (found, known) = (jobs.len(), self.jobs.len());
        hold!(ONE_STATE, found == known, "{found} jobs are there, {known} were acknowledged");
        for slot in self.triggered.keys() {
            let waits = waiting.contains_key(slot);
            hold!(NO_LOST_TRIGGER, waits, "key {slot} was triggered and does not wait");
        }
        Ok(())
    }

    /// Forgets what ended before `limit`; returns how many jobs that were.
    pub(super) fn forget_before(&mut self, limit: Timestamp) -> usize {
        let before = self.jobs.len();
        self.jobs.retain(|_, entry| !matches!(entry.place, Place::Ended { at, .. } if at < limit));
        before - self.jobs.len()
    }

    pub(super) fn all_ended(&self) -> Held {
        for (id, entry) in &self.jobs {
            let ended = matches!(entry.place, Place::Ended { .. });
            hold!(ENDS, ended, "job {id} is still {:?}", entry.place);
        }
        Ok(())
    }

    /// Some job that is still known, for people to choose.
    pub(super) fn nth_job(&self, number: u64) -> Option<JobId> {
        let count = self.jobs.len() as u64;
        let place = usize::try_from(number.checked_rem(count)?).ok()?;
        self.jobs.keys().nth(place).copied()
    }

    fn holds(&self, lease: LeaseRef) -> bool {
        self.jobs.get(&lease.id).is_some_and(|entry| {
            matches!(entry.place, Place::Running { lease_no, .. } if lease_no == lease.lease_no)
        })
    }

    fn entry(&mut self, id: JobId) -> Result<&mut Entry, String> {
        self.jobs.get_mut(&id).ok_or_else(|| format!("{ONE_STATE}: job {id} is unknown"))
    }

    /// The job of a run that is over; its key runs no more.
    fn stopped(&mut self, id: JobId) -> Result<&mut Entry, String> {
        self.held.remove(&id);
        if let Some(slot) = self.entry(id)?.slot {
            self.running.remove(&slot);
        }
        self.entry(id)
    }

    fn end(
        &mut self,
        lease: LeaseRef,
        state: JobState,
        now: Timestamp,
    ) -> Result<JobState, String> {
        let entry = self.entry(lease.id)?;
        let by_holder = matches!(entry.place, Place::Running { .. });
        let result = (state == JobState::Completed && by_holder).then_some(lease.lease_no);
        entry.place = Place::Ended { state, at: now, result };
        Ok(state)
    }

    /// The job waits again, or goes on in the one that has its key.
    fn wait_again(
        &mut self,
        id: JobId,
        run_at: Timestamp,
        not_before: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<JobState, String> {
        let entry = self.entry(id)?;
        let (slot, attempt) = (entry.slot, entry.attempt);
        let survivor = slot.and_then(|slot| self.waiting.get(&slot)).copied();
        let entry = self.entry(id)?;
        let Some(survivor) = survivor else {
            entry.place = Place::Waiting;
            entry.run_at = run_at;
            entry.not_before = not_before;
            if let Some(slot) = slot {
                self.waiting.insert(slot, id);
            }
            let due_at = not_before.map_or(run_at, |limit| run_at.max(limit));
            return Ok(if due_at > now { JobState::Scheduled } else { JobState::Pending });
        };
        let state = JobState::Cancelled;
        entry.place = Place::Ended { state, at: now, result: None };
        self.folded += 1;
        let survivor = self.entry(survivor)?;
        let attempt_max = survivor.max_attempts.map_or(u32::MAX, |max| max - 1);
        survivor.attempt = survivor.attempt.max(attempt).min(attempt_max);
        survivor.run_at = survivor.run_at.min(run_at);
        survivor.not_before = survivor.not_before.max(not_before);
        Ok(state)
    }
}

/// Holds one job of the store against its entry.
fn audit_one(job: &Job, entry: &Entry) -> Held {
    let (id, facts) = (job.facts().id, job.facts());
    let agrees = match (job, entry.place) {
        (Job::Waiting(_), Place::Waiting) => true,
        (Job::Running(job), Place::Running { lease_no, until, .. }) => {
            (job.lease.lease_no, job.lease.until) == (lease_no, until)
        }
        (Job::Finished(job), Place::Ended { state, result, .. }) => {
            if let FinishedState::Completed { result: found } = &job.state {
                // Whoever completes a job writes its lease as the result.
                let by = result.map_or_else(|| "null".to_owned(), |by| by.get().to_string());
                hold!(ONE_RESULT, found.as_str() == by, "job {id}: {found:?}, by {by}");
            }
            Job::Finished(job.clone()).state(Timestamp::EPOCH) == state
        }
        _ => false,
    };
    hold!(ONE_STATE, agrees, "job {id} is {job:?}, expected {:?}", entry.place);
    let (found, expected) = (facts.attempt, entry.attempt);
    let counted = found == expected || matches!(entry.place, Place::Ended { .. });
    hold!(ATTEMPTS, counted, "job {id}: {found}, expected {expected}");
    facts.runs.check().map_err(|problem| format!("{ONE_LEASE}: job {id} {problem}"))
}
