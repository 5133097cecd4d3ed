//! The server as a process: how soon it is ready, what it weighs, what it uses when idle.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use roundsman_engine::wake::rest;
use tokio_util::sync::CancellationToken;

use crate::report::Report;

/// How long the idle server is watched.
const IDLE_FOR: Duration = Duration::from_secs(10);
const NAME: &str = "server process";

pub(crate) async fn measure(
    binary: &Path,
    folder: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("bench-jobs-").tempdir_in(folder)?;
    let clock = DatabaseClock::start();
    let mut server = Server::start(binary, folder.path())?;
    report.add(NAME, "ready after, ms", clock.monotonic().as_secs_f64() * 1e3);
    let before = server.cpu_ticks()?;
    rest(IDLE_FOR, &CancellationToken::new()).await;
    let ticks = server.cpu_ticks()? - before;
    // A tick is a hundredth of a second on Linux.
    report.add(NAME, "idle processor, % of one core", ticks / IDLE_FOR.as_secs_f64());
    report.add(NAME, "resident memory, MiB", server.resident_mib()?);
    server.child.kill()?;
    server.child.wait()?;
    Ok(())
}

struct Server {
    child: Child,
}

impl Server {
    /// Returns when the server has said that it runs.
    fn start(binary: &Path, folder: &Path) -> anyhow::Result<Server> {
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder.join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        anyhow::ensure!(line.contains("is running"), "the server said {line:?}");
        Ok(Server { child })
    }

    fn cpu_ticks(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after_name = stat.rsplit_once(") ").context("no process name")?.1;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let ticks = |index: usize| -> anyhow::Result<f64> { Ok(fields[index].parse()?) };
        Ok(ticks(11)? + ticks(12)?)
    }

    fn resident_mib(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS")).context("no VmRSS")?;
        let kib: f64 = line.split_whitespace().nth(1).context("no value")?.parse()?;
        Ok(kib / 1024.0)
    }
}
