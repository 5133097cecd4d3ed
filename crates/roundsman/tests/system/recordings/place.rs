//! Where a test's recordings are: a stand-in for Daily, one for a transcriber, a database, and a
//! port and a data folder that outlive its servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::Timestamp;
use roundsman_core::daily::WebhookSecret;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::daily::{DailyStandInOptions, NewRecording};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{DailyStandIn, JsonClient, RedisServer, TestDatabase, eventually, ports};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::host::{Host, files_below};
use super::transcriber::{self, Said, TranscriberStandIn};
use crate::site::{ADMIN_TOKEN, Backend, Node, SOON, Site, Stopwatch};

/// What Daily signs its events with: `canary-of-recordings-hooks`, in base64.
const WEBHOOK_SECRET: &str = "Y2FuYXJ5LW9mLXJlY29yZGluZ3MtaG9va3M=";
const API_KEY: &str = "canary-daily-key-77b1";
/// The setting of how often Daily's list is read.
pub(super) const POLL: &str = "ROUNDSMAN_RECORDINGS_POLL_SECS";

/// What makes looks, lists and ends come round within a test.
const SETTINGS: [(&str, &str); 9] = [
    (POLL, "0.3"),
    ("ROUNDSMAN_DAILY_REQUESTS_PER_SEC_MAX", "1000"),
    ("ROUNDSMAN_DAILY_RECORDING_REQUESTS_PER_SEC_MAX", "1000"),
    ("ROUNDSMAN_DAILY_WEBHOOK_SECRET", WEBHOOK_SECRET),
    ("ROUNDSMAN_PRESENCE_DEBOUNCE_SECS", "0.05"),
    ("ROUNDSMAN_PRESENCE_DEBOUNCE_SECS_MAX", "0.2"),
    ("ROUNDSMAN_PRESENCE_LAG_SECS", "0.5"),
    ("ROUNDSMAN_TRANSCRIBER_API_KEY", transcriber::KEY),
    ("ROUNDSMAN_TRANSCRIBER_MODEL", transcriber::MODEL),
];

/// The folders in the data folder: what is being worked on, and what is kept.
const WORK_FOLDER: &str = "recordings";
const MEDIA_FOLDER: &str = "media";

/// Runs a test on SQLite, and on PostgreSQL with Redis.
pub(super) async fn on_both(run: impl AsyncFn(Backend) -> Result<()>) {
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.context("on SQLite").and(postgres.context("on PostgreSQL with Redis")).unwrap();
}

/// A domain of Daily's, somebody who hears, a database, and what their servers share.
pub(super) struct RecordingSite {
    pub(super) site: Site,
    pub(super) daily: DailyStandIn,
    pub(super) transcriber: TranscriberStandIn,
    clock: Arc<DatabaseClock>,
    database: Option<TestDatabase>,
    /// Only held, so that it lives as long as the site.
    _redis: Option<RedisServer>,
    folder: TempDir,
    data: PathBuf,
    port: u16,
}

impl RecordingSite {
    pub(super) async fn new(backend: Backend) -> Result<RecordingSite> {
        let folder = tempfile::Builder::new().prefix("recordings-").tempdir()?;
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
        let options = DailyStandInOptions {
            api_key: API_KEY.to_owned(),
            is_limited: false,
            ..DailyStandInOptions::default()
        };
        let daily = DailyStandIn::start_with(options, clock.clone()).await?;
        let transcriber = TranscriberStandIn::start().await?;
        for secret in [WEBHOOK_SECRET, API_KEY, transcriber::KEY] {
            site.keep_secret(secret);
        }
        let port = ports::free_port()?;
        Ok(RecordingSite {
            site,
            daily,
            transcriber,
            clock,
            database,
            _redis: redis,
            folder,
            data,
            port,
        })
    }

    /// A server at the site's own port: the one before it must have ended.
    pub(super) fn options(&self) -> ServerOptions {
        self.configured(self.site.options()).data(&self.data).port(self.port)
    }

    /// A further server beside it, at a port and with a data folder of its own; what is kept is in
    /// the folder of the first.
    pub(super) fn options_beside(&self) -> ServerOptions {
        self.configured(self.site.options())
            .data(self.folder.path().join("beside"))
            .env("ROUNDSMAN_RECORDINGS_MEDIA", self.data.join(MEDIA_FOLDER))
    }

    fn configured(&self, mut options: ServerOptions) -> ServerOptions {
        for (name, value) in SETTINGS {
            options = options.env(name, value);
        }
        options
            .env("ROUNDSMAN_DAILY_API_URL", self.daily.api_url())
            .env("ROUNDSMAN_DAILY_API_KEY", API_KEY)
            .env("ROUNDSMAN_DAILY_WEBHOOK_URL", format!("{}/webhooks/daily", self.base_url()))
            .env("ROUNDSMAN_TRANSCRIBER_URL", self.transcriber.url())
    }

    /// Starts a server to which Daily tells everything, and a user with a meeting there.
    pub(super) async fn start(&self, options: ServerOptions) -> Result<(Node, Host)> {
        let node = self.site.start(options).await?;
        let subscribed = self.admin()?.post("/presence/subscription", &json!({})).await?;
        subscribed.expect_status(200)?;
        let host = self.host("ada", "weekly-sync").await?;
        Ok((node, host))
    }

    fn base_url(&self) -> String {
        format!("http://{}", ports::loopback(self.port))
    }

    /// A client with the operator's token, for whichever server is at the site's port.
    pub(super) fn admin(&self) -> Result<JsonClient> {
        JsonClient::new(self.base_url())?.with_header("x-admin-api-key", ADMIN_TOKEN)
    }

    /// A user with a meeting in a room.
    pub(super) async fn host(&self, name: &str, room: &str) -> Result<Host> {
        let admin = self.admin()?;
        let wish = json!({"email": format!("{name}@example.org"), "max_concurrent_bots": 1});
        let user = admin.post("/admin/users", &wish).await?;
        ensure!([200, 201].contains(&user.status), "no user: {} {}", user.status, user.text);
        let tokens = format!("/admin/users/{}/tokens", user.body["id"]);
        let token = admin.post(&tokens, &json!({})).await?.expect_status(201)?;
        let key = token.body["token"].as_str().context("no token")?;
        self.site.keep_secret(key);
        let client = JsonClient::new(self.base_url())?.with_header("x-api-key", key)?;
        self.daily.add_room(room);
        let mut host = Host { client, room: room.to_owned(), meeting: 0 };
        host.open().await?;
        Ok(host)
    }

    /// The time at Daily, in whole seconds as Daily tells them.
    pub(super) fn now(&self) -> Timestamp {
        let micros = self.clock.now().as_micros();
        Timestamp::from_micros(micros - micros.rem_euclid(1_000_000))
    }

    /// Something was recorded in a room, in one file; `name` is how the transcriber knows it.
    pub(super) fn record(&self, room: &str, name: &str, said: &[Said]) -> String {
        self.record_file(room, transcriber::file(name, said, 0))
    }

    pub(super) fn record_file(&self, room: &str, content: Vec<u8>) -> String {
        self.daily.record(NewRecording::cloud(room, self.now(), content))
    }

    /// A recording, as the operator sees it.
    pub(super) async fn recording(&self, id: &str) -> Result<Value> {
        Ok(self.admin()?.get(&format!("/recordings/{id}")).await?.expect_status(200)?.body)
    }

    /// A recording as soon as it is known.
    pub(super) async fn recording_soon(&self, id: &str) -> Result<Value> {
        let known = eventually(SOON, async || self.recording(id).await.ok());
        known.await.with_context(|| format!("{id} is not known"))
    }

    /// Waits until a recording is this far; one that is tried again later is tried at once.
    pub(super) async fn wait_for(&self, id: &str, status: &str) -> Result<Value> {
        let mut seen = Value::Null;
        let reached = eventually(SOON, async || {
            self.hurry("recordings.process").await.ok()?;
            let recording = self.recording(id).await.ok()?;
            seen.clone_from(&recording);
            (recording["status"] == status).then_some(recording)
        });
        let reached = reached.await;
        reached.with_context(|| format!("{id} is not {status} but {seen}"))
    }

    pub(super) async fn wait_completed(&self, id: &str) -> Result<Value> {
        self.wait_for(id, "completed").await
    }

    /// Jobs of this kind that wait for their time have it now.
    pub(super) async fn hurry(&self, kind: &str) -> Result<()> {
        hurry(&self.admin()?, kind).await
    }

    /// Waits until every recording is done with: one that was saved by a server that died then is
    /// cleared away by the next.
    pub(super) async fn wait_idle(&self) -> Result<()> {
        let idle = eventually(SOON, async || {
            self.hurry("recordings.process").await.ok()?;
            let jobs = self.jobs("recordings.process").await.ok()?;
            let over = |job: &Value| job["state"] == "completed" || job["state"] == "failed";
            jobs.iter().all(over).then_some(())
        });
        idle.await.context("recordings are still processed")
    }

    pub(super) async fn jobs(&self, kind: &str) -> Result<Vec<Value>> {
        jobs(&self.admin()?, kind).await
    }

    /// The lease under which a recording is processed now.
    pub(super) async fn lease(&self, id: &str) -> Result<Value> {
        let page = self.admin()?.get("/leases?limit=200").await?.expect_status(200)?;
        let leases = page.body["leases"].as_array().context("no list of leases")?;
        let name = format!("recording:{id}");
        let found = leases.iter().find(|lease| lease["name"] == *name).cloned();
        found.with_context(|| format!("nobody holds {name}: {leases:?}"))
    }

    /// Ten minutes pass for the leases of servers that are gone or stand still: nobody waits for
    /// them. On an embedded database the next start knows that nobody holds them.
    pub(super) async fn leases_end(&self) -> Result<()> {
        if let Some(database) = &self.database {
            let over = "UPDATE roundsman.job_running \
                        SET lease_until = lease_until - interval '10 minutes'";
            database.connect().await?.batch_execute(over).await?;
        }
        Ok(())
    }

    /// Waits until Daily's list was read so many times more.
    pub(super) async fn wait_listed(&self, times: u64) -> Result<()> {
        let route = roundsman_testkit::daily::Route::Recordings;
        let before = self.daily.requests(route);
        let read =
            eventually(SOON, async || (self.daily.requests(route) >= before + times).then_some(()));
        read.await.context("the list of recordings is not read")
    }

    /// Waits until so many events about recordings were answered; with which statuses.
    pub(super) async fn wait_told(&self, count: usize) -> Result<Vec<Option<u16>>> {
        let told = eventually(SOON, async || {
            let delivered = self.daily.delivered().into_iter();
            let of_recordings = delivered.filter(|event| event.kind.starts_with("recording."));
            let statuses: Vec<Option<u16>> = of_recordings.map(|event| event.status).collect();
            (statuses.len() >= count).then_some(statuses)
        });
        told.await.with_context(|| format!("{count} events were not told"))
    }

    /// Daily tells a node of a recording of one file that is over.
    pub(super) async fn tell_at(&self, base_url: &str, room: &str, id: &str) -> Result<()> {
        let start_ts = self.now().as_micros() / 1_000_000;
        let payload = json!({"type": "cloud", "recording_id": id, "room_name": room,
            "start_ts": start_ts, "status": "finished", "duration": 60, "s3_key": "d/r/1"});
        let event = json!({"version": "1.0.0", "type": "recording.ready-to-download",
            "id": format!("again-{id}"), "payload": payload, "event_ts": start_ts});
        let (body, timestamp) = (event.to_string(), (start_ts * 1000).to_string());
        let secret = WebhookSecret::parse(WEBHOOK_SECRET)?;
        let client = JsonClient::new(base_url)?;
        let request = client
            .request(reqwest::Method::POST, "/webhooks/daily")
            .header("content-type", "application/json")
            .header("x-webhook-signature", secret.sign(&timestamp, body.as_bytes()))
            .header("x-webhook-timestamp", timestamp)
            .body(body);
        client.send(request).await?.expect_status(200).map(drop)
    }

    /// Files that are kept in the data folder.
    pub(super) fn media_files(&self) -> Result<Vec<PathBuf>> {
        files_below(&self.data.join(MEDIA_FOLDER))
    }

    /// Files of recordings that are being worked on.
    pub(super) fn work_files(&self) -> Result<Vec<PathBuf>> {
        let beside = files_below(&self.folder.path().join("beside").join(WORK_FOLDER))?;
        Ok([files_below(&self.data.join(WORK_FOLDER))?, beside].concat())
    }

    /// The end of a test: the server ends in good order; the database is without a fault, and of
    /// the files only those are left that the recordings name.
    pub(super) async fn end(&self, mut node: Node, kept: usize) -> Result<()> {
        node.stop().await?;
        let stored = self.site.stored().await?;
        ensure!(stored.violations.is_empty(), "the store: {:?}", stored.violations);
        let (work, media) = (self.work_files()?, self.media_files()?);
        ensure!(work.is_empty(), "left in the work folder: {work:?}");
        ensure!(media.len() == kept, "{kept} files are kept, here are {media:?}");
        Ok(())
    }
}

/// A counter of a server; 0 if nothing was counted yet.
pub(super) async fn metric(node: &Node, name: &str) -> Result<u64> {
    let text = node.admin()?.get("/metrics").await?.expect_status(200)?.text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(Ok(0), |value| value.trim().parse().with_context(|| format!("{name} {value}")))
}

/// Jobs of this kind that wait for their time have it now, by way of the node that is asked.
pub(super) async fn hurry(admin: &JsonClient, kind: &str) -> Result<()> {
    for job in jobs(admin, kind).await? {
        if job["state"] == "scheduled" {
            admin.post(&format!("/jobs/{}/retry", job["id"]), &json!({})).await?;
        }
    }
    Ok(())
}

async fn jobs(admin: &JsonClient, kind: &str) -> Result<Vec<Value>> {
    let page = admin.get(&format!("/jobs?kind={kind}&limit=200")).await?.expect_status(200)?;
    Ok(page.body["jobs"].as_array().context("no list of jobs")?.clone())
}

/// Lets others go on for a moment.
pub(super) async fn breathe(moment: Duration) {
    let watch = Stopwatch::start();
    // It cannot fail: the moment is over before the limit.
    let _ = eventually(SOON, async || (watch.elapsed() >= moment).then_some(())).await;
}
