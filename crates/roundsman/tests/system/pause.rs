//! G-9 and J-2: whoever was paused past the stall comes back to find that its job has moved on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::jobs::{FinishedState, Job, RunOutcome};
use roundsman_testkit::{JsonClient, TestDatabase, eventually};
use serde_json::{Value, json};

use crate::load::number;
use crate::site::{Backend, HeldUp, LEASE, Node, PAYLOAD_CANARY, SOON, Site};

const KIND: &str = "pause.work";
/// Long enough that a paused server's leases have ended several times over.
const PAUSE: Duration = Duration::from_secs(3 * LEASE.as_secs());
/// How long the server gives its own housekeeping before another node takes it, and some more.
const OWN_LEASE_ENDS_WITHIN: Duration = Duration::from_secs(15 + 15);

#[tokio::test]
async fn a_worker_that_was_away_is_refused_on_sqlite() {
    a_worker_that_was_away_is_refused(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn a_worker_that_was_away_is_refused_on_postgres() {
    a_worker_that_was_away_is_refused(Backend::Postgres).await.unwrap();
}

/// The first worker falls silent; the second gets the job, and the first can do nothing to it, in
/// whichever way it tries and however often.
async fn a_worker_that_was_away_is_refused(backend: Backend) -> Result<()> {
    let site = Site::new(backend).await?;
    let mut node = site.start(site.options()).await?;
    let api = node.admin()?;
    let id = enqueue(&api).await?;
    let zombie = claim(&api, "zombie").await?;
    let heir = claim(&api, "heir").await?;
    ensure!(number(&heir["id"]) == id && heir["attempt"] == 2, "{heir}");
    try_everything(&api, id, &zombie).await?;
    complete(&api, &heir).await?.context("the heir was refused")?;
    try_everything(&api, id, &zombie).await?;
    try_everything(&api, id, &heir).await?;
    node.stop().await?;
    check_one_result(&site, id, &heir).await
}

#[tokio::test]
async fn a_paused_server_and_its_worker_agree_afterwards_on_sqlite() {
    a_paused_server_and_its_worker_agree_afterwards(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn a_paused_server_and_its_worker_agree_afterwards_on_postgres() {
    a_paused_server_and_its_worker_agree_afterwards(Backend::Postgres).await.unwrap();
}

/// The only server stands still for longer than the lease, with a heartbeat already sent to it.
/// When it goes on, the sweep and the heartbeat race: either may win, but the winner alone finishes
/// the job.
async fn a_paused_server_and_its_worker_agree_afterwards(backend: Backend) -> Result<()> {
    let site = Site::new(backend).await?;
    let mut node = site.start(site.options()).await?;
    let api = node.admin()?;
    let id = enqueue(&api).await?;
    let first = claim(&api, "first").await?;
    node.sigstop()?;
    let beat_path = format!("/jobs/{id}/heartbeat");
    let beat_body = json!({"lease_no": first["lease_no"]});
    let beat = api.post(&beat_path, &beat_body);
    let resume = async {
        stays_silent(&node, PAUSE).await?;
        node.sigcont()
    };
    let (beat, resumed) = tokio::join!(beat, resume);
    resumed?;
    let winner = match beat?.status {
        200 => first.clone(),
        409 => claim(&api, "second").await?,
        other => anyhow::bail!("a late heartbeat was answered {other}"),
    };
    let ended = complete(&api, &winner).await?;
    if ended.is_none() {
        // The machine was so slow that the lease ended once more; the next holder finishes it.
        let next = claim(&api, "third").await?;
        complete(&api, &next).await?.context("nobody could finish the job")?;
    }
    try_everything(&api, id, &first).await?;
    node.stop().await?;
    let stored = site.stored().await?;
    ensure!(stored.violations.is_empty(), "{:?}", stored.violations);
    Ok(())
}

/// Two nodes. One is paused with a completion on its way to it; the other hands the job to somebody
/// else, who finishes it. The paused node goes on and tries to write what it was told: too late.
#[tokio::test]
async fn what_a_paused_node_writes_afterwards_is_refused() {
    async fn run() -> Result<()> {
        let site = Site::new(Backend::Postgres).await?;
        let mut paused = site.start(site.options()).await?;
        let mut other = site.start(site.options()).await?;
        let (through_paused, through_other) = (paused.admin()?, other.admin()?);
        let id = enqueue(&through_paused).await?;
        let zombie = claim(&through_paused, "zombie").await?;
        paused.sigstop()?;
        let late = complete(&through_paused, &zombie);
        let meanwhile = async {
            let heir = claim(&through_other, "heir").await?;
            complete(&through_other, &heir).await?.context("the heir was refused")?;
            paused.sigcont()?;
            anyhow::Ok(heir)
        };
        let (late, heir) = tokio::join!(late, meanwhile);
        ensure!(late?.is_none(), "a zombie's completion was accepted");
        let heir = heir?;
        for api in [&through_paused, &through_other] {
            try_everything(api, id, &zombie).await?;
        }
        eventually(SOON, async || paused.is_ready().await.then_some(())).await?;
        paused.stop().await?;
        other.stop().await?;
        check_one_result(&site, id, &heir).await
    }
    run().await.unwrap();
}

/// A node's own job: housekeeping is held up by a lock, its node is paused and loses the lease to
/// another node. When it goes on, nothing that it does counts: its run has ended with its lease.
#[tokio::test]
async fn a_paused_node_loses_its_own_jobs_too() {
    async fn run() -> Result<()> {
        let database = TestDatabase::create().await?;
        let site = Site::postgres_at(&database.url());
        // Seldom enough that the run is still among those that a job remembers.
        let options = || site.options().env("ROUNDSMAN_JOBS_PRUNE_SECS", "2");
        let mut paused = site.start(options()).await?;
        let lock = HeldUp::housekeeping(&database).await?;
        let zombie = own_lease(&paused).await.context("housekeeping waits without a lease")?;
        paused.sigstop()?;
        lock.release().await?;
        let mut other = site.start(options()).await?;
        let taken = eventually(OWN_LEASE_ENDS_WITHIN, async || {
            let lease = own_lease(&other).await;
            lease.is_none_or(|lease| lease["worker"] != zombie["worker"]).then_some(())
        });
        taken.await.context("nobody took the lease over")?;
        paused.sigcont()?;
        eventually(SOON, async || paused.is_ready().await.then_some(())).await?;
        paused.stop().await?;
        other.stop().await?;
        let stored = site.stored().await?;
        ensure!(stored.violations.is_empty(), "{:?}", stored.violations);
        let job = stored.jobs.iter().find(|job| job.facts().kind.as_str() == "jobs.prune");
        let runs = &job.context("housekeeping is gone")?.facts().runs;
        let lease_no = number(&zombie["lease_no"]);
        let of_zombie = runs.runs.iter().filter(|run| run.lease_no.get() == lease_no);
        let outcomes: Vec<RunOutcome> = of_zombie.map(|run| run.outcome).collect();
        ensure!(outcomes == [RunOutcome::LeaseExpired], "the zombie's run ended as {outcomes:?}");
        Ok(())
    }
    run().await.unwrap();
}

async fn enqueue(api: &JsonClient) -> Result<i64> {
    let body = json!({"kind": KIND, "max_attempts": 30, "payload": {"canary": PAYLOAD_CANARY}});
    let answer = api.post("/jobs", &body).await?.expect_status(201)?;
    Ok(number(&answer.body["id"]))
}

/// Waits until there is a job to have.
async fn claim(api: &JsonClient, worker: &str) -> Result<Value> {
    let body = json!({"worker": worker, "kinds": [KIND], "wait_secs": 20});
    let answer = api.post("/jobs/claim", &body).await?.expect_status(200)?;
    answer.body["jobs"].get(0).cloned().with_context(|| format!("{worker} got no job"))
}

/// `None` if the lease is gone.
async fn complete(api: &JsonClient, job: &Value) -> Result<Option<()>> {
    let body = json!({"lease_no": job["lease_no"], "result": {"by": job["lease_no"]}});
    let answer = api.post(&format!("/jobs/{}/complete", job["id"]), &body).await?;
    match answer.status {
        200 => Ok(Some(())),
        409 if answer.body["code"] == "lease_lost" => Ok(None),
        _ => anyhow::bail!("a completion was answered {}: {}", answer.status, answer.text),
    }
}

/// Everything that a holder can do, with a lease that is gone.
async fn try_everything(api: &JsonClient, id: i64, lost: &Value) -> Result<()> {
    let lease_no = &lost["lease_no"];
    let attempts = [
        ("heartbeat", json!({"lease_no": lease_no})),
        ("progress", json!({"lease_no": lease_no, "progress": {"percent": 99}})),
        ("complete", json!({"lease_no": lease_no, "result": "from the grave"})),
        ("fail", json!({"lease_no": lease_no, "error": {"message": "no"}, "fatal": true})),
        ("release", json!({"lease_no": lease_no})),
        ("cancelled", json!({"lease_no": lease_no})),
    ];
    for (verb, body) in attempts {
        let answer = api.post(&format!("/jobs/{id}/{verb}"), &body).await?;
        let code = &answer.body["code"];
        ensure!(answer.status == 409 && code == "lease_lost", "{verb}: {}", answer.text);
    }
    Ok(())
}

async fn check_one_result(site: &Site, id: i64, winner: &Value) -> Result<()> {
    let stored = site.stored().await?;
    ensure!(stored.violations.is_empty(), "{:?}", stored.violations);
    let job =
        stored.jobs.iter().find(|job| job.facts().id.get() == id).context("the job is lost")?;
    let Job::Finished(finished) = job else { anyhow::bail!("it has not ended: {job:?}") };
    let FinishedState::Completed { result } = &finished.state else {
        anyhow::bail!("it is not completed: {job:?}")
    };
    ensure!(result.to_value() == json!({"by": winner["lease_no"]}), "{job:?}");
    Ok(())
}

/// Sees for `how_long` that a server does not answer.
async fn stays_silent(node: &Node, how_long: Duration) -> Result<()> {
    let client = node.client()?;
    let answer = tokio::time::timeout(how_long, client.get("/healthz")).await;
    ensure!(answer.is_err(), "a paused server answered");
    Ok(())
}

/// The lease of the node's own housekeeping, if it runs.
async fn own_lease(node: &Node) -> Option<Value> {
    let leases = node.admin().ok()?.get("/leases").await.ok()?;
    let leases = leases.body["leases"].as_array()?.clone();
    leases.into_iter().find(|lease| lease["kind"] == "jobs.prune")
}
