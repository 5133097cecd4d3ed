//! J-15: how long a claim takes does not depend on how much waits. The long run measures what is promised of
//! a million; the usual one is smaller, and would still see a claim that looks at all of them.

use std::time::{Duration, Instant};

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Json, Lane, LeaseOwner, NewJob, Tenant, WorkerName};
use roundsman_core::ports::{ClaimRequest, EnqueueRequest, LaneDemand, Store};
use roundsman_store::conformance::{ADA, RENDER, catalog, kind};
use roundsman_testkit::env;

use crate::open;

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const FEW: usize = 1_000;
const MANY: usize = 100_000;
const MANY_FULL: usize = 1_000_000;
const PIECE: usize = 10_000;
const CLAIMS: usize = 200;
/// Those in a kind with tenants are spread over so many.
const TENANTS: usize = 50;
/// What a claim is promised to take at the 99th percentile in front of a million.
const PROMISED: Duration = Duration::from_millis(20);
/// A claim that looked at everything would take a hundred times as long, or a thousand.
const SLOWER_MAX: u32 = 6;

async fn fill(store: &dyn Store, jobs: usize, tenants: bool) {
    for begin in (0..jobs).step_by(PIECE) {
        let wish = |number: usize| NewJob {
            user_id: ADA,
            kind: kind(RENDER),
            key: None,
            payload: Json::null(),
            priority: i16::try_from(number % 5).expect("below five"),
            run_at: NOW - Duration::from_millis(number as u64 % 60_000),
            max_attempts: None,
            tenant: tenants
                .then(|| Tenant::new(&format!("t{}", number % TENANTS)).expect("a tenant")),
        };
        let jobs = (begin..jobs.min(begin + PIECE)).map(wish).collect();
        store.enqueue(EnqueueRequest { jobs, idempotency: None }, NOW).await.expect("enqueue");
    }
}

/// How long claims of one job take, the shortest first.
#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
async fn claims(store: &dyn Store) -> Vec<Duration> {
    let mut took = Vec::with_capacity(CLAIMS);
    for _ in 0..CLAIMS {
        let demand = LaneDemand {
            lane: Lane::of(ADA, &kind(RENDER)),
            max: 1,
            lease_ttl: Duration::from_secs(300),
            deadline: None,
        };
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands: vec![demand],
            total_max: 1,
        };
        let begin = Instant::now();
        let answer = store.claim(request, NOW).await.expect("claim");
        took.push(begin.elapsed());
        assert_eq!(answer.jobs.len(), 1);
    }
    took.sort_unstable();
    took
}

async fn j_15_a_claim_takes_no_longer_in_front_of_many(store: &dyn Store, tenants: bool) {
    let many = if env::full() { MANY_FULL } else { MANY };
    fill(store, FEW, tenants).await;
    let before = claims(store).await;
    fill(store, many, tenants).await;
    let after = claims(store).await;
    let (median, p99) = (after[CLAIMS / 2], after[CLAIMS * 99 / 100]);
    let all = format!("{FEW}: {:?}; {many}: {median:?}, p99 {p99:?}", before[CLAIMS / 2]);
    assert!(median < before[CLAIMS / 2] * SLOWER_MAX + Duration::from_millis(1), "{all}");
    if env::full() {
        assert!(p99 <= PROMISED, "{all}");
    }
}

#[tokio::test]
async fn j_15_a_claim_takes_no_longer_in_front_of_many_on_sqlite() {
    let (store, _folder) = open::sqlite(catalog());
    j_15_a_claim_takes_no_longer_in_front_of_many(&store, false).await;
}

#[tokio::test]
async fn j_15_a_claim_takes_no_longer_in_front_of_many_on_postgres() {
    let (store, _database) = open::postgres(catalog()).await;
    j_15_a_claim_takes_no_longer_in_front_of_many(&store, false).await;
}

#[tokio::test]
async fn j_15_a_claim_through_a_gate_takes_no_longer_in_front_of_many_on_sqlite() {
    let (store, _folder) = open::sqlite(catalog());
    j_15_a_claim_takes_no_longer_in_front_of_many(&store, true).await;
}

#[tokio::test]
async fn j_15_a_claim_through_a_gate_takes_no_longer_in_front_of_many_on_postgres() {
    let (store, _database) = open::postgres(catalog()).await;
    j_15_a_claim_takes_no_longer_in_front_of_many(&store, true).await;
}
