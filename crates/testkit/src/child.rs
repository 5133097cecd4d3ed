//! One child process with its output in a file: what the servers of the testkit have in common.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::eventually;

/// How much of a log an error message shows.
const LOG_LINES_SHOWN_MAX: usize = 30;

/// A running or ended child. Killed when dropped.
#[derive(Debug)]
pub(crate) struct ManagedChild {
    child: Child,
    log: PathBuf,
}

impl ManagedChild {
    /// Starts `command` with stdout and stderr appended to `log`.
    pub(crate) fn spawn(mut command: Command, log: &Path) -> Result<Self> {
        let output = append_to(log)?;
        let errors = output.try_clone()?;
        Self::spawn_with(&mut command, output, errors, log)
    }

    /// Starts `command` with stdout in `output` and stderr in `errors`; `log` is the file to show
    /// when it fails.
    pub(crate) fn spawn_with(
        command: &mut Command,
        output: File,
        errors: File,
        log: &Path,
    ) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(output).stderr(errors).kill_on_drop(true);
        let program = command.as_std().get_program().to_owned();
        let child =
            command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(ManagedChild { child, log: log.to_owned() })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a signal, or fails if the child has ended and its number may be somebody else's.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.child.id().context("the process has ended already")?;
        let pid = Pid::from_raw(i32::try_from(pid)?).context("a process number is never zero")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal process {pid:?}"))
    }

    /// Waits for the end; an error after `limit` leaves the child running.
    pub(crate) async fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus> {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("still running after {limit:?}; its log ends:\n{}", self.log_end()),
        }
    }

    /// Signals and waits; a child that has ended already is fine.
    pub(crate) async fn end(&mut self, signal: Signal, limit: Duration) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            self.signal(signal)?;
            self.wait_exit(limit).await?;
        }
        Ok(())
    }

    pub(crate) fn running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Polls `ready` until it is true. The early end of the child is an error, at once.
    pub(crate) async fn wait_ready(
        &mut self,
        limit: Duration,
        ready: impl AsyncFn() -> bool,
    ) -> Result<()> {
        let outcome = eventually(limit, async || match self.child.try_wait() {
            Ok(Some(status)) => Some(Err(anyhow::anyhow!("ended with {status}"))),
            Ok(None) => ready().await.then_some(Ok(())),
            Err(error) => Some(Err(error.into())),
        });
        let outcome = outcome.await;
        outcome
            .map_err(anyhow::Error::from)
            .flatten()
            .with_context(|| format!("the server did not become ready:\n{}", self.log_end()))
    }

    fn log_end(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN_MAX)..].join("\n")
    }
}

/// Opens `path` for a child that adds to what is there, as a restart should.
pub(crate) fn append_to(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))
}
