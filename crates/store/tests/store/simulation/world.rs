//! The world: actors with their next moments on one agenda, taken in the order of time.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use roundsman_core::Timestamp;
use roundsman_core::effects::{Effects, NewFrame};
use roundsman_core::jobs::{
    Job, JobFacts, JobState, Json, KindCatalog, Lane, LeaseOwner, LeaseRef, NewJob, RunOutcome,
    Settle, Settled, WorkerName, spread,
};
use roundsman_core::ports::{
    ClaimRequest, EffectStore, EnqueueAnswer, EnqueueRequest, Heartbeat, HeartbeatAnswer, JobStore,
    LaneDemand, ListFilter, ListPage, PruneRequest, Scope, StoreError, SweepRequest,
};
use roundsman_core::users::UserId;
use roundsman_store::conformance::{ADA, BOB, COLLECT, RENDER, SHARED, catalog, key, kind};
use roundsman_testkit::SeededRandom;

use super::ledger::{Held, Ledger, Slot};
use super::rules::{ATTEMPTS, FENCE, ONE_STATE, hold};
use super::runs::{DEADLINE, Fate, Run, TTL, draw_outcome};

const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
/// What guarded writes add to.
const STREAM: &str = "s";
const WORKERS: usize = 10;
const KEYS: u64 = 12;
const AUDIT_EVERY: Duration = Duration::from_secs(300);
const PRUNE_EVERY: Duration = Duration::from_secs(30);
const KEPT: Duration = Duration::from_secs(60);
/// With honest workers everything is over long before: three stalls and the longest backoff.
const REST: Duration = Duration::from_secs(3600);

pub(super) struct World {
    jobs: Arc<dyn JobStore>,
    effects: Arc<dyn EffectStore>,
    rules: Arc<KindCatalog>,
    random: SeededRandom,
    now: Timestamp,
    agenda: BTreeMap<(Timestamp, u64), Actor>,
    entries: u64,
    ledger: Ledger,
    summary: Summary,
    frames_written: i64,
    digest: DefaultHasher,
    /// The world comes to rest: nobody triggers, no worker fails.
    calm: bool,
}

/// What happened in a run, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) events: u64,
    pub(super) refused: u64,
    pub(super) rescued: u64,
    pub(super) folded: u64,
    pub(super) joined: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    /// Of every answer: two runs with the same one went the same way.
    pub(super) digest: u64,
}

#[derive(Debug, Clone)]
enum Actor {
    Producer,
    Worker,
    Run(Run),
    Sweeper,
    Person,
    Auditor,
    Pruner,
}

impl World {
    pub(super) fn new(jobs: Arc<dyn JobStore>, effects: Arc<dyn EffectStore>, seed: u64) -> Self {
        let mut world = World {
            jobs,
            effects,
            rules: catalog(),
            random: SeededRandom::new(seed),
            now: START,
            agenda: BTreeMap::new(),
            entries: 0,
            ledger: Ledger::default(),
            summary: Summary::default(),
            frames_written: 0,
            digest: DefaultHasher::new(),
            calm: false,
        };
        let workers = std::iter::repeat_n(Actor::Worker, WORKERS);
        let others = [Actor::Producer, Actor::Producer, Actor::Sweeper, Actor::Sweeper];
        for actor in workers.chain(others).chain([Actor::Person, Actor::Auditor, Actor::Pruner]) {
            let first = world.now + seconds_below(&world.random, 5);
            world.plan(first, actor);
        }
        world
    }

    pub(super) fn run(&mut self, events: u64) -> Result<Summary, String> {
        let mut rests_at = Timestamp::MAX;
        while let Some(((at, _), actor)) = self.agenda.pop_first() {
            if at > rests_at {
                break;
            }
            self.now = at;
            self.act(actor)?;
            if self.summary.events >= events && !self.calm {
                self.calm = true;
                rests_at = self.now + REST;
            }
        }
        self.audit()?;
        self.ledger.all_ended()?;
        self.summary.folded = self.ledger.folded;
        self.summary.digest = self.digest.finish();
        Ok(self.summary)
    }

    pub(super) fn events(&self) -> u64 {
        self.summary.events
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    fn act(&mut self, actor: Actor) -> Held {
        let pause = match actor {
            Actor::Producer | Actor::Person if self.calm => return Ok(()),
            Actor::Producer => {
                self.produce()?;
                Duration::from_millis(self.random.next_u64() % 2000)
            }
            Actor::Person => {
                self.meddle()?;
                Duration::from_millis(self.random.next_u64() % 4000)
            }
            Actor::Worker => {
                self.claim()?;
                Duration::from_millis(2000 + self.random.next_u64() % 6000)
            }
            Actor::Sweeper => {
                self.sweep()?;
                Duration::from_millis(4000 + self.random.next_u64() % 6000)
            }
            Actor::Auditor => {
                self.audit()?;
                AUDIT_EVERY
            }
            Actor::Pruner => {
                self.prune()?;
                PRUNE_EVERY
            }
            Actor::Run(run) => return self.go_on(run),
        };
        self.plan(self.now + pause, actor);
        Ok(())
    }

    fn produce(&mut self) -> Held {
        let count = 1 + self.random.next_u64() % 24;
        let wishes: Vec<(Option<Slot>, NewJob)> = (0..count).map(|_| self.draw_wish()).collect();
        let jobs = wishes.iter().map(|(_, wish)| wish.clone()).collect();
        let request = EnqueueRequest { jobs, idempotency: None };
        let answer = now(self.jobs.enqueue(request, self.now))?;
        let EnqueueAnswer::Stored(answers) = &answer else {
            return Err(format!("{ONE_STATE}: expected the jobs to be stored, got {answer:?}"));
        };
        for ((slot, wish), answer) in wishes.iter().zip(answers) {
            self.note(answer.id);
            self.summary.joined += u64::from(answer.coalesced);
            self.ledger.enqueued(*slot, (wish.run_at, wish.max_attempts), *answer)?;
        }
        Ok(())
    }

    fn claim(&mut self) -> Held {
        let lanes = [(ADA, RENDER), (BOB, RENDER), (ADA, COLLECT), (ADA, SHARED)];
        let demands = lanes.map(|(user, kind_name)| LaneDemand {
            lane: Lane::of(user, &kind(kind_name)),
            max: 16,
            lease_ttl: TTL,
            deadline: chance(&self.random, 50).then_some(DEADLINE),
        });
        let inside = chance(&self.random, 30);
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: if inside { LeaseOwner::Process(0) } else { LeaseOwner::Outside },
            demands: demands.to_vec(),
            total_max: 32,
        };
        let answer = now(self.jobs.claim(request, self.now))?;
        self.note(answer.next_due_at);
        for job in &answer.jobs {
            self.note(job.lease_ref());
            self.ledger.claimed(job, self.now)?;
            let run = Run::draw(&self.random, self.calm, job.lease_ref(), self.now);
            self.plan_run(run);
        }
        Ok(())
    }

    /// A run beats, or ends, or comes back from its pause and does as if nothing had happened.
    fn go_on(&mut self, run: Run) -> Held {
        if self.now < run.ends_at {
            // One in five beats is lost on its way.
            let lost = !self.calm && chance(&self.random, 20);
            if lost || self.beat(run.lease)? || chance(&self.random, 50) {
                self.plan_run(run);
            }
            return Ok(());
        }
        if run.fate == Fate::Pauses {
            if chance(&self.random, 50) {
                self.write_guarded(run.lease)?;
            }
            if chance(&self.random, 50) && self.beat(run.lease)? && chance(&self.random, 50) {
                // Still the holder: it goes on like any other.
                let on = Run { fate: Fate::Ends, ends_at: self.now + TTL / 2, ..run };
                self.plan_run(on);
                return Ok(());
            }
        }
        self.settle(run.lease)
    }

    fn beat(&mut self, lease: LeaseRef) -> Result<bool, String> {
        let beat = Heartbeat { lease, ttl: None, progress: None };
        let answer = now(self.jobs.heartbeat(vec![beat], self.now))?[0];
        self.note(matches!(answer, HeartbeatAnswer::Extended { .. }));
        self.ledger.heartbeat(lease, self.now + TTL, answer)?;
        let lost = answer == HeartbeatAnswer::LeaseLost;
        self.summary.refused += u64::from(lost);
        Ok(!lost)
    }

    fn write_guarded(&mut self, lease: LeaseRef) -> Held {
        let frame = NewFrame { stream: STREAM.to_owned(), body: Json::null() };
        let effects = Effects { frames: vec![frame], ..Effects::default() };
        let written = now(self.effects.commit(Some(lease), effects, self.now))?;
        self.note(written);
        self.summary.refused += u64::from(!written);
        self.frames_written += i64::from(written);
        self.ledger.guarded(lease, written)
    }

    fn settle(&mut self, lease: LeaseRef) -> Held {
        let outcome = draw_outcome(&self.random, self.calm, lease, self.now);
        let jitter = self.random.next_u64();
        let settle = Settle { lease, outcome: outcome.clone(), effects: Effects::default() };
        let answer = now(self.jobs.settle(vec![settle], jitter, self.now))?[0];
        match answer {
            Settled::LeaseLost => self.summary.refused += 1,
            Settled::Landed { state: JobState::Completed } => self.summary.completed += 1,
            Settled::Landed { state: JobState::Failed } => self.summary.failed += 1,
            Settled::Landed { .. } => {}
        }
        self.note(answer == Settled::LeaseLost);
        // All kinds of the world have the same backoff.
        let retry = self.rules.retry(&kind(RENDER));
        self.ledger.settled(lease, &outcome, (retry, jitter), answer, self.now)
    }

    /// Every job that is overdue is taken, nothing else is, and each has one more run to show.
    fn sweep(&mut self) -> Held {
        let jitter = self.random.next_u64();
        let overdue = self.ledger.overdue(self.now);
        let request = SweepRequest { rows_max: 10_000, serving_since: Timestamp::EPOCH, jitter };
        let report = now(self.jobs.sweep(request, self.now))?;
        self.summary.events += 1;
        let (taken, late) = (report.rescued.len(), overdue.len());
        hold!(FENCE, taken == late, "a sweep took {taken} jobs, {late} were overdue");
        self.summary.rescued += taken as u64;
        let retry = self.rules.retry(&kind(RENDER));
        for (place, id) in overdue.into_iter().enumerate() {
            self.note(id);
            let jitter = spread(jitter, place);
            let (state, lease) = self.ledger.rescued(id, (retry, jitter), self.now)?;
            let job = now(self.jobs.job(Scope::All, id))?;
            let Some(job) = job else {
                return Err(format!("{ONE_STATE}: job {id} is gone"));
            };
            let found = job.state(self.now);
            hold!(ONE_STATE, found == state, "rescued job {id} is {found:?}, expected {state:?}");
            self.summary.failed += u64::from(state == JobState::Failed);
            let runs = &job.facts().runs.runs;
            let ends = runs.iter().filter(|run| run.lease_no == lease.lease_no);
            let ends: Vec<RunOutcome> = ends.map(|run| run.outcome).collect();
            hold!(ATTEMPTS, ends.len() == 1, "the stall of {lease:?} left {ends:?}");
        }
        Ok(())
    }

    /// Somebody cancels or retries whatever catches the eye.
    fn meddle(&mut self) -> Held {
        let Some(id) = self.ledger.nth_job(self.random.next_u64()) else {
            return Ok(());
        };
        self.note(id);
        if chance(&self.random, 50) {
            let answer = now(self.jobs.cancel(Scope::All, id, self.now))?;
            self.ledger.cancelled(id, answer, self.now)
        } else {
            let answer = now(self.jobs.retry(Scope::All, id, self.now))?;
            self.ledger.retried(id, answer, self.now)
        }
    }

    fn audit(&mut self) -> Held {
        let page = ListPage { before: None, rows_max: 100_000 };
        let jobs = now(self.jobs.jobs(Scope::All, ListFilter::default(), page, self.now))?;
        let jobs: Vec<(Job, Option<Slot>)> = jobs
            .into_iter()
            .map(|job| {
                let slot = slot_of(job.facts());
                (job, slot)
            })
            .collect();
        self.ledger.audit(&jobs)?;
        let frames = now(self.effects.frames(STREAM.to_owned(), 0, 100_000))?;
        let last = frames.last().map_or(self.frames_written, |frame| frame.seq);
        let written = self.frames_written;
        hold!(FENCE, last == written, "{last} frames are there, {written} were accepted");
        let violations = now(self.effects.check())?;
        hold!(ONE_STATE, violations.is_empty(), "check() found {violations:?}");
        Ok(())
    }

    fn prune(&mut self) -> Held {
        let limit = self.now - KEPT;
        let request = PruneRequest {
            buckets_before: Timestamp::EPOCH,
            completed_before: limit,
            failed_before: limit,
            cancelled_before: limit,
            idempotency_before: limit,
            frames_before: limit,
            rows_max: 100_000,
        };
        let report = now(self.jobs.prune(request))?;
        let (pruned, expected) = (report.jobs, self.ledger.forget_before(limit) as u64);
        hold!(ONE_STATE, pruned == expected, "{pruned} jobs were pruned, {expected} are old");
        Ok(())
    }

    fn draw_wish(&self) -> (Option<Slot>, NewJob) {
        let random = &self.random;
        let (user_id, kind_name) = [(ADA, RENDER), (BOB, RENDER), (ADA, COLLECT), (BOB, SHARED)]
            [usize::try_from(random.next_u64() % 4).unwrap_or(0)];
        let number = random.next_u64() % KEYS;
        let delayed = chance(random, 20);
        let wish = NewJob {
            user_id,
            kind: kind(kind_name),
            key: chance(random, 60).then(|| key(&number.to_string())),
            payload: Json::null(),
            priority: i16::try_from(random.next_u64() % 5).unwrap_or(0) - 2,
            run_at: if delayed { self.now + seconds_below(random, 30) } else { self.now },
            max_attempts: [None, Some(1), Some(3), Some(5)]
                [usize::try_from(random.next_u64() % 4).unwrap_or(0)],
            tenant: None,
        };
        (slot(wish.user_id, wish.kind.as_str(), wish.key.as_ref().map(|_| number)), wish)
    }

    fn plan_run(&mut self, run: Run) {
        if let Some(at) = run.next_at(self.now) {
            self.plan(at, Actor::Run(run));
        }
    }

    fn plan(&mut self, at: Timestamp, actor: Actor) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), actor);
    }

    /// One more event, which the digest remembers.
    fn note(&mut self, what: impl Hash) {
        self.summary.events += 1;
        what.hash(&mut self.digest);
    }
}

/// The answer of a store that never waits.
fn now<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    let answer = answer.now_or_never().ok_or("the inline store waited")?;
    answer.map_err(|error| format!("the store failed: {error}"))
}

pub(super) fn chance(random: &SeededRandom, percent: u64) -> bool {
    random.next_u64() % 100 < percent
}

pub(super) fn seconds_below(random: &SeededRandom, seconds: u64) -> Duration {
    Duration::from_millis(random.next_u64() % (seconds * 1000))
}

fn slot_of(facts: &JobFacts) -> Option<Slot> {
    let number = facts.key.as_ref().map(|key| key.as_str().parse().unwrap_or(0));
    slot(facts.user_id, facts.kind.as_str(), number)
}

fn slot(user: UserId, kind_name: &str, number: Option<u64>) -> Option<Slot> {
    let kinds = [RENDER, COLLECT, SHARED];
    let kind_place = kinds.iter().position(|name| *name == kind_name)?;
    let user_place = usize::from(user == BOB);
    let number = usize::try_from(number?).ok()?;
    Some((number * kinds.len() + kind_place) * 2 + user_place)
}
