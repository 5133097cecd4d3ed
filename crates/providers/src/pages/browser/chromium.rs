//! A Chromium of one measurement's own.
//!
//! Invariant: the browser and everything it starts is one process group, led by a shell that waits
//! for the end of a pipe whose other end we hold. Whatever ends this process, even `kill -9`, closes
//! the pipe, and the shell kills the group. The other way round, the shell ends when the browser does.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process_group, test_kill_process_group};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio_util::task::TaskTracker;

use super::BrowserOptions;
use crate::wait;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const FLAGS: [&str; 26] = [
    "--headless",
    "--disable-gpu",
    // The proxy speaks TCP; nothing else may go around it.
    "--disable-quic",
    // By its new name and by its old one; the profile says it too.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    // Names are the proxy's to resolve, and our own machine is reached through it too.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--proxy-bypass-list=<-loopback>",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--allow-browser-signin=false",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-dev-shm-usage",
    "--disable-backgrounding-occluded-windows",
    "--disable-features=OptimizationHints,MediaRouter,Translate,NetworkTimeServiceQuerying",
    "--block-new-web-contents",
    "--renderer-process-limit=4",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-port=0",
];
const PREFERENCES: &str = r#"{"webrtc":{"ip_handling_policy":"disable_non_proxied_udp","multiple_routes_enabled":false}}"#;
const LIFELINE: &str =
    r#"{ "$@"; kill -s KILL -- "-$$"; } & while read -r _; do :; done; kill -s KILL -- "-$$""#;

const START_LIMIT: Duration = Duration::from_secs(15);
/// For the system to take killed processes away.
const END_LIMIT: Duration = Duration::from_secs(2);
const LOG_LINES_SHOWN_MAX: usize = 3;
const PAGE_BYTES: u64 = 4096;

#[derive(Debug, thiserror::Error)]
pub(super) enum ChromiumError {
    #[error("Chromium cannot be started: {0}")]
    Io(#[from] std::io::Error),
    #[error("Chromium ended at once: {0}")]
    Ended(String),
    #[error("Chromium did not open its debugging port within {START_LIMIT:?}: {0}")]
    TooSlow(String),
}

/// A running browser. Killed when dropped.
pub(super) struct Chromium {
    process: Option<Process>,
}

struct Process {
    group: Pid,
    child: Child,
    folder: TempDir,
}

impl Chromium {
    /// Starts a browser with a fresh profile and returns it with its endpoint.
    pub(super) async fn start(
        program: &Path,
        proxy_port: u16,
        trusted_keys: &[String],
    ) -> Result<(Self, String), ChromiumError> {
        let folder = tempfile::Builder::new().prefix("browser-").tempdir()?;
        let log = File::create(folder.path().join("chromium.log"))?;
        let profile = folder.path().join("profile/Default");
        std::fs::create_dir_all(&profile)?;
        std::fs::write(profile.join("Preferences"), PREFERENCES)?;
        let mut command = Command::new("sh");
        command.args(["-c", LIFELINE, "sh"]).arg(program).args(FLAGS);
        // As root Chromium refuses to run in its own sandbox.
        command.args(geteuid().is_root().then_some("--no-sandbox"));
        command.arg(format!("--proxy-server=http://127.0.0.1:{proxy_port}"));
        command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
        if !trusted_keys.is_empty() {
            let keys = trusted_keys.join(",");
            command.arg(format!("--ignore-certificate-errors-spki-list={keys}"));
        }
        command.arg("about:blank");
        // Pages are other people's programs: nothing of our environment is theirs to see. What
        // Chromium leaves in its temporary folder when it is killed goes with ours.
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("HOME", folder.path()).env("TMPDIR", folder.path());
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let child = command.kill_on_drop(true).spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let group = pid.ok_or_else(|| std::io::Error::other("it has no process number"))?;
        let mut chromium = Chromium { process: Some(Process { group, child, folder }) };
        let endpoint = chromium.endpoint().await?;
        Ok((chromium, endpoint))
    }

    /// Kills the browser and waits until it is gone and its folder is removed.
    pub(super) async fn end(&mut self) {
        if let Some(process) = self.process.take() {
            process.end().await;
        }
    }

    /// What all of its processes have for themselves.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.process.as_ref().map_or(0, |process| group_memory_bytes(process.group))
    }

    /// The browser writes its port into its folder when it listens.
    async fn endpoint(&mut self) -> Result<String, ChromiumError> {
        let Some(process) = &mut self.process else {
            return Err(ChromiumError::Ended(String::new()));
        };
        let file = process.folder.path().join("profile/DevToolsActivePort");
        let child = &mut process.child;
        let found = wait::until(START_LIMIT, || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let found = text
                .trim_end()
                .split_once('\n')
                .map(|(port, path)| Ok(format!("ws://127.0.0.1:{port}{path}")));
            let has_ended = !matches!(child.try_wait(), Ok(None));
            std::future::ready(found.or(has_ended.then_some(Err(()))))
        });
        match found.await {
            Some(Ok(endpoint)) => Ok(endpoint),
            Some(Err(())) => Err(ChromiumError::Ended(process.log_end())),
            None => Err(ChromiumError::TooSlow(process.log_end())),
        }
    }
}

impl Process {
    fn kill(&self) {
        // The group is gone already if the browser ended by itself. The number is still ours: it
        // is not given to others before the shell was waited for.
        if self.child.id().is_some() {
            let _ = kill_process_group(self.group, Signal::KILL);
        }
    }

    async fn end(mut self) {
        self.kill();
        // An error means that it was waited for already.
        let _ = self.child.wait().await;
        let group = self.group;
        let gone = || std::future::ready(test_kill_process_group(group).is_err().then_some(()));
        let _ = wait::until(END_LIMIT, gone).await;
        if let Err(error) = self.folder.close() {
            tracing::warn!(%error, "a browser's folder cannot be removed");
        }
    }

    fn log_end(&self) -> String {
        let text = std::fs::read(self.folder.path().join("chromium.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN_MAX)..].join("; ")
    }
}

impl Drop for Chromium {
    /// Whoever waited has gone: the end is waited for without them.
    fn drop(&mut self) {
        let Some(process) = self.process.take() else { return };
        process.kill();
        if tokio::runtime::Handle::try_current().is_ok() {
            TaskTracker::new().spawn(process.end());
        }
    }
}

/// Resident less shared, over all processes of the group: shared pages would count many times.
fn group_memory_bytes(group: Pid) -> u64 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let of_group = |path: &Path| {
        let stat = std::fs::read_to_string(path.join("stat")).ok()?;
        // The name in brackets may hold anything; the fields begin behind it.
        let (_, fields) = stat.rsplit_once(')')?;
        let its_group: i32 = fields.split_ascii_whitespace().nth(2)?.parse().ok()?;
        (its_group == group.as_raw_nonzero().get()).then_some(())?;
        let statm = std::fs::read_to_string(path.join("statm")).ok()?;
        let mut pages = statm.split_ascii_whitespace().skip(1).map_while(|n| n.parse::<u64>().ok());
        let (resident, shared) = (pages.next()?, pages.next()?);
        Some(resident.saturating_sub(shared) * PAGE_BYTES)
    };
    entries.flatten().filter_map(|entry| of_group(&entry.path())).sum()
}

/// The browser that is named, or the first of the known names in the folders.
pub(super) fn find(options: &BrowserOptions) -> Option<PathBuf> {
    if let Some(named) = &options.chromium {
        return named.is_file().then(|| named.clone());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&options.search_path).collect();
    NAMES
        .iter()
        .find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()))
}
