//! What the conformance suite cannot look at: plans, starts that race, servers that misbehave.

mod advice;
mod alive;
mod audits;
mod beats;
mod faults;
mod gates;
mod plans;
mod presence;
mod recordings;
mod said;
mod starts;
mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    Json, KindCatalog, KindName, KindSpec, Lane, LeaseOwner, MergeRule, NewJob, RetryPolicy, Role,
    WorkerName,
};
use roundsman_core::ports::{ClaimRequest, EnqueueRequest, JobStore, LaneDemand};
use roundsman_core::users::UserId;
use roundsman_testkit::TestDatabase;

use super::{PostgresOptions, PostgresStore};

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const ADA: UserId = UserId::new(1);

fn kind() -> KindName {
    KindName::new("render").unwrap()
}

fn catalog() -> Arc<KindCatalog> {
    Arc::new(KindCatalog::new(KindSpec {
        kind: kind(),
        lease_ttl: Duration::from_secs(300),
        heartbeat_every: Duration::from_secs(30),
        deadline: None,
        max_attempts: Some(3),
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    }))
}

/// Columns that an index depends on: as a key, in an expression, or in its condition.
const INDEXED: &str = "
SELECT count(*) FROM pg_depend d
  JOIN pg_class i ON i.oid = d.objid AND i.relkind = 'i'
  JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
 WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
   AND d.refobjid = to_regclass($1::text) AND a.attname = ANY ($2::text[])";

fn options(database: &TestDatabase) -> PostgresOptions {
    PostgresOptions::new(database.url().parse().unwrap())
}

async fn store() -> (PostgresStore, TestDatabase) {
    let database = TestDatabase::create().await.unwrap();
    let store = PostgresStore::connect(options(&database), catalog()).await.unwrap();
    (store, database)
}

async fn enqueue(store: &PostgresStore, count: usize) {
    let wish = NewJob {
        user_id: ADA,
        kind: kind(),
        key: None,
        payload: Json::null(),
        priority: 0,
        run_at: NOW,
        max_attempts: None,
        tenant: None,
    };
    let request = EnqueueRequest { jobs: vec![wish; count], idempotency: None };
    store.enqueue(request, NOW).await.unwrap();
}

fn claim(max: u32) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerName::new("w"),
        owner: LeaseOwner::Outside,
        demands: vec![LaneDemand {
            lane: Lane::of(ADA, &kind()),
            max,
            lease_ttl: Duration::from_secs(300),
            deadline: None,
        }],
        total_max: max,
    }
}
