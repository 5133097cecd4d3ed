//! G-12 and what operators do from the shell: a copy under load, put back, is sound and has everything
//! that was acknowledged before it was made; the doctor finds what is wrong.

use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use roundsman_store::SCHEMA_KNOWN;
use roundsman_testkit::{JsonClient, TestDatabase};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::load::number;
use crate::site::{ADMIN_TOKEN, Backend, Node, PAYLOAD_CANARY, Site, with_postgres_canary};

const KIND: &str = "upkeep.work";
const BEFORE: usize = 50;
const MEANWHILE: usize = 200;

#[tokio::test]
async fn a_copy_made_under_load_is_put_back_whole_on_sqlite() {
    a_file_is_copied_and_put_back().await.unwrap();
}

#[tokio::test]
async fn a_copy_made_under_load_is_put_back_whole_on_postgres() {
    a_server_is_copied_and_put_back().await.unwrap();
}

async fn a_file_is_copied_and_put_back() -> Result<()> {
    let site = Site::new(Backend::Sqlite).await?;
    let mut node = site.start(site.options()).await?;
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("copies/monday.db");
    let shell = Shell::beside(Some(&site.data()), None);
    let (acknowledged, running) = copy_under_load(&node, &shell, &copy).await?;

    let under_it = shell.run(&["restore", "--verify", path(&copy)?]).await?;
    ensure!(!under_it.status.success(), "restored under a running server");
    node.stop().await?;
    let looked = shell.json(&["restore", "--dry-run", "--json", path(&copy)?]).await?;
    ensure!(looked["rows"]["job_queue"].as_u64() >= Some(BEFORE as u64), "{looked}");
    let restored = shell.json(&["restore", "--verify", "--json", path(&copy)?]).await?;
    let kept = restored["kept_as"].as_str().context("what was there is not kept")?;
    ensure!(Path::new(kept).exists(), "{restored}");

    let mut node = site.start(site.options()).await?;
    everything_is_there(&node, &acknowledged, &running).await?;
    let found = shell.json(&["check", "--json"]).await?;
    ensure!(found["findings"] == json!([]), "{found}");
    node.stop().await
}

async fn a_server_is_copied_and_put_back() -> Result<()> {
    let (from, to) = (TestDatabase::create().await?, TestDatabase::create().await?);
    let site = Site::postgres_at(&from.url());
    let mut node = site.start(site.options()).await?;
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("monday.dump");
    let shell = Shell::beside(None, Some(&from.url()));
    let (acknowledged, running) = copy_under_load(&node, &shell, &copy).await?;
    let in_use = shell.run(&["restore", path(&copy)?]).await?;
    ensure!(!in_use.status.success(), "restored over what is there");
    node.stop().await?;

    let shell = Shell::beside(None, Some(&to.url()));
    let looked = shell.json(&["restore", "--dry-run", "--json", path(&copy)?]).await?;
    ensure!(looked["tables"].as_array().is_some_and(|tables| tables.len() > 5), "{looked}");
    let restored = shell.json(&["restore", "--verify", "--json", path(&copy)?]).await?;
    ensure!(restored["findings"] == 0, "{restored}");
    let site = Site::postgres_at(&to.url());
    let mut node = site.start(site.options()).await?;
    everything_is_there(&node, &acknowledged, &running).await?;
    node.stop().await
}

/// Jobs that were acknowledged before the copy began, and one that is being worked on.
async fn copy_under_load(node: &Node, shell: &Shell, copy: &Path) -> Result<(Vec<i64>, Value)> {
    let api = node.admin()?;
    let worked_on = enqueue(&api).await?;
    let wish = json!({"worker": "w", "kinds": [KIND], "wait_secs": 5, "lease_secs": 600});
    let running = api.post("/jobs/claim", &wish).await?.expect_status(200)?.body["jobs"][0].clone();
    ensure!(number(&running["id"]) == worked_on, "{running}");
    let mut acknowledged = Vec::new();
    for _ in 0..BEFORE {
        acknowledged.push(enqueue(&api).await?);
    }
    let load = async {
        for _ in 0..MEANWHILE {
            enqueue(&api).await?;
        }
        Ok(())
    };
    let arguments = ["backup", "--json", path(copy)?];
    let (made, loaded): (_, Result<()>) = tokio::join!(shell.json(&arguments), load);
    loaded?;
    ensure!(made?["bytes"].as_u64() > Some(0), "the copy is empty");
    let again = shell.run(&["backup", path(copy)?]).await?;
    ensure!(!again.status.success(), "a copy was written over");
    Ok((acknowledged, running))
}

async fn everything_is_there(node: &Node, acknowledged: &[i64], running: &Value) -> Result<()> {
    let api = node.admin()?;
    for id in acknowledged {
        let job = api.get(&format!("/jobs/{id}")).await?.expect_status(200)?.body;
        ensure!(job["state"] == "pending", "{job}");
    }
    // Numbers of leases never come twice, not even after a step back in time.
    let wish = json!({"worker": "w", "kinds": [KIND], "max": 1});
    let next = api.post("/jobs/claim", &wish).await?.expect_status(200)?.body["jobs"][0].clone();
    ensure!(number(&next["lease_no"]) > number(&running["lease_no"]) + 1000, "{next}");
    Ok(())
}

#[tokio::test]
async fn a_script_migrates_and_makes_tokens_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    script(&Shell::beside(Some(folder.path()), None)).await.unwrap();
}

#[tokio::test]
async fn a_script_migrates_and_makes_tokens_on_postgres() {
    let database = TestDatabase::create().await.unwrap();
    script(&Shell::beside(None, Some(&database.url()))).await.unwrap();
}

/// What is on standard output is one JSON document each time, whatever is said beside it.
async fn script(shell: &Shell) -> Result<()> {
    let migrated = shell.json(&["migrate", "--json"]).await?;
    ensure!(migrated["schema"].as_u64() == Some(SCHEMA_KNOWN.into()), "{migrated}");
    ensure!(migrated["database"].is_string(), "{migrated}");
    let create = ["token", "create", "--user", "ci@example.org", "--scope", "jobs", "--json"];
    let made = shell.json(&create).await?;
    let token = made["token"].as_str().context("no token")?;
    ensure!(token.starts_with("rmt_") && made["scopes"] == json!(["jobs"]), "{made}");
    ensure!(made["user_created"] == true && made["email"] == "ci@example.org", "{made}");
    ensure!(shell.json(&create).await?["user_created"] == false, "the user was made twice");
    let listed = shell.json(&["token", "list", "--json"]).await?;
    ensure!(listed.as_array().is_some_and(|tokens| tokens.len() == 2), "{listed}");
    ensure!(!listed.to_string().contains(token), "a token is shown once");
    let id = number(&made["id"]);
    let revoked = shell.json(&["token", "revoke", &id.to_string(), "--json"]).await?;
    ensure!(revoked == json!({"id": id, "revoked": true}), "{revoked}");
    let listed = shell.json(&["token", "list", "--json"]).await?;
    let of_id = listed.as_array().and_then(|all| all.iter().find(|one| one["id"] == id));
    ensure!(of_id.is_some_and(|token| token["revoked_at"].is_string()), "{listed}");
    let unknown = shell.run(&["token", "revoke", "999", "--json"]).await?;
    ensure!(!unknown.status.success() && unknown.stdout.is_empty(), "{unknown:?}");
    // For people it is the token alone.
    let plain = shell.run(&["token", "create", "--user", "ci@example.org"]).await?;
    let text = String::from_utf8(plain.stdout)?;
    ensure!(text.starts_with("rmt_") && text.lines().count() == 1, "not the token alone");
    Ok(())
}

#[tokio::test]
async fn the_doctor_says_what_is_wrong_and_what_to_do() {
    the_doctor_looks().await.unwrap();
}

async fn the_doctor_looks() -> Result<()> {
    let site = Site::new(Backend::Sqlite).await?;
    let mut node = site.start(site.options()).await?;
    let healthy = Shell::beside(Some(&site.data()), None);
    let listen = format!("127.0.0.1:{}", node.port());
    let seen = healthy.json(&["doctor", "--json", "--listen", &listen]).await?;
    ensure!(seen["wrong"] == 0, "{seen}");
    ensure!(seen.to_string().contains("is ready"), "the running server was not seen: {seen}");
    let text = healthy.run(&["doctor", "--listen", &listen]).await?;
    ensure!(String::from_utf8_lossy(&text.stdout).contains("0 wrong, "), "{text:?}");
    node.stop().await?;

    // The tests' PostgreSQL runs without fsync, and the Redis is nowhere.
    let database = TestDatabase::create().await?;
    let mut sick = Shell::beside(None, Some(&database.url()));
    sick.redis = Some("redis://:canary-redis-77aa@127.0.0.1:9/");
    let output = sick.run(&["doctor", "--json", "--listen", &listen]).await?;
    ensure!(!output.status.success(), "a sick one was called healthy");
    let seen: Value = serde_json::from_slice(&output.stdout)?;
    let wrong: Vec<String> = seen["findings"]
        .as_array()
        .context("no findings")?
        .iter()
        .filter(|finding| finding["grade"] == "wrong" && finding["todo"] != "")
        .map(|finding| finding["found"].to_string())
        .collect();
    for expected in ["fsync = off", "cannot be reached"] {
        ensure!(wrong.iter().any(|found| found.contains(expected)), "{expected}: {seen}");
    }
    let all = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    ensure!(!all.contains("canary-redis"), "a secret was shown: {all}");
    Ok(())
}

/// Runs the binary's other commands with the same settings as a server.
struct Shell {
    data: Option<String>,
    database: Option<String>,
    redis: Option<&'static str>,
}

impl Shell {
    fn beside(data: Option<&Path>, database: Option<&str>) -> Shell {
        let data = data.map(|data| data.display().to_string());
        Shell { data, database: database.map(with_postgres_canary), redis: None }
    }

    async fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundsman"));
        command.args(arguments).env("ROUNDSMAN_ADMIN_TOKEN", ADMIN_TOKEN).kill_on_drop(true);
        if let Some(data) = &self.data {
            command.arg("--data").arg(data);
        }
        if let Some(url) = &self.database {
            command.env("ROUNDSMAN_DATABASE_URL", url);
        }
        if let Some(url) = self.redis {
            command.env("ROUNDSMAN_REDIS_URL", url);
        }
        Ok(command.output().await?)
    }

    async fn json(&self, arguments: &[&str]) -> Result<Value> {
        let output = self.run(arguments).await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?} ended with {}: {errors}", output.status);
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{arguments:?} prints no JSON"))
    }
}

async fn enqueue(api: &JsonClient) -> Result<i64> {
    let wish = json!({"kind": KIND, "payload": {"canary": PAYLOAD_CANARY}});
    Ok(number(&api.post("/jobs", &wish).await?.expect_status(201)?.body["id"]))
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}
