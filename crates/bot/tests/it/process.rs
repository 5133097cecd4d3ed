//! The bot as a child process.

use std::fs::File;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::server::{Server, TOKEN};

const EXIT_LIMIT: Duration = Duration::from_secs(30);

/// How to start a bot.
pub(crate) struct BotOptions {
    config: Value,
    variables: Vec<(String, String)>,
}

/// A started bot. Killed when dropped.
pub(crate) struct BotProcess {
    child: Child,
    folder: TempDir,
}

impl BotOptions {
    /// A quick bot that plays this scenario and beats every second.
    pub(crate) fn scenario(name: &str, callback_url: &str) -> Self {
        let config = json!({
            "meeting_id": 7, "platform": "google_meet", "nativeMeetingId": "abc-defg-hij",
            "meetingUrl": "https://meet.google.com/abc-defg-hij", "token": "unused",
            "botName": format!("scenario:{name}"), "connectionId": "c-1", "language": "en",
            "automaticLeave": {"waitingRoomTimeout": 1000, "noOneJoinedTimeout": 2000,
                "everyoneLeftTimeout": 1000},
            "roundsman": {"callbackUrl": callback_url, "callbackToken": TOKEN, "heartbeatSecs": 1},
        });
        BotOptions { config, variables: Vec::new() }.env("ROUNDSMAN_BOT_STEP_MS", "20")
    }

    /// A guest of this name on this meeting page.
    pub(crate) fn browser(name: &str, meeting_url: &str, callback_url: &str) -> Self {
        let options = Self::scenario("", callback_url).set("botName", json!(name));
        options.set("meetingUrl", json!(meeting_url)).env("ROUNDSMAN_BOT_MODE", "browser")
    }

    pub(crate) fn set(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn start(self) -> Result<BotProcess> {
        let config = self.config.to_string();
        BotProcess::spawn(Some(&config), &self.variables)
    }
}

impl BotProcess {
    /// Starts a bot with anything, or nothing, as its instructions.
    pub(crate) fn spawn(config: Option<&str>, variables: &[(String, String)]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("bot-").tempdir()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundsman-bot"));
        command.env_remove("BOT_CONFIG").envs(config.map(|config| ("BOT_CONFIG", config)));
        command.envs(variables.iter().cloned()).env("LOG_LEVEL", "debug");
        // Whatever the bot leaves in its temporary folder can be seen there.
        let tmp = folder.path().join("tmp");
        std::fs::create_dir(&tmp)?;
        command.env("TMPDIR", tmp).stdin(Stdio::null()).kill_on_drop(true);
        command.stdout(File::create(folder.path().join("stdout"))?);
        command.stderr(File::create(folder.path().join("stderr"))?);
        let child = command.spawn()?;
        Ok(BotProcess { child, folder })
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id().context("the bot has ended")?)?;
        Ok(kill_process(Pid::from_raw(pid).context("never zero")?, signal)?)
    }

    pub(crate) fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    pub(crate) async fn wait(&mut self) -> Result<ExitStatus> {
        match tokio::time::timeout(EXIT_LIMIT, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("the bot does not end; its log:\n{}", self.stderr()),
        }
    }

    /// Waits for the end and returns the exit code.
    pub(crate) async fn exit_code(&mut self) -> Result<i32> {
        let status = self.wait().await?;
        status.code().with_context(|| format!("ended with {status}"))
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.path().join("stderr")).unwrap())
            .into_owned()
    }

    /// The events that the bot has written.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("stdout")).unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Where the bot's temporary files are.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }
}

/// A bot of this scenario that has reported this.
pub(crate) async fn bot_after(scenario: &str, server: &Server, report: &str) -> Result<BotProcess> {
    let bot = BotOptions::scenario(scenario, &server.url()).start()?;
    server.wait_for(report).await?;
    Ok(bot)
}
