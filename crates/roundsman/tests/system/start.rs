//! How servers start: beside another one, after a crash, on a database from the future, without a
//! token; and what they leave on disk.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{TestDatabase, eventually};
use rusqlite::Connection;
use serde_json::json;
use tokio::process::Command;

use crate::load::number;
use crate::site::{
    Backend, LEASE, PAYLOAD_CANARY, SOON, Site, Stopwatch, sqlite_stored, with_postgres_canary,
};

const BINARY: &str = env!("CARGO_BIN_EXE_roundsman");
/// A number that no schema of ours will reach soon.
const FROM_THE_FUTURE: u32 = 9_999;
/// How long a dead server's own job would be left alone if nobody took it over.
const OWN_LEASE: Duration = Duration::from_secs(15);

#[tokio::test]
async fn two_servers_never_share_an_embedded_database() {
    async fn run() -> Result<()> {
        let site = Site::sqlite()?;
        let mut first = site.start(site.options()).await?;
        let mut second = site.spawn(site.options())?;
        let status = second.wait_exit(SOON).await?;
        ensure!(status.code() == Some(1), "the second server ended with {status}");
        let path = site.data().join("roundsman.db");
        let says = second.stderr()?;
        ensure!(says.contains("another server has"), "{says}");
        ensure!(says.contains(&path.display().to_string()), "{says}");
        ensure!(first.is_ready().await, "the first server was disturbed");
        first.stop().await?;
        site.start(site.options()).await?.stop().await
    }
    run().await.unwrap();
}

/// A job that the server itself was running when it died does not wait for its lease.
#[tokio::test]
async fn a_restart_takes_over_its_own_jobs_at_once() {
    async fn run() -> Result<()> {
        let site = Site::sqlite()?;
        let armed = site.options().env("ROUNDSMAN_FAILPOINTS", "worker.starting=1");
        let mut dying = site.spawn(armed)?;
        dying.wait_exit(SOON).await?;
        let watch = Stopwatch::start();
        let mut node = site.start(site.options()).await?;
        node.wait_for_log("took over jobs", SOON).await?;
        let admin = node.admin()?;
        let again = eventually(OWN_LEASE, async || {
            let page = admin.get("/jobs?kind=jobs.prune&limit=1").await.ok()?;
            let job = admin.get(&format!("/jobs/{}", page.body["jobs"][0]["id"])).await.ok()?;
            let outcomes = job.body["attempts"].as_array()?.iter().map(|run| &run["outcome"]);
            outcomes.into_iter().any(|outcome| outcome == "again").then_some(())
        });
        again.await.context("housekeeping did not run again")?;
        ensure!(watch.elapsed() < OWN_LEASE, "it waited for its lease: {:?}", watch.elapsed());
        node.stop().await
    }
    run().await.unwrap();
}

#[tokio::test]
async fn an_outside_worker_keeps_its_lease_over_a_crash_on_sqlite() {
    an_outside_worker_keeps_its_lease_over_a_crash(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn an_outside_worker_keeps_its_lease_over_a_crash_on_postgres() {
    an_outside_worker_keeps_its_lease_over_a_crash(Backend::Postgres).await.unwrap();
}

/// Nobody could send a heartbeat while the only server was away, even past the end of the lease:
/// the worker gets one full lease from the start on. And silence after that is silence.
async fn an_outside_worker_keeps_its_lease_over_a_crash(backend: Backend) -> Result<()> {
    let site = Site::new(backend).await?;
    // Nothing else in this test is in a hurry, and a slow machine must not look like silence.
    let options = || {
        let options = site.options().env("ROUNDSMAN_JOBS_STALLED_SECS", "3");
        options.env("ROUNDSMAN_JOBS_SWEEP_SECS", "0.2")
    };
    let mut node = site.start(options()).await?;
    let admin = node.admin()?;
    for _ in 0..2 {
        let wish = json!({"kind": "start.work", "payload": {"canary": PAYLOAD_CANARY}});
        admin.post("/jobs", &wish).await?.expect_status(201)?;
    }
    let claim = json!({"worker": "outside", "kinds": ["start.work"], "max": 2});
    let claimed = admin.post("/jobs/claim", &claim).await?.expect_status(200)?;
    let watch = Stopwatch::start();
    node.kill_9().await?;
    let lease_over = Duration::from_secs(3) + LEASE / 4;
    eventually(SOON, async || (watch.elapsed() > lease_over).then_some(())).await?;
    node.start_again().await?;
    let (kept, silent) = (&claimed.body["jobs"][0], &claimed.body["jobs"][1]);
    let beat = json!({"lease_no": kept["lease_no"], "progress": {"percent": 50}});
    admin.post(&format!("/jobs/{}/heartbeat", kept["id"]), &beat).await?.expect_status(200)?;
    let done = json!({"lease_no": kept["lease_no"], "result": "late, but mine"});
    admin.post(&format!("/jobs/{}/complete", kept["id"]), &done).await?.expect_status(200)?;

    let claim = json!({"worker": "heir", "kinds": ["start.work"], "wait_secs": 20});
    let inherited = admin.post("/jobs/claim", &claim).await?.expect_status(200)?;
    ensure!(inherited.body["jobs"][0]["id"] == silent["id"], "{}", inherited.text);
    node.stop().await
}

#[tokio::test]
async fn a_schema_from_the_future_is_refused_and_left_alone() {
    async fn run() -> Result<()> {
        let site = Site::sqlite()?;
        site.start(site.options()).await?.stop().await?;
        let path = site.data().join("roundsman.db");
        let known: u32 = {
            let database = Connection::open(&path)?;
            let known = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
            database.pragma_update(None, "user_version", FROM_THE_FUTURE)?;
            known
        };
        check_refused(&site, known).await?;
        Connection::open(&path)?.pragma_update(None, "user_version", known)?;
        site.start(site.options()).await?.stop().await?;

        let database = TestDatabase::create().await?;
        let site = Site::postgres_at(&database.url());
        site.start(site.options()).await?.stop().await?;
        let client = database.connect().await?;
        let future = "INSERT INTO roundsman.migrations (number, name, applied_at) \
                      VALUES (9999, 'from_the_future', now())";
        client.batch_execute(future).await?;
        check_refused(&site, known).await
    }
    run().await.unwrap();
}

async fn check_refused(site: &Site, known: u32) -> Result<()> {
    let mut node = site.spawn(site.options())?;
    let status = node.wait_exit(SOON).await?;
    ensure!(status.code() == Some(1), "ended with {status}");
    let says = node.stderr()?;
    let last = says.lines().last().unwrap_or_default();
    for number in [FROM_THE_FUTURE, known] {
        ensure!(last.contains(&number.to_string()), "does not name {number}: {says}");
    }
    ensure!(last.contains("newer"), "{says}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_others_can_reach_needs_a_token() {
    let folder = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let output = roundsman(folder.path(), &format!("serve --listen {address}"), &[]).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains("ROUNDSMAN_ADMIN_TOKEN"), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

#[tokio::test]
async fn a_made_admin_token_is_shown_once_and_goes_on_working() {
    async fn run() -> Result<()> {
        let mut server =
            ServerOptions::new(BINARY).env("ROUNDSMAN_LOG_LEVEL", "debug").start().await?;
        let token = shown_token(&server.stdout()?).context("no token was shown")?;
        let admin = server.client()?.with_header("x-admin-api-key", &token)?;
        admin.get("/admin/users").await?.expect_status(200)?;
        let wrong = server.client()?.with_header("x-admin-api-key", "rma_guess")?;
        wrong.get("/admin/users").await?.expect_status(403)?;
        server.kill_9().await?;
        server.start_again().await?;
        admin.get("/admin/users").await?.expect_status(200)?;
        let outputs = [server.stdout()?, server.stderr()?];
        let shown: usize = outputs.iter().map(|text| text.matches(&token).count()).sum();
        ensure!(shown == 1, "the token was shown {shown} times");
        for entry in std::fs::read_dir(server.data())? {
            let path = entry?.path();
            // The bots' own folder, which no bot has written to yet.
            if path.is_dir() {
                continue;
            }
            let bytes = std::fs::read(&path)?;
            let found = bytes.windows(token.len()).any(|window| window == token.as_bytes());
            ensure!(!found, "the token is in {}", path.display());
        }
        Ok(())
    }
    run().await.unwrap();
}

#[tokio::test]
async fn tokens_are_made_beside_a_server_and_without_one() {
    async fn run() -> Result<()> {
        let site = Site::sqlite()?;
        let data = site.data().display().to_string();
        let create = format!("token create --user ada@example.org --data {data}");
        let folder = tempfile::tempdir()?;
        let before = made_token(&roundsman(folder.path(), &create, &[]).await)?;
        let mut node = site.start(site.options()).await?;
        let beside = made_token(&roundsman(folder.path(), &create, &[]).await)?;
        check_tokens(&site, &node.base_url(), &[before, beside]).await?;
        node.stop().await?;

        let database = TestDatabase::create().await?;
        let site = Site::postgres_at(&database.url());
        let url = with_postgres_canary(&database.url());
        let variables = [("ROUNDSMAN_DATABASE_URL", url.as_str())];
        let create = "token create --user ada@example.org --scope jobs,work";
        let before = made_token(&roundsman(folder.path(), create, &variables).await)?;
        let mut node = site.start(site.options()).await?;
        let beside = made_token(&roundsman(folder.path(), create, &variables).await)?;
        check_tokens(&site, &node.base_url(), &[before, beside]).await?;
        node.stop().await
    }
    run().await.unwrap();
}

#[tokio::test]
async fn what_is_on_disk_belongs_to_its_owner_alone() {
    async fn run() -> Result<()> {
        let mut server = ServerOptions::new(BINARY).start().await?;
        let data = server.data();
        ensure!(mode(&data)? == 0o700, "{}: {:o}", data.display(), mode(&data)?);
        let mut seen = Vec::new();
        for entry in std::fs::read_dir(&data)? {
            let path = entry?.path();
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            ensure!(mode(&path)? == expected, "{}: {:o}", path.display(), mode(&path)?);
            seen.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        for name in ["roundsman.db", "roundsman.db-wal", "admin-token.sha256"] {
            ensure!(seen.iter().any(|other| other == name), "{name} is not among {seen:?}");
        }
        server.sigterm()?;
        server.wait_exit(SOON).await?;
        let stored = sqlite_stored(&data.join("roundsman.db")).await?;
        ensure!(stored.violations.is_empty(), "{:?}", stored.violations);
        Ok(())
    }
    run().await.unwrap();
}

/// Runs a command with nothing in its environment but `variables`.
async fn roundsman(folder: &Path, arguments: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(arguments.split_whitespace()).current_dir(folder).env_clear();
    command.envs(variables.iter().copied()).kill_on_drop(true);
    let output = tokio::time::timeout(SOON, command.output()).await;
    output.expect("the command ends").expect("the command was built for this test")
}

fn made_token(output: &Output) -> Result<String> {
    ensure!(output.status.success(), "{}", stderr(output));
    let token = String::from_utf8(output.stdout.clone())?.trim().to_owned();
    ensure!(token.starts_with("rmt_"), "not a token: {token}");
    Ok(token)
}

/// Every token works, as the same user, and is in no log.
async fn check_tokens(site: &Site, base_url: &str, tokens: &[String]) -> Result<()> {
    let mut users = Vec::new();
    for token in tokens {
        site.keep_secret(token);
        let client = roundsman_testkit::JsonClient::new(base_url)?.with_token(token)?;
        let made =
            client.post("/jobs", &json!({"kind": "start.work"})).await?.expect_status(201)?;
        users.push(number(&made.body["job"]["user_id"]));
    }
    ensure!(users.windows(2).all(|pair| pair[0] == pair[1] && pair[0] > 0), "{users:?}");
    Ok(())
}

fn shown_token(stdout: &str) -> Option<String> {
    let line = stdout.lines().find(|line| line.contains("admin token"))?;
    line.split_whitespace().last().map(str::to_owned)
}

fn mode(path: &Path) -> Result<u32> {
    Ok(std::fs::metadata(path)?.permissions().mode() & 0o777)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
