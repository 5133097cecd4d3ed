//! The same lives in real containers, through Docker's API as Podman speaks it: no container is left
//! and no row is stuck, whatever is killed in between.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{PodmanService, eventually};

use super::place::{BotSite, KILL_GRACE, LEAVE_GRACE, SILENCE_MAX};
use super::restart::{Story, outlive};
use super::user::{User, end_reason};
use crate::site::{Backend, SOON, Stopwatch};

const IMAGE: &str = "localhost/roundsman-bot:1";
const BUSYBOX: &str = "localhost/busybox:1";
/// A container takes its time to be made and to be removed, more so beside others.
const PATIENCE: Duration = Duration::from_secs(60);
const PROGRAM: &str = "/roundsman";

/// Where a server can die between two steps of a container's life.
const DEATHS: [&str; 8] = [
    "bots.reserved=1",
    "bots.launching=1",
    "store.bot_launched=1",
    "bots.launched=1",
    "bots.event=2",
    "bots.stop_wished=1",
    "bots.removed=1",
    "store.bot_finish=1",
];
const SITES_AT_ONCE_MAX: usize = 4;

/// A container engine that has the reference bot's image.
async fn engine() -> Result<PodmanService> {
    let podman = PodmanService::start().await?;
    let rootfs = tempfile::tempdir()?;
    fill(rootfs.path())?;
    podman.import_folder(rootfs.path(), IMAGE).await?;
    Ok(podman)
}

/// The program under test with the libraries that it needs.
fn fill(rootfs: &Path) -> Result<()> {
    for name in ["dev", "etc", "proc", "run", "sys", "tmp"] {
        std::fs::create_dir(rootfs.join(name))?;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_roundsman"));
    let inside = rootfs.join(PROGRAM.trim_start_matches('/'));
    // Without what a debugger would want it is a tenth of the size; every container is a copy.
    let stripped = Command::new("strip").arg("-o").arg(&inside).arg(program).status();
    if !stripped.is_ok_and(|status| status.success()) {
        std::fs::copy(program, &inside)?;
    }
    for library in libraries(program)? {
        let inside = rootfs.join(library.strip_prefix("/")?);
        std::fs::create_dir_all(inside.parent().context("a library has a folder")?)?;
        std::fs::copy(&library, inside)?;
    }
    Ok(())
}

/// What the system's loader says that a program needs, the loader itself among it.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    ensure!(output.status.success(), "ldd: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let path =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(text.lines().filter_map(path).collect())
}

fn settings(podman: &PodmanService) -> Vec<(&'static str, String)> {
    vec![
        ("ROUNDSMAN_LAUNCHER", "docker".to_owned()),
        ("ROUNDSMAN_LAUNCHER_DOCKER_HOST", podman.url()),
        ("ROUNDSMAN_LAUNCHER_DOCKER_IMAGE", IMAGE.to_owned()),
        ("ROUNDSMAN_LAUNCHER_DOCKER_COMMAND", format!("{PROGRAM},bot")),
        ("ROUNDSMAN_LAUNCHER_DOCKER_NETWORK", "host".to_owned()),
        ("ROUNDSMAN_LAUNCHER_DOCKER_MEMORY_MIB_MAX", "0".to_owned()),
        ("ROUNDSMAN_LAUNCHER_DOCKER_PIDS_MAX", "0".to_owned()),
    ]
}

fn options(site: &BotSite, podman: &PodmanService) -> ServerOptions {
    let set = |options: ServerOptions, (name, value): (&str, String)| options.env(name, value);
    settings(podman).into_iter().fold(site.options(), set)
}

/// Waits until the engine has only the containers that belong to others.
async fn wait_only(podman: &PodmanService, others: &[&str]) -> Result<()> {
    let gone = eventually(PATIENCE, async || {
        let left = podman.containers().await.ok()?;
        (left == others).then_some(())
    });
    if let Err(late) = gone.await {
        let left = podman.containers().await;
        return Err(late).with_context(|| format!("not only {others:?} are left but {left:?}"));
    }
    Ok(())
}

#[tokio::test]
async fn containers_live_and_end() {
    async fn run() -> Result<()> {
        let podman = engine().await?;
        let site = BotSite::sqlite()?;
        let mut node = site.site.start(options(&site, &podman)).await?;
        let user = site.user("containers", 5).await?;
        let lives = [
            ("normal", true, "completed", ""),
            ("deaf", true, "completed", "killed"),
            ("crash", false, "failed", "crashed"),
            ("hang", false, "failed", "heartbeat_timeout"),
            ("exit_137", false, "failed", "signal_sigkill"),
        ];
        let lives =
            lives.iter().zip(1..).map(async |((scenario, stopped, state, reason), number)| {
                let id = user.start(scenario, number).await?;
                if *stopped {
                    user.wait_for(id, "active", PATIENCE).await?;
                    let watch = Stopwatch::start();
                    user.stop(id).await?;
                    user.wait_for(id, state, PATIENCE).await?;
                    let took = watch.elapsed();
                    let patience = LEAVE_GRACE + KILL_GRACE;
                    ensure!(*scenario != "deaf" || took >= patience, "killed after {took:?}");
                }
                let over = user.wait_for(id, state, PATIENCE).await?;
                ensure!(reason.is_empty() || end_reason(&over) == *reason, "{over}");
                ensure!(over["bot_container_id"].is_string(), "{over}");
                Ok(())
            });
        for lived in join_all(lives).await {
            lived?;
        }
        wait_only(&podman, &[]).await?;
        site.end(&mut node).await
    }
    run().await.unwrap();
}

#[tokio::test]
async fn a_container_lives_and_ends_on_postgres() {
    async fn run() -> Result<()> {
        let podman = engine().await?;
        let site = BotSite::new(Backend::Postgres).await?;
        let mut node = site.site.start(options(&site, &podman)).await?;
        let user = site.user("container", 1).await?;
        let id = user.start("normal", 1).await?;
        user.wait_for(id, "active", PATIENCE).await?;
        user.stop(id).await?;
        user.wait_for(id, "completed", PATIENCE).await?;
        wait_only(&podman, &[]).await?;
        site.end(&mut node).await
    }
    run().await.unwrap();
}

#[tokio::test]
async fn no_kill_of_the_server_leaves_a_container() {
    async fn run() -> Result<()> {
        let podman = engine().await?;
        let settings = settings(&podman);
        let outlived = stream::iter(DEATHS).map(async |death| {
            let site = BotSite::sqlite()?;
            outlive(&site, Story::Whole, &[death.to_owned()], &settings)
                .await
                .with_context(|| format!("killed at {death}"))
        });
        let all: Result<()> = outlived.buffer_unordered(SITES_AT_ONCE_MAX).try_collect().await;
        all?;
        wait_only(&podman, &[]).await
    }
    run().await.unwrap();
}

/// B-6: a container of ours that belongs to no live bot is removed, and nobody else's is touched.
#[tokio::test]
async fn a_container_of_nobody_is_removed() {
    async fn run() -> Result<()> {
        let podman = engine().await?;
        podman.import_busybox(BUSYBOX).await?;
        let site = BotSite::sqlite()?;
        let mut node = site.site.start(options(&site, &podman)).await?;
        let user = site.user("tidy", 1).await?;
        let id = user.start("normal", 1).await?;
        user.wait_for(id, "active", PATIENCE).await?;
        let ours = podman.containers().await?.pop().context("no container")?;
        let installation = ours.split('-').nth(1).context("no installation in the name")?;
        let labels = [
            format!("--label=roundsman.installation={installation}"),
            "--label=roundsman.meeting_id=999".to_owned(),
            "--label=roundsman.attempt=1".to_owned(),
        ];
        let orphan = format!("roundsman-{installation}-bot-999-1");
        let later_attempt = format!("roundsman-{installation}-bot-{id}-2");
        let of_live = [
            labels[0].clone(),
            format!("--label=roundsman.meeting_id={id}"),
            "--label=roundsman.attempt=2".to_owned(),
        ];
        for (name, labels) in [(&orphan, &labels), (&later_attempt, &of_live)] {
            let [one, two, three] = labels;
            let run =
                ["run", "--detach", "--name", name, one, two, three, BUSYBOX, "sleep", "1000"];
            podman.run(&run).await?;
        }
        let other = ["--label=roundsman.installation=somebody", BUSYBOX, "sleep", "1000"];
        podman.run(&[&["run", "--detach", "--name", "others"], &other[..]].concat()).await?;
        wait_only(&podman, &["others", &ours]).await?;
        ensure!(user.meeting(id).await?["state"] == "active", "a live bot was taken for an orphan");
        user.stop(id).await?;
        user.wait_for(id, "completed", PATIENCE).await?;
        wait_only(&podman, &["others"]).await?;
        site.end(&mut node).await
    }
    run().await.unwrap();
}

/// B-15: an engine that does not answer proves nothing about anybody.
#[tokio::test]
async fn an_engine_that_is_away_ends_nobody() {
    async fn run() -> Result<()> {
        let mut podman = engine().await.context("the engine")?;
        let site = BotSite::sqlite()?;
        // Being away for long is what the sweep ends a reservation for: not within this test.
        let options = options(&site, &podman).env("ROUNDSMAN_BOTS_RESERVED_SECS_MAX", "600");
        let mut node = site.site.start(options).await?;
        let user = site.user("steady", 3).await?;
        let (stays, leaves) = (user.start("normal", 1).await?, user.start("normal", 2).await?);
        for id in [stays, leaves] {
            user.wait_for(id, "active", PATIENCE).await.context("before the engine dies")?;
        }
        let comes =
            while_dead(&mut podman, &user, stays, leaves).await.context("without engine")?;
        podman.start_again().await?;
        user.wait_for(comes, "active", PATIENCE).await.context("when the engine is back")?;
        let kept = user.meeting(stays).await?;
        ensure!(kept["state"] == "active", "when the engine is back: {kept}");

        // The same for one that takes connections and says nothing.
        podman.pause().await.context("the engine is not paused")?;
        let expected = [(stays, "active"), (comes, "active")];
        nothing_changes(&user, &expected).await.context("with an engine that says nothing")?;
        podman.resume()?;
        for id in [stays, comes] {
            user.stop(id).await?;
            user.wait_for(id, "completed", PATIENCE).await.context("after the engine's pause")?;
        }
        wait_only(&podman, &[]).await?;
        site.end(&mut node).await.context("at the end")
    }
    run().await.unwrap();
}

/// Kills the engine; whoever speaks for itself goes on doing so, and may leave. Returns one that
/// waits for the engine.
async fn while_dead(
    podman: &mut PodmanService,
    user: &User,
    stays: i64,
    leaves: i64,
) -> Result<i64> {
    podman.kill_9().await?;
    let comes = user.start("normal", 3).await?;
    user.stop(leaves).await?;
    user.wait_for(leaves, "completed", PATIENCE).await?;
    nothing_changes(user, &[(stays, "active"), (comes, "reserved")]).await?;
    Ok(comes)
}

/// For longer than a silent bot would have lived.
async fn nothing_changes(user: &User, expected: &[(i64, &str)]) -> Result<()> {
    let watch = Stopwatch::start();
    let limit = SILENCE_MAX + Duration::from_secs(2);
    let changed = eventually(SOON, async || {
        for (id, state) in expected {
            let meeting = user.meeting(*id).await.ok()?;
            if meeting["state"] != *state {
                return Some(Some(meeting));
            }
        }
        (watch.elapsed() > limit).then_some(None)
    });
    let changed = changed.await?;
    ensure!(changed.is_none(), "not what it was: {changed:?}");
    Ok(())
}
