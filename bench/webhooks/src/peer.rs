//! The comparison: an endpoint in Python and a Celery worker, each a group of processes, on a Redis of
//! their own.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::http::{Connection, request};
use bench_support::process::group_processor;
use bench_support::rooms::WEBHOOK_SECRET;
use redis::aio::MultiplexedConnection;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::RedisServer;
use roundsman_testkit::ports::{free_port, loopback};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
/// Of the endpoint and of the worker, as many as there are processors on a small machine.
const PROCESSES: &str = "2";
const READY_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// When an event makes a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tasks {
    /// Always, as the reference does.
    Each,
    /// Unless one waits for the room.
    Once,
}

impl Tasks {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tasks::Each => "FastAPI + Celery, a task for each event",
            Tasks::Once => "FastAPI + Celery, a task for each room at a time",
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Tasks::Each => "each",
            Tasks::Once => "once",
        }
    }
}

pub(crate) struct Peer {
    endpoint: Group,
    worker: Group,
    address: String,
    connection: MultiplexedConnection,
    // Dropped after those who use them.
    _redis: RedisServer,
    _folder: TempDir,
}

impl Peer {
    /// Starts everything and returns when the endpoint answers.
    pub(crate) async fn start(python: &Path, tasks: Tasks) -> anyhow::Result<Peer> {
        let redis = RedisServer::start().await?;
        let folder = tempfile::Builder::new().prefix("bench-peer-").tempdir()?;
        let address = loopback(free_port()?).to_string();
        let port = address.rsplit(':').next().unwrap_or_default();
        let run = |name: &str, arguments: &[&str]| {
            let mut command = Command::new(python);
            command.arg("-m").args(arguments);
            command.env("PYTHONPATH", FOLDER).env("PYTHONDONTWRITEBYTECODE", "1");
            command.env("REDIS_URL", redis.url()).env("WEBHOOK_SECRET", WEBHOOK_SECRET);
            command.env("TASKS", tasks.as_str());
            Group::start(command, &folder.path().join(name))
        };
        let quiet = ["--log-level", "warning", "--no-access-log"];
        let mut endpoint = vec!["uvicorn", "peer:app", "--port", port, "--workers", PROCESSES];
        endpoint.extend(quiet);
        let worker = [
            "celery",
            "--app",
            "peer:tasks",
            "worker",
            "--concurrency",
            PROCESSES,
            "--loglevel",
            "warning",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ];
        let (endpoint, worker) = (run("endpoint", &endpoint)?, run("worker", &worker)?);
        let connection =
            redis::Client::open(redis.url())?.get_multiplexed_async_connection().await?;
        let peer = Peer { endpoint, worker, address, connection, _redis: redis, _folder: folder };
        peer.answers().await?;
        Ok(peer)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Processor time of the endpoint and of the worker.
    pub(crate) fn processor(&self) -> anyhow::Result<Duration> {
        Ok(group_processor(self.endpoint.id())? + group_processor(self.worker.id())?)
    }

    /// Waits until the worker has done everything.
    pub(crate) async fn drained(&mut self) -> anyhow::Result<()> {
        let clock = DatabaseClock::start();
        loop {
            let mut sizes = redis::pipe();
            sizes.cmd("LLEN").arg("celery").cmd("HLEN").arg("unacked");
            let sizes: (u64, u64) = sizes.query_async(&mut self.connection).await?;
            if sizes == (0, 0) {
                return Ok(());
            }
            ensure!(clock.monotonic() < READY_MAX, "{sizes:?} tasks wait: {}", self.worker.log());
            bench_support::pause(LOOK_EVERY).await;
        }
    }

    /// How many events it has taken.
    pub(crate) async fn taken(&mut self) -> anyhow::Result<usize> {
        let keys: Vec<String> =
            redis::cmd("KEYS").arg("daily_event:*").query_async(&mut self.connection).await?;
        Ok(keys.len())
    }

    async fn answers(&self) -> anyhow::Result<()> {
        let clock = DatabaseClock::start();
        let ask = request("GET", "/healthz", &[], "");
        loop {
            if let Ok(mut connection) = Connection::open(&self.address).await
                && connection.call(&ask).await.is_ok_and(|status| status == 200)
            {
                return Ok(());
            }
            ensure!(clock.monotonic() < READY_MAX, "no answer: {}", self.endpoint.log());
            bench_support::pause(LOOK_EVERY).await;
        }
    }
}

/// A process with those that it starts. They end together.
struct Group {
    child: Child,
    log: PathBuf,
}

impl Group {
    fn start(mut command: Command, log: &Path) -> anyhow::Result<Group> {
        let file = File::create(log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Group { child, log: log.to_owned() })
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
