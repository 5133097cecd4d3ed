//! G-11: migrating while nodes of the release before work, and while somebody's transaction is open.

use roundsman_testkit::eventually;
use tokio::task::JoinSet;

use super::*;
use crate::migrations::{MIGRATIONS, SCHEMA_KNOWN};

const SOON: Duration = Duration::from_secs(30);
/// The step after this one changes tables that every node uses all the time.
const BEFORE: u32 = 10;
/// Writes of an old node while the migration waits: each lets it wait again.
const WRITES: usize = 5;

/// What an old node does to the table that the migration waits for.
const WRITE: &str = "
UPDATE roundsman.job_running SET heartbeat_at = clock_timestamp() WHERE id = 0";

const MIGRATION_WAITS: &str = "
SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'";

/// A migration that waited for a table without an end would have every node wait behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_waits_for_a_table_lets_others_through() {
    let database = TestDatabase::create().await.unwrap();
    let old = database.connect().await.unwrap();
    migrate_to(&old, BEFORE).await;
    old.batch_execute("SET lock_timeout = '2s'").await.unwrap();
    let reader = database.connect().await.unwrap();
    reader.batch_execute("BEGIN; SELECT count(*) FROM roundsman.job_running").await.unwrap();

    let mut start = JoinSet::new();
    let options = options(&database);
    start.spawn(async move { PostgresStore::connect(options, catalog()).await });
    for _ in 0..WRITES {
        let waits = async || old.query_opt(MIGRATION_WAITS, &[]).await.unwrap();
        eventually(SOON, waits).await.expect("the migration does not wait for the table");
        old.batch_execute(WRITE).await.expect("an old node must get through");
        assert!(start.try_join_next().is_none(), "it did not wait for the open transaction");
    }
    reader.batch_execute("COMMIT").await.unwrap();
    start.join_next().await.unwrap().unwrap().expect("it is in nobody's way any more");
    let applied = old.query_one("SELECT max(number) FROM roundsman.migrations", &[]).await.unwrap();
    assert_eq!(u32::try_from(applied.get::<_, i32>(0)).unwrap(), SCHEMA_KNOWN);
}

/// Each step stands by itself: a start that ends in the middle is gone on with by the next.
#[tokio::test]
async fn whatever_step_the_schema_is_at_a_start_goes_on_from_there() {
    for number in [1, 7, SCHEMA_KNOWN - 1] {
        let database = TestDatabase::create().await.unwrap();
        migrate_to(&database.connect().await.unwrap(), number).await;
        let store = PostgresStore::connect(options(&database), catalog()).await.unwrap();
        enqueue(&store, 1).await;
    }
}

/// The schema of an older release.
pub(super) async fn migrate_to(operator: &tokio_postgres::Client, number: u32) {
    let begin = "
        CREATE SCHEMA roundsman;
        CREATE TABLE roundsman.migrations (
            number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)";
    operator.batch_execute(begin).await.unwrap();
    for migration in MIGRATIONS.iter().filter(|migration| migration.number <= number) {
        operator.batch_execute(migration.postgres).await.unwrap();
        let log = "INSERT INTO roundsman.migrations VALUES ($1, $2, now())";
        let number = i32::try_from(migration.number).unwrap();
        operator.execute(log, &[&number, &migration.name]).await.unwrap();
    }
}
