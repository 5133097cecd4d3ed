//! Where a test's bots live: a database, a port that outlives its servers, and settings that make
//! every timeout come round within a test.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::jobs::Job;
use roundsman_core::limits::PAGE_ROWS_MAX;
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{JsonClient, RedisServer, TestDatabase, eventually, ports};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::books::Books;
use super::processes::{self, BotProcess};
use super::user::User;
use crate::site::{ADMIN_TOKEN, Backend, Node, SOON, Site};

/// The shortest that a bot takes for the time between two heartbeats.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);
/// An active bot that is silent for this long is given up: a busy machine swallows heartbeats.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(8);
pub(crate) const LEAVE_GRACE: Duration = Duration::from_secs(2);
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(1);
/// What two busy cores and a debug build may add to any of these.
pub(crate) const SLACK: Duration = Duration::from_secs(8);

/// A job that a killed server held on PostgreSQL waits for the end of its lease.
const IDLE_WITHIN: Duration = Duration::from_secs(90);

const SETTINGS: [(&str, &str); 10] = [
    ("ROUNDSMAN_BOTS_HEARTBEAT_SECS", "1"),
    ("ROUNDSMAN_BOTS_SWEEP_SECS", "0.3"),
    ("ROUNDSMAN_BOTS_RESERVED_SECS_MAX", "30"),
    ("ROUNDSMAN_BOTS_STARTING_SECS_MAX", "30"),
    ("ROUNDSMAN_BOTS_ACTIVE_SILENCE_SECS_MAX", "8"),
    ("ROUNDSMAN_BOTS_STOPPING_SECS_MAX", "20"),
    ("ROUNDSMAN_BOTS_LEAVE_GRACE_SECS", "2"),
    ("ROUNDSMAN_BOTS_KILL_GRACE_SECS", "1"),
    ("ROUNDSMAN_BOTS_WAITING_ROOM_SECS_MAX", "0.3"),
    ("ROUNDSMAN_EGRESS_ALLOW", "127.0.0.0/8"),
];
/// The jobs that come from one bot's life.
const KINDS: [&str; 3] = ["bots.supervise", "bots.finish", "webhooks.deliver"];
/// How long a scripted bot takes for each of its steps.
const BOT_STEP_MS: u32 = 20;

/// A database and everything that its servers and bots share.
#[derive(Debug)]
pub(crate) struct BotSite {
    pub(crate) site: Site,
    database: Option<TestDatabase>,
    /// Only held, so that it lives as long as the site.
    redis: Option<RedisServer>,
    data: PathBuf,
    /// In the environment of every bot of this site, and of nothing else on this machine.
    tag: String,
    port: u16,
    _folder: TempDir,
}

impl BotSite {
    pub(crate) async fn new(backend: Backend) -> Result<BotSite> {
        match backend {
            Backend::Sqlite => BotSite::sqlite(),
            Backend::Postgres => BotSite::on(TestDatabase::create().await?).await,
        }
    }

    /// On PostgreSQL and a Redis of its own: the channels that stock bots listen on are named by the
    /// meeting's number alone, so that two sites on one Redis would command each other's.
    pub(crate) async fn on(database: TestDatabase) -> Result<BotSite> {
        let redis = RedisServer::start().await?;
        let mut site = BotSite::on_redis(database, &redis.url())?;
        site.redis = Some(redis);
        Ok(site)
    }

    pub(crate) fn sqlite() -> Result<BotSite> {
        BotSite::sqlite_with(Site::sqlite()?)
    }

    pub(crate) fn sqlite_with(site: Site) -> Result<BotSite> {
        let data = site.data();
        BotSite::with(site, None, Some(data))
    }

    /// On PostgreSQL with a Redis that the test owns.
    pub(crate) fn on_redis(database: TestDatabase, redis_url: &str) -> Result<BotSite> {
        let site = Site::postgres_at(&database.url()).with_redis(redis_url);
        BotSite::with(site, Some(database), None)
    }

    fn with(site: Site, database: Option<TestDatabase>, data: Option<PathBuf>) -> Result<BotSite> {
        static SITES: AtomicU32 = AtomicU32::new(0);
        let number = SITES.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::Builder::new().prefix("bots-").tempdir()?;
        let data = data.unwrap_or_else(|| folder.path().join("data"));
        let tag = format!("{}-{number}", std::process::id());
        let port = ports::free_port()?;
        Ok(BotSite { site, database, redis: None, data, tag, port, _folder: folder })
    }

    /// A server at the site's own port: the one before it must have ended.
    pub(crate) fn options(&self) -> ServerOptions {
        self.options_beside().port(self.port)
    }

    /// A further server beside the others, at a port of its own.
    pub(crate) fn options_beside(&self) -> ServerOptions {
        let mut options = self.site.options().data(&self.data);
        for (name, value) in SETTINGS {
            options = options.env(name, value);
        }
        self.launcher_env(options, &[])
    }

    /// More variables for every bot.
    pub(crate) fn launcher_env(
        &self,
        options: ServerOptions,
        more: &[(&str, &str)],
    ) -> ServerOptions {
        let step = BOT_STEP_MS.to_string();
        let ours = [(processes::TAG, &*self.tag), ("ROUNDSMAN_BOT_STEP_MS", &*step)];
        let all = ours.iter().chain(more).map(|(name, value)| format!("{name}={value}"));
        let variables: Vec<String> = all.collect();
        options.env("ROUNDSMAN_LAUNCHER_ENV", variables.join(","))
    }

    pub(crate) async fn start(&self) -> Result<Node> {
        self.site.start(self.options()).await
    }

    pub(crate) fn database(&self) -> Result<&TestDatabase> {
        self.database.as_ref().context("this site is not on PostgreSQL")
    }

    pub(crate) fn sqlite_file(&self) -> PathBuf {
        self.data.join("roundsman.db")
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", ports::loopback(self.port))
    }

    /// A client with the operator's token, for whichever server is at the site's port.
    pub(crate) fn admin(&self) -> Result<JsonClient> {
        JsonClient::new(self.base_url())?.with_header("x-admin-api-key", ADMIN_TOKEN)
    }

    /// Makes a user who may have so many bots at once. May be repeated after a lost answer.
    pub(crate) async fn user(&self, name: &str, bots_max: u32) -> Result<User> {
        let admin = self.admin()?;
        let wish = json!({"email": format!("{name}@example.org"), "max_concurrent_bots": bots_max});
        let user = admin.post("/admin/users", &wish).await?;
        ensure!([200, 201].contains(&user.status), "no user: {} {}", user.status, user.text);
        let id = user.body["id"].as_i64().context("a user without a number")?;
        let token = admin.post(&format!("/admin/users/{id}/tokens"), &json!({})).await?;
        let token = token.expect_status(201)?;
        let key = token.body["token"].as_str().context("no token")?;
        self.site.keep_secret(key);
        User::new(&self.base_url(), id, key)
    }

    /// The processes of this site's bots that run now.
    pub(crate) fn processes(&self) -> Result<Vec<BotProcess>> {
        processes::tagged(&self.tag)
    }

    pub(crate) async fn wait_no_process(&self) -> Result<()> {
        let gone =
            eventually(SOON, async || self.processes().ok().filter(Vec::is_empty).map(|_| ()));
        gone.await.with_context(|| format!("still running: {:?}", self.processes()))
    }

    pub(crate) async fn books(&self) -> Result<Books> {
        match &self.database {
            None => Books::sqlite(&self.sqlite_file()),
            Some(database) => Books::postgres(database).await,
        }
    }

    /// The end of a test: every bot is over and nothing of any is left, neither a process nor a job
    /// nor an unfinished row.
    pub(crate) async fn end(&self, node: &mut Node) -> Result<()> {
        self.wait_no_process().await?;
        let idle = eventually(IDLE_WITHIN, async || self.is_idle().await.ok().filter(|idle| *idle));
        idle.await.context("jobs of bots are left")?;
        node.stop().await?;
        let stored = self.site.stored().await?;
        ensure!(stored.violations.is_empty(), "the store: {:?}", stored.violations);
        for job in &stored.jobs {
            let ours = KINDS.contains(&job.facts().kind.as_str());
            ensure!(!ours || matches!(job, Job::Finished(_)), "left over: {job:?}");
        }
        self.books().await?.expect_all_over().await
    }

    /// Whether no job of a bot waits or runs. One look for each kind: between two of them a job could
    /// go from where the second will look to where the first has looked.
    async fn is_idle(&self) -> Result<bool> {
        let admin = self.admin()?;
        for kind in KINDS {
            let path = format!("/jobs?kind={kind}&limit={PAGE_ROWS_MAX}");
            let page = admin.get(&path).await?.expect_status(200)?;
            let jobs = page.body["jobs"].as_array().context("no list of jobs")?;
            let over = |job: &Value| {
                let state = job["state"].as_str().unwrap_or_default();
                ["completed", "failed", "cancelled"].contains(&state)
            };
            if !jobs.iter().all(over) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whatever the test came to, its bots end with it.
impl Drop for BotSite {
    fn drop(&mut self) {
        for process in self.processes().unwrap_or_default() {
            process.kill();
        }
    }
}

/// Whether a server ended by the signal that nothing can answer.
pub(crate) fn was_killed(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(9)
}
