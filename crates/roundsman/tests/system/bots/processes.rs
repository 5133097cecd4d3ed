//! The processes of bots, as the kernel shows them: the tests' own look, not the launcher's.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, getpgid, kill_process};

/// The variable that every bot of a test has in its environment.
pub(crate) const TAG: &str = "ROUNDSMAN_TEST_SITE";
/// The variable by which the launcher marks processes.
const MARK: &str = "ROUNDSMAN_WORKLOAD";

/// A running process of a bot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BotProcess {
    pid: i32,
    group: i32,
    /// The workload's name, if the launcher marks processes.
    pub(crate) workload: String,
}

impl BotProcess {
    /// The first of its group: there is one for each launch, whatever it starts.
    pub(crate) fn is_leader(&self) -> bool {
        self.pid == self.group
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The meeting's number, from a name such as `roundsman-x-bot-7-1`.
    pub(crate) fn meeting(&self) -> Option<i64> {
        self.workload.rsplit('-').nth(1)?.parse().ok()
    }

    pub(crate) fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may have ended since it was seen.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Every process with this tag in its environment. A zombie has none any more.
pub(crate) fn tagged(tag: &str) -> Result<Vec<BotProcess>> {
    let mut found = Vec::new();
    let mut seen_any = false;
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else { continue };
        // A process may end at any moment while it is being looked at.
        let Ok(environment) = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()))
        else {
            continue;
        };
        seen_any = true;
        if variable(&environment, TAG).as_deref() != Some(tag) {
            continue;
        }
        let Ok(group) = getpgid(Some(pid)) else { continue };
        found.push(BotProcess {
            pid: pid.as_raw_nonzero().get(),
            group: group.as_raw_nonzero().get(),
            workload: variable(&environment, MARK).unwrap_or_default(),
        });
    }
    ensure!(seen_any, "the system shows no processes");
    found.sort();
    Ok(found)
}

/// One member of the `BOT_CONFIG` that a process was started with.
pub(crate) fn bot_config(process: &BotProcess) -> Result<serde_json::Value> {
    let environment = std::fs::read(format!("/proc/{}/environ", process.pid))?;
    let text = variable(&environment, "BOT_CONFIG").context("a bot without BOT_CONFIG")?;
    Ok(serde_json::from_str(&text)?)
}

fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|v| v.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}
