//! G-11: a store that is open goes on while the database under it is migrated by a newer release, with
//! the statements that it has prepared before. What such a migration may do is imagined at its
//! fullest: every table gets a column that may be empty, one with a default, and an index.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::effects::{Effects, NewFrame};
use roundsman_core::jobs::{JobError, JobId, JobState, NewJob, Outcome, Settled};
use roundsman_core::ports::{
    EnqueueAnswer, EnqueueRequest, HeartbeatAnswer, IdempotencyKey, PruneRequest, Scope, Store,
};
use roundsman_core::users::NewUser;
use roundsman_store::conformance::{ADA, Fixture, RENDER, catalog, json};
use roundsman_store::postgres::{PostgresOptions, PostgresStore};
use roundsman_testkit::TestDatabase;

use crate::open;

/// Before, so that everything is prepared; and after, so that what is prepared is used again.
const ROUNDS_EACH: usize = 3;
/// Longer than any lease and any backoff of the suite's kinds.
const SILENCE: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_on_sqlite_goes_on_under_a_newer_schema() {
    let (store, folder) = open::sqlite(catalog());
    let path = folder.path().join("test.db");
    let fixture = Fixture::new(Arc::new(store), open::usual_traits(true, 1), folder);
    works(&fixture, "before").await;

    let database = rusqlite::Connection::open(path).expect("the database");
    database.busy_timeout(Duration::from_secs(10)).expect("patience");
    // Not those of the full-text index, which SQLite keeps by itself.
    let tables = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
                  AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut asked = database.prepare(tables).expect("the tables");
    let names: Vec<String> =
        asked.query_map([], |row| row.get(0)).expect("names").map(Result::unwrap).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in &names {
        let change = format!(
            "BEGIN IMMEDIATE;
             ALTER TABLE {name} ADD COLUMN next_note TEXT;
             ALTER TABLE {name} ADD COLUMN next_count INTEGER NOT NULL DEFAULT 0;
             CREATE INDEX {name}_next ON {name} (next_count);
             COMMIT"
        );
        database.execute_batch(&change).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    works(&fixture, "after").await;
    fixture.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_on_postgres_goes_on_under_a_newer_schema() {
    let database = TestDatabase::create().await.expect("a database");
    let mut options = PostgresOptions::new(database.url().parse().expect("a valid URL"));
    // One connection, so that what is prepared before is what is used after.
    options.pool_max = 1;
    let store = PostgresStore::connect(options, catalog()).await.expect("a store");
    let operator = database.connect().await.expect("a connection");
    let fixture = Fixture::new(Arc::new(store), open::usual_traits(false, 1), database);
    works(&fixture, "before").await;

    let tables = "SELECT c.relname::text FROM pg_class c \
                  JOIN pg_namespace n ON n.oid = c.relnamespace \
                  WHERE n.nspname = 'roundsman' AND c.relkind = 'r' ORDER BY c.relname";
    let rows = operator.query(tables, &[]).await.expect("the tables");
    assert!(rows.len() > 20, "{} tables", rows.len());
    for row in rows {
        let name: String = row.get(0);
        let change = format!(
            "ALTER TABLE roundsman.{name} ADD COLUMN next_note text;
             ALTER TABLE roundsman.{name} ADD COLUMN next_count bigint NOT NULL DEFAULT 0;
             CREATE INDEX {name}_next ON roundsman.{name} (next_count)"
        );
        operator.batch_execute(&change).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    works(&fixture, "after").await;
    fixture.finish().await;
}

/// What a node does all the time.
async fn works(fx: &Fixture, when: &str) {
    for round in 0..ROUNDS_EACH {
        let name = format!("{when}-{round}");
        fx.store.ping().await.expect("a ping");
        user(fx.store.as_ref(), &name, fx).await;
        lives_of_jobs(fx, &name).await;
        silence_and_pruning(fx).await;
        assert_eq!(fx.store.check().await.expect("a look at everything"), []);
    }
}

async fn user(store: &dyn Store, name: &str, fx: &Fixture) {
    let wish = NewUser {
        email: format!("{name}@example.org"),
        name: Some(name.to_owned()),
        image_url: None,
        max_concurrent_bots: 1,
    };
    let (made, is_new) = store.find_or_create_user(wish.clone(), fx.now()).await.expect("a user");
    let (found, is_new_again) = store.find_or_create_user(wish, fx.now()).await.expect("a user");
    assert_eq!((made.id, is_new, is_new_again), (found.id, true, false));
}

/// Enqueued, joined, recognised, claimed, kept alive, completed, failed, retried, cancelled.
async fn lives_of_jobs(fx: &Fixture, name: &str) {
    let keyed = fx.put(fx.keyed(RENDER, name)).await;
    assert_eq!(fx.join(fx.keyed(RENDER, name)).await, keyed);
    let repeated = repeated_request(fx, name).await;
    let poison = fx.put(NewJob { max_attempts: Some(1), ..fx.wish(RENDER) }).await;
    let unwanted = fx.put(fx.wish(RENDER)).await;
    fx.store.cancel(Scope::All, unwanted, fx.now()).await.expect("a cancel");

    let running = fx.claim(RENDER, 10).await;
    let ids: Vec<JobId> = running.iter().map(|job| job.facts.id).collect();
    assert_eq!(ids, [keyed, repeated, poison]);
    for job in &running {
        let beat = fx.heartbeat_with(job.lease_ref(), None, Some(json("1"))).await;
        assert!(matches!(beat, HeartbeatAnswer::Extended { .. }), "{beat:?}");
    }
    let frame = NewFrame { stream: name.to_owned(), body: json("2") };
    let effects = Effects { frames: vec![frame], ..Effects::default() };
    let done = Outcome::Done { result: json("3") };
    let settled = fx.settle_with(running[0].lease_ref(), done.clone(), effects).await;
    assert_eq!(settled, Settled::Landed { state: JobState::Completed });
    assert_eq!(fx.land(running[1].lease_ref(), Outcome::Release).await, JobState::Pending);
    let error = JobError::new("boom", "it broke");
    let failed = Outcome::Retry { error, after: None };
    assert_eq!(fx.land(running[2].lease_ref(), failed).await, JobState::Failed);
    fx.store.retry(Scope::All, poison, fx.now()).await.expect("a retry");
    let again = fx.claim(RENDER, 10).await;
    assert_eq!(again.len(), 2);
    for job in again {
        assert_eq!(fx.land(job.lease_ref(), done.clone()).await, JobState::Completed);
    }
    assert_eq!(fx.state(unwanted).await, JobState::Cancelled);
    fx.assert_nothing_to_claim(RENDER).await;
}

/// A request that is sent twice with its key is one job.
async fn repeated_request(fx: &Fixture, name: &str) -> JobId {
    let idempotency = IdempotencyKey {
        user_id: ADA,
        route: "POST /jobs",
        key: name.to_owned(),
        body_hash: [7; 32],
    };
    let request = EnqueueRequest { jobs: vec![fx.wish(RENDER)], idempotency: Some(idempotency) };
    let first = fx.store.enqueue(request.clone(), fx.now()).await.expect("a job");
    let again = fx.store.enqueue(request, fx.now()).await.expect("the same job");
    let (EnqueueAnswer::Stored(first), EnqueueAnswer::Replayed(again)) = (first, again) else {
        panic!("a repeated request was not recognised")
    };
    assert_eq!(first, again);
    first[0].id
}

/// Somebody falls silent, another finishes it; what is over is forgotten.
async fn silence_and_pruning(fx: &Fixture) {
    let id = fx.put(fx.wish(RENDER)).await;
    fx.claim_one(RENDER).await;
    fx.advance(SILENCE);
    assert_eq!(fx.sweep().await.rescued.len(), 1);
    fx.advance(SILENCE);
    let heir = fx.claim_one(RENDER).await;
    assert_eq!((heir.facts.id, heir.facts.attempt), (id, 2));
    fx.land(heir.lease_ref(), Outcome::Done { result: json("4") }).await;
    assert!(fx.store.depths(fx.now()).await.expect("depths").is_empty());
    fx.advance(SILENCE);
    let now = fx.now();
    let request = PruneRequest {
        completed_before: now,
        failed_before: now,
        cancelled_before: now,
        idempotency_before: now,
        frames_before: now,
        buckets_before: now,
        rows_max: 1_000,
    };
    let pruned = fx.store.prune(request).await.expect("pruning");
    assert!(pruned.jobs >= 5, "{pruned:?}");
    assert_eq!(fx.all_jobs().await, []);
}
