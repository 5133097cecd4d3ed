//! What is particular to this adapter. Behaviour that every adapter has is in the conformance
//! suite.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{
    JobState, Json, KindName, KindSpec, Lane, LeaseOwner, MergeRule, NewJob, Outcome, RetryPolicy,
    Role, Settle, Settled, WorkerName,
};
use roundsman_core::ports::{ClaimRequest, EnqueueAnswer, EnqueueRequest, JobStore, LaneDemand};
use roundsman_core::users::UserId;
use tokio::sync::oneshot;

use super::*;
use crate::migrations::SCHEMA_KNOWN;

const USER: UserId = UserId::new(1);

pub(super) fn catalog() -> Arc<KindCatalog> {
    Arc::new(KindCatalog::new(KindSpec {
        kind: kind(),
        lease_ttl: Duration::from_mins(1),
        heartbeat_every: Duration::from_secs(15),
        deadline: None,
        max_attempts: Some(3),
        retry: RetryPolicy { base: Duration::from_secs(1), cap: Duration::from_mins(1) },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    }))
}

fn kind() -> KindName {
    KindName::new("render").unwrap()
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_micros(secs * 1_000_000)
}

fn wishes(count: usize) -> EnqueueRequest {
    let wish = NewJob {
        user_id: USER,
        kind: kind(),
        key: None,
        payload: Json::null(),
        priority: 0,
        run_at: at(1),
        max_attempts: Some(3),
        tenant: None,
    };
    EnqueueRequest { jobs: vec![wish; count], idempotency: None }
}

fn claim_of(max: u32) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerName::new("w"),
        owner: LeaseOwner::Outside,
        demands: vec![LaneDemand {
            lane: Lane::of(USER, &kind()),
            max,
            lease_ttl: Duration::from_mins(1),
            deadline: None,
        }],
        total_max: max,
    }
}

struct TestFile {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl TestFile {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/roundsman.db");
        TestFile { _folder: folder, path }
    }

    fn open(&self) -> std::result::Result<SqliteStore, StoreError> {
        SqliteStore::open(&SqliteOptions::new(&self.path), catalog())
    }
}

async fn count(store: &SqliteStore) -> i64 {
    store
        .read(|conn| Ok(conn.query_row("SELECT count(*) FROM job_queue", [], |row| row.get(0))?))
        .await
        .unwrap()
}

fn insert(conn: &Connection, id: i64) -> Result<()> {
    conn.execute(
        "INSERT INTO pulse (one, beat_at) VALUES (?1, ?1)
         ON CONFLICT (one) DO UPDATE SET beat_at = beat_at + ?1",
        [id],
    )?;
    Ok(())
}

/// Holds the writer in a request until the returned sender is used, so that what is sent
/// meanwhile becomes one group.
async fn hold(
    store: &Arc<SqliteStore>,
) -> (std::sync::mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (entered, inside) = oneshot::channel();
    let holder = Arc::clone(store);
    let task = tokio::task::spawn_local(async move {
        holder
            .write("store.ping", move |_, _| {
                let _ = entered.send(());
                let _ = released.recv();
                Ok(())
            })
            .await
            .unwrap();
    });
    inside.await.unwrap();
    (release, task)
}

/// Runs three writes of which the middle one is `bad` in one group, and returns what became of it.
async fn between_neighbours<F>(bad: F) -> (std::result::Result<(), StoreError>, i64)
where
    F: FnOnce(&Connection) -> Result<()> + Send + 'static,
{
    let database = TestFile::new();
    let store = Arc::new(database.open().unwrap());
    let local = tokio::task::LocalSet::new();
    let answer = local
        .run_until(async {
            let (release, holder) = hold(&store).await;
            let before = store.write("store.ping", |conn, _| insert(conn, 1));
            let middle = store.write("store.ping", move |conn, _| {
                insert(conn, 1)?;
                bad(conn)
            });
            let after = store.write("store.ping", |conn, _| insert(conn, 1));
            let all = async { tokio::join!(before, middle, after) };
            let free = async {
                // `join!` polls in order: when this runs, the three are in the queue.
                release.send(()).unwrap();
            };
            let ((before, middle, after), ()) = tokio::join!(all, free);
            holder.await.unwrap();
            before.unwrap();
            after.unwrap();
            middle
        })
        .await;
    let beat = store
        .read(|conn| Ok(conn.query_row("SELECT beat_at FROM pulse", [], |row| row.get(0))?))
        .await
        .unwrap();
    store.close().await;
    (answer, beat)
}

#[tokio::test]
async fn neighbours_survive_a_failing_request() {
    let (answer, beat) = between_neighbours(|conn| {
        conn.execute("INSERT INTO pulse (one, beat_at) VALUES (7, 7)", [])?;
        Ok(())
    })
    .await;
    assert!(matches!(answer, Err(StoreError::Failed(_))), "{answer:?}");
    assert_eq!(beat, 2, "the neighbours wrote, the failing one left nothing");
}

#[tokio::test]
async fn neighbours_survive_a_panicking_request() {
    let (answer, beat) = between_neighbours(|_| panic!("on purpose")).await;
    match answer {
        Err(StoreError::Failed(reason)) => assert!(reason.to_string().contains("on purpose")),
        other => panic!("{other:?}"),
    }
    assert_eq!(beat, 2);
}

#[tokio::test]
async fn a_transaction_that_sqlite_gives_up_is_answered_with_an_error() {
    // ROLLBACK inside a request is what SQLite does by itself when the disk is full: the work of
    // the request before it is gone, and that one must not be told that it is stored.
    let database = TestFile::new();
    let store = Arc::new(database.open().unwrap());
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let (release, holder) = hold(&store).await;
            let before = store.write("store.ping", |conn, _| insert(conn, 1));
            let middle = store.write("store.ping", |conn, _| {
                conn.execute_batch("ROLLBACK")?;
                Err::<(), _>(Failure::failed("on purpose"))
            });
            let after = store.write("store.ping", |conn, _| insert(conn, 1));
            let all = async { tokio::join!(before, middle, after) };
            let free = async { release.send(()).unwrap() };
            let ((before, middle, after), ()) = tokio::join!(all, free);
            holder.await.unwrap();
            assert!(before.is_err(), "its work is gone");
            assert!(middle.is_err());
            after.expect("the rest of the group gets a transaction of its own");
        })
        .await;
    let beats: i64 = store
        .read(|conn| Ok(conn.query_row("SELECT sum(beat_at) FROM pulse", [], |row| row.get(0))?))
        .await
        .unwrap();
    assert_eq!(beats, 1);
    store.close().await;
}

#[tokio::test]
async fn a_request_alone_is_undone_as_a_whole() {
    let database = TestFile::new();
    let store = database.open().unwrap();
    let answer = store
        .write("store.ping", |conn, _| {
            insert(conn, 1)?;
            Err::<(), _>(Failure::failed("on purpose"))
        })
        .await;
    assert!(answer.is_err());
    store.write("store.ping", |conn, _| insert(conn, 1)).await.unwrap();
    let beat: i64 = store
        .read(|conn| Ok(conn.query_row("SELECT beat_at FROM pulse", [], |row| row.get(0))?))
        .await
        .unwrap();
    assert_eq!(beat, 1);
    store.close().await;
}

#[tokio::test]
async fn a_reader_survives_a_panic() {
    let database = TestFile::new();
    let mut options = SqliteOptions::new(&database.path);
    options.readers = 1;
    let store = SqliteStore::open(&options, catalog()).unwrap();
    let answer = store.read(|_| -> Result<()> { panic!("on purpose") }).await;
    assert!(matches!(answer, Err(StoreError::Failed(_))));
    assert_eq!(count(&store).await, 0);
    store.close().await;
}

#[tokio::test]
async fn a_full_database_says_so_and_recovers() {
    let database = TestFile::new();
    let store = database.open().unwrap();
    let limit = |pages: &'static str| {
        store.write("store.ping", move |conn, _| {
            let _: i64 = conn.query_row(pages, [], |row| row.get(0))?;
            Ok(())
        })
    };
    limit("PRAGMA max_page_count = 1").await.unwrap();
    let answer = store.enqueue(wishes(10_000), at(1)).await;
    assert!(matches!(answer, Err(StoreError::StorageFull(_))), "{answer:?}");
    assert_eq!(count(&store).await, 0, "nothing of it was written");
    limit("PRAGMA max_page_count = 1000000").await.unwrap();
    store.enqueue(wishes(10_000), at(1)).await.unwrap();
    assert_eq!(count(&store).await, 10_000);
    store.close().await;
}

#[tokio::test]
async fn two_servers_never_share_a_file() {
    let database = TestFile::new();
    let first = database.open().unwrap();
    let error = database.open().unwrap_err().to_string();
    let lock = beside(&database.path, ".lock");
    assert!(error.contains(&*lock.to_string_lossy()), "{error}");
    first.close().await;
    database.open().unwrap().close().await;
}

#[tokio::test]
async fn files_are_for_their_owner_alone() {
    let database = TestFile::new();
    let store = database.open().unwrap();
    store.enqueue(wishes(1), at(1)).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(database.path.parent().unwrap()), 0o700);
    for suffix in ["", "-wal", "-shm", ".lock"] {
        assert_eq!(mode(&beside(&database.path, suffix)), 0o600, "{suffix}");
    }
    store.close().await;
    assert!(!beside(&database.path, "-wal").exists(), "closing leaves one file to copy");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let database = TestFile::new();
    database.open().unwrap().close().await;
    let newer = SCHEMA_KNOWN + 1;
    let conn = Connection::open(&database.path).unwrap();
    conn.pragma_update(None, "user_version", newer).unwrap();
    drop(conn);
    let before = std::fs::read(&database.path).unwrap();
    match database.open() {
        Err(StoreError::SchemaTooNew { found, known }) => {
            assert_eq!((found, known), (newer, SCHEMA_KNOWN));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read(&database.path).unwrap(), before);
}

#[tokio::test]
async fn what_was_stored_is_there_after_a_restart() {
    let database = TestFile::new();
    let store = database.open().unwrap();
    store.enqueue(wishes(3), at(1)).await.unwrap();
    let claimed = store.claim(claim_of(1), at(2)).await.unwrap().jobs;
    store.close().await;
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))), "closed is closed");

    let store = database.open().unwrap();
    let again = store.claim(claim_of(10), at(3)).await.unwrap().jobs;
    assert_eq!(again.len(), 2);
    assert!(again[0].lease.lease_no > claimed[0].lease.lease_no, "tokens grow across restarts");
    let settle = Settle {
        lease: claimed[0].lease_ref(),
        outcome: Outcome::Done { result: Json::null() },
        effects: roundsman_core::effects::Effects::default(),
    };
    let settled = store.settle(vec![settle], 0, at(4)).await.unwrap();
    assert_eq!(settled, [Settled::Landed { state: JobState::Completed }]);
    store.close().await;
}

#[tokio::test]
async fn the_log_is_begun_anew_under_steady_writing() {
    let database = TestFile::new();
    let store = database.open().unwrap();
    let mut largest = 0;
    let mut large = wishes(5000);
    for wish in &mut large.jobs {
        wish.payload = Json::from_stored(format!("\"{}\"", "x".repeat(1000)));
    }
    for _ in 0..40 {
        store.enqueue(large.clone(), at(1)).await.unwrap();
        let log = std::fs::metadata(beside(&database.path, "-wal")).unwrap().len();
        largest = largest.max(log);
    }
    store.close().await;
    let size = std::fs::metadata(&database.path).unwrap().len();
    assert!(size > 240 * 1024 * 1024, "wrote {size} bytes: too few to tell");
    assert!(largest < 160 * 1024 * 1024, "the log grew to {largest} bytes");
}

#[tokio::test]
async fn inline_is_the_same_store_on_the_callers_thread() {
    let store = SqliteStore::open_in_memory_inline(catalog()).unwrap();
    let caller = std::thread::current().id();
    let ran_on = store.write("store.ping", |_, _| Ok(std::thread::current().id())).await.unwrap();
    assert_eq!(ran_on, caller);
    assert!(
        store.write("store.ping", |_, _| -> Result<()> { panic!("on purpose") }).await.is_err()
    );
    let stored = store.enqueue(wishes(2), at(1)).await.unwrap();
    assert!(matches!(stored, EnqueueAnswer::Stored(jobs) if jobs.len() == 2));
    assert_eq!(store.claim(claim_of(10), at(2)).await.unwrap().jobs.len(), 2);
    store.close().await;
}

#[tokio::test]
async fn the_clock_is_this_machines() {
    let store = SqliteStore::open_in_memory_inline(catalog()).unwrap();
    let now = store.now().await.unwrap();
    assert!(now > Timestamp::parse_rfc3339("2026-01-01T00:00:00Z").unwrap(), "{now}");
    assert!(now < Timestamp::parse_rfc3339("2126-01-01T00:00:00Z").unwrap(), "{now}");
    store.ping().await.unwrap();
    assert!(store.describe().starts_with("sqlite 3."));
}
