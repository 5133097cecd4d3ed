//! Whoever waits is served: a flood of one tenant, and a stream of higher priority, in simulated time.

use std::collections::BTreeSet;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    Json, Lane, LeaseOwner, LeaseRef, NewJob, Outcome, Settle, Tenant, WorkerName,
};
use roundsman_core::ports::{ClaimRequest, EnqueueRequest, JobStore, LaneDemand};
use roundsman_store::conformance::{ADA, RENDER, catalog, kind};
use roundsman_store::sqlite::SqliteStore;

use crate::open;

const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const STEP: Duration = Duration::from_millis(50);
const SLOTS: usize = 10;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Workers with a few slots, and jobs that take their time.
struct World {
    store: SqliteStore,
    now: Timestamp,
    running: BTreeSet<(Timestamp, LeaseRef)>,
    dice: Dice,
}

impl World {
    fn new() -> Self {
        let store = open::sqlite_inline(catalog());
        World { store, now: START, running: BTreeSet::new(), dice: Dice(7) }
    }

    fn wish(&self, who: &str, tenant: bool, priority: i16) -> NewJob {
        NewJob {
            user_id: ADA,
            kind: kind(RENDER),
            key: None,
            payload: Json::parse(&format!("\"{who}\"")).expect("it works"),
            priority,
            run_at: self.now,
            max_attempts: None,
            tenant: tenant.then(|| Tenant::new(who).expect("it works")),
        }
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) {
        self.store
            .enqueue(EnqueueRequest { jobs, idempotency: None }, self.now)
            .await
            .expect("it works");
    }

    /// Ends what is done, fills the slots, and returns whose jobs were claimed after which wait.
    async fn step(&mut self) -> Vec<(String, Duration)> {
        let now = self.now;
        let over: Vec<_> = self.running.iter().filter(|(at, _)| *at <= now).copied().collect();
        for (at, lease) in over {
            self.running.remove(&(at, lease));
            let outcome = Outcome::Done { result: Json::null() };
            let settle = Settle { lease, outcome, effects: Effects::default() };
            self.store.settle(vec![settle], 0, now).await.expect("it works");
        }
        let free = u32::try_from(SLOTS - self.running.len()).expect("it works");
        let demand = LaneDemand {
            lane: Lane::of(ADA, &kind(RENDER)),
            max: free,
            lease_ttl: Duration::from_secs(3600),
            deadline: None,
        };
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands: vec![demand],
            total_max: free,
        };
        let mut claimed = Vec::new();
        for job in self.store.claim(request, now).await.expect("it works").jobs {
            // From half a second to one and a half.
            let takes = Duration::from_millis(500 + self.dice.below(1000));
            self.running.insert((now + takes, job.lease_ref()));
            let who = job.facts.payload.as_str().trim_matches('"').to_owned();
            claimed.push((who, now.since(job.facts.run_at)));
        }
        self.now = now + STEP;
        claimed
    }
}

/// The p95 wait of those who behave, in milliseconds: ten of them enqueue 0.85 jobs a second each, all
/// together 0.85 of what the slots can do.
async fn p95_of_the_others(flood: usize, tenants: bool) -> u128 {
    let mut world = World::new();
    world.enqueue(vec![world.wish("flood", tenants, 0); flood]).await;
    let mut waits: Vec<u128> = Vec::new();
    for _ in 0..2400 {
        let mut jobs = Vec::new();
        for tenant in 0..10 {
            // 0.0425 in every step of 50 ms.
            if world.dice.below(10_000) < 425 {
                jobs.push(world.wish(&format!("t{tenant}"), tenants, 0));
            }
        }
        world.enqueue(jobs).await;
        let claimed = world.step().await;
        let others = claimed.into_iter().filter(|(who, _)| who != "flood");
        waits.extend(others.map(|(_, wait)| wait.as_millis()));
    }
    waits.sort_unstable();
    waits[waits.len() * 95 / 100]
}

/// J-16.
#[tokio::test]
async fn a_flood_does_not_double_the_wait_of_others() {
    let usual = p95_of_the_others(0, true).await;
    let flooded = p95_of_the_others(600, true).await;
    assert!(usual > 0, "the others are busy enough to wait at times");
    assert!(flooded < usual * 2, "p95 {usual} ms without, {flooded} ms with the flood");
    // Without tenants everybody waits behind the flood.
    let unfair = p95_of_the_others(600, false).await;
    assert!(unfair > usual * 10, "p95 {usual} ms without, {unfair} ms with the flood");
}

/// J-17.
#[tokio::test]
async fn a_low_priority_is_overtaken_only_for_so_long() {
    let mut world = World::new();
    world.enqueue(vec![world.wish("low", false, -5)]).await;
    let mut claimed_at = None;
    for step in 0..40_000u64 {
        // Ten slots, jobs of a second, ten jobs a second: nothing is ever left over.
        if step % 2 == 0 {
            world.enqueue(vec![world.wish("high", false, 5)]).await;
        }
        if world.step().await.iter().any(|(who, _)| who == "low") {
            claimed_at = Some(world.now.since(START));
            break;
        }
    }
    let waited = claimed_at.expect("it was claimed at all");
    // Ten steps of priority are ten minutes of age.
    assert!(waited < Duration::from_secs(660), "it waited for {waited:?}");
}
