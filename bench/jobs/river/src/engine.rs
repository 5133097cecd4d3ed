//! riverqueue on either database.

use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use riverqueue::migrate::{PostgresMigrator, SqliteMigrator};
use riverqueue::sqlx::postgres::PgPoolOptions;
use riverqueue::sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use riverqueue::sqlx::{self, PgPool, SqlitePool};
use riverqueue::{
    Client, InsertOpts, Job, JobArgs, QUEUE_DEFAULT, QueueConfig, WorkContext, WorkOutcome, Workers,
};
use serde::{Deserialize, Serialize};

/// As in its own benchmark.
const CONNECTIONS: u32 = 50;
const WORKERS: usize = 2_000;
const FETCH_COOLDOWN: Duration = Duration::from_millis(2);
const FETCH_POLL: Duration = Duration::from_millis(20);
/// With one writer, more workers and connections only wait for each other.
const SQLITE_CONNECTIONS: u32 = 4;
const SQLITE_WORKERS: usize = 500;

#[derive(Debug, Clone, Serialize, Deserialize, JobArgs)]
#[river(kind = "nothing")]
struct Nothing {
    n: usize,
}

#[derive(Clone)]
enum Pool {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

#[derive(Clone)]
pub(crate) struct Engine {
    pool: Pool,
    /// Enqueues; it has no workers.
    client: Client,
}

/// A worker that runs until it is stopped.
pub(crate) struct Working(riverqueue::RunHandle);

impl Engine {
    pub(crate) async fn open(database: &str, synchronous: &str) -> anyhow::Result<Engine> {
        if database.starts_with("postgres") {
            let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(database).await?;
            PostgresMigrator::new(pool.clone()).migrate_up().await?;
            let client = Client::builder(pool.clone()).build()?;
            return Ok(Engine { pool: Pool::Postgres(pool), client });
        }
        let synchronous = SqliteSynchronous::from_str(synchronous)?;
        let options = SqliteConnectOptions::new()
            .filename(database)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(synchronous)
            .busy_timeout(Duration::from_secs(30));
        let pool = SqlitePoolOptions::new().max_connections(SQLITE_CONNECTIONS);
        let pool = pool.connect_with(options).await?;
        SqliteMigrator::new(pool.clone()).migrate_up().await?;
        let client = Client::builder(pool.clone()).build()?;
        Ok(Engine { pool: Pool::Sqlite(pool), client })
    }

    /// Enqueues jobs with these numbers in one call.
    pub(crate) async fn bulk(&self, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
        let jobs: Vec<_> = numbers.map(|n| (Nothing { n }, InsertOpts::default())).collect();
        self.client.insert_many(jobs).await?;
        Ok(())
    }

    pub(crate) async fn single(&self, n: usize) -> anyhow::Result<()> {
        self.client.insert(Nothing { n }).await?;
        Ok(())
    }

    /// Starts a worker that says which jobs it has begun.
    pub(crate) async fn work(
        &self,
        on_job: Arc<dyn Fn(usize) + Send + Sync>,
    ) -> anyhow::Result<Working> {
        let mut workers = Workers::new();
        workers.add_fn(move |_context: WorkContext, job: Job<Nothing>| {
            on_job(job.args.n);
            std::future::ready(Ok::<_, Infallible>(WorkOutcome::Complete))
        })?;
        let queue = |workers| {
            QueueConfig::new(workers)
                .with_fetch_cooldown(FETCH_COOLDOWN)
                .with_fetch_poll_interval(FETCH_POLL)
        };
        let builder = match &self.pool {
            Pool::Postgres(pool) => {
                Client::builder(pool.clone()).queue(QUEUE_DEFAULT, queue(WORKERS))
            }
            Pool::Sqlite(pool) => {
                Client::builder(pool.clone()).queue(QUEUE_DEFAULT, queue(SQLITE_WORKERS))
            }
        };
        let mut run = builder.workers(workers).build()?.start()?;
        run.wait_ready().await?;
        Ok(Working(run))
    }

    /// How many jobs the database says are not done.
    pub(crate) async fn unfinished(&self) -> anyhow::Result<i64> {
        let query = "SELECT count(*) FROM river_job WHERE state <> 'completed'";
        Ok(match &self.pool {
            Pool::Postgres(pool) => sqlx::query_scalar(query).fetch_one(pool).await?,
            Pool::Sqlite(pool) => sqlx::query_scalar(query).fetch_one(pool).await?,
        })
    }

    /// Bytes written so far: to PostgreSQL's log, or by this process.
    pub(crate) async fn bytes_written(&self) -> anyhow::Result<f64> {
        if let Pool::Postgres(pool) = &self.pool {
            let query = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8";
            return Ok(sqlx::query_scalar(query).fetch_one(pool).await?);
        }
        let io = std::fs::read_to_string("/proc/self/io")?;
        let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).context("no wchar")?;
        Ok(line.parse()?)
    }

    /// What an idle minute would have done.
    pub(crate) async fn settle_down(&self) -> anyhow::Result<()> {
        if let Pool::Postgres(pool) = &self.pool {
            sqlx::query("VACUUM ANALYZE").execute(pool).await?;
        }
        Ok(())
    }
}

impl Working {
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.0.stop().await?;
        Ok(())
    }
}
