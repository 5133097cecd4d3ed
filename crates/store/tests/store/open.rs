//! Fresh stores of each adapter.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use roundsman_core::jobs::KindCatalog;
use roundsman_store::conformance::Traits;
use roundsman_store::postgres::{PostgresOptions, PostgresStore};
use roundsman_store::sqlite::{SqliteOptions, SqliteStore};
use roundsman_testkit::{TestDatabase, env};
use tempfile::TempDir;

/// How large the cases that count are on every change, and in a run of everything
/// (`ROUNDSMAN_TEST_FULL`). Of bots: races of a heartbeat and a sweep, rounds of many starts at once.
const BOT_RACES: (usize, usize) = (1_000, 10_000);
const START_ROUNDS: (usize, usize) = (20, 1_000);
/// The same for transcripts: reads while one is written, revisions of each of its segments.
const TRANSCRIPT_READS: (usize, usize) = (300, 10_000);
const TRANSCRIPT_REVISIONS: (usize, usize) = (10, 100);
/// And rooms that are open at once.
const OPEN_ROOMS: (usize, usize) = (1_000, 10_000);

/// The traits of an adapter that runs so many races about leases.
pub(crate) fn traits(exclusive: bool, races: usize) -> Traits {
    if !env::full() {
        return usual_traits(exclusive, races);
    }
    Traits {
        exclusive,
        races,
        bot_races: BOT_RACES.1,
        start_rounds: START_ROUNDS.1,
        transcript_reads: TRANSCRIPT_READS.1,
        transcript_revisions: TRANSCRIPT_REVISIONS.1,
        open_rooms: OPEN_ROOMS.1,
    }
}

/// The traits of what is never asked for more than the usual.
pub(crate) fn usual_traits(exclusive: bool, races: usize) -> Traits {
    Traits {
        exclusive,
        races,
        bot_races: BOT_RACES.0,
        start_rounds: START_ROUNDS.0,
        transcript_reads: TRANSCRIPT_READS.0,
        transcript_revisions: TRANSCRIPT_REVISIONS.0,
        open_rooms: OPEN_ROOMS.0,
    }
}

/// A store with threads of its own, on a file in a folder that goes with the test.
pub(crate) fn sqlite(catalog: Arc<KindCatalog>) -> (SqliteStore, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = SqliteOptions::new(folder.path().join("test.db"));
    let store = SqliteStore::open(&options, catalog).expect("a new database");
    (store, folder)
}

/// A store in memory that works on the caller's thread.
pub(crate) fn sqlite_inline(catalog: Arc<KindCatalog>) -> SqliteStore {
    SqliteStore::open_in_memory_inline(catalog).expect("a database in memory")
}

/// A store on a database of its own, copied from a template that has the schema.
pub(crate) async fn postgres(catalog: Arc<KindCatalog>) -> (PostgresStore, TestDatabase) {
    let template = format!("store_{:016x}", hash_of_migrations());
    let prepare = async |url: &str| {
        connect(url, Arc::clone(&catalog)).await;
        Ok(())
    };
    let database = TestDatabase::from_template(&template, prepare).await.expect("a database");
    (connect(&database.url(), catalog).await, database)
}

async fn connect(url: &str, catalog: Arc<KindCatalog>) -> PostgresStore {
    let config = url.parse().expect("the testkit gives valid URLs");
    let store = PostgresStore::connect(PostgresOptions::new(config), catalog).await;
    store.expect("a store on a fresh database")
}

/// A template lives as long as its server: another schema needs another name.
fn hash_of_migrations() -> u64 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    let entries = std::fs::read_dir(folder).expect("the folder of the migrations");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        std::fs::read(file).expect("a migration").hash(&mut hasher);
    }
    hasher.finish()
}
