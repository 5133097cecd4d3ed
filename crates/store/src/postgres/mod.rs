//! PostgreSQL, for more than one machine: any number of servers share one database.
//!
//! Invariants:
//! - every call is one transaction or one statement, and has a limit in time;
//! - every value is a bound parameter; times come from the caller and never from `now()`;
//! - rows of several jobs are locked in the order of their keys or numbers, so that calls that meet
//!   wait instead of deadlocking; what still collides is repeated, at most a few times;
//! - what a rule decides is decided by `roundsman_core` between the statements of a transaction.

mod alive;
mod audits;
mod bots;
mod check;
mod columns;
mod effects;
mod error;
mod jobs;
mod keys;
mod pool;
mod presence;
mod recordings;
mod rooms;
mod schema;
mod session;
mod tasks;
mod transcripts;
mod types;
pub mod upkeep;
mod users;
mod webhooks;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::failpoint;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{Database, StoreError};

use self::alive::Alive;
use self::error::Failure;
use self::pool::{Operation, Pool};
use self::session::Session;
use self::types::Time;

/// How to reach and use a database.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Where it is, and who we are there.
    pub config: tokio_postgres::Config,
    /// At most this many connections.
    pub pool_max: usize,
    /// How long a call waits for a free connection.
    pub wait_timeout: Duration,
    /// How long a new connection may take.
    pub connect_timeout: Duration,
    /// How long the server works on one statement.
    pub statement_timeout: Duration,
    /// How long one statement waits for the lock of another.
    pub lock_timeout: Duration,
    /// How long we wait for the answer to a whole call, should the server fall silent.
    pub call_timeout: Duration,
    pub durability: Durability,
    pub process_lock: ProcessLock,
}

/// How others learn that this process is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProcessLock {
    /// It holds a lock that ends with it.
    #[default]
    Held,
    /// Its leases end. For a database behind a pooler that shares sessions.
    Off,
}

/// What a successful write promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// It is on disk, even if the server's default says otherwise.
    #[default]
    Full,
    /// Whatever the server's configuration promises.
    AsConfigured,
}

impl PostgresOptions {
    pub fn new(config: tokio_postgres::Config) -> Self {
        PostgresOptions {
            config,
            pool_max: 16,
            wait_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(15),
            lock_timeout: Duration::from_secs(2),
            call_timeout: Duration::from_secs(20),
            durability: Durability::Full,
            process_lock: ProcessLock::Held,
        }
    }
}

/// The store on PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    pool: Pool,
    alive: Alive,
    catalog: Arc<KindCatalog>,
    description: String,
    gated_lanes: jobs::GatedLanes,
}

impl PostgresStore {
    /// Connects and brings the schema up to date.
    pub async fn connect(
        options: PostgresOptions,
        catalog: Arc<KindCatalog>,
    ) -> Result<Self, StoreError> {
        let pool = Pool::new(&options)?;
        let server = schema::prepare(&pool).await?;
        let alive = Alive::new(&options)?;
        let description = format!("postgresql {server}");
        let gated_lanes = jobs::GatedLanes::default();
        Ok(PostgresStore { pool, alive, catalog, description, gated_lanes })
    }

    /// Runs an operation that writes. `place` is where a test may end the process: after the
    /// commit and before anybody was told.
    async fn change<O: Operation>(
        &self,
        place: &'static str,
        operation: &O,
    ) -> Result<O::Answer, StoreError> {
        let answer = self.pool.run(operation).await;
        failpoint::hit(place);
        answer
    }
}

#[async_trait]
impl Database for PostgresStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.pool.run(&Now).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.change("store.ping", &Ping).await
    }

    fn describe(&self) -> String {
        self.description.clone()
    }

    async fn close(&self) {
        self.alive.close().await;
        // Calls under way keep their connections until they are done.
        self.pool.close();
    }
}

/// The exception to "never the server's clock": this is how the caller learns what it says.
const NOW: &str = "-- now
SELECT clock_timestamp()";

struct Now;

impl Operation for Now {
    type Answer = Timestamp;

    async fn run(&self, session: &mut Session) -> Result<Timestamp, Failure> {
        let rows = session.query(NOW, &[]).await?;
        let Time(now) = rows.first().ok_or(Failure::Raced)?.try_get(0)?;
        Ok(now)
    }
}

/// Nobody reads the time in here; the server's own shows an operator when it was last written.
const PING: &str = "-- ping
INSERT INTO roundsman.pulse (one, beat_at) VALUES (true, clock_timestamp())
ON CONFLICT (one) DO UPDATE SET beat_at = excluded.beat_at";

struct Ping;

impl Operation for Ping {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> Result<(), Failure> {
        // Repeating a ping is always safe, so a broken connection is no reason to fail it.
        session.execute(PING, &[]).await?;
        Ok(())
    }
}
