//! The worker libraries, each through the example that comes with it: jobs are done, leases are kept,
//! a cancelled job stops, a worker that ends hands back, and one that was away is refused.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::{JsonClient, env, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::load::number;
use crate::site::{Node, SOON, Site};

#[path = "../../../worker/examples/render.rs"]
#[expect(dead_code, reason = "its main function is for those who try it by hand")]
mod example;

const KIND: &str = "reports.render";
/// The shortest lease that the server grants, which is what the examples ask for.
const LEASE_SECS: u64 = 5;
/// Longer than a lease, in pages of this many milliseconds.
const LONG: (u64, u64) = (24, 250);
const ENDLESS: (u64, u64) = (100_000, 100);

#[tokio::test]
async fn the_rust_library_does_what_a_worker_must() {
    let scene = Scene::new().await.unwrap();
    let start = || Ok(Running::inside(&scene));
    lives_through(&scene, "rust", start).await.unwrap();
}

#[tokio::test]
async fn the_python_library_does_what_a_worker_must() {
    let scene = Scene::new().await.unwrap();
    let start = || Running::process(&scene, &python_example()?);
    lives_through(&scene, "python", start).await.unwrap();
    is_refused_after_an_absence(&scene, &python_example().unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_typescript_library_does_what_a_worker_must() {
    let scene = Scene::new().await.unwrap();
    let start = || Running::process(&scene, &typescript_example()?);
    lives_through(&scene, "typescript", start).await.unwrap();
    is_refused_after_an_absence(&scene, &typescript_example().unwrap()).await.unwrap();
}

async fn lives_through(
    scene: &Scene,
    language: &str,
    start: impl Fn() -> Result<Running>,
) -> Result<()> {
    let mut worker = start()?;
    let quick = scene.enqueue(&pages((3, 10))).await?;
    let wrong = scene.enqueue(&json!({})).await?;
    let long = scene.enqueue(&pages(LONG)).await?;
    let endless = scene.enqueue(&pages(ENDLESS)).await?;

    let done = scene.until(quick, "completed").await?;
    ensure!(done["result"] == json!({"pages": 3, "by": language}), "{done}");
    let refused = scene.until(wrong, "failed").await?;
    ensure!(refused["attempt"] == 1, "a fatal failure was tried again: {refused}");

    scene.until(endless, "processing").await?;
    let reported = scene.until_job(endless, |job| job["progress"]["page"].is_number()).await;
    reported.context("no progress was reported")?;
    scene.api.post(&format!("/jobs/{endless}/cancel"), &json!({})).await?.expect_status(200)?;
    scene.until(endless, "cancelled").await?;

    let kept = scene.until(long, "completed").await?;
    ensure!(kept["attempt"] == 1, "the lease was not kept: {kept}");

    let unfinished = scene.enqueue(&pages(ENDLESS)).await?;
    scene.until(unfinished, "processing").await?;
    worker.end().await?;
    let handed_back = scene.job(unfinished).await?;
    ensure!(handed_back["state"] == "pending", "{handed_back}");
    let again = scene.claim("heir").await?;
    ensure!(number(&again["id"]) == unfinished, "{again}");
    ensure!(again["attempt"] == 1, "handing back used up an attempt: {again}");
    scene.complete(&again).await
}

/// The worker stands still for longer than its lease; somebody else does the job; what it says
/// afterwards changes nothing.
async fn is_refused_after_an_absence(scene: &Scene, example: &Example) -> Result<()> {
    let mut worker = Running::process(scene, example)?;
    let id = scene.enqueue(&pages(LONG)).await?;
    scene.until(id, "processing").await?;
    worker.signal(Signal::STOP)?;
    let heir = scene.claim("heir").await?;
    ensure!(number(&heir["id"]) == id && heir["attempt"] == 2, "{heir}");
    worker.signal(Signal::CONT)?;
    let next = scene.enqueue(&pages((1, 1))).await?;
    scene.until(next, "completed").await?;
    scene.complete(&heir).await?;
    worker.end().await?;
    let job = scene.job(id).await?;
    ensure!(job["result"] == json!({"by": "heir"}), "{job}");
    Ok(())
}

fn pages((pages, page_ms): (u64, u64)) -> Value {
    json!({"pages": pages, "page_ms": page_ms})
}

/// A server and a user who may work.
struct Scene {
    _site: Site,
    node: Node,
    api: JsonClient,
    token: String,
}

impl Scene {
    async fn new() -> Result<Scene> {
        let site = Site::sqlite()?;
        let node = site.start(site.options()).await?;
        let admin = node.admin()?;
        let user = admin.post("/admin/users", &json!({"email": "worker@example.org"})).await?;
        let tokens = format!("/admin/users/{}/tokens?scopes=jobs,work", user.body["id"]);
        let made = admin.post(&tokens, &json!({})).await?;
        let token = made.body["token"].as_str().context("no token")?.to_owned();
        site.keep_secret(&token);
        let api = node.client()?.with_header("x-api-key", &token)?;
        Ok(Scene { _site: site, node, api, token })
    }

    async fn enqueue(&self, payload: &Value) -> Result<i64> {
        let wish = json!({"kind": KIND, "payload": payload, "max_attempts": 3});
        let made = self.api.post("/jobs", &wish).await?.expect_status(201)?;
        Ok(number(&made.body["id"]))
    }

    async fn job(&self, id: i64) -> Result<Value> {
        Ok(self.api.get(&format!("/jobs/{id}")).await?.expect_status(200)?.body)
    }

    async fn until(&self, id: i64, state: &str) -> Result<Value> {
        let reached = self.until_job(id, |job| job["state"] == state).await;
        reached.with_context(|| format!("job {id} does not become {state}"))
    }

    async fn until_job(&self, id: i64, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let seen = eventually(SOON, async || self.job(id).await.ok().filter(|job| is_so(job)));
        Ok(seen.await?)
    }

    async fn claim(&self, worker: &str) -> Result<Value> {
        let wish = json!({"worker": worker, "kinds": [KIND], "wait_secs": 5});
        let claimed = eventually(SOON, async || {
            let answer = self.api.post("/jobs/claim", &wish).await.ok()?;
            answer.body["jobs"].get(0).cloned()
        });
        claimed.await.context("nothing to claim")
    }

    async fn complete(&self, job: &Value) -> Result<()> {
        let body = json!({"lease_no": job["lease_no"], "result": {"by": "heir"}});
        self.api.post(&format!("/jobs/{}/complete", job["id"]), &body).await?.expect_status(200)?;
        Ok(())
    }
}

/// A program that takes the server's address and a token.
struct Example {
    program: PathBuf,
    arguments: Vec<PathBuf>,
    environment: Vec<(&'static str, PathBuf)>,
}

fn python_example() -> Result<Example> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workers/python");
    Ok(Example {
        program: env::clients_python()?,
        arguments: vec![library.join("examples/render.py")],
        environment: vec![("PYTHONPATH", library)],
    })
}

fn typescript_example() -> Result<Example> {
    let arguments = vec![env::typescript_worker()?];
    Ok(Example { program: "node".into(), arguments, environment: Vec::new() })
}

/// A worker in this process or in one of its own.
enum Running {
    Inside { end: Option<oneshot::Sender<()>>, task: JoinHandle<()> },
    Process(Child),
}

impl Running {
    #[expect(clippy::disallowed_methods, reason = "waited for in `end`")]
    fn inside(scene: &Scene) -> Running {
        let (url, token) = (scene.node.base_url(), scene.token.clone());
        let (end, told) = oneshot::channel();
        let task = tokio::spawn(async move {
            let told = async { told.await.unwrap_or_default() };
            example::run(&url, &token, told).await.unwrap();
        });
        Running::Inside { end: Some(end), task }
    }

    fn process(scene: &Scene, example: &Example) -> Result<Running> {
        let mut command = Command::new(&example.program);
        command.args(&example.arguments).arg(scene.node.base_url()).arg(&scene.token);
        command.envs(example.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        let child = command.spawn();
        let child = child.with_context(|| format!("cannot start {}", example.program.display()))?;
        Ok(Running::Process(child))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let Running::Process(child) = self else { anyhow::bail!("it has no process of its own") };
        let pid = i32::try_from(child.id().context("it has ended")?)?;
        kill_process(Pid::from_raw(pid).context("never zero")?, signal)?;
        Ok(())
    }

    /// Tells it to end, and expects that it does so in order.
    async fn end(&mut self) -> Result<()> {
        match self {
            Running::Inside { end, task } => {
                end.take().context("it was told already")?.send(()).ok().context("it has ended")?;
                Ok(tokio::time::timeout(SOON, task).await??)
            }
            Running::Process(_) => {
                self.signal(Signal::TERM)?;
                let Running::Process(child) = self else { unreachable!("it was one just now") };
                let status = tokio::time::timeout(SOON, child.wait()).await??;
                ensure!(status.success(), "the worker ended with {status}");
                Ok(())
            }
        }
    }
}

/// A lease that is shorter than what the examples ask for would not show that it is kept.
const _: () = assert!(LONG.0 * LONG.1 > LEASE_SECS * 1000);
const _: () = assert!(SOON.as_secs() > Duration::from_secs(2 * LEASE_SECS).as_secs());
