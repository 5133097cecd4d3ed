//! One store under comparison. Its numbers are translated into places of appearance, because a
//! database may skip numbers: what two stores answer and hold is then the same or a bug.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::effects::{Effects, Frame, NewFrame, WebhookEvent};
use roundsman_core::jobs::{
    BatchId, CancelCause, FinishedState, Job, JobError, JobFacts, JobId, Lane, LeaseNo, LeaseOwner,
    LeaseRef, NewJob, Outcome, RunningJob, ScheduleId, Settle, Tenant, WorkerName,
};
use roundsman_core::ports::{
    CancelAnswer, ClaimAnswer, ClaimRequest, EnqueueAnswer, EnqueueRequest, Heartbeat,
    IdempotencyKey, KindDepth, LaneDemand, ListFilter, ListPage, PruneRequest, RetryAnswer, Scope,
    Store, StoreError, SweepRequest,
};
use roundsman_core::users::UserId;
use roundsman_store::conformance::{ADA, BOB, COLLECT, RENDER, SHARED, json, key, kind};

use super::ops::{After, End, Op, Pick, Place, Wish};
use super::orders::VisibleOrders;

const STREAM: &str = "stream";

pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) store: Arc<dyn Store>,
    /// The place of every job that ever appeared.
    pub(super) places: BTreeMap<JobId, JobId>,
    ids: Vec<JobId>,
    pub(super) batches: Vec<BatchId>,
    pub(super) schedules: Vec<ScheduleId>,
    /// Kinds ask for more than being run. Then lanes are claimed and runs are ended one at a time: who
    /// goes first among several is not promised.
    pub(super) ordered: bool,
    /// The place of every claim.
    claims: BTreeMap<LeaseNo, LeaseNo>,
    leases: Vec<LeaseRef>,
    /// The mark of the one process that works inside.
    inside: LeaseOwner,
    _keep: Box<dyn Any>,
}

/// Everything that can be seen in a store, by places.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Visible {
    jobs: Vec<Job>,
    running: Vec<RunningJob>,
    depths: Vec<KindDepth>,
    frames: Vec<Frame>,
    webhooks: Vec<WebhookEvent>,
    orders: VisibleOrders,
}

impl Subject {
    pub(super) async fn new(name: &'static str, store: Arc<dyn Store>, keep: impl Any) -> Self {
        let start = store.begin_process(0, Timestamp::EPOCH).await.expect("a process may begin");
        Subject {
            inside: start.owner,
            name,
            store,
            places: BTreeMap::new(),
            ids: Vec::new(),
            batches: Vec::new(),
            schedules: Vec::new(),
            ordered: false,
            claims: BTreeMap::new(),
            leases: Vec::new(),
            _keep: Box::new(keep),
        }
    }

    /// Does what `op` says and tells what was answered, by places.
    pub(super) async fn perform(&mut self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        match op {
            Op::Advance { .. } => Ok(String::new()),
            Op::Enqueue { wishes, idempotency } => self.enqueue(wishes, *idempotency, now).await,
            Op::Claim { inside, lanes, total_max, deadline } => {
                self.claim(*inside, lanes, *total_max, *deadline, now).await
            }
            Op::Heartbeat { beats } => {
                let beats = beats.iter().map(|(pick, ttl_secs, progress)| Heartbeat {
                    lease: self.lease(*pick),
                    ttl: ttl_secs.map(Duration::from_secs),
                    progress: progress.then(|| json(&pick.to_string())),
                });
                Ok(format!("{:?}", self.store.heartbeat(distinct(beats), now).await?))
            }
            Op::Settle { ends, jitter } => self.settle(ends, *jitter, now).await,
            Op::Sweep { after_outage, jitter } => {
                let request = SweepRequest {
                    rows_max: 10_000,
                    serving_since: if *after_outage { now } else { Timestamp::EPOCH },
                    jitter: *jitter,
                };
                let mut rescued = self.store.sweep(request, now).await?.rescued;
                rescued.sort();
                Ok(format!("{rescued:?}"))
            }
            Op::Cancel { by, job } => {
                let answer: CancelAnswer =
                    self.store.cancel(scope(*by), self.id(*job), now).await?;
                Ok(format!("{answer:?}"))
            }
            Op::Retry { by, job } => {
                let answer = self.store.retry(scope(*by), self.id(*job), now).await?;
                Ok(match answer {
                    RetryAnswer::KeyTaken { by } => format!("taken by {}", self.places[&by]),
                    other => format!("{other:?}"),
                })
            }
            Op::Commit { guard, after } => {
                let guard = guard.map(|pick| self.lease(pick));
                let answer = self.store.commit(guard, effects(after, now), now).await?;
                self.discover(now).await?;
                Ok(format!("{answer}"))
            }
            Op::Prune { older_than_secs } => {
                let limit = now - Duration::from_secs(*older_than_secs);
                let request = PruneRequest {
                    buckets_before: Timestamp::EPOCH,
                    completed_before: limit,
                    failed_before: limit,
                    cancelled_before: limit,
                    idempotency_before: limit,
                    frames_before: limit,
                    rows_max: 10_000,
                };
                let batches = self.store.prune_batches(limit, 10_000).await?;
                Ok(format!("{:?} {batches}", self.store.prune(request).await?))
            }
            Op::Order(order) => self.obey(order, now).await,
        }
    }

    async fn settle(
        &mut self,
        ends: &[(Pick, End, After)],
        jitter: u64,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let settles = ends.iter().map(|(pick, end, after)| Settle {
            lease: self.lease(*pick),
            outcome: outcome(end, now),
            effects: effects(after, now),
        });
        let settles: Vec<Settle> = settles.collect();
        let size = if self.ordered { 1 } else { settles.len() };
        let mut answer = Vec::new();
        for few in settles.chunks(size) {
            answer.extend(self.store.settle(few.to_vec(), jitter, now).await?);
        }
        self.discover(now).await?;
        Ok(format!("{answer:?}"))
    }

    /// Everything there is, by places.
    pub(super) async fn look(&mut self, now: Timestamp) -> Result<Visible, StoreError> {
        self.discover(now).await?;
        let jobs = self.all_jobs(now).await?;
        let page = ListPage { before: None, rows_max: 10_000 };
        let running = self.store.leases(Scope::All, page).await?;
        let mut depths = self.store.depths(now).await?;
        depths.sort_by(|a, b| a.kind.cmp(&b.kind));
        let webhooks = self.store.webhook_events(0, 10_000).await?;
        Ok(Visible {
            jobs: jobs.into_iter().map(|job| self.placed(job)).collect(),
            running: running.into_iter().map(|job| self.placed_running(job)).collect(),
            depths,
            frames: self.store.frames(STREAM.to_owned(), 0, 10_000).await?,
            webhooks: webhooks.into_iter().map(|(_, event)| event).collect(),
            orders: self.look_at_orders(now).await?,
        })
    }

    async fn enqueue(
        &mut self,
        wishes: &[Wish],
        idempotency: Option<(u8, u8)>,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let request = EnqueueRequest {
            jobs: wishes.iter().map(|wish| new_job(wish, now)).collect(),
            idempotency: idempotency.map(|(name, body)| IdempotencyKey {
                user_id: ADA,
                route: "jobs",
                key: name.to_string(),
                body_hash: [body; 32],
            }),
        };
        let answer = self.store.enqueue(request, now).await?;
        self.discover(now).await?;
        let (how, jobs) = match answer {
            EnqueueAnswer::Stored(jobs) => ("stored", jobs),
            EnqueueAnswer::Replayed(jobs) => ("replayed", jobs),
            EnqueueAnswer::KeyReused => ("reused", vec![]),
        };
        let jobs: Vec<_> = jobs.iter().map(|one| (self.places[&one.id], one.coalesced)).collect();
        Ok(format!("{how} {jobs:?}"))
    }

    async fn claim(
        &mut self,
        inside: bool,
        lanes: &[(Place, u32)],
        total_max: u32,
        deadline: bool,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let demands = lanes.iter().map(|(place, max)| LaneDemand {
            lane: Lane::of(user(place.user), &kind(kind_name(*place))),
            max: *max,
            lease_ttl: Duration::from_secs(60),
            deadline: deadline.then_some(Duration::from_secs(100)),
        });
        let demands: Vec<LaneDemand> = demands.collect();
        let owner = if inside { self.inside } else { LeaseOwner::Outside };
        let size = if self.ordered { 1 } else { demands.len().max(1) };
        let (mut jobs, mut next_due_at) = (Vec::new(), None);
        for few in demands.chunks(size) {
            let left = total_max.saturating_sub(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
            let answer = self.claim_some(few.to_vec(), left, owner, now).await?;
            jobs.extend(answer.jobs);
            next_due_at = [next_due_at, answer.next_due_at].into_iter().flatten().min();
        }
        let jobs: Vec<_> = jobs.into_iter().map(|job| self.placed_running(job)).collect();
        Ok(format!("{jobs:?} next {next_due_at:?}"))
    }

    pub(super) async fn claim_lane(
        &mut self,
        lane: Lane,
        max: u32,
        owner: LeaseOwner,
        now: Timestamp,
    ) -> Result<Vec<RunningJob>, StoreError> {
        let demand = LaneDemand { lane, max, lease_ttl: Duration::from_secs(60), deadline: None };
        Ok(self.claim_some(vec![demand], max, owner, now).await?.jobs)
    }

    async fn claim_some(
        &mut self,
        demands: Vec<LaneDemand>,
        total_max: u32,
        owner: LeaseOwner,
        now: Timestamp,
    ) -> Result<ClaimAnswer, StoreError> {
        let request = ClaimRequest { worker: WorkerName::new("w"), owner, demands, total_max };
        let answer = self.store.claim(request, now).await?;
        for job in &answer.jobs {
            let claim = LeaseNo::new(place(self.leases.len()));
            let first = self.claims.insert(job.lease.lease_no, claim).is_none();
            assert!(first, "{}: {:?} was handed out twice", self.name, job.lease.lease_no);
            self.leases.push(job.lease_ref());
        }
        Ok(answer)
    }

    /// Gives jobs that appeared with the last operation their place, in the order of their numbers.
    pub(super) async fn discover(&mut self, now: Timestamp) -> Result<(), StoreError> {
        for job in self.all_jobs(now).await?.iter().rev() {
            let id = job.facts().id;
            if !self.places.contains_key(&id) {
                self.places.insert(id, JobId::new(place(self.ids.len())));
                self.ids.push(id);
            }
        }
        Ok(())
    }

    pub(super) async fn all_jobs(&self, now: Timestamp) -> Result<Vec<Job>, StoreError> {
        let page = ListPage { before: None, rows_max: 10_000 };
        self.store.jobs(Scope::All, ListFilter::default(), page, now).await
    }

    pub(super) fn id(&self, pick: usize) -> JobId {
        let none = JobId::new(i64::MAX);
        pick.checked_rem(self.ids.len()).map_or(none, |place| self.ids[place])
    }

    /// The later a lease was taken, the likelier it still means something: most picks fall among
    /// the last few.
    fn lease(&self, pick: usize) -> LeaseRef {
        let none = LeaseRef { id: JobId::new(1), lease_no: LeaseNo::new(i64::MAX) };
        let recent =
            if pick.is_multiple_of(4) { self.leases.len() } else { self.leases.len().min(6) };
        let back = (pick / 4).checked_rem(recent);
        back.map_or(none, |back| self.leases[self.leases.len() - 1 - back])
    }

    fn placed(&self, job: Job) -> Job {
        match job {
            Job::Waiting(mut job) => {
                job.facts = self.placed_facts(job.facts);
                Job::Waiting(job)
            }
            Job::Running(job) => Job::Running(Box::new(self.placed_running(*job))),
            Job::Finished(mut job) => {
                job.facts = self.placed_facts(job.facts);
                if let FinishedState::Cancelled { cause: CancelCause::Folded { into } } =
                    &mut job.state
                {
                    *into = self.places[into];
                }
                Job::Finished(job)
            }
        }
    }

    fn placed_running(&self, mut job: RunningJob) -> RunningJob {
        job.lease.lease_no = self.claims[&job.lease.lease_no];
        if job.lease.owner == self.inside {
            job.lease.owner = LeaseOwner::Process(0);
        }
        job.facts = self.placed_facts(job.facts);
        job
    }

    fn placed_facts(&self, mut facts: JobFacts) -> JobFacts {
        facts.id = self.places[&facts.id];
        for run in &mut facts.runs.runs {
            run.lease_no = self.claims[&run.lease_no];
        }
        facts
    }
}

/// Each lease once: what two beats for one lease in one batch leave behind is not defined.
fn distinct(beats: impl Iterator<Item = Heartbeat>) -> Vec<Heartbeat> {
    let mut kept: Vec<Heartbeat> = Vec::new();
    for beat in beats {
        if kept.iter().all(|other| other.lease != beat.lease) {
            kept.push(beat);
        }
    }
    kept
}

pub(super) fn new_job(wish: &Wish, now: Timestamp) -> NewJob {
    NewJob {
        user_id: user(wish.place.user),
        kind: kind(kind_name(wish.place)),
        key: wish.key.map(|number| key(&format!("key {number}"))),
        payload: json(&format!("[{}]", wish.payload)),
        priority: wish.priority,
        run_at: shifted(now, wish.delay_secs),
        max_attempts: wish.max_attempts,
        tenant: wish
            .tenant
            .and_then(|number| Tenant::new(["acme", "b/c"][usize::from(number)]).ok()),
    }
}

fn outcome(end: &End, now: Timestamp) -> Outcome {
    let error = JobError::new("boom", "it broke");
    match end {
        End::Done => Outcome::Done { result: json("1") },
        End::Again { delay_secs, payload } => {
            Outcome::Again { at: shifted(now, *delay_secs), payload: payload.then(|| json("[99]")) }
        }
        End::Retry { after_secs } => {
            Outcome::Retry { error, after: after_secs.map(Duration::from_secs) }
        }
        End::Fail => Outcome::Fail { error },
        End::Cancelled => Outcome::Cancelled,
        End::Release => Outcome::Release,
    }
}

fn effects(after: &After, now: Timestamp) -> Effects {
    let frame = NewFrame { stream: STREAM.to_owned(), body: json("1") };
    let event = WebhookEvent {
        user_id: BOB,
        // The same event again within the same moment: it must be kept once.
        event_id: format!("evt_{}", now.as_micros()),
        event_type: "meeting.completed".to_owned(),
        body: json("2"),
    };
    Effects {
        jobs: after.job.iter().map(|wish| new_job(wish, now)).collect(),
        frames: vec![frame; usize::from(after.frames)],
        webhooks: after.webhook.then_some(event).into_iter().collect(),
        ..Effects::default()
    }
}

pub(super) fn scope(by: Option<u8>) -> Scope {
    by.map_or(Scope::All, |number| Scope::User(user(number)))
}

pub(super) fn user(number: u8) -> UserId {
    if number == 0 { ADA } else { BOB }
}

pub(super) fn kind_name(place: Place) -> &'static str {
    [RENDER, COLLECT, SHARED][usize::from(place.kind)]
}

fn shifted(now: Timestamp, secs: i64) -> Timestamp {
    let by = Duration::from_secs(secs.unsigned_abs());
    if secs < 0 { now - by } else { now + by }
}

fn place(count: usize) -> i64 {
    i64::try_from(count).expect("a test writes few rows")
}
