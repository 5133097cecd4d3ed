//! The meaning of the storage ports in its plainest form: maps behind one lock, moved by the rules
//! of `roundsman_core`. The adapters are compared with it; it passes the same suite as they do.

mod audits;
mod batches;
mod bots;
mod bulk;
mod documents;
mod gates;
mod heard;
mod jobs;
mod meetings;
mod others;
mod presence;
mod recordings;
mod schedules;
mod speech;
mod tasks;
mod tell;
mod transcripts;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use roundsman_core::Timestamp;
use roundsman_core::bots::{Bot, Meeting, MeetingId};
use roundsman_core::effects::{Effects, Frame, LoggedTransition};
use roundsman_core::jobs::{
    BatchId, Bucket, BucketName, FinishedJob, Gate, GateName, Job, JobFacts, JobId, JobKey,
    KindCatalog, KindName, LeaseRef, NewJob, RunningJob, Schedule, ScheduleId, WaitingJob,
    coalesce, first_wait, fold,
};
use roundsman_core::ports::{Enqueued, Scope};
use roundsman_core::tasks::{Task, TaskId};
use roundsman_core::users::{ApiToken, User, UserId};
use roundsman_core::webhooks::{Delivery, DeliveryState, StoredEvent};

use self::audits::Audited;
use self::batches::Linked;
use self::documents::Documents;
use self::presence::Rooms;
use self::recordings::Recorded;
use self::speech::Speech;
use self::webhooks::EndpointRow;

pub(crate) use self::meetings::ReferenceDoor;

pub(crate) struct Reference {
    rules: Arc<KindCatalog>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last_job: i64,
    last_lease: i64,
    last_process: i64,
    waiting: BTreeMap<JobId, WaitingJob>,
    running: BTreeMap<JobId, RunningJob>,
    finished: BTreeMap<JobId, FinishedJob>,
    schedules: BTreeMap<ScheduleId, Schedule>,
    last_schedule: i64,
    linked: Linked,
    gates: BTreeMap<GateName, Gate>,
    buckets: BTreeMap<BucketName, Bucket>,
    idempotency: BTreeMap<(UserId, &'static str, String), Remembered>,
    frames: Vec<Frame>,
    last_seq: BTreeMap<String, i64>,
    transitions: Vec<LoggedTransition>,
    last_event: i64,
    webhooks: Vec<StoredEvent>,
    deliveries: Vec<(i64, Delivery)>,
    endpoints: BTreeMap<UserId, EndpointRow>,
    users: Vec<User>,
    tokens: Vec<ApiToken>,
    meetings: BTreeMap<MeetingId, Meeting>,
    bots: BTreeMap<MeetingId, Bot>,
    sessions: Vec<(MeetingId, String, Timestamp)>,
    rooms: Rooms,
    documents: Documents,
    recorded: Recorded,
    audited: Audited,
    speech: Speech,
    tasks: BTreeMap<TaskId, Task>,
    last_task: i64,
    keys: BTreeMap<&'static str, Vec<u8>>,
}

/// What an idempotency key stands for.
struct Remembered {
    body_hash: [u8; 32],
    answer: Vec<Enqueued>,
    batch: Option<BatchId>,
    created_at: Timestamp,
}

impl Reference {
    pub(crate) fn new(rules: Arc<KindCatalog>) -> Self {
        Reference { rules, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enqueue(&mut self, rules: &KindCatalog, wish: NewJob, now: Timestamp) -> Enqueued {
        self.note_tenant(&wish);
        if let Some(id) = self.waiting_with_key(wish.user_id, &wish.kind, wish.key.as_ref()) {
            let merge = rules.merge(&wish.kind);
            let waiting = self.waiting.get_mut(&id).expect("whoever has a key here waits");
            coalesce(waiting, wish, merge, now);
            return Enqueued { id, coalesced: true };
        }
        self.last_job += 1;
        let id = JobId::new(self.last_job);
        self.waiting.insert(id, first_wait(id, wish, now));
        Enqueued { id, coalesced: false }
    }

    /// Puts a job back among the waiting ones, folding it into the one that has its key.
    fn requeue(&mut self, rules: &KindCatalog, job: WaitingJob, now: Timestamp) -> Job {
        let facts = &job.facts;
        let Some(id) = self.waiting_with_key(facts.user_id, &facts.kind, facts.key.as_ref()) else {
            self.waiting.insert(job.facts.id, job.clone());
            return Job::Waiting(job);
        };
        let merge = rules.merge(&facts.kind);
        let folded = fold(self.waiting[&id].clone(), job, merge, now);
        self.waiting.insert(id, folded.survivor);
        self.finish(rules, folded.ended.clone(), now);
        Job::Finished(Box::new(folded.ended))
    }

    fn waiting_with_key(
        &self,
        user: UserId,
        kind: &KindName,
        key: Option<&JobKey>,
    ) -> Option<JobId> {
        let key = Some(key?);
        let same = |facts: &JobFacts| {
            facts.user_id == user && facts.kind == *kind && facts.key.as_ref() == key
        };
        self.waiting.values().find(|job| same(&job.facts)).map(|job| job.facts.id)
    }

    fn holds(&self, lease: LeaseRef) -> bool {
        self.running.get(&lease.id).is_some_and(|job| job.lease_ref() == lease)
    }

    fn apply(&mut self, rules: &KindCatalog, effects: Effects, now: Timestamp) -> Vec<Frame> {
        let mut placed = Vec::new();
        for wish in effects.jobs {
            self.enqueue(rules, wish, now);
        }
        for frame in effects.frames {
            let last = self.last_seq.entry(frame.stream.clone()).or_default();
            *last += 1;
            let (stream, seq) = (frame.stream, *last);
            let frame = Frame { stream, seq, body: frame.body, at: now };
            self.frames.push(frame.clone());
            placed.push(frame);
        }
        for step in effects.transitions {
            self.transitions.push(LoggedTransition {
                id: next_id(self.transitions.len()),
                entity: step.entity.to_owned(),
                entity_id: step.entity_id,
                from_state: step.from_state,
                to_state: step.to_state,
                cause: step.cause,
                detail: step.detail,
                at: now,
            });
        }
        for event in effects.webhooks {
            // An id names one event: who tells it again tells nothing new.
            if self.webhooks.iter().any(|known| known.event.event_id == event.event_id) {
                continue;
            }
            self.last_event += 1;
            self.webhooks.push(StoredEvent {
                id: self.last_event,
                event,
                created_at: now,
                state: DeliveryState::Pending,
                attempts: 0,
                since: now,
            });
        }
        for result in effects.audits {
            self.audited.found(result);
        }
        placed
    }

    fn job(&self, scope: Scope, id: JobId) -> Option<Job> {
        let waiting = self.waiting.get(&id).map(|job| Job::Waiting(job.clone()));
        let running = || self.running.get(&id).map(|job| Job::Running(Box::new(job.clone())));
        let finished = || self.finished.get(&id).map(|job| Job::Finished(Box::new(job.clone())));
        let job = waiting.or_else(running).or_else(finished)?;
        sees(scope, job.facts().user_id).then_some(job)
    }
}

fn sees(scope: Scope, owner: UserId) -> bool {
    match scope {
        Scope::All => true,
        Scope::User(user) => user == owner,
    }
}

/// The number after so many.
fn next_id(count: usize) -> i64 {
    i64::try_from(count).expect("a test writes few rows") + 1
}
