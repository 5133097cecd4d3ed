//! Where a test's servers live: a database of their own, settings that make things happen soon, and
//! what is known about their secrets.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::effects::Violation;
use roundsman_core::jobs::{Job, KindCatalog, KindName, KindSpec, MergeRule, RetryPolicy, Role};
use roundsman_core::limits::PAGE_ROWS_MAX;
use roundsman_core::ports::{Clock, ListFilter, ListPage, Scope, Store};
use roundsman_engine::clock::DatabaseClock;
use roundsman_store::postgres::{PostgresOptions, PostgresStore};
use roundsman_store::sqlite::{SqliteOptions, SqliteStore};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{JsonClient, ServerProcess, TestDatabase, env, eventually};
use tempfile::TempDir;

/// The operator's token in all tests.
pub(crate) const ADMIN_TOKEN: &str = "canary-admin-3f9d2a7c51";
/// The password in every PostgreSQL URL. The servers for tests trust everybody, so any will do.
pub(crate) const POSTGRES_PASSWORD: &str = "canary-postgres-8b1e";
/// The password in every Redis URL. The default user there takes any.
pub(crate) const REDIS_PASSWORD: &str = "canary-redis-77aa";
/// Part of every payload: what users store is nobody's business in a log.
pub(crate) const PAYLOAD_CANARY: &str = "canary-payload-c0ffee";

/// The promise is two seconds; the rest is for a debug build on two busy cores.
pub(crate) const READY_MAX: Duration = Duration::from_secs(2 + 3);
/// How long a lease lasts: the shortest that the configuration allows.
pub(crate) const LEASE: Duration = Duration::from_secs(1);
/// How long anything that must happen soon may take on a slow machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// What makes leases, sweeps, retries and housekeeping come round within a test.
const SETTINGS: [(&str, &str); 11] = [
    ("ROUNDSMAN_LOG_LEVEL", "debug"),
    ("ROUNDSMAN_JOBS_HEARTBEAT_SECS", "0.3"),
    ("ROUNDSMAN_JOBS_STALLED_SECS", "1"),
    ("ROUNDSMAN_JOBS_SWEEP_SECS", "0.3"),
    ("ROUNDSMAN_JOBS_POLL_SECS", "0.5"),
    ("ROUNDSMAN_JOBS_BACKOFF_BASE_MS", "20"),
    ("ROUNDSMAN_JOBS_BACKOFF_CAP_SECS", "1"),
    ("ROUNDSMAN_JOBS_PRUNE_SECS", "0.2"),
    ("ROUNDSMAN_METRICS_SAMPLE_SECS", "1"),
    ("ROUNDSMAN_SERVER_SHUTDOWN_GRACE_SECS", "5"),
    // A reader of a stream sees that the server ends when its read does.
    ("ROUNDSMAN_TRANSCRIPTS_STREAM_BLOCK_MS", "200"),
];

/// What must not be found in any log.
pub(crate) type Secrets = Arc<Mutex<Vec<String>>>;

/// Which database a server runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    /// With wake-ups over Redis.
    Postgres,
}

/// One database and all that its servers share.
#[derive(Debug)]
pub(crate) struct Site {
    database: Place,
    redis_url: Option<String>,
    secrets: Secrets,
}

#[derive(Debug)]
enum Place {
    /// The data folder.
    Sqlite(TempDir),
    Postgres {
        /// Without the canary, for the test itself.
        plain_url: String,
        _owned: Option<TestDatabase>,
    },
}

/// A server whose logs are searched for secrets when it is dropped.
#[derive(Debug)]
pub(crate) struct Node {
    process: ServerProcess,
    secrets: Secrets,
}

/// What is stored, read while no server runs or beside those that do.
pub(crate) struct Stored {
    pub(crate) jobs: Vec<Job>,
    pub(crate) violations: Vec<Violation>,
}

impl Site {
    pub(crate) async fn new(backend: Backend) -> Result<Site> {
        match backend {
            Backend::Sqlite => Site::sqlite(),
            Backend::Postgres => {
                let database = TestDatabase::create().await?;
                let redis_url = env::redis_url()?;
                Ok(Site {
                    database: Place::Postgres { plain_url: database.url(), _owned: Some(database) },
                    redis_url: Some(redis_url),
                    secrets: secrets(),
                })
            }
        }
    }

    pub(crate) fn sqlite() -> Result<Site> {
        let folder = tempfile::Builder::new().prefix("site-").tempdir()?;
        Ok(Site { database: Place::Sqlite(folder), redis_url: None, secrets: secrets() })
    }

    /// On a PostgreSQL that the test owns; wake-ups go over its NOTIFY.
    pub(crate) fn postgres_at(url: &str) -> Site {
        let database = Place::Postgres { plain_url: url.to_owned(), _owned: None };
        Site { database, redis_url: None, secrets: secrets() }
    }

    #[must_use]
    pub(crate) fn with_redis(mut self, url: &str) -> Site {
        self.redis_url = Some(url.to_owned());
        self
    }

    /// A server of this site, to be started by [`Site::start`] after the test's own changes.
    pub(crate) fn options(&self) -> ServerOptions {
        self.options_for(env!("CARGO_BIN_EXE_roundsman"))
    }

    /// As [`Site::options`], for a program that runs the binary.
    pub(crate) fn options_for(&self, binary: impl Into<PathBuf>) -> ServerOptions {
        let mut options = ServerOptions::new(binary).env("ROUNDSMAN_ADMIN_TOKEN", ADMIN_TOKEN);
        for (name, value) in SETTINGS {
            options = options.env(name, value);
        }
        match &self.database {
            Place::Sqlite(folder) => options = options.data(folder.path().join("data")),
            Place::Postgres { plain_url, .. } => {
                options = options.env("ROUNDSMAN_DATABASE_URL", with_postgres_canary(plain_url));
            }
        }
        if let Some(url) = &self.redis_url {
            options = options.env("ROUNDSMAN_REDIS_URL", with_redis_canary(url));
        }
        options
    }

    /// Starts a server and waits until it is ready.
    pub(crate) async fn start(&self, options: ServerOptions) -> Result<Node> {
        let mut node = self.spawn(options)?;
        node.wait_ready().await?;
        Ok(node)
    }

    /// Starts a server without waiting for anything.
    pub(crate) fn spawn(&self, options: ServerOptions) -> Result<Node> {
        Ok(Node { process: options.spawn()?, secrets: self.secrets.clone() })
    }

    /// Adds something to what no log may contain.
    pub(crate) fn keep_secret(&self, text: &str) {
        lock(&self.secrets).push(text.to_owned());
    }

    pub(crate) fn forget_secret(&self, text: &str) {
        lock(&self.secrets).retain(|secret| secret != text);
    }

    /// The data folder of an embedded database.
    pub(crate) fn data(&self) -> PathBuf {
        match &self.database {
            Place::Sqlite(folder) => folder.path().join("data"),
            Place::Postgres { .. } => panic!("PostgreSQL has no data folder"),
        }
    }

    /// Reads everything. An embedded database must have no server, and is read from a copy: what
    /// the next start finds is then exactly what the last end left.
    pub(crate) async fn stored(&self) -> Result<Stored> {
        match &self.database {
            Place::Sqlite(_) => {
                let copy = tempfile::tempdir()?;
                copy_database(&self.data(), copy.path())?;
                sqlite_stored(&copy.path().join("roundsman.db")).await
            }
            Place::Postgres { plain_url, .. } => {
                let options = PostgresOptions::new(plain_url.parse()?);
                read_all(&PostgresStore::connect(options, catalog()).await?).await
            }
        }
    }
}

impl Node {
    /// A client with the operator's token.
    pub(crate) fn admin(&self) -> Result<JsonClient> {
        self.client()?.with_header("x-admin-api-key", ADMIN_TOKEN)
    }

    /// Whether `/readyz` says yes.
    pub(crate) async fn is_ready(&self) -> bool {
        match self.client() {
            Ok(client) => client.get("/readyz").await.is_ok_and(|answer| answer.status == 200),
            Err(_) => false,
        }
    }

    /// Asks the server to end, and expects that it does so in good order.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.sigterm()?;
        let status = self.wait_exit(SOON).await?;
        ensure!(status.success(), "a server that was asked to end: {status}");
        Ok(())
    }

    /// Fails if one of the site's secrets is in the server's output.
    pub(crate) fn check_logs(&self) -> Result<()> {
        let logs = [("stdout", self.stdout()?), ("stderr", self.stderr()?)];
        for secret in lock(&self.secrets).iter() {
            for (name, text) in &logs {
                if let Some(line) = text.lines().find(|line| line.contains(secret)) {
                    anyhow::bail!("{name} shows the secret {secret}: {line}");
                }
            }
        }
        Ok(())
    }
}

impl Deref for Node {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.process
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut ServerProcess {
        &mut self.process
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check_logs().expect("logs are readable and hold no secrets");
        }
    }
}

/// The servers' own housekeeping, held up in the middle by a lock that the test has. The servers
/// give such a wait up after two seconds.
pub(crate) struct HeldUp {
    holder: tokio_postgres::Client,
}

impl HeldUp {
    /// Takes the lock and waits until housekeeping waits for it.
    pub(crate) async fn housekeeping(database: &TestDatabase) -> Result<HeldUp> {
        let holder = database.connect().await?;
        holder
            .batch_execute("BEGIN; LOCK TABLE roundsman.idempotency IN ACCESS EXCLUSIVE MODE")
            .await?;
        let observer = database.connect().await?;
        let waits = "SELECT 1 FROM pg_locks WHERE NOT granted LIMIT 1";
        let waiting =
            eventually(SOON, async || observer.query_opt(waits, &[]).await.ok().flatten());
        waiting.await.context("housekeeping does not come round")?;
        Ok(HeldUp { holder })
    }

    pub(crate) async fn release(self) -> Result<()> {
        Ok(self.holder.batch_execute("ROLLBACK").await?)
    }
}

/// Measures real time, for promises that are about it.
pub(crate) struct Stopwatch(DatabaseClock);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Stopwatch(DatabaseClock::start())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.monotonic()
    }
}

/// Reads everything from an embedded database that nobody has open.
pub(crate) async fn sqlite_stored(path: &Path) -> Result<Stored> {
    let store = SqliteStore::open(&SqliteOptions::new(path), catalog())
        .with_context(|| format!("cannot open {}", path.display()))?;
    read_all(&store).await
}

/// Copies the database with its log, but not the shared memory, which a crash does not leave.
pub(crate) fn copy_database(from: &Path, to: &Path) -> Result<()> {
    for name in ["roundsman.db", "roundsman.db-wal"] {
        let source = from.join(name);
        if source.exists() {
            std::fs::copy(&source, to.join(name))?;
        }
    }
    Ok(())
}

/// `postgres://user@host/db` with the canary as its password.
pub(crate) fn with_postgres_canary(url: &str) -> String {
    url.replacen('@', &format!(":{POSTGRES_PASSWORD}@"), 1)
}

fn with_redis_canary(url: &str) -> String {
    url.replacen("redis://", &format!("redis://default:{REDIS_PASSWORD}@"), 1)
}

async fn read_all(store: &dyn Store) -> Result<Stored> {
    let violations = store.check().await?;
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        let before = jobs.last().map(|job| job.facts().id);
        let page = ListPage { before, rows_max: PAGE_ROWS_MAX };
        let now = store.now().await?;
        let rows = store.jobs(Scope::All, ListFilter::default(), page, now).await?;
        if rows.is_empty() {
            break;
        }
        jobs.extend(rows);
    }
    store.close().await;
    Ok(Stored { jobs, violations })
}

fn catalog() -> Arc<KindCatalog> {
    Arc::new(KindCatalog::new(KindSpec {
        kind: KindName::new("default").expect("the name is a kind"),
        lease_ttl: LEASE,
        heartbeat_every: LEASE / 4,
        deadline: None,
        max_attempts: Some(3),
        retry: RetryPolicy { base: Duration::ZERO, cap: Duration::ZERO },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    }))
}

fn secrets() -> Secrets {
    let known = [ADMIN_TOKEN, POSTGRES_PASSWORD, REDIS_PASSWORD, PAYLOAD_CANARY];
    Arc::new(Mutex::new(known.map(str::to_owned).to_vec()))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
