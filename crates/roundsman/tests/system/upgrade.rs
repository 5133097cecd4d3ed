//! G-11: two nodes are replaced by those of the next release, one after the other, under load. The
//! schema is migrated while both nodes are of the release before; they go on, and every request is
//! answered by one of the two. Nothing that was acknowledged is lost or has two results, and the
//! release before refuses to start on the newer schema.
//!
//! `scripts/upgrade` builds the release before from git and names it in
//! `ROUNDSMAN_TEST_PREVIOUS_BINARY`. Without it this release takes its place, and the next schema is an
//! imagined one: every table gets columns, as a migration may add them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use reqwest::Method;
use roundsman_core::jobs::{FinishedState, Job};
use roundsman_testkit::{JsonClient, TestDatabase, env, eventually};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::load::{self, Ledger, Plan, WhenLost, number};
use crate::site::{ADMIN_TOKEN, Node, PAYLOAD_CANARY, SOON, Site, Stored, with_postgres_canary};

const NEW: &str = env!("CARGO_BIN_EXE_roundsman");
const REQUESTS_MAX: i64 = 1_000_000;
/// What is acknowledged between two steps.
const ACKED_BETWEEN: u64 = 300;
/// Rounds of housekeeping by the nodes of the release before, on the newer schema.
const ROUNDS_BETWEEN: u64 = 5;
const KIND: &str = "upgrade.careful";
const HOUSEKEEPING: &str = "jobs.prune";
/// More than are ever lost on the way.
const ATTEMPTS_MAX: u64 = 50;
const MIGRATED_WITHIN: Duration = Duration::from_secs(60);
/// A number that no release has reached.
const FROM_THE_FUTURE: i32 = 9999;

#[tokio::test]
async fn one_node_after_the_other_is_replaced_under_load() {
    async fn run() -> Result<()> {
        let rollout = Rollout::prepare().await?;
        let site = &rollout.site;
        let mut nodes = [rollout.start_old().await?, rollout.start_old().await?];
        let ledger = load::begin(site, &nodes[0]).await?;
        let urls = [nodes[0].base_url(), nodes[1].base_url()];
        let careful = Careful::new(&urls, &ledger)?;
        let stop = CancellationToken::new();
        let plan = Plan::of_requests(REQUESTS_MAX, WhenLost::Wait, 11);
        let plan = Plan { time_max: SOON * 8, ..plan };
        let loaded = load::run_until(site, &ledger, &urls, plan, &stop);
        let steps = async {
            let result = rollout.replace(&mut nodes, &ledger, &careful).await;
            stop.cancel();
            result
        };
        let (loaded, careful_ended, replaced) = tokio::join!(loaded, careful.run(&stop), steps);
        replaced.and(careful_ended).and(loaded)?;

        load::drain(&ledger, &urls[0]).await?;
        careful.drain().await?;
        for node in &mut nodes {
            load::verify_access(&ledger, node).await?;
            node.stop().await?;
        }
        let stored = site.stored().await?;
        load::verify_drained(&ledger, &stored)?;
        careful.verify(&stored)?;
        rollout.old_is_refused().await
    }
    run().await.unwrap();
}

/// The database, and the release that is replaced.
struct Rollout {
    database: TestDatabase,
    site: Site,
    /// None: this release, with an imagined one after it.
    previous: Option<PathBuf>,
}

impl Rollout {
    async fn prepare() -> Result<Rollout> {
        let database = TestDatabase::create().await?;
        let site = Site::postgres_at(&database.url()).with_redis(&env::redis_url()?);
        Ok(Rollout { database, site, previous: env::previous_binary() })
    }

    fn old_binary(&self) -> PathBuf {
        self.previous.clone().unwrap_or_else(|| NEW.into())
    }

    async fn start_old(&self) -> Result<Node> {
        self.site.start(self.site.options_for(self.old_binary())).await
    }

    async fn replace(
        &self,
        nodes: &mut [Node; 2],
        ledger: &Ledger,
        careful: &Careful,
    ) -> Result<()> {
        let go_on = async || {
            let acked = careful.acked();
            ledger.wait_for_more_acked(ACKED_BETWEEN, SOON * 2).await?;
            eventually(SOON, async || (careful.acked() > acked + 5).then_some(())).await?;
            anyhow::Ok(())
        };
        go_on().await.context("before anything was changed")?;
        self.migrate().await.context("the migration")?;
        go_on().await.context("the release before, on the newer schema")?;
        keeps_house(&nodes[0]).await?;
        for node in nodes.iter() {
            let log = node.stderr()?;
            let error = log.lines().find(|line| line.contains("ERROR "));
            ensure!(error.is_none(), "the release before meets errors: {error:?}");
        }
        for (index, node) in nodes.iter_mut().enumerate() {
            let port = node.port();
            node.stop().await?;
            *node = self.site.start(self.site.options().port(port)).await?;
            go_on().await.with_context(|| format!("after {} of 2", index + 1))?;
        }
        keeps_house(&nodes[1]).await
    }

    /// As an operator does it before the first new node starts.
    async fn migrate(&self) -> Result<()> {
        let before = self.schema().await?;
        if self.previous.is_none() {
            return self.imagine_next().await;
        }
        let mut command = Command::new(NEW);
        command.arg("migrate").kill_on_drop(true);
        command.env("ROUNDSMAN_ADMIN_TOKEN", ADMIN_TOKEN);
        command.env("ROUNDSMAN_DATABASE_URL", with_postgres_canary(&self.database.url()));
        let output = tokio::time::timeout(MIGRATED_WITHIN, command.output()).await??;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {errors}", output.status);
        let after = self.schema().await?;
        ensure!(after > before, "the release before has the same schema, {before}");
        eprintln!("migrated from schema {before} to {after}");
        Ok(())
    }

    /// Every table gets a column that may be empty and one that has a default, each with its own
    /// transaction, and none waits for a table longer than the nodes do.
    async fn imagine_next(&self) -> Result<()> {
        let client = self.database.connect().await?;
        client.batch_execute("SET lock_timeout = '1s'").await?;
        let tables = "SELECT c.relname::text FROM pg_class c \
                      JOIN pg_namespace n ON n.oid = c.relnamespace \
                      WHERE n.nspname = 'roundsman' AND c.relkind = 'r' ORDER BY c.relname";
        for row in client.query(tables, &[]).await? {
            let table: String = row.get(0);
            let change = format!(
                "ALTER TABLE roundsman.{table} ADD COLUMN next_note text, \
                 ADD COLUMN next_count bigint NOT NULL DEFAULT 0"
            );
            let changed = eventually(SOON, async || client.batch_execute(&change).await.ok()).await;
            changed.with_context(|| format!("{table} is never free"))?;
        }
        client.batch_execute("CREATE TABLE roundsman.next_things (id bigint)").await?;
        Ok(())
    }

    async fn schema(&self) -> Result<i32> {
        let client = self.database.connect().await?;
        let asked = "SELECT max(number) FROM roundsman.migrations";
        Ok(client.query_one(asked, &[]).await?.get(0))
    }

    /// There is no way back but a copy: the release before says so, and leaves everything as it is.
    async fn old_is_refused(&self) -> Result<()> {
        if self.previous.is_none() {
            let client = self.database.connect().await?;
            let future = "INSERT INTO roundsman.migrations (number, name, applied_at) \
                          VALUES ($1, 'from_the_future', now())";
            client.execute(future, &[&FROM_THE_FUTURE]).await?;
        }
        let found = self.schema().await?;
        let mut node = self.site.spawn(self.site.options_for(self.old_binary()))?;
        let status = node.wait_exit(SOON).await?;
        let says = node.stderr()?;
        ensure!(status.code() == Some(1), "it ended with {status}: {says}");
        let last = says.lines().last().unwrap_or_default();
        let clear = last.contains(&format!("schema {found}")) && last.contains("newer release");
        ensure!(clear, "it does not say why: {says}");
        ensure!(self.schema().await? == found, "it changed the schema");
        Ok(())
    }
}

/// The server's own kinds are run too, whoever runs them.
async fn keeps_house(node: &Node) -> Result<()> {
    let admin = node.admin()?;
    let rounds = async || {
        let page = admin.get(&format!("/jobs?kind={HOUSEKEEPING}&limit=1")).await.ok()?;
        let job = admin.get(&format!("/jobs/{}", page.body["jobs"][0]["id"])).await.ok()?;
        job.body["attempts_total"].as_u64()
    };
    let before = eventually(SOON, async || rounds().await).await.context("no housekeeping")?;
    let goes_on =
        eventually(SOON, async || rounds().await.filter(|now| *now >= before + ROUNDS_BETWEEN));
    goes_on.await.context("housekeeping stands still")?;
    Ok(())
}

/// A client and worker as the documentation asks for: whatever one node does not answer, it asks the
/// other, once. If that one does not answer either, the test fails.
struct Careful {
    nodes: [JsonClient; 2],
    turn: AtomicU64,
    /// Acknowledged jobs, and the result whose completion was acknowledged.
    jobs: Mutex<BTreeMap<i64, Option<Value>>>,
}

impl Careful {
    fn new(urls: &[String; 2], ledger: &Ledger) -> Result<Careful> {
        let client =
            |url: &String| JsonClient::new(url)?.with_header("x-api-key", &ledger.user_token);
        let nodes = [client(&urls[0])?, client(&urls[1])?];
        Ok(Careful { nodes, turn: AtomicU64::new(0), jobs: Mutex::default() })
    }

    async fn run(&self, stop: &CancellationToken) -> Result<()> {
        while !stop.is_cancelled() {
            let turn = self.turn.load(Ordering::SeqCst);
            let wish = json!({"kind": KIND, "max_attempts": ATTEMPTS_MAX,
                "payload": {"canary": PAYLOAD_CANARY}});
            let (_, made) = self.send("/jobs", &wish, Some(&format!("careful-{turn}"))).await?;
            self.jobs().entry(number(&made["id"])).or_default();
            self.work().await?;
        }
        Ok(())
    }

    /// Takes a job and completes it. Returns whether there was one.
    async fn work(&self) -> Result<bool> {
        let wish = json!({"worker": "careful", "kinds": [KIND]});
        let (_, claimed) = self.send("/jobs/claim", &wish, None).await?;
        let Some(job) = claimed["jobs"].get(0) else { return Ok(false) };
        let result = json!({"by": job["lease_no"]});
        let body = json!({"lease_no": job["lease_no"], "result": result});
        let path = format!("/jobs/{}/complete", job["id"]);
        let (status, _) = self.send(&path, &body, None).await?;
        // Refused: the first try got through without its answer, or the lease ended on the way.
        if status == 200 {
            let before = self.jobs().insert(number(&job["id"]), Some(result)).flatten();
            ensure!(before.is_none(), "{} was completed twice, first as {before:?}", job["id"]);
        }
        Ok(true)
    }

    async fn drain(&self) -> Result<()> {
        let left = async || {
            for state in ["pending", "processing", "scheduled"] {
                let path = format!("/jobs?kind={KIND}&state={state}&limit=1");
                let page = self.nodes[0].get(&path).await?.expect_status(200)?;
                if page.body["jobs"].as_array().is_some_and(|jobs| !jobs.is_empty()) {
                    return Ok(true);
                }
            }
            anyhow::Ok(false)
        };
        let empty = eventually(SOON * 2, async || {
            match async { anyhow::Ok(!self.work().await? && !left().await?) }.await {
                Ok(empty) => empty.then_some(Ok(())),
                Err(error) => Some(Err(error)),
            }
        });
        empty.await.context("the careful client's jobs were not worked off")?
    }

    fn verify(&self, stored: &Stored) -> Result<()> {
        let jobs = self.jobs();
        ensure!(!jobs.is_empty(), "the careful client did nothing");
        for (id, acked) in jobs.iter() {
            let job = stored.jobs.iter().find(|job| job.facts().id.get() == *id);
            let Some(Job::Finished(job)) = job else { bail!("job {id} is lost: {job:?}") };
            let FinishedState::Completed { result } = &job.state else {
                bail!("job {id} is not completed: {job:?}")
            };
            let kept = acked.as_ref().is_none_or(|acked| *acked == result.to_value());
            ensure!(kept, "job {id} has another result: {acked:?}, {job:?}");
        }
        Ok(())
    }

    /// Asks one node, and the other if that one does not answer. Returns what was answered below 500.
    async fn send(&self, path: &str, body: &Value, key: Option<&str>) -> Result<(u16, Value)> {
        let turn = usize::try_from(self.turn.fetch_add(1, Ordering::SeqCst))?;
        let mut refusals = Vec::new();
        for node in [&self.nodes[turn % 2], &self.nodes[(turn + 1) % 2]] {
            let mut request = node.request(Method::POST, path).json(body);
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            match node.send(request).await {
                Ok(answer) if [200, 201, 409].contains(&answer.status) => {
                    return Ok((answer.status, answer.body));
                }
                Ok(answer) if answer.status == 503 => refusals.push(answer.text),
                Ok(answer) => bail!("{path} was answered {}: {}", answer.status, answer.text),
                Err(error) => refusals.push(error.to_string()),
            }
        }
        bail!("neither node answers {path}: {refusals:?}")
    }

    fn acked(&self) -> usize {
        self.jobs().values().filter(|result| result.is_some()).count()
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, BTreeMap<i64, Option<Value>>> {
        self.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
