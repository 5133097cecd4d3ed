//! The world: what goes on in it, a step at a time.

mod seen;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    Json, KindCatalog, KindName, KindSpec, Lane, LeaseOwner, LeaseRef, Outcome, RunningJob, Settle,
    Settled, WorkerName,
};
use roundsman_core::ports::{
    ClaimRequest, Clock, EffectStore, EnqueueRequest, Executor, Executors, JobStore, LaneDemand,
    ListPage, PruneRequest, Scope, StoreError, SweepRequest, TaskStore, UserStore, WebhookDelivery,
};
use roundsman_core::rooms::ProjectId;
use roundsman_core::tasks::{CANCEL_KIND, POLLING_KIND, SUBMIT_KIND, SWEEP_KIND, task_of_key};
use roundsman_core::users::{NewUser, UserId};
use roundsman_core::webhooks::DELIVER_KIND;
use roundsman_engine::jobs::{Handler, HandlerResult, JobContext};
use roundsman_engine::metrics::Metrics;
use roundsman_engine::tasks::{
    BroadcastWish, TaskNews, TaskOptions, TaskWish, TaskWork, Tasks, task_specs, task_wishes,
};
use roundsman_engine::wake::Wakes;
use roundsman_store::sqlite::SqliteStore;
use roundsman_testkit::{ManualClock, SeededRandom};
use serde_json::json;

use super::Bug;
use super::fickle::{Fickle, SERVICE};
use super::rules::{CONSISTENT, ENDS, PAID_ONCE, RESTS, hold};
use crate::flaky::{Fault, FlakyStore};
use crate::support::{kind, secs};
use crate::tasks::outside::{Notebook, Shelf};

pub(super) type Held = Result<(), String>;
type Work<T> = Pin<Box<dyn Future<Output = T>>>;

const ROOMS: u64 = 3;
const TASKS_PER_ROOM_MAX: u32 = 3;
const CALLS_MAX: usize = 6;
const RUNS_MAX: usize = 12;
const SEASON_STEPS: u64 = 80;
const POLL_EVERY: Duration = Duration::from_secs(10);
const DEADLINE: Duration = Duration::from_secs(120);
/// A round that fails comes back after this time at the latest.
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// A round in which nothing more goes wrong, and how many of them everything is over in.
const REST: Duration = Duration::from_secs(5);
const RESTS_MAX: usize = 500;
/// What may be away for a while.
const METHODS: [&str; 7] = [
    "task_looks",
    "tasks_by_id",
    "change_task",
    "create_tasks",
    "task",
    "rearm_tasks",
    "hint_task",
];

pub(super) struct World {
    store: Arc<SqliteStore>,
    /// The same store, as handlers and callers have it.
    flaky: Arc<FlakyStore>,
    clock: Arc<ManualClock>,
    dice: Arc<SeededRandom>,
    fickle: Arc<Fickle>,
    tasks: Tasks,
    handlers: BTreeMap<KindName, (Arc<dyn Handler>, KindSpec)>,
    user: UserId,
    rooms: Vec<Room>,
    runs: Vec<Run>,
    calls: Vec<Call>,
    is_faulty: bool,
    bug: Option<Bug>,
    summary: Summary,
    digest: DefaultHasher,
    _folder: tempfile::TempDir,
}

struct Room {
    project: ProjectId,
    /// The step in which an operator has lost its alarm; nobody answers for it until the next sweep.
    robbed: Option<u64>,
}

/// A job that somebody works on, or worked on when they stood still.
struct Run {
    lease: LeaseRef,
    kind: KindName,
    /// `None`: all rooms are its business.
    room: Option<usize>,
    work: Work<HandlerResult>,
    result: Option<HandlerResult>,
    began: u64,
    /// Something else went on in the room since it began.
    is_disturbed: bool,
}

/// Somebody asks for something.
struct Call {
    room: usize,
    work: Work<()>,
}

/// What happened, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) steps: u64,
    pub(super) made: u64,
    pub(super) ended: u64,
    pub(super) rounds: u64,
    pub(super) idle_rounds: u64,
    pub(super) met: u64,
    pub(super) died: u64,
    pub(super) refused: u64,
    pub(super) rescued: u64,
    pub(super) robbed: u64,
    /// Of everything that was seen: two runs with the same one went the same way.
    pub(super) digest: u64,
}

impl World {
    pub(super) fn new(seed: u64, bug: Option<Bug>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut options = TaskOptions::new(folder.path().to_owned());
        (options.rules.poll_every, options.rules.deadline) = (POLL_EVERY, DEADLINE);
        options.submit_wait = Duration::ZERO;
        options.tasks_per_project_max = TASKS_PER_ROOM_MAX;
        let catalog = KindCatalog::new(KindSpec::new(kind("default")));
        let catalog = Arc::new(task_specs(&options).into_iter().fold(catalog, KindCatalog::with));
        let store = SqliteStore::open_in_memory_inline(catalog).expect("a database in memory");
        let store = Arc::new(store);
        let flaky = Arc::new(FlakyStore::new(store.clone()));
        flaky.step_aside_after_every_call();
        let (clock, dice) = (Arc::<ManualClock>::default(), Arc::new(SeededRandom::new(seed)));
        let fickle = Arc::new(Fickle::new(dice.clone()));
        let executors: Vec<Arc<dyn Executor>> = vec![fickle.clone()];
        let work = TaskWork {
            tasks: flaky.clone(),
            rooms: flaky.clone(),
            documents: Arc::<Notebook>::default(),
            clock: clock.clone(),
            random: dice.clone(),
            wakes: Wakes::local(),
            metrics: Metrics::default(),
            executors: Executors::new(executors).expect("one executor"),
            media: Arc::<Shelf>::default(),
            options,
            news: TaskNews::default(),
        };
        let tasks = Tasks::new(&work, flaky.clone());
        let handlers = [work.submitter(), work.poller(), work.canceller(), work.sweeper()];
        let named = |handler: Arc<dyn Handler>| {
            let spec = handler.spec();
            (spec.kind.clone(), (handler, spec))
        };
        let user = ada(&store, clock.now());
        let jobs = task_wishes(clock.now());
        now(store.enqueue(EnqueueRequest { jobs, idempotency: None }, clock.now()))
            .expect("the periodic jobs");
        let project = |place| ProjectId::new(&format!("room-{place}")).expect("a name");
        let rooms = (0..ROOMS).map(|place| Room { project: project(place), robbed: None });
        World {
            rooms: rooms.collect(),
            handlers: handlers.into_iter().map(named).collect(),
            store,
            flaky,
            clock,
            dice,
            fickle,
            tasks,
            user,
            runs: Vec::new(),
            calls: Vec::new(),
            is_faulty: false,
            bug,
            summary: Summary::default(),
            digest: DefaultHasher::new(),
            _folder: folder,
        }
    }

    pub(super) fn run(&mut self, steps: u64) -> Result<Summary, String> {
        while self.summary.steps < steps {
            self.step()?;
        }
        self.rest()?;
        self.summary.digest = self.digest.finish();
        Ok(self.summary)
    }

    pub(super) fn summary(&self) -> Summary {
        self.summary
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn throw(&self, sides: u64) -> u64 {
        self.dice.next_u64() % sides
    }

    fn pick(&self, count: usize) -> Option<usize> {
        (count > 0).then(|| usize::try_from(self.throw(count as u64)).unwrap_or(0))
    }

    fn step(&mut self) -> Held {
        self.summary.steps += 1;
        let what = self.throw(100);
        what.hash(&mut self.digest);
        match what {
            0..45 => self.go_on()?,
            45..60 => self.answer()?,
            60..70 => self.claim()?,
            70..78 => self.ask()?,
            78..89 => {
                let is_long = self.throw(25) == 0;
                let millis_max = if is_long { 60_000 } else { 2_500 };
                self.clock.advance(Duration::from_millis(self.throw(millis_max)));
            }
            89..91 => {
                if let Some(place) = self.pick(self.runs.len()) {
                    self.runs.swap_remove(place);
                    self.summary.died += 1;
                }
            }
            91..95 => self.sweep()?,
            95..98 => self.break_or_mend(),
            98 if self.throw(6) == 0 => self.rob()?,
            _ => self.prune()?,
        }
        hold!(PAID_ONCE, !self.fickle.is_paid_twice(), "a task was sent once more");
        Ok(())
    }

    /// A job goes on to its next call of the database, or is settled.
    fn go_on(&mut self) -> Held {
        let Some(place) = self.pick(self.runs.len()) else { return Ok(()) };
        let run = &mut self.runs[place];
        let room = run.room;
        if run.result.is_some() {
            self.settle(place)?;
        } else {
            run.result = run.work.as_mut().now_or_never();
        }
        self.check(room)
    }

    fn settle(&mut self, place: usize) -> Held {
        let Run { lease, kind, room, result, began, is_disturbed, .. } =
            self.runs.swap_remove(place);
        let Some(HandlerResult { outcome, effects }) = result else { return Ok(()) };
        let is_round = kind.as_str() == POLLING_KIND;
        let outcome = match (self.bug, outcome) {
            (Some(Bug::ComesBackLate), Outcome::Again { at, payload }) if is_round => {
                Outcome::Again { at: at + secs(60), payload }
            }
            (Some(Bug::NeverRests), Outcome::Done { .. }) if is_round => {
                Outcome::Again { at: self.now() + POLL_EVERY, payload: None }
            }
            (_, outcome) => outcome,
        };
        let is_done = matches!(outcome, Outcome::Done { .. });
        let is_well = is_done || matches!(outcome, Outcome::Again { .. });
        let settle = Settle { lease, outcome, effects };
        let jitter = self.dice.next_u64();
        let settled = now(self.store.settle(vec![settle], jitter, self.now()))?;
        if settled.first() == Some(&Settled::LeaseLost) {
            self.summary.refused += 1;
            return Ok(());
        }
        if kind.as_str() == SWEEP_KIND && is_well {
            self.swept(began)?;
        }
        let Some(room) = room.filter(|_| is_round) else { return Ok(()) };
        self.summary.rounds += 1;
        if self.bug == Some(Bug::OneSlot) && is_done {
            self.lose_alarm(room)?;
        }
        if is_well && !is_disturbed {
            let rounds = self.rounds(room)?;
            hold!(RESTS, rounds.is_empty(), "room {room} has {rounds:?}");
            self.summary.idle_rounds += 1;
        }
        Ok(())
    }

    /// Somebody's call goes on.
    fn answer(&mut self) -> Held {
        let Some(place) = self.pick(self.calls.len()) else { return Ok(()) };
        let room = self.calls[place].room;
        let newest = self.newest_task(room)?;
        if self.calls[place].work.as_mut().now_or_never().is_some() {
            drop(self.calls.swap_remove(place));
        }
        self.disturb(room);
        if self.newest_task(room)? > newest {
            self.summary.made += 1;
            let is_round = |run: &Run| run.kind.as_str() == POLLING_KIND && run.room == Some(room);
            let meets_round = self.runs.iter().any(is_round);
            self.summary.met += u64::from(meets_round);
            match self.bug {
                Some(Bug::AlarmAfterRow) => drop(self.lose_alarm(room)?),
                Some(Bug::JoinsTheRound) if meets_round => drop(self.lose_alarm(room)?),
                _ => {}
            }
        }
        self.check(Some(room))
    }

    /// Somebody asks for something.
    fn ask(&mut self) -> Held {
        if self.calls.len() >= CALLS_MAX {
            return Ok(());
        }
        let room = usize::try_from(self.throw(ROOMS)).unwrap_or(0);
        let (tasks, project) = (self.tasks.clone(), self.rooms[room].project.clone());
        let known = self.some_task(room)?;
        // At times nobody wants anything new, so that rooms come to rest.
        let is_quiet = (self.summary.steps / SEASON_STEPS).is_multiple_of(2);
        let from = if is_quiet { 60 } else { 0 };
        let work: Work<()> = match (from + self.throw(100 - from), known) {
            (0..60, _) => {
                let (user, wish) = (self.user, wish(&project));
                Box::pin(async move { drop(tasks.create(user, wish).await) })
            }
            (60..75, Some(task)) => Box::pin(async move {
                drop(tasks.cancel(Scope::All, &task.id.to_string()).await);
            }),
            (75..85, Some(task)) => Box::pin(async move {
                let body = task.external_task_id.unwrap_or_default().into_bytes();
                let delivery = WebhookDelivery { headers: &[], query: "", body: &body };
                drop(tasks.hint(SERVICE, &delivery).await);
            }),
            (85..90, Some(task)) => Box::pin(async move {
                let task_id = task.id.to_string();
                let wish = BroadcastWish { task_id, ..BroadcastWish::default() };
                drop(tasks.broadcast(&project, wish).await);
            }),
            _ => Box::pin(async move { drop(tasks.trigger(&project).await) }),
        };
        self.calls.push(Call { room, work });
        Ok(())
    }

    fn claim(&mut self) -> Held {
        if self.runs.len() >= RUNS_MAX {
            return Ok(());
        }
        let mut demands = Vec::new();
        for name in [SUBMIT_KIND, POLLING_KIND, CANCEL_KIND, SWEEP_KIND, DELIVER_KIND] {
            let spec = self.handlers.get(&kind(name)).map(|(_, spec)| spec);
            demands.push(LaneDemand {
                lane: Lane::of(UserId::SYSTEM, &kind(name)),
                max: if spec.is_some() { 3 } else { 100 },
                lease_ttl: spec.map_or(secs(60), |spec| spec.lease_ttl),
                deadline: spec.and_then(|spec| spec.deadline),
            });
        }
        let (worker, owner) = (WorkerName::new("w"), LeaseOwner::Outside);
        let request = ClaimRequest { worker, owner, demands, total_max: 200 };
        for job in now(self.store.claim(request, self.now()))?.jobs {
            self.begin(job)?;
        }
        Ok(())
    }

    fn begin(&mut self, job: RunningJob) -> Held {
        let (lease, kind) = (job.lease_ref(), job.facts.kind.clone());
        job.facts.id.hash(&mut self.digest);
        let Some((handler, _)) = self.handlers.get(&kind).cloned() else {
            // What users are told has no part in this.
            let outcome = Outcome::Done { result: Json::null() };
            let settle = Settle { lease, outcome, effects: Effects::default() };
            now(self.store.settle(vec![settle], 0, self.now()))?;
            return Ok(());
        };
        let room = match kind.as_str() {
            SWEEP_KIND => None,
            POLLING_KIND => job.facts.key.as_ref().and_then(|key| self.room_of(key.as_str())),
            _ => match task_of_key(job.facts.key.as_ref()) {
                Some(id) => now(self.store.task(Scope::All, id))?
                    .and_then(|task| self.room_of(task.project_id.as_str())),
                None => None,
            },
        };
        let context = JobContext::alone(job.facts, lease);
        let work = Box::pin(async move { handler.run(context).await });
        let began = self.summary.steps;
        let run = Run { lease, kind, room, work, result: None, began, is_disturbed: false };
        self.runs.push(run);
        self.check(room)
    }

    fn sweep(&mut self) -> Held {
        let page = ListPage { before: None, rows_max: 1_000 };
        let held = now(self.store.leases(Scope::All, page))?;
        let is_late = |job: &&RunningJob| {
            job.lease.until <= self.now() && job.facts.kind.as_str() == POLLING_KIND
        };
        let key = |job: &RunningJob| job.facts.key.as_ref().map(|key| key.as_str().to_owned());
        let late: Vec<String> = held.iter().filter(is_late).filter_map(key).collect();
        let jitter = self.dice.next_u64();
        let request = SweepRequest { rows_max: 1_000, serving_since: Timestamp::EPOCH, jitter };
        let report = now(self.store.sweep(request, self.now()))?;
        self.summary.rescued += report.rescued.len() as u64;
        if self.bug == Some(Bug::DeadForGood) {
            for room in late.iter().filter_map(|key| self.room_of(key)).collect::<Vec<_>>() {
                self.lose_alarm(room)?;
            }
        }
        self.check(None)
    }

    fn break_or_mend(&mut self) {
        if self.is_faulty {
            self.flaky.mend();
        } else {
            let method = self.pick(METHODS.len()).map_or(METHODS[0], |place| METHODS[place]);
            let is_down = self.throw(2) == 0;
            self.flaky.set(method, if is_down { Fault::Down } else { Fault::AnswerLost });
        }
        self.is_faulty = !self.is_faulty;
    }

    /// An operator cancels the alarm of a room.
    fn rob(&mut self) -> Held {
        let room = usize::try_from(self.throw(ROOMS)).unwrap_or(0);
        if self.lose_alarm(room)? {
            self.rooms[room].robbed = Some(self.summary.steps);
            self.summary.robbed += 1;
        }
        Ok(())
    }

    fn prune(&mut self) -> Held {
        let limit = self.now() - secs(600);
        let request = PruneRequest {
            buckets_before: limit,
            completed_before: limit,
            failed_before: limit,
            cancelled_before: limit,
            idempotency_before: limit,
            frames_before: limit,
            rows_max: 10_000,
        };
        now(self.store.prune(request))?;
        now(self.store.prune_tasks(limit, 10_000))?;
        Ok(())
    }

    /// Nothing more goes wrong and nobody asks for anything: everything ends, and rests.
    fn rest(&mut self) -> Held {
        self.flaky.mend();
        self.fickle.calm();
        for _ in 0..RESTS_MAX {
            while let Some(mut call) = self.calls.pop() {
                while call.work.as_mut().now_or_never().is_none() {}
            }
            while !self.runs.is_empty() {
                self.go_on()?;
            }
            self.sweep()?;
            self.claim()?;
            if self.runs.is_empty() {
                if self.is_at_rest()? {
                    break;
                }
                self.clock.advance(REST);
            }
        }
        for room in 0..self.rooms.len() {
            let (looks, rounds) = (self.looks(room)?, self.rounds(room)?);
            hold!(ENDS, looks.is_empty(), "room {room} waits for {looks:?}");
            hold!(RESTS, rounds.is_empty(), "room {room} has {rounds:?} for ever");
            self.check_told(room)?;
        }
        let violations = now(self.store.check())?;
        hold!(CONSISTENT, violations.is_empty(), "{violations:?}");
        Ok(())
    }
}

fn wish(project: &ProjectId) -> TaskWish {
    TaskWish {
        project_id: project.as_str().to_owned(),
        task_type: SERVICE.to_owned(),
        params: json!({ "prompt": "a cat on a roof" }),
        node_id: None,
        max_retries: None,
    }
}

fn ada(store: &SqliteStore, at: Timestamp) -> UserId {
    let email = "ada@example.org".to_owned();
    let person = NewUser { email, name: None, image_url: None, max_concurrent_bots: 1 };
    now(store.find_or_create_user(person, at)).expect("a user").0.id
}

/// The answer of a store that never waits.
fn now<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    let answer = answer.now_or_never().ok_or("the inline store waited")?;
    answer.map_err(|error| format!("the store failed: {error}"))
}
