//! A private Redis that a test may stop, kill, pause and empty.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::child::ManagedChild;
use crate::ports::{free_port, loopback};

const READY_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(20);
const START_TRIES_MAX: u32 = 3;

/// What survives the end of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Nothing, as where Redis is a bus and a cache.
    None,
    /// Every write that was answered: an append-only file, synchronised always.
    EveryWrite,
}

/// A `redis-server` on a port of its own. Killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    persistence: Persistence,
    port: u16,
    child: Option<ManagedChild>,
    folder: TempDir,
}

impl RedisServer {
    /// Starts a server that forgets everything when it stops, and waits until it answers.
    pub async fn start() -> Result<Self> {
        Self::start_with(Persistence::None).await
    }

    pub async fn start_with(persistence: Persistence) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("redis-").tempdir()?;
        let mut server = RedisServer { persistence, port: 0, child: None, folder };
        let mut tries = 0;
        loop {
            tries += 1;
            // Somebody else may take the port between the look and the start.
            server.port = free_port()?;
            match server.launch().await {
                Ok(()) => return Ok(server),
                Err(error) if tries == START_TRIES_MAX => return Err(error),
                Err(_) => {}
            }
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://{}/", loopback(self.port))
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("redis.log")
    }

    /// Stops in good order.
    pub async fn stop(&mut self) -> Result<()> {
        self.end(Signal::TERM).await
    }

    /// Ends the server as a crash would.
    pub async fn kill_9(&mut self) -> Result<()> {
        self.end(Signal::KILL).await
    }

    /// Starts again on the same port, with what persistence kept.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.launch().await
    }

    /// Freezes the server: connections stay open and nothing answers.
    pub fn pause(&self) -> Result<()> {
        self.running()?.signal(Signal::STOP)
    }

    pub fn resume(&self) -> Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    /// Removes all keys, as an operator's mistake would.
    pub async fn wipe(&self) -> Result<()> {
        let answer = command(self.port, "FLUSHALL").await?;
        ensure!(answer == "+OK", "FLUSHALL answered {answer}");
        Ok(())
    }

    /// Closes the connections of every client; the server keeps running.
    pub async fn drop_clients(&self) -> Result<()> {
        for kind in ["normal", "pubsub"] {
            let answer = command(self.port, &format!("CLIENT KILL TYPE {kind} SKIPME yes")).await?;
            ensure!(answer.starts_with(':'), "CLIENT KILL answered {answer}");
        }
        Ok(())
    }

    async fn launch(&mut self) -> Result<()> {
        let mut redis = Command::new("redis-server");
        redis.args(["--bind", "127.0.0.1", "--save", "", "--port", &self.port.to_string()]);
        redis.arg("--dir").arg(self.folder.path());
        match self.persistence {
            Persistence::None => redis.args(["--appendonly", "no"]),
            Persistence::EveryWrite => {
                redis.args(["--appendonly", "yes", "--appendfsync", "always"])
            }
        };
        let mut child = ManagedChild::spawn(redis, &self.log())?;
        let (port, pid) = (self.port, child.pid().context("ended at once")?);
        child
            .wait_ready(READY_LIMIT, async || is_ready(port, pid).await.unwrap_or(false))
            .await
            .context("redis-server")?;
        self.child = Some(child);
        Ok(())
    }

    async fn end(&mut self, signal: Signal) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            // A paused process does not see a polite signal before it is woken.
            if child.running()? && signal != Signal::KILL {
                child.signal(Signal::CONT)?;
            }
            child.end(signal, STOP_LIMIT).await?;
        }
        Ok(())
    }

    fn running(&self) -> Result<&ManagedChild> {
        self.child.as_ref().context("redis-server is stopped")
    }
}

/// Asking for the process number cannot mistake somebody else's server on this port for ours. It is
/// told already while the server still loads its file and refuses everything else, hence the PING.
async fn is_ready(port: u16, pid: u32) -> Result<bool> {
    let stream = BufReader::new(send(port, "INFO server").await?);
    let mut lines = stream.lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(number) = line.strip_prefix("process_id:") {
            let is_ours = number.trim().parse() == Ok(pid);
            return Ok(is_ours && command(port, "PING").await? == "+PONG");
        }
    }
    Ok(false)
}

/// Sends one inline command on a connection of its own and returns the first line of the answer.
async fn command(port: u16, text: &str) -> Result<String> {
    let mut stream = BufReader::new(send(port, text).await?);
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    Ok(answer.trim_end().to_owned())
}

async fn send(port: u16, text: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(loopback(port)).await?;
    stream.write_all(format!("{text}\r\n").as_bytes()).await?;
    Ok(stream)
}
