//! A wall clock that a test sets, for real processes: `libfaketime` answers when they ask for the
//! time. Monotonic time passes for them as it does for everybody.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::process::Command;

/// The clock of every process that is started with its [`WallClock::variables`].
#[derive(Debug)]
pub struct WallClock {
    folder: TempDir,
    library: String,
}

impl WallClock {
    /// A clock that shows the machine's own time, until it is set.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("clock-").tempdir()?;
        // A database server runs as a user of its own.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755))?;
        let clock = WallClock { folder, library: find_library().await? };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets it to so many seconds ahead of the machine's, or behind it. Processes see it within a
    /// second.
    pub fn set(&self, ahead_secs: i64) -> Result<()> {
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, format!("{ahead_secs:+}\n"))?;
        std::fs::set_permissions(&draft, PermissionsExt::from_mode(0o644))?;
        // Whoever reads it at this moment reads the old one or the new one.
        Ok(std::fs::rename(draft, self.file())?)
    }

    /// What a process needs in its environment to go by this clock.
    pub fn variables(&self) -> [(&'static str, String); 5] {
        [
            ("LD_PRELOAD", self.library.clone()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            // Two names for one wish: it depends on the version of the library.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ahead")
    }
}

/// The wrapper knows where its library is; the one for programs with threads.
async fn find_library() -> Result<String> {
    let mut command = Command::new("faketime");
    command.args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"]).kill_on_drop(true);
    let output = command.output().await;
    let output = output.context("faketime is not there: `scripts/test` installs it")?;
    let library = String::from_utf8(output.stdout)?.trim().to_owned();
    ensure!(library.contains("libfaketime"), "faketime names no library: {library:?}");
    Ok(library)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::eventually;

    const HOUR_SECS: i64 = 3600;

    async fn seconds(clock: Option<&WallClock>) -> i64 {
        let mut command = Command::new("date");
        command.arg("+%s");
        command.envs(clock.map(WallClock::variables).into_iter().flatten());
        let output = command.output().await.unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    #[tokio::test]
    async fn a_process_goes_by_the_clock_it_was_given() {
        let clock = WallClock::start().await.unwrap();
        for ahead in [0, HOUR_SECS, -HOUR_SECS] {
            clock.set(ahead).unwrap();
            let shown = eventually(Duration::from_secs(20), async || {
                let difference = seconds(Some(&clock)).await - seconds(None).await;
                (difference - ahead).abs().le(&2).then_some(())
            });
            shown.await.unwrap();
        }
    }
}
