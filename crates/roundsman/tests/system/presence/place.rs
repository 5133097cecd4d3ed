//! Where a test's meetings take place: a stand-in for Daily, a database, a port that outlives its
//! servers, and settings with which everything comes round within a test.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::limits::PAGE_ROWS_MAX;
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::daily::{DailyStandInOptions, Guest, Route};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{DailyStandIn, JsonClient, RedisServer, TestDatabase, eventually, ports};
use serde_json::{Value, json};

use super::door::Door;
use super::meeting::Meeting;
use crate::bots::books::Books;
use crate::bots::user::User;
use crate::site::{ADMIN_TOKEN, Backend, Node, SOON, Site, Stopwatch};

/// What Daily signs its events with: `canary-of-daily-webhooks`, in base64.
pub(super) const SECRET: &str = "Y2FuYXJ5LW9mLWRhaWx5LXdlYmhvb2tz";
/// What a client must say to Daily.
const API_KEY: &str = "canary-daily-key-5d20";

pub(super) const WEBHOOK: &str = "/webhooks/daily";

/// Settings by the names of their variables, which tests move.
pub(super) const DEBOUNCE: &str = "ROUNDSMAN_PRESENCE_DEBOUNCE_SECS";
pub(super) const DEBOUNCE_MAX: &str = "ROUNDSMAN_PRESENCE_DEBOUNCE_SECS_MAX";
pub(super) const LAG: &str = "ROUNDSMAN_PRESENCE_LAG_SECS";
pub(super) const RECONCILE: &str = "ROUNDSMAN_PRESENCE_RECONCILE_SECS";
pub(super) const PROCESS: &str = "ROUNDSMAN_PRESENCE_PROCESS_SECS";
pub(super) const EMPTY_GRACE: &str = "ROUNDSMAN_PRESENCE_EMPTY_GRACE_SECS";
pub(super) const SUBSCRIPTION: &str = "ROUNDSMAN_PRESENCE_SUBSCRIPTION_SECS";
pub(super) const LOOKS_AT_ONCE: &str = "ROUNDSMAN_PRESENCE_LOOKS_AT_ONCE_MAX";
pub(super) const WEBHOOK_SECRET: &str = "ROUNDSMAN_DAILY_WEBHOOK_SECRET";
/// Longer than any test: what comes round this seldom does not come round.
pub(super) const NEVER: &str = "3600";

const SETTINGS: [(&str, &str); 10] = [
    (DEBOUNCE, "0.1"),
    (DEBOUNCE_MAX, "0.4"),
    (LAG, "0.6"),
    (RECONCILE, "0.5"),
    (PROCESS, "0.3"),
    (EMPTY_GRACE, NEVER),
    (SUBSCRIPTION, "1"),
    ("ROUNDSMAN_PRESENCE_GONE_GRACE_SECS", "1"),
    ("ROUNDSMAN_DAILY_REQUEST_SECS_MAX", "3"),
    (WEBHOOK_SECRET, SECRET),
];

/// A domain of Daily's, a database, and everything that the servers there share.
pub(super) struct PresenceSite {
    pub(super) site: Site,
    pub(super) daily: DailyStandIn,
    backend: Backend,
    database: Option<TestDatabase>,
    /// Only held, so that it lives as long as the site.
    _redis: Option<RedisServer>,
    port: u16,
    webhook_url: String,
}

impl PresenceSite {
    pub(super) async fn new(backend: Backend) -> Result<PresenceSite> {
        match backend {
            Backend::Sqlite => PresenceSite::with(backend, Site::sqlite()?, None, None).await,
            Backend::Postgres => {
                let (database, redis) =
                    (TestDatabase::create().await?, RedisServer::start().await?);
                let site = Site::postgres_at(&database.url()).with_redis(&redis.url());
                PresenceSite::with(backend, site, Some(database), Some(redis)).await
            }
        }
    }

    /// On PostgreSQL, with a Redis that the test owns.
    pub(super) async fn on(database: TestDatabase, redis_url: &str) -> Result<PresenceSite> {
        let site = Site::postgres_at(&database.url()).with_redis(redis_url);
        PresenceSite::with(Backend::Postgres, site, Some(database), None).await
    }

    async fn with(
        backend: Backend,
        site: Site,
        database: Option<TestDatabase>,
        redis: Option<RedisServer>,
    ) -> Result<PresenceSite> {
        let options =
            DailyStandInOptions { api_key: API_KEY.to_owned(), ..DailyStandInOptions::default() };
        let clock = Arc::new(DatabaseClock::start());
        let daily = DailyStandIn::start_with(options, clock).await?;
        let port = ports::free_port()?;
        let webhook_url = format!("http://{}{WEBHOOK}", ports::loopback(port));
        for secret in [API_KEY, SECRET] {
            site.keep_secret(secret);
        }
        Ok(PresenceSite { site, daily, backend, database, _redis: redis, port, webhook_url })
    }

    /// Events go here, not to the server at the site's port.
    pub(super) fn events_go_to(&mut self, url: String) {
        self.webhook_url = url;
    }

    /// A server at the site's own port: the one before it must have ended.
    pub(super) fn options(&self) -> ServerOptions {
        self.options_beside().port(self.port)
    }

    /// A further server beside the others, at a port of its own.
    pub(super) fn options_beside(&self) -> ServerOptions {
        let mut options = self.site.options();
        for (name, value) in SETTINGS {
            options = options.env(name, value);
        }
        options
            .env("ROUNDSMAN_DAILY_API_URL", self.daily.api_url())
            .env("ROUNDSMAN_DAILY_API_KEY", API_KEY)
            .env("ROUNDSMAN_DAILY_WEBHOOK_URL", &self.webhook_url)
    }

    pub(super) async fn start(&self, options: ServerOptions) -> Result<Node> {
        self.site.start(options).await
    }

    /// As many servers as the database can have, and a door to all of them for Daily's events.
    pub(super) async fn start_all(
        &mut self,
        change: impl Fn(ServerOptions) -> ServerOptions,
    ) -> Result<(Vec<Node>, Door)> {
        let door = Door::open().await?;
        self.events_go_to(door.url());
        let mut nodes = vec![self.start(change(self.options())).await?];
        if self.backend == Backend::Postgres {
            nodes.push(self.start(change(self.options_beside())).await?);
        }
        door.leads_to(nodes.iter().map(|node| node.base_url()));
        Ok((nodes, door))
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}", ports::loopback(self.port))
    }

    /// A client with the operator's token, for whichever server is at the site's port.
    pub(super) fn admin(&self) -> Result<JsonClient> {
        JsonClient::new(self.base_url())?.with_header("x-admin-api-key", ADMIN_TOKEN)
    }

    /// A client of Daily's API, as anybody with the key has it.
    pub(super) fn daily_client(&self) -> Result<JsonClient> {
        JsonClient::new(self.daily.api_url())?.with_token(API_KEY)
    }

    /// Makes a user.
    pub(super) async fn user(&self, name: &str) -> Result<User> {
        let admin = self.admin()?;
        let wish = json!({"email": format!("{name}@example.org"), "max_concurrent_bots": 1});
        let user = admin.post("/admin/users", &wish).await?;
        ensure!([200, 201].contains(&user.status), "no user: {} {}", user.status, user.text);
        let id = user.body["id"].as_i64().context("a user without a number")?;
        let token = admin.post(&format!("/admin/users/{id}/tokens"), &json!({})).await?;
        let token = token.expect_status(201)?;
        let key = token.body["token"].as_str().context("no token")?;
        self.site.keep_secret(key);
        User::new(&self.base_url(), id, key)
    }

    /// Has Daily send its events here.
    pub(super) async fn subscribe(&self) -> Result<Value> {
        let made = self.admin()?.post("/presence/subscription", &json!({})).await?;
        let made = made.expect_status(200)?.body;
        ensure!(made["is_active"] == true, "{made}");
        Ok(made)
    }

    /// A meeting of a new user's in a room where these people are, as soon as that is known.
    pub(super) async fn meeting_of(&self, room: &str, people: &[&str]) -> Result<Meeting> {
        self.daily.add_room(room);
        for name in people {
            self.daily.join(room, Guest::named(name));
        }
        let user = self.user(&format!("owner-of-{room}")).await?;
        let meeting = Meeting::open(user, room).await?;
        meeting.wait_inside(&self.daily.present(room)).await?;
        self.wait_quiet().await?;
        Ok(meeting)
    }

    /// How often rooms were looked at.
    pub(super) fn looks(&self) -> u64 {
        self.daily.requests(Route::RoomPresence)
    }

    /// The leases of this kind that are held now.
    pub(super) async fn leases(&self, kind: &str) -> Result<Vec<Value>> {
        let page = self.admin()?.get("/leases?limit=200").await?.expect_status(200)?;
        let all = page.body["leases"].as_array().context("no list of leases")?;
        Ok(all.iter().filter(|lease| lease["kind"] == kind).cloned().collect())
    }

    /// Waits until no look is asked for or under way.
    pub(super) async fn wait_quiet(&self) -> Result<()> {
        let quiet = eventually(SOON, async || self.is_quiet().await.ok().filter(|quiet| *quiet));
        quiet.await.context("looks are still asked for").map(|_| ())
    }

    async fn is_quiet(&self) -> Result<bool> {
        let path = format!("/jobs?kind=presence.poll&limit={PAGE_ROWS_MAX}");
        let page = self.admin()?.get(&path).await?.expect_status(200)?;
        let jobs = page.body["jobs"].as_array().context("no list of jobs")?;
        let over = |job: &Value| {
            let state = job["state"].as_str().unwrap_or_default();
            ["completed", "failed", "cancelled"].contains(&state)
        };
        Ok(jobs.iter().all(over))
    }

    /// Waits until an event of this kind was answered, and returns the status.
    pub(super) async fn wait_delivered(&self, kind: &str, count: usize) -> Result<Option<u16>> {
        let found = eventually(SOON, async || {
            let all = self.daily.delivered();
            let mut such = all.iter().filter(|delivered| delivered.kind == kind);
            such.nth(count - 1).map(|delivered| delivered.status)
        });
        found.await.with_context(|| format!("{count} of {kind} were not sent"))
    }

    /// Waits until so many events of this kind are in the inbox, and returns them, newest first.
    pub(super) async fn wait_inbox(&self, kind: &str, count: usize) -> Result<Vec<Value>> {
        let mut seen = Vec::new();
        let kept = eventually(SOON, async || {
            let page = self.admin().ok()?.get("/presence/inbox?limit=200").await.ok()?;
            let all = page.body["events"].as_array()?;
            seen = all.iter().filter(|event| event["type"] == kind).cloned().collect();
            (seen.len() >= count).then_some(())
        });
        let kept = kept.await;
        kept.with_context(|| format!("{count} of {kind} in the inbox: {seen:?}"))?;
        Ok(seen)
    }

    pub(super) fn database(&self) -> Result<&TestDatabase> {
        self.database.as_ref().context("this site is not on PostgreSQL")
    }

    pub(super) async fn books(&self) -> Result<Books> {
        match &self.database {
            None => Books::sqlite(&self.site.data().join("roundsman.db")),
            Some(database) => Books::postgres(database).await,
        }
    }

    /// Two minutes pass for the leases of a server that is gone or stands still: nobody waits for
    /// them. On an embedded database the next start knows that nobody holds them.
    pub(super) async fn leases_end(&self, pid: u32) -> Result<()> {
        if self.backend == Backend::Postgres {
            let sql = format!(
                "UPDATE job_running SET lease_until = lease_until - interval '2 minutes' \
                 WHERE worker LIKE 'node-{pid}-%'"
            );
            self.books().await?.rows(&sql).await?;
        }
        Ok(())
    }

    /// The end of a test: the servers end in good order and leave a database without a fault.
    pub(super) async fn end(&self, nodes: Vec<Node>) -> Result<()> {
        for mut node in nodes {
            node.stop().await?;
        }
        let stored = self.site.stored().await?;
        ensure!(stored.violations.is_empty(), "the store: {:?}", stored.violations);
        Ok(())
    }
}

/// The value of a metric at a server; 0 if nothing was counted yet.
pub(super) async fn metric(node: &Node, name: &str) -> Result<u64> {
    let text = node.admin()?.get("/metrics").await?.expect_status(200)?.text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(Ok(0), |value| value.trim().parse().with_context(|| format!("{name} {value}")))
}

/// Lets others go on for a moment.
pub(super) async fn breathe(moment: Duration) {
    let watch = Stopwatch::start();
    // It cannot fail: the moment is over before the limit.
    let _ = eventually(SOON, async || (watch.elapsed() >= moment).then_some(())).await;
}
