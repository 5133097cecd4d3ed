//! The real program as a child process: started, signalled, killed, restarted, its logs read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::process::Command;

use crate::child::{ManagedChild, append_to};
use crate::http::JsonClient;
use crate::ports::{free_port, loopback};
use crate::{env, eventually};

const READY_LIMIT: Duration = Duration::from_mins(1);
const KILL_LIMIT: Duration = Duration::from_secs(20);
const READY_REQUEST_LIMIT: Duration = Duration::from_secs(2);
/// What a child inherits. Settings of the machine that runs the tests must not change their result.
const INHERITED: [&str; 5] = ["HOME", "PATH", "RUST_BACKTRACE", "TMPDIR", "LLVM_PROFILE_FILE"];

/// How to start a server: `roundsman serve --data … --listen …` and what the test adds.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    binary: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    data: Option<PathBuf>,
    port: Option<u16>,
}

/// A server that was started at least once. Killed when dropped.
#[derive(Debug)]
pub struct ServerProcess {
    options: ServerOptions,
    port: u16,
    folder: TempDir,
    child: Option<ManagedChild>,
}

impl ServerOptions {
    /// For tests of the program's own package: `ServerOptions::new(env!("CARGO_BIN_EXE_roundsman"))`.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let binary = binary.into();
        ServerOptions {
            binary,
            arguments: Vec::new(),
            variables: Vec::new(),
            data: None,
            port: None,
        }
    }

    /// One more argument after those of `serve`.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// A data folder that outlives the server; otherwise it gets one that is removed with it.
    #[must_use]
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// A port of the test's choosing, so that one server can take the place of another; otherwise it
    /// gets a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts the server on a free port and waits until `/readyz` says yes.
    pub async fn start(self) -> Result<ServerProcess> {
        let mut server = self.spawn()?;
        server.wait_ready().await?;
        Ok(server)
    }

    /// Starts the server without waiting, for tests of a start that fails or takes its time.
    pub fn spawn(self) -> Result<ServerProcess> {
        let folder = tempfile::Builder::new().prefix("roundsman-").tempdir()?;
        let port = self.port.map_or_else(free_port, Ok)?;
        let mut server = ServerProcess { options: self, port, folder, child: None };
        server.launch()?;
        Ok(server)
    }
}

impl ServerProcess {
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn base_url(&self) -> String {
        format!("http://{}", loopback(self.port))
    }

    /// A client without a token; see [`JsonClient::with_token`].
    pub fn client(&self) -> Result<JsonClient> {
        JsonClient::new(self.base_url())
    }

    pub fn data(&self) -> PathBuf {
        self.options.data.clone().unwrap_or_else(|| self.folder.path().join("data"))
    }

    pub fn pid(&self) -> Result<u32> {
        self.running()?.pid().context("the server has ended")
    }

    /// Waits until `/readyz` answers 200; fails at once if the server ends instead.
    pub async fn wait_ready(&mut self) -> Result<()> {
        let client = self.client()?;
        let child = self.child.as_mut().context("the server was stopped")?;
        child.wait_ready(READY_LIMIT, async || is_ready(&client).await).await
    }

    /// Ends the server as a crash would, and waits until the system has taken it away.
    pub async fn kill_9(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the server was stopped")?;
        child.end(Signal::KILL, KILL_LIMIT).await
    }

    /// Asks the server to drain and end; [`ServerProcess::wait_exit`] waits for it.
    pub fn sigterm(&self) -> Result<()> {
        self.running()?.signal(Signal::TERM)
    }

    pub fn sigint(&self) -> Result<()> {
        self.running()?.signal(Signal::INT)
    }

    /// Freezes the process, as a long pause of its machine would.
    pub fn sigstop(&self) -> Result<()> {
        self.running()?.signal(Signal::STOP)
    }

    pub fn sigcont(&self) -> Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    pub async fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus> {
        let child = self.child.as_mut().context("the server was stopped")?;
        let status = child.wait_exit(limit).await?;
        self.child = None;
        Ok(status)
    }

    /// Starts again with the same options, port and data after an end by whatever means. The logs
    /// go on in the same files.
    pub async fn start_again(&mut self) -> Result<()> {
        if let Some(child) = &mut self.child {
            ensure!(!child.running()?, "the server is still running");
        }
        self.launch()?;
        self.wait_ready().await
    }

    /// Everything written to stdout so far, by every start.
    pub fn stdout(&self) -> Result<String> {
        read_lossy(&self.stdout_file())
    }

    /// Everything written to stderr so far, by every start.
    pub fn stderr(&self) -> Result<String> {
        read_lossy(&self.stderr_file())
    }

    /// Waits for a line on stdout or stderr that contains `text`, and returns it.
    pub async fn wait_for_log(&self, text: &str, limit: Duration) -> Result<String> {
        let found = eventually(limit, async || {
            [self.stdout(), self.stderr()]
                .into_iter()
                .flatten()
                .find_map(|log| log.lines().find(|line| line.contains(text)).map(str::to_owned))
        });
        found.await.with_context(|| format!("no line with {text:?} in the server's output"))
    }

    fn launch(&mut self) -> Result<()> {
        let mut command = Command::new(&self.options.binary);
        command.env_clear().current_dir(self.folder.path());
        for name in INHERITED {
            command.envs(env::optional(name).map(|value| (name, value)));
        }
        command.arg("serve").arg("--data").arg(self.data());
        command.arg("--listen").arg(loopback(self.port).to_string());
        command.args(&self.options.arguments).envs(self.options.variables.iter().cloned());
        let (output, errors) = (append_to(&self.stdout_file())?, append_to(&self.stderr_file())?);
        let child = ManagedChild::spawn_with(&mut command, output, errors, &self.stderr_file())?;
        self.child = Some(child);
        Ok(())
    }

    fn running(&self) -> Result<&ManagedChild> {
        self.child.as_ref().context("the server was stopped")
    }

    fn stdout_file(&self) -> PathBuf {
        self.folder.path().join("stdout.log")
    }

    fn stderr_file(&self) -> PathBuf {
        self.folder.path().join("stderr.log")
    }
}

async fn is_ready(client: &JsonClient) -> bool {
    let request = client.request(reqwest::Method::GET, "/readyz").timeout(READY_REQUEST_LIMIT);
    client.send(request).await.is_ok_and(|response| response.status == 200)
}

/// A killed process may have left half a character at the end.
fn read_lossy(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
