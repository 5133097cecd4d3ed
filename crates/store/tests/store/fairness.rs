//! Whoever waits is served, in simulated time on real stores: a flood of one tenant, a stream of higher
//! priority, and everybody who comes back after an outage.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    JobError, Json, Lane, LeaseOwner, LeaseRef, NewJob, Outcome, RunningJob, Settle, Tenant,
    WorkerName,
};
use roundsman_core::ports::{ClaimRequest, EnqueueRequest, LaneDemand, Store};
use roundsman_store::conformance::{ADA, RENDER, catalog, key, kind};
use roundsman_testkit::SeededRandom;

use crate::open;

const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

#[derive(Debug, Clone, Copy)]
enum Backend {
    Sqlite,
    Postgres,
}

/// A store, time that passes in steps, and workers who claim and end many at once.
struct World {
    store: Arc<dyn Store>,
    now: Timestamp,
    random: SeededRandom,
    _keep: Box<dyn Any>,
}

impl World {
    async fn new(backend: Backend) -> Self {
        let (store, keep): (Arc<dyn Store>, Box<dyn Any>) = match backend {
            Backend::Sqlite => (Arc::new(open::sqlite_inline(catalog())), Box::new(())),
            Backend::Postgres => {
                let (store, database) = open::postgres(catalog()).await;
                (Arc::new(store), Box::new(database))
            }
        };
        World { store, now: START, random: SeededRandom::new(7), _keep: keep }
    }

    fn wish(&self, who: &str) -> NewJob {
        NewJob {
            user_id: ADA,
            kind: kind(RENDER),
            key: None,
            payload: Json::parse(&format!("\"{who}\"")).expect("a name is JSON"),
            priority: 0,
            run_at: self.now,
            max_attempts: None,
            tenant: None,
        }
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) {
        if !jobs.is_empty() {
            let request = EnqueueRequest { jobs, idempotency: None };
            self.store.enqueue(request, self.now).await.expect("enqueue");
        }
    }

    async fn claim(&self, max: u32) -> Vec<RunningJob> {
        let demand = LaneDemand {
            lane: Lane::of(ADA, &kind(RENDER)),
            max,
            lease_ttl: Duration::from_secs(3600),
            deadline: None,
        };
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands: vec![demand],
            total_max: max,
        };
        self.store.claim(request, self.now).await.expect("claim").jobs
    }

    /// Ends runs in one call, as a worker does.
    async fn settle(&self, ends: Vec<(LeaseRef, Outcome)>) {
        if ends.is_empty() {
            return;
        }
        let settle = |(lease, outcome)| Settle { lease, outcome, effects: Effects::default() };
        let settles = ends.into_iter().map(settle).collect();
        self.store.settle(settles, self.random.next_u64(), self.now).await.expect("settle");
    }
}

fn done() -> Outcome {
    Outcome::Done { result: Json::null() }
}

/// Workers with a few slots, and jobs that take their time.
struct Slots {
    all: usize,
    running: BTreeSet<(Timestamp, LeaseRef)>,
}

impl Slots {
    fn new(all: usize) -> Self {
        Slots { all, running: BTreeSet::new() }
    }

    /// Ends what is done, fills the slots, and returns what was claimed.
    async fn step(&mut self, world: &World, takes: impl Fn() -> Duration) -> Vec<Claimed> {
        let now = world.now;
        let over: Vec<_> = self.running.iter().filter(|(at, _)| *at <= now).copied().collect();
        for one in &over {
            self.running.remove(one);
        }
        world.settle(over.into_iter().map(|(_, lease)| (lease, done())).collect()).await;
        let free = u32::try_from(self.all - self.running.len()).expect("a few");
        let mut claimed = Vec::new();
        for job in world.claim(free).await {
            let takes = takes();
            self.running.insert((now + takes, job.lease_ref()));
            let who = job.facts.payload.as_str().trim_matches('"').to_owned();
            claimed.push(Claimed { who, wait: now.since(job.facts.run_at), takes });
        }
        claimed
    }
}

/// A job that begins to run: whose it is, how long it has waited, and how long it will take.
struct Claimed {
    who: String,
    wait: Duration,
    takes: Duration,
}

/// Who is there beside those who behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Neighbour {
    Nobody,
    /// Always wants more than there is, and never has more than a few jobs waiting.
    Busy,
    Floods,
}

/// What those who behave see at the 95th percentile, in milliseconds.
#[derive(Debug)]
struct Seen {
    wait: u128,
    /// From enqueueing to the end.
    total: u128,
}

/// Ten tenants enqueue 0.8 jobs a second each, all together 0.8 of what the slots can do and each nine
/// tenths of its share when there are eleven.
async fn seen_by_the_others(
    backend: Backend,
    neighbour: Neighbour,
    tenants: bool,
    seed: u64,
) -> Seen {
    const STEP: Duration = Duration::from_millis(50);
    const STEPS: usize = 2_400;
    let mut world = World::new(backend).await;
    let mut slots = Slots::new(10);
    // Whoever else is there, they come at the same times.
    let (arrivals, lengths) = (SeededRandom::new(seed), SeededRandom::new(seed + 1000));
    let wish = |world: &World, who: &str| {
        let tenant = tenants.then(|| Tenant::new(who).expect("a name is a tenant"));
        NewJob { tenant, ..world.wish(who) }
    };
    let (mut waits, mut totals) = (Vec::new(), Vec::new());
    let mut of_neighbour = 0;
    for step in 0..STEPS {
        // 0.04 in every step of 50 ms.
        let busy = (0..10).filter(|_| arrivals.next_u64() % 100 < 4);
        let mut jobs: Vec<NewJob> = busy.map(|one| wish(&world, &format!("t{one}"))).collect();
        let more = match neighbour {
            Neighbour::Floods if step == 0 => 2_000,
            Neighbour::Busy => 5 - of_neighbour,
            _ => 0,
        };
        of_neighbour += more;
        jobs.extend(vec![wish(&world, "neighbour"); more]);
        world.enqueue(jobs).await;
        // From half a second to one and a half.
        let takes = || Duration::from_millis(500 + lengths.next_u64() % 1000);
        for Claimed { who, wait, takes } in slots.step(&world, takes).await {
            if who == "neighbour" {
                of_neighbour -= 1;
            } else {
                waits.push(wait.as_millis());
                totals.push((wait + takes).as_millis());
            }
        }
        world.now = world.now + STEP;
    }
    let p95 = |mut times: Vec<u128>| {
        times.sort_unstable();
        // Where nobody is served there is no end to it.
        times.get(times.len() * 95 / 100).copied().unwrap_or(u128::MAX)
    };
    Seen { wait: p95(waits), total: p95(totals) }
}

/// Nobody is interrupted, so that whoever comes to slots that are all taken waits for one of them, and
/// longer than where some are always free. Beyond that, the size of a flood makes no difference.
async fn j_16_a_flood_does_not_double_the_time_of_others(backend: Backend, seed: u64) {
    let alone = seen_by_the_others(backend, Neighbour::Nobody, true, seed).await;
    let busy = seen_by_the_others(backend, Neighbour::Busy, true, seed).await;
    let flooded = seen_by_the_others(backend, Neighbour::Floods, true, seed).await;
    let all = format!("seed {seed}: alone {alone:?}, busy {busy:?}, flooded {flooded:?}");
    assert!(flooded.total < alone.total * 2, "{all}");
    assert!(flooded.wait < busy.wait * 2, "{all}");
}

#[tokio::test]
async fn j_16_a_flood_does_not_double_the_time_of_others_on_sqlite() {
    for seed in 1..=5 {
        j_16_a_flood_does_not_double_the_time_of_others(Backend::Sqlite, seed).await;
    }
    // Without tenants everybody waits behind the flood.
    let alone = seen_by_the_others(Backend::Sqlite, Neighbour::Nobody, false, 1).await;
    let unfair = seen_by_the_others(Backend::Sqlite, Neighbour::Floods, false, 1).await;
    assert!(unfair.total / 10 > alone.total, "alone {alone:?}, flooded {unfair:?}");
}

#[tokio::test]
async fn j_16_a_flood_does_not_double_the_time_of_others_on_postgres() {
    j_16_a_flood_does_not_double_the_time_of_others(Backend::Postgres, 1).await;
}

/// As much of the highest priority as all slots together can do, for ever, and a few of every other. A
/// step of priority is a minute of age, so that nobody is overtaken by those who come more than ten
/// minutes later.
async fn j_17_every_job_is_claimed_within_its_bound(backend: Backend) {
    const SECOND: Duration = Duration::from_secs(1);
    const SLOTS: usize = 5;
    const WATCHED_SECS: u64 = 600;
    const HEAD_START_SECS: u64 = 600;
    let mut world = World::new(backend).await;
    let mut slots = Slots::new(SLOTS);
    let (mut low, mut longest) = (0usize, Duration::ZERO);
    let mut left_over = 0u64;
    for second in 0..WATCHED_SECS + HEAD_START_SECS + 120 {
        let high = |_| NewJob { priority: 5, ..world.wish("high") };
        let mut jobs: Vec<NewJob> = (0..SLOTS).map(high).collect();
        if second < WATCHED_SECS && second % 5 == 0 {
            let priority = i16::try_from(second / 5 % 10).expect("below ten") - 5;
            jobs.push(NewJob { priority, ..world.wish("low") });
            low += 1;
            left_over += 1;
        }
        world.enqueue(jobs).await;
        for Claimed { who, wait, .. } in slots.step(&world, || SECOND).await {
            if who == "low" {
                left_over -= 1;
                longest = longest.max(wait);
            }
        }
        world.now = world.now + SECOND;
    }
    assert_eq!(left_over, 0, "of {low}");
    // What was there before it takes its time too: at most one job for each of the low ones.
    let backlog = Duration::from_secs(low.div_ceil(SLOTS) as u64 + 1);
    let bound = Duration::from_secs(HEAD_START_SECS) + backlog;
    assert!(longest <= bound, "one waited for {longest:?}, which is more than {bound:?}");
    assert!(longest > Duration::from_secs(300), "nobody was overtaken: {longest:?}");
}

#[tokio::test]
async fn j_17_every_job_is_claimed_within_its_bound_on_sqlite() {
    j_17_every_job_is_claimed_within_its_bound(Backend::Sqlite).await;
}

#[tokio::test]
async fn j_17_every_job_is_claimed_within_its_bound_on_postgres() {
    j_17_every_job_is_claimed_within_its_bound(Backend::Postgres).await;
}

/// Five hundred jobs that come back every ten seconds, fifty a second, and an outside that is away for a
/// while. They fail in large calls, as a worker's outcomes are written.
async fn j_18_an_outage_is_not_followed_by_a_storm(backend: Backend) {
    const JOBS: u64 = 500;
    const PERIOD: Duration = Duration::from_secs(10);
    const STEP: Duration = Duration::from_millis(500);
    const STEADY_PER_SEC: usize = 50;
    for outage_secs in [30u64, 200] {
        let mut world = World::new(backend).await;
        let poller = |number: u64| NewJob {
            key: Some(key(&number.to_string())),
            run_at: world.now + Duration::from_millis(number * 10_000 / JOBS),
            ..world.wish("poller")
        };
        world.enqueue((0..JOBS).map(poller).collect()).await;
        let begins = START + PERIOD * 2;
        let ends = begins + Duration::from_secs(outage_secs);
        let watched_until = ends + Duration::from_secs(320);
        let mut requests: std::collections::BTreeMap<u64, usize> =
            std::collections::BTreeMap::new();
        while world.now < watched_until {
            let is_away = (begins..ends).contains(&world.now);
            let jobs = world.claim(10_000).await;
            if world.now >= ends {
                *requests.entry(world.now.since(ends).as_secs()).or_default() += jobs.len();
            }
            let end = |job: &RunningJob| {
                let error = JobError::new("away", "no answer");
                let outcome = if is_away {
                    Outcome::Retry { error, after: None }
                } else {
                    Outcome::Again { at: world.now + PERIOD, payload: None }
                };
                (job.lease_ref(), outcome)
            };
            world.settle(jobs.iter().map(end).collect()).await;
            world.now = world.now + STEP;
        }
        let busiest = requests.values().copied().max().unwrap_or(0);
        assert!(busiest <= 2 * STEADY_PER_SEC, "{busiest} in a second after {outage_secs} s");
        let last: usize = requests.values().rev().take(10).sum();
        assert_eq!(last, 10 * STEADY_PER_SEC, "all are back");
    }
}

#[tokio::test]
async fn j_18_an_outage_is_not_followed_by_a_storm_on_sqlite() {
    j_18_an_outage_is_not_followed_by_a_storm(Backend::Sqlite).await;
}

#[tokio::test]
async fn j_18_an_outage_is_not_followed_by_a_storm_on_postgres() {
    j_18_an_outage_is_not_followed_by_a_storm(Backend::Postgres).await;
}
