//! The embedded database: one SQLite file, written by one thread and read by a few.
//!
//! Invariants: one process has the file (a lock file beside it sees to that); every write goes
//! through the one write connection, each request atomic and all that queued up meanwhile in one
//! commit; a call has returned only when its commit is on disk. Reads see one snapshot each and
//! never wait for writes.

mod audits;
mod bots;
mod check;
mod checkpoint;
mod connection;
mod effects;
mod error;
mod file;
mod jobs;
mod keys;
mod presence;
mod readers;
mod recordings;
mod request;
mod rooms;
mod schema;
mod tasks;
mod time;
mod transcripts;
pub mod upkeep;
mod users;
mod webhooks;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::failpoint;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{Database, StoreError};
use rusqlite::Connection;

use self::checkpoint::Checkpointer;
use self::error::{Failure, Result, closed};
use self::file::FileLock;
use self::readers::Readers;
use self::request::isolated;
use self::time::At;
use self::writer::Writer;

/// Where the database is and how it is run.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub path: PathBuf,
    pub durability: Durability,
    /// How many connections read at the same time.
    pub readers: usize,
    /// How many writes may wait before callers wait to hand theirs in.
    pub write_queue_requests_max: usize,
    /// How many writes share one commit at most.
    pub group_requests_max: usize,
    /// For a command that may run while a server has the database: then the lock is not needed,
    /// but the schema must be the one this program knows.
    pub beside_a_server: bool,
}

impl SqliteOptions {
    /// Durable, with the limits that suit a small server.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SqliteOptions {
            path: path.into(),
            durability: Durability::Full,
            readers: 2,
            write_queue_requests_max: 4096,
            group_requests_max: 1000,
            beside_a_server: false,
        }
    }
}

/// What a commit has survived when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The loss of power: every commit is synchronised to disk.
    #[default]
    Full,
    /// The death of the process: the operating system writes when it likes. After a loss of power
    /// the latest commits may be missing; what is there is consistent.
    Relaxed,
}

/// All of storage in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    catalog: Arc<KindCatalog>,
    access: Access,
}

#[derive(Debug)]
enum Access {
    Threads {
        writer: Writer,
        readers: Readers,
        checkpointer: Checkpointer,
    },
    /// Everything at once on the caller's thread: for simulations, which want no other.
    Inline(Mutex<Option<Connection>>),
}

/// The first release whose write-ahead log has no known way to corrupt a database.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

impl SqliteStore {
    /// Opens the database, making or migrating it as needed, and starts its threads. Blocks: call
    /// it while starting up.
    pub fn open(
        options: &SqliteOptions,
        catalog: Arc<KindCatalog>,
    ) -> std::result::Result<Self, StoreError> {
        Self::open_threads(options, catalog).map_err(StoreError::from)
    }

    /// A database in memory whose every operation runs on the caller's thread, for simulations.
    /// The SQL is the same; there is nothing to survive a crash.
    pub fn open_in_memory_inline(
        catalog: Arc<KindCatalog>,
    ) -> std::result::Result<Self, StoreError> {
        let conn = assert_version()
            .and_then(|()| connection::open_in_memory())
            .and_then(|conn| schema::migrate(&conn).map(|()| conn))
            .map_err(StoreError::from)?;
        Ok(SqliteStore { catalog, access: Access::Inline(Mutex::new(Some(conn))) })
    }

    fn open_threads(options: &SqliteOptions, catalog: Arc<KindCatalog>) -> Result<Self> {
        assert_version()?;
        file::prepare_folder(&options.path)?;
        let lock = Arc::new(if options.beside_a_server {
            FileLock::take_if_free(&options.path)?
        } else {
            FileLock::take(&options.path)?
        });
        if lock.is_held() {
            file::prepare_database(&options.path)?;
        }
        let conn = connection::open_writer(&options.path, options.durability)?;
        if lock.is_held() {
            schema::migrate(&conn)?;
        } else {
            schema::refuse_older(&conn)?;
        }
        let checkpointer = Checkpointer::start(&options.path, Arc::clone(&lock))?;
        let readers = Readers::start(&options.path, options.readers, &lock)?;
        let writer = Writer::start(conn, options, checkpointer.gauge(), lock)?;
        Ok(SqliteStore { catalog, access: Access::Threads { writer, readers, checkpointer } })
    }

    /// Runs `work` in a write transaction of its own, as far as anybody can tell. `place` is where
    /// a test may end the process, after the work and before its commit.
    async fn write<T, F>(&self, place: &'static str, work: F) -> std::result::Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &KindCatalog) -> Result<T> + Send + 'static,
    {
        let catalog = Arc::clone(&self.catalog);
        let work = move |conn: &Connection| {
            let answer = work(conn, &catalog);
            failpoint::hit(place);
            answer
        };
        match &self.access {
            Access::Threads { writer, .. } => writer.run(work).await,
            Access::Inline(conn) => inline(conn, "BEGIN IMMEDIATE", work),
        }
    }

    /// Runs `work` over one snapshot of the database.
    async fn read<T, F>(&self, work: F) -> std::result::Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        match &self.access {
            Access::Threads { readers, .. } => readers.run(work).await,
            Access::Inline(conn) => inline(conn, "BEGIN", work),
        }
    }
}

#[async_trait]
impl Database for SqliteStore {
    async fn now(&self) -> std::result::Result<Timestamp, StoreError> {
        self.read(wall_clock).await
    }

    async fn ping(&self) -> std::result::Result<(), StoreError> {
        self.write("store.ping", |conn, _| {
            let now = wall_clock(conn)?;
            conn.prepare_cached(BEAT)?.execute([At(now)])?;
            Ok(())
        })
        .await
    }

    fn describe(&self) -> String {
        format!("sqlite {}", rusqlite::version())
    }

    async fn close(&self) {
        match &self.access {
            Access::Threads { writer, readers, checkpointer } => {
                writer.close().await;
                readers.close().await;
                checkpointer.close().await;
            }
            Access::Inline(conn) => {
                conn.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
        }
    }
}

const WALL_CLOCK: &str = "-- wall_clock
    SELECT CAST(round(unixepoch('subsec') * 1000000) AS INTEGER)";

const BEAT: &str = "-- beat
    INSERT INTO pulse (one, beat_at) VALUES (1, ?1)
    ON CONFLICT (one) DO UPDATE SET beat_at = excluded.beat_at";

fn wall_clock(conn: &Connection) -> Result<Timestamp> {
    let At(now) = conn.prepare_cached(WALL_CLOCK)?.query_row([], |row| row.get(0))?;
    Ok(now)
}

fn assert_version() -> Result<()> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        let found = rusqlite::version();
        return Err(Failure::failed(format!("SQLite {found} is too old: 3.51.3 is the oldest")));
    }
    Ok(())
}

fn inline<T>(
    conn: &Mutex<Option<Connection>>,
    begin: &'static str,
    work: impl FnOnce(&Connection) -> Result<T>,
) -> std::result::Result<T, StoreError> {
    let guard = conn.lock().unwrap_or_else(PoisonError::into_inner);
    let conn = guard.as_ref().ok_or_else(closed)?;
    isolated(conn, begin, work).map_err(StoreError::from)
}

/// How long a connection waits for a lock of another before it gives up. Only the checkpointer and
/// a shell that an operator opened can hold one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The name of a file that belongs to the database, such as `roundsman.db-wal`.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
