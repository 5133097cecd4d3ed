//! Where a test's tasks are: generators, a database, and a port and a data folder that outlive its
//! servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::executors::{Ending, GeneratorStandIn, Provider};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{JsonClient, RedisServer, TestDatabase, eventually, ports};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::{ADMIN_TOKEN, Backend, Node, SOON, Site};

/// What makes looks and sweeps come round within a test, and leaves room for all its alarms.
const SETTINGS: [(&str, &str); 5] = [
    ("ROUNDSMAN_TASKS_ALARMS_PER_ROOM_MAX", "900"),
    ("ROUNDSMAN_TASKS_POLL_SECS", "0.2"),
    ("ROUNDSMAN_TASKS_SWEEP_SECS", "0.5"),
    ("ROUNDSMAN_TASKS_SUBMIT_WAIT_SECS", "5"),
    ("ROUNDSMAN_EGRESS_ALLOW", "127.0.0.0/8"),
];
/// An answer that was lost is waited for so long, and half a minute more, before anybody believes that
/// nothing was sent.
const CONFIG: &str = "[executors.kling.limits]\nsubmit_secs_max = 1\n";
/// That half a minute, and what it takes to look after all tasks.
const OVER_WITHIN: Duration = Duration::from_secs(90);
/// Every kind of job about tasks that a pause may hold up. Users' alarms fire at their own time.
const KINDS: [&str; 3] = ["tasks.submit", "tasks.collect", "rooms.task_polling"];
pub(super) const PROJECT: &str = "storyboard";

/// Runs a test on SQLite, and on PostgreSQL with Redis.
pub(super) async fn on_both(run: impl AsyncFn(Backend) -> Result<()>) {
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.context("on SQLite").and(postgres.context("on PostgreSQL with Redis")).unwrap();
}

pub(super) struct TaskSite {
    pub(super) site: Site,
    /// Can be asked what became of a submission.
    pub(super) kling: GeneratorStandIn,
    /// Cannot.
    pub(super) replicate: GeneratorStandIn,
    /// Answers at once.
    pub(super) gemini: GeneratorStandIn,
    database: Option<TestDatabase>,
    _redis: Option<RedisServer>,
    folder: TempDir,
    data: PathBuf,
    port: u16,
}

impl TaskSite {
    pub(super) async fn new(backend: Backend) -> Result<TaskSite> {
        let folder = tempfile::Builder::new().prefix("tasks-").tempdir()?;
        std::fs::write(folder.path().join("config.toml"), CONFIG)?;
        let (mut database, mut redis) = (None, None);
        let (site, data) = match backend {
            Backend::Sqlite => {
                let site = Site::sqlite()?;
                let data = site.data();
                (site, data)
            }
            Backend::Postgres => {
                let made = database.insert(TestDatabase::create().await?);
                let started = redis.insert(RedisServer::start().await?);
                let site = Site::postgres_at(&made.url()).with_redis(&started.url());
                (site, folder.path().join("data"))
            }
        };
        let clock = Arc::new(DatabaseClock::start());
        let kling = GeneratorStandIn::start(Provider::Kling, clock.clone()).await?;
        let replicate = GeneratorStandIn::start(Provider::Replicate, clock.clone()).await?;
        let gemini = GeneratorStandIn::start(Provider::GeminiImage, clock).await?;
        for secret in [&kling.account().secret_key, &replicate.account().api_key] {
            site.keep_secret(secret);
        }
        let port = ports::free_port()?;
        Ok(TaskSite { site, kling, replicate, gemini, database, _redis: redis, folder, data, port })
    }

    /// A server at the site's own port: the one before it must have ended.
    pub(super) fn options(&self) -> ServerOptions {
        self.configured(self.site.options()).data(&self.data).port(self.port)
    }

    /// A further server beside it; what is kept is in the folder of the first.
    pub(super) fn options_beside(&self) -> ServerOptions {
        self.configured(self.site.options())
            .data(self.folder.path().join("beside"))
            .env("ROUNDSMAN_RECORDINGS_MEDIA", self.data.join("media"))
    }

    fn configured(&self, mut options: ServerOptions) -> ServerOptions {
        for (name, value) in SETTINGS {
            options = options.env(name, value);
        }
        let account = self.kling.account();
        options
            .env("ROUNDSMAN_CONFIG", self.folder.path().join("config.toml"))
            .env("ROUNDSMAN_EXECUTORS_KLING_PRESET", "kling")
            .env("ROUNDSMAN_EXECUTORS_KLING_BASE_URL", self.kling.url())
            .env("ROUNDSMAN_EXECUTORS_KLING_ACCESS_KEY", &account.access_key)
            .env("ROUNDSMAN_EXECUTORS_KLING_SECRET_KEY", &account.secret_key)
            .env("ROUNDSMAN_EXECUTORS_REPLICATE_PRESET", "replicate")
            .env("ROUNDSMAN_EXECUTORS_REPLICATE_BASE_URL", self.replicate.url())
            .env("ROUNDSMAN_EXECUTORS_REPLICATE_API_KEY", &account.api_key)
            .env("ROUNDSMAN_EXECUTORS_REPLICATE_WEBHOOK_SECRET", &account.webhook_secret)
            .env("ROUNDSMAN_EXECUTORS_GEMINI_PRESET", "gemini_image")
            .env("ROUNDSMAN_EXECUTORS_GEMINI_BASE_URL", self.gemini.url())
            .env("ROUNDSMAN_EXECUTORS_GEMINI_API_KEY", &account.api_key)
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}", ports::loopback(self.port))
    }

    /// A client with the operator's token, for whichever server is at the site's port.
    pub(super) fn admin(&self) -> Result<JsonClient> {
        JsonClient::new(self.base_url())?.with_header("x-admin-api-key", ADMIN_TOKEN)
    }

    /// A user, for whichever server is at the site's port.
    pub(super) async fn user(&self) -> Result<JsonClient> {
        let admin = self.admin()?;
        let wish = json!({"email": "ada@example.org", "max_concurrent_bots": 1});
        let user = admin.post("/admin/users", &wish).await?;
        ensure!([200, 201].contains(&user.status), "no user: {} {}", user.status, user.text);
        let tokens = format!("/admin/users/{}/tokens", user.body["id"]);
        let token = admin.post(&tokens, &json!({})).await?.expect_status(201)?;
        let key = token.body["token"].as_str().context("no token")?;
        self.site.keep_secret(key);
        JsonClient::new(self.base_url())?.with_header("x-api-key", key)
    }

    /// All tasks of the project, newest first.
    pub(super) async fn tasks(&self) -> Result<Vec<Value>> {
        let admin = self.admin()?;
        let (mut found, mut before) = (Vec::new(), String::new());
        loop {
            let path = format!("/projects/{PROJECT}/tasks?limit=200{before}");
            let page = admin.get(&path).await?.expect_status(200)?.body;
            found.extend(page["tasks"].as_array().context("no list of tasks")?.iter().cloned());
            match page["next_before"].as_str() {
                Some(next) => before = format!("&before={next}"),
                None => return Ok(found),
            }
        }
    }

    /// Everything that the generators have begun ends well.
    pub(super) fn end_all(&self) {
        for generator in [&self.kling, &self.replicate] {
            for id in generator.ids() {
                generator.end(&id, Ending::Succeeded);
            }
        }
    }

    /// Waits until every task is over; what waits for a time has it now.
    pub(super) async fn wait_all_over(&self) -> Result<Vec<Value>> {
        let mut seen = Vec::new();
        let over = eventually(OVER_WITHIN, async || {
            self.end_all();
            self.hurry().await.ok()?;
            seen = self.tasks().await.ok()?;
            let is_over = |task: &Value| task["stage"] == "over";
            seen.iter().all(is_over).then(|| seen.clone())
        });
        let over = over.await;
        over.with_context(|| format!("not all are over: {seen:#?}"))
    }

    pub(super) async fn hurry(&self) -> Result<()> {
        let admin = self.admin()?;
        for kind in KINDS {
            let path = format!("/jobs?kind={kind}&state=scheduled&limit=200");
            let page = admin.get(&path).await?.expect_status(200)?;
            for job in page.body["jobs"].as_array().context("no list of jobs")? {
                admin.post(&format!("/jobs/{}/retry", job["id"]), &json!({})).await?;
            }
        }
        Ok(())
    }

    /// Ten minutes pass for the leases of servers that are gone.
    pub(super) async fn leases_end(&self) -> Result<()> {
        if let Some(database) = &self.database {
            let over = "UPDATE roundsman.job_running \
                        SET lease_until = lease_until - interval '10 minutes'";
            database.connect().await?.batch_execute(over).await?;
        }
        Ok(())
    }

    /// What the document of the project says of its tasks.
    pub(super) async fn document_tasks(&self) -> Result<Value> {
        let path = format!("/rooms/{PROJECT}/doc");
        let document = self.admin()?.get(&path).await?.expect_status(200)?.body;
        let tasks = document.get("tasks").or_else(|| document.pointer("/doc/tasks"));
        Ok(tasks.cloned().unwrap_or(Value::Null))
    }

    /// The end of a test: nothing is polled, the server ends in good order, the database is without a
    /// fault.
    pub(super) async fn end(&self, mut node: Node) -> Result<()> {
        let rested = eventually(SOON, async || {
            let path = format!("/rooms/{PROJECT}/alarms");
            let alarms = self.admin().ok()?.get(&path).await.ok()?.body;
            (alarms["alarm_type"] != "task_polling").then_some(())
        });
        rested.await.context("the room does not rest")?;
        node.stop().await?;
        let stored = self.site.stored().await?;
        ensure!(stored.violations.is_empty(), "the store: {:?}", stored.violations);
        Ok(())
    }
}

/// A wish for a task.
pub(super) fn wish(task_type: &str, node: &str) -> Value {
    let params = match task_type {
        "replicate" => {
            json!({"model": "owner/name", "input": {"prompt": "a cat"}, "prompt": "a cat"})
        }
        _ => json!({"prompt": "a cat"}),
    };
    json!({"project_id": PROJECT, "task_type": task_type, "params": params, "node_id": node})
}
