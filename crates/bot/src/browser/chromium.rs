//! A Chromium of the bot's own, which never outlives the bot.
//!
//! Invariant: the browser and everything it starts is one process group, led by a shell that waits
//! for the end of a pipe whose other end the bot holds. Whatever ends the bot, even `kill -9`,
//! closes the pipe, and the shell kills the group. The other way round, the shell ends when the
//! browser does.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process_group, test_kill_process_group};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::BrowserSettings;
use crate::config::BOT_CONFIG;
use crate::time::Clock;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const FLAGS: [&str; 14] = [
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-dev-shm-usage",
    "--disable-backgrounding-occluded-windows",
    "--mute-audio",
    "--use-fake-ui-for-media-stream",
    "--remote-debugging-port=0",
];
const LIFELINE: &str =
    r#"{ "$@"; kill -s KILL -- "-$$"; } & while read -r _; do :; done; kill -s KILL -- "-$$""#;

const START_LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// For the system to take killed processes away.
const END_LIMIT: Duration = Duration::from_secs(1);
const LOG_LINES_SHOWN_MAX: usize = 5;

/// A running browser. Killed when dropped.
pub(super) struct Chromium {
    group: Pid,
    child: Child,
    folder: TempDir,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ChromiumError {
    #[error("no Chromium in PATH (looked for {names}); ROUNDSMAN_BOT_CHROMIUM may name one",
        names = NAMES.join(", "))]
    Missing,
    #[error("Chromium cannot be started: {0}")]
    Io(#[from] std::io::Error),
    #[error("Chromium ended at once: {0}")]
    Ended(String),
    #[error("Chromium did not open its debugging port within {START_LIMIT:?}: {0}")]
    TooSlow(String),
}

impl Chromium {
    /// Starts a browser with a fresh profile and returns it with its endpoint.
    pub(super) async fn start(
        settings: &BrowserSettings,
        clock: &dyn Clock,
    ) -> Result<(Self, String), ChromiumError> {
        let program = find(settings).ok_or(ChromiumError::Missing)?;
        let folder = tempfile::Builder::new().prefix("bot-").tempdir()?;
        let log = File::create(folder.path().join("chromium.log"))?;
        let mut command = Command::new("sh");
        command.args(["-c", LIFELINE, "sh"]).arg(program).args(FLAGS);
        // As root Chromium refuses to run in its own sandbox.
        command.args(geteuid().is_root().then_some("--no-sandbox"));
        command.arg(user_data(folder.path())).args(&settings.extra_flags).arg("about:blank");
        // What Chromium leaves in its temporary folder when it is killed goes with ours.
        command.env("TMPDIR", folder.path());
        // Pages are other people's programs, and the instructions hold secrets.
        command.env_remove(BOT_CONFIG);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let child = command.kill_on_drop(true).spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let group = pid.ok_or_else(|| std::io::Error::other("it has no process number"))?;
        let mut chromium = Chromium { group, child, folder };
        let endpoint = chromium.endpoint(clock).await?;
        Ok((chromium, endpoint))
    }

    /// Kills the browser and waits until it is gone, so that its folder can be removed.
    pub(super) async fn end(mut self, clock: &dyn Clock) {
        self.kill();
        // An error means that it was waited for already.
        let _ = self.child.wait().await;
        let until = clock.monotonic() + END_LIMIT;
        while test_kill_process_group(self.group).is_ok() && clock.monotonic() < until {
            clock.pause(LOOK_EVERY).await;
        }
    }

    /// The browser writes its port into its folder when it listens.
    async fn endpoint(&mut self, clock: &dyn Clock) -> Result<String, ChromiumError> {
        let file = self.folder.path().join("profile/DevToolsActivePort");
        let until = clock.monotonic() + START_LIMIT;
        loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if let Some((port, path)) = text.trim_end().split_once('\n') {
                return Ok(format!("ws://127.0.0.1:{port}{path}"));
            }
            if self.child.try_wait()?.is_some() {
                return Err(ChromiumError::Ended(self.log_end()));
            }
            if clock.monotonic() > until {
                return Err(ChromiumError::TooSlow(self.log_end()));
            }
            clock.pause(LOOK_EVERY).await;
        }
    }

    fn log_end(&self) -> String {
        let text = std::fs::read(self.folder.path().join("chromium.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN_MAX)..].join("; ")
    }

    fn kill(&self) {
        // The group is gone already if the browser ended by itself. The number is still ours: it
        // is not given to others before the shell was waited for.
        if self.child.id().is_some() {
            let _ = kill_process_group(self.group, Signal::KILL);
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        self.kill();
    }
}

fn user_data(folder: &Path) -> String {
    format!("--user-data-dir={}", folder.join("profile").display())
}

fn find(settings: &BrowserSettings) -> Option<PathBuf> {
    if let Some(named) = &settings.chromium {
        return named.is_file().then(|| named.clone());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&settings.search_path).collect();
    NAMES
        .iter()
        .find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()))
}
