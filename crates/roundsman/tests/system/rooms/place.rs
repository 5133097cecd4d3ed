//! Where a test's rooms are: a database, and a port that outlives its servers.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{JsonClient, RedisServer, TestDatabase, ports};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::{ADMIN_TOKEN, Backend, Site};

pub(super) const PROJECT: &str = "storyboard";

/// Runs a test on SQLite, and on PostgreSQL with Redis.
pub(super) async fn on_both(run: impl AsyncFn(Backend) -> Result<()>) {
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.context("on SQLite").and(postgres.context("on PostgreSQL with Redis")).unwrap();
}

pub(super) struct RoomSite {
    pub(super) site: Site,
    database: Option<TestDatabase>,
    pub(super) redis: Option<RedisServer>,
    folder: TempDir,
    data: PathBuf,
    port: u16,
}

/// Somebody with an API key.
pub(super) struct Owner {
    pub(super) key: String,
    pub(super) client: JsonClient,
}

impl RoomSite {
    pub(super) async fn new(backend: Backend) -> Result<RoomSite> {
        let folder = tempfile::Builder::new().prefix("rooms-").tempdir()?;
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
        let port = ports::free_port()?;
        Ok(RoomSite { site, database, redis, folder, data, port })
    }

    /// A server at the site's own port: the one before it must have ended.
    pub(super) fn options(&self) -> ServerOptions {
        let options = self.site.options().env("ROUNDSMAN_ROOMS_LOOK_SECS", "0.3");
        options.data(&self.data).port(self.port)
    }

    /// A further server beside it.
    pub(super) fn options_beside(&self) -> ServerOptions {
        let options = self.site.options().env("ROUNDSMAN_ROOMS_LOOK_SECS", "0.3");
        options.data(self.folder.path().join("beside"))
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}", ports::loopback(self.port))
    }

    pub(super) fn socket_url(&self) -> String {
        socket_url(&self.base_url())
    }

    pub(super) async fn owner(&self, email: &str) -> Result<Owner> {
        let admin =
            JsonClient::new(self.base_url())?.with_header("x-admin-api-key", ADMIN_TOKEN)?;
        let wish = json!({"email": email, "max_concurrent_bots": 1});
        let user = admin.post("/admin/users", &wish).await?;
        ensure!([200, 201].contains(&user.status), "no user: {} {}", user.status, user.text);
        let tokens = format!("/admin/users/{}/tokens", user.body["id"]);
        let token = admin.post(&tokens, &json!({})).await?.expect_status(201)?;
        let key = token.body["token"].as_str().context("no token")?.to_owned();
        self.site.keep_secret(&key);
        let client = JsonClient::new(self.base_url())?.with_header("x-api-key", &key)?;
        Ok(Owner { key, client })
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
}

impl Owner {
    /// A room token: its number and what its holder sends.
    pub(super) async fn token(
        &self,
        site: &RoomSite,
        permission: &str,
        secs: u64,
    ) -> Result<(i64, String)> {
        let wish = json!({"permission": permission, "expires_in_secs": secs});
        let made = self.client.post(&format!("/rooms/{PROJECT}/tokens"), &wish).await?;
        let made = made.expect_status(201)?.body;
        let text = made["token"].as_str().context("no token")?.to_owned();
        site.site.keep_secret(&text);
        Ok((made["id"].as_i64().context("no number")?, text))
    }

    /// What the document says.
    pub(super) async fn document(&self) -> Result<Value> {
        let path = format!("/rooms/{PROJECT}/doc");
        Ok(self.client.get(&path).await?.expect_status(200)?.body["doc"].clone())
    }
}

pub(super) fn socket_url(base_url: &str) -> String {
    format!("{}/ws/rooms", base_url.replacen("http", "ws", 1))
}
