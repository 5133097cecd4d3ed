//! Days in a few rooms: people come, go and come back; events are lost, doubled, late and out of
//! order; the provider lags, fails, limits and shows empty rooms; the database goes away; nodes die;
//! looks hang until somebody else has their lock. At every moment what is recorded is true, and when
//! the world is quiet it is complete.

mod truth;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{Clock, Random};
use roundsman_core::presence::{Closed, poll_wish};
use roundsman_engine::jobs::{Sweeper, Worker};
use roundsman_testkit::{SeededRandom, env};
use serde_json::Value;

use self::truth::Seen;
use super::daily::{Gate, Mishap};
use super::{Node, PresenceWorld};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{NEVER, let_others_run, secs, until_running};

on_every_database! {
    what_is_recorded_is_true_whatever_happens
}

const ROOMS: [&str; 3] = ["kitchen", "lab", "hall"];
/// Things that happen between two times of quiet.
const STEPS_PER_EPISODE: usize = 60;
/// Two clocks that tell the same time in different units.
const ROUNDING: Duration = Duration::from_micros(2);

/// Calls whose answers may be lost, or that may find the database away.
const STORE_CALLS: [&str; 9] = [
    "claim",
    "commit_look",
    "enqueue",
    "judge_presence",
    "keep_inbox",
    "meetings_of_rooms",
    "note_domain_look",
    "open_presences",
    "settle",
];

/// Who came since then is looked at after every step.
const RECENT: Duration = Duration::from_secs(900);
const SWEEP_EVERY: Duration = Duration::from_secs(30);

async fn what_is_recorded_is_true_whatever_happens(backend: Backend) {
    let (lives, hours) = match backend {
        Backend::Sqlite if env::full() => (100, 4),
        Backend::Sqlite => (6, 4),
        // A server takes ten times as long.
        Backend::Postgres => (1, 1),
    };
    let mut seen = Seen::default();
    for seed in 0..lives {
        let mut life = Life::begin(backend, seed).await;
        while life.monotonic() < secs(hours * 3600) {
            for _ in 0..STEPS_PER_EPISODE {
                life.step().await;
            }
            life.be_quiet().await;
        }
        seen.add(&life.end().await);
    }
    if lives > 1 {
        seen.check();
    }
}

struct Life {
    seed: u64,
    random: SeededRandom,
    world: PresenceWorld,
    nodes: Vec<Node>,
    sweeper: Sweeper,
    meetings: BTreeMap<&'static str, MeetingId>,
    /// Events on their way, by when they arrive, and to which node.
    mail: BTreeMap<(Timestamp, u64), (usize, Value)>,
    zombies: Vec<Zombie>,
    /// Somebody may hold a lock who is dead or asleep.
    locks_are_held: bool,
    /// What the provider has told and shown stays as it is.
    confirmed: BTreeMap<(MeetingId, String), Closed>,
    last_no: BTreeMap<MeetingId, i64>,
    counter: u64,
    /// When jobs are due and leases are looked at next, in monotonic time.
    next_claim: Duration,
    next_sweep: Duration,
}

/// A worker that hangs in a look.
struct Zombie {
    worker: Arc<Worker>,
    gate: Arc<Gate>,
    wakes_at: Timestamp,
}

impl Life {
    async fn begin(backend: Backend, seed: u64) -> Self {
        let world = PresenceWorld::new(backend).await;
        let mut meetings = BTreeMap::new();
        for room in ROOMS {
            meetings.insert(room, world.open_unseen(room).await);
        }
        world.start_timers().await;
        let nodes = vec![world.another_node("w1"), world.another_node("w2")];
        let sweeper = world.world.sweeper();
        Life {
            seed,
            random: SeededRandom::new(seed),
            world,
            nodes,
            sweeper,
            meetings,
            mail: BTreeMap::new(),
            zombies: Vec::new(),
            locks_are_held: false,
            confirmed: BTreeMap::new(),
            last_no: BTreeMap::new(),
            counter: 0,
            next_claim: Duration::ZERO,
            next_sweep: Duration::ZERO,
        }
    }

    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).unwrap()
    }

    fn pick<T: Clone>(&self, items: &[T]) -> Option<T> {
        (!items.is_empty()).then(|| items[self.below(items.len())].clone())
    }

    fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    async fn step(&mut self) {
        let room = self.pick(&ROOMS).unwrap();
        match self.below(24) {
            0..=5 => self.somebody_comes(room),
            6..=11 => self.somebody_goes(room),
            12 => self.everybody_goes(room),
            13..=16 => self.provider_breaks(room),
            17 => self.world.daily.mend(),
            18 => self.database_breaks().await,
            19 => self.node_dies(),
            20 => self.look_hangs(room).await,
            // Most of the time nothing happens.
            _ => self.pass(secs(self.random.below(240))).await,
        }
        let millis = self.random.below(9000);
        self.pass(Duration::from_millis(millis)).await;
        let all = self.below(10) == 0;
        self.check(room, all).await;
    }

    async fn database_breaks(&mut self) {
        let fault = if self.below(2) == 0 { Fault::Down } else { Fault::AnswerLost };
        self.world.world.store.set(self.pick(&STORE_CALLS).unwrap(), fault);
        // A claim whose answer is lost is held by nobody.
        self.locks_are_held = true;
        self.pass(secs(self.random.below(30))).await;
        self.world.world.store.mend();
    }

    fn somebody_comes(&mut self, room: &'static str) {
        let session = format!("s{:06}", self.next_number());
        self.world.daily.joins(room, &session);
        let event = self.world.joined_event(room, &session);
        self.send(&event);
    }

    fn somebody_goes(&mut self, room: &'static str) {
        let Some(session) = self.pick(&self.world.daily.inside(room)) else { return };
        self.world.daily.leaves(room, &session);
        let event = self.world.left_event(room, &session);
        self.send(&event);
        // Some are back at once, under another number.
        if self.below(4) == 0 {
            self.somebody_comes(room);
        }
    }

    fn everybody_goes(&mut self, room: &'static str) {
        for session in self.world.daily.inside(room) {
            self.world.daily.leaves(room, &session);
            let event = self.world.left_event(room, &session);
            self.send(&event);
        }
        let event = self.world.ended_event(room);
        self.send(&event);
    }

    /// An event is lost, or arrives once or more, sooner or later, somewhere.
    fn send(&mut self, event: &Value) {
        let copies = match self.below(10) {
            0 | 1 => 0,
            2 => 3,
            _ => 1,
        };
        for _ in 0..copies {
            let late = match self.below(20) {
                0 => 3600 * 1000,
                1..=4 => 40_000,
                _ => 1500,
            };
            let arrives_at = self.world.now() + Duration::from_millis(self.random.below(late));
            let (number, node) = (self.next_number(), self.below(self.nodes.len()));
            self.mail.insert((arrives_at, number), (node, event.clone()));
        }
    }

    fn provider_breaks(&self, room: &str) {
        let daily = &self.world.daily;
        let lag = Duration::from_millis(self.random.below(15_001));
        match self.below(12) {
            0..=3 => daily.set_lag(lag),
            4 => daily.set_domain_lag(lag),
            5 => daily.set_room(room, Mishap::Unavailable),
            6 => daily.set_room(room, Mishap::Odd),
            7 => daily.set("domain_presence", Mishap::Unavailable),
            8 => daily.set("domain_presence", Mishap::RateLimited(None)),
            9 => daily.next(room, Mishap::RateLimited(Some(lag))),
            10 => daily.next(room, Mishap::Stale(lag)),
            // An empty answer, and one that is not: two in a row would be believed.
            _ => {
                daily.next(room, Mishap::Empty);
                daily.next(room, Mishap::Stale(Duration::ZERO));
            }
        }
    }

    /// Its memory is lost, and the locks it held are held by nobody.
    fn node_dies(&mut self) {
        let number = self.below(self.nodes.len());
        self.nodes[number] = self.world.another_node(&format!("w{number}"));
        self.locks_are_held = true;
    }

    /// A worker takes a look and falls asleep before it has the answer.
    async fn look_hangs(&mut self, room: &'static str) {
        let id = self.meetings[room];
        let gate = self.world.daily.hold(room);
        self.world.world.enqueue(poll_wish(id, &[], self.world.now())).await;
        let worker = self.world.world.worker(vec![self.world.work.poller()]);
        worker.claim_tick().await.unwrap();
        let_others_run().await;
        // Looks at other rooms end; this one does not, if somebody else has not begun it before.
        until_running(&worker, worker.running_count().min(1)).await;
        worker.settle_tick().await.unwrap();
        self.world.daily.hold_no_more();
        let wakes_at = self.world.now() + secs(self.random.below(300));
        self.zombies.push(Zombie { worker, gate, wakes_at });
        self.next_claim = Duration::ZERO;
        self.locks_are_held = true;
    }

    async fn wake_zombies(&mut self, all: bool) {
        let now = self.world.now();
        let (woken, asleep) = std::mem::take(&mut self.zombies)
            .into_iter()
            .partition(|zombie| all || zombie.wakes_at <= now);
        self.zombies = asleep;
        for Zombie { worker, gate, .. } in woken {
            self.next_claim = Duration::ZERO;
            gate.open();
            until_running(&worker, 0).await;
            drop(worker.settle_tick().await);
        }
    }

    /// Lets time pass from one thing that happens to the next; what fails is tried again later.
    async fn pass(&mut self, time: Duration) {
        let until = self.monotonic() + time;
        loop {
            let mut next = self.monotonic() + self.deliver();
            self.wake_zombies(false).await;
            if self.monotonic() >= self.next_sweep {
                self.next_sweep = self.monotonic() + SWEEP_EVERY;
                drop(self.sweeper.tick().await);
                self.next_claim = Duration::ZERO;
            }
            self.send_on().await;
            if self.monotonic() >= self.next_claim {
                self.next_claim = self.monotonic() + self.work().await;
            }
            let sent_on = self.nodes.iter().filter_map(|node| node.intake.due_in()).min();
            next = next.min(self.next_claim).min(self.next_sweep);
            next = next.min(sent_on.map_or(next, |due| self.monotonic() + due));
            let now = self.monotonic();
            if now >= until {
                return;
            }
            let step = next.saturating_sub(now).max(Duration::from_millis(1));
            self.world.world.clock.advance(step.min(until.saturating_sub(now)));
        }
    }

    fn monotonic(&self) -> Duration {
        self.world.world.clock.monotonic()
    }

    /// Every node sends on what it has heard, and writes what it could not write before.
    async fn send_on(&mut self) {
        for node in &self.nodes {
            if node.intake.due_in().is_some_and(|due| due.is_zero()) {
                drop(node.intake.tick().await);
                self.next_claim = Duration::ZERO;
            }
            drop(node.worker.keep_tick().await);
            drop(node.worker.settle_tick().await);
        }
    }

    /// One of the nodes does what is due; what fails is tried again later. Returns in how long there
    /// is more.
    async fn work(&self) -> Duration {
        let worker = &self.nodes[self.below(self.nodes.len())].worker;
        for _ in 0..100 {
            match worker.claim_tick().await {
                Ok(next) if worker.running_count() == 0 => return next,
                Ok(_) => {}
                Err(_) => return secs(1),
            }
            until_running(worker, 0).await;
            if worker.settle_tick().await.is_err() {
                return secs(1);
            }
        }
        secs(1)
    }

    /// Delivers what has arrived. Returns in how long the next event does.
    fn deliver(&mut self) -> Duration {
        let now = self.world.now();
        while let Some(((arrives_at, _), (node, event))) = self.mail.first_key_value() {
            if *arrives_at > now {
                return arrives_at.since(now);
            }
            self.nodes[*node].hears(event, now);
            self.mail.pop_first();
        }
        NEVER
    }

    async fn end(mut self) -> Seen {
        self.mail.clear();
        self.pass(secs(120)).await;
        let polls = self.world.waiting_polls().await;
        assert!(polls.is_empty(), "R6, seed {}: every trigger was answered: {polls:?}", self.seed);
        self.world.check().await;
        let changed =
            |what| self.world.metric(&format!("presence_changes_total{{change=\"{what}\"}}"));
        Seen {
            confirmed: self.confirmed.len() as u64,
            refused: self.world.metric("presence_stale_looks_total"),
            ended: self.world.metric("presence_ended_total{reason=\"everyone_left\"}"),
            healed: changed("healed"),
            visits: changed("visit"),
        }
    }
}
