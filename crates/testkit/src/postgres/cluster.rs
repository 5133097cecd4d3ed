//! A private cluster, owned by one test.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::process::Command;

use crate::child::ManagedChild;
use crate::ports::{free_port, loopback};
use crate::{WallClock, env, real_time};

const READY_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(30);
const DROP_LIMIT: Duration = Duration::from_secs(3);
/// After a kill, the dead postmaster's children may hold its shared memory for a moment.
const START_TRIES_MAX: u32 = 40;
const START_PAUSE: Duration = Duration::from_millis(100);

/// Whether a commit that was answered survives the loss of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As a user has it: `fsync` and `synchronous_commit` on.
    Fsync,
    /// Faster; a killed server still keeps every commit, a lost machine would not.
    NoFsync,
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Rolls back what is open, closes every connection, writes a checkpoint.
    Fast,
    /// Ends at once and recovers at the next start.
    Immediate,
    /// `kill -9` of the postmaster.
    Kill,
}

/// A cluster in a folder and on a port of its own; the superuser is `roundsman`, without password,
/// on loopback only. Stopped and removed when dropped.
#[derive(Debug)]
pub struct PostgresServer {
    bin: PathBuf,
    port: u16,
    owner: Option<Owner>,
    child: Option<ManagedChild>,
    folder: TempDir,
    /// What the server has in its environment beside the test's own.
    variables: Vec<(&'static str, String)>,
}

impl PostgresServer {
    /// Makes a cluster without `fsync` and waits until it accepts connections.
    pub async fn start() -> Result<Self> {
        Self::start_with(Durability::NoFsync).await
    }

    pub async fn start_with(durability: Durability) -> Result<Self> {
        Self::start_in(durability, Vec::new()).await
    }

    /// A cluster without `fsync` that goes by a clock of the test's.
    pub async fn start_at(clock: &WallClock) -> Result<Self> {
        Self::start_in(Durability::NoFsync, clock.variables().to_vec()).await
    }

    async fn start_in(
        durability: Durability,
        variables: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let owner = Owner::for_this_process()?;
        let folder = tempfile::Builder::new().prefix("postgres-").tempdir()?;
        // The folder is made for its maker alone; the postgres user has to get through it.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755))?;
        let bin = find_bin()?;
        let port = free_port()?;
        let mut server = PostgresServer { bin, port, owner, child: None, folder, variables };
        server.initialise(durability).await?;
        server.start_again().await?;
        Ok(server)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the `postgres` database; see [`super::TestDatabase::create_on`] for a fresh one.
    pub fn url(&self) -> String {
        format!("postgres://roundsman@{}/postgres", loopback(self.port))
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("postgres.log")
    }

    /// Ends the server; the data stays. Stopping a stopped server does nothing.
    pub async fn stop(&mut self, mode: StopMode) -> Result<()> {
        let signal = match mode {
            StopMode::Fast => Signal::INT,
            StopMode::Immediate => Signal::QUIT,
            StopMode::Kill => Signal::KILL,
        };
        if let Some(mut child) = self.child.take() {
            child.end(signal, STOP_LIMIT).await?;
        }
        Ok(())
    }

    /// Starts a stopped server on the same port, after recovery if it was killed.
    pub async fn start_again(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "the server is running already");
        let mut tries = 0;
        loop {
            tries += 1;
            match self.launch().await {
                Ok(()) => return Ok(()),
                Err(error) if tries == START_TRIES_MAX => return Err(error),
                Err(_) => real_time::pause(START_PAUSE).await,
            }
        }
    }

    pub async fn restart(&mut self, mode: StopMode) -> Result<()> {
        self.stop(mode).await?;
        self.start_again().await
    }

    /// Freezes the postmaster: no new connection is served, open ones go on.
    pub fn pause(&self) -> Result<()> {
        self.child.as_ref().context("the server is stopped")?.signal(Signal::STOP)
    }

    pub fn resume(&self) -> Result<()> {
        self.child.as_ref().context("the server is stopped")?.signal(Signal::CONT)
    }

    async fn initialise(&self, durability: Durability) -> Result<()> {
        let data = self.data();
        std::fs::create_dir(&data)?;
        if let Some(owner) = &self.owner {
            chown(&data, Some(owner.uid), Some(owner.gid))?;
        }
        let mut initdb = self.command("initdb");
        initdb.args(["-U", "roundsman", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]);
        let output = initdb.arg("--no-sync").arg("-D").arg(&data).output().await?;
        ensure!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));

        let settings_file = data.join("postgresql.conf");
        let defaults = std::fs::read_to_string(&settings_file)?;
        std::fs::write(settings_file, defaults + &self.settings(durability))?;
        Ok(())
    }

    fn settings(&self, durability: Durability) -> String {
        let switch = match durability {
            Durability::Fsync => "on",
            Durability::NoFsync => "off",
        };
        format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\n\
             max_connections = 100\nshared_buffers = 32MB\ntimezone = 'UTC'\n\
             synchronous_commit = on\nfsync = {switch}\nfull_page_writes = {switch}\n",
            self.port
        )
    }

    async fn launch(&mut self) -> Result<()> {
        let mut postgres = self.command("postgres");
        postgres.arg("-D").arg(self.data()).envs(self.variables.iter().cloned());
        let mut child = ManagedChild::spawn(postgres, &self.log())?;
        let pid = child.pid().context("ended at once")?;
        let status_file = self.data().join("postmaster.pid");
        child
            .wait_ready(READY_LIMIT, async || says_ready(&status_file, pid))
            .await
            .context("postgres")?;
        self.child = Some(child);
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir("/");
        if let Some(owner) = &self.owner {
            command.uid(owner.uid).gid(owner.gid);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for PostgresServer {
    /// Waits for the end, because the children of a postmaster that is merely killed would still
    /// write into the folder that is about to be removed.
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let deadline = real_time::now() + DROP_LIMIT;
        // A paused postmaster has to be woken to see the other signal.
        if child.signal(Signal::CONT).and_then(|()| child.signal(Signal::QUIT)).is_ok() {
            while child.running().unwrap_or(false) && real_time::now() < deadline {
                real_time::pause_thread(Duration::from_millis(5));
            }
        }
    }
}

/// The user to run as: PostgreSQL refuses to run as root.
#[derive(Debug)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    fn for_this_process() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd")?;
        let owner = users.lines().find_map(Self::parse);
        owner.map(Some).context("there is no user `postgres` to run the server as")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
        Some(Owner { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    }
}

/// The postmaster writes its state in the eighth line of its file. Asking the file and not the port
/// cannot mistake somebody else's server for ours.
fn says_ready(status_file: &Path, pid: u32) -> bool {
    let text = std::fs::read_to_string(status_file).unwrap_or_default();
    let mut lines = text.lines();
    lines.next().and_then(|line| line.trim().parse().ok()) == Some(pid)
        && lines.nth(6).is_some_and(|line| line.trim() == "ready")
}

fn find_bin() -> Result<PathBuf> {
    if let Some(given) = env::postgres_bin() {
        return Ok(given);
    }
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, bin)| bin.join("initdb").exists())
        .collect();
    found.sort();
    match found.pop() {
        Some((_, bin)) => Ok(bin),
        None => bail!("no PostgreSQL found: run `scripts/test`, or set {}", env::POSTGRES_BIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_read_from_its_line() {
        let owner = Owner::parse("postgres:x:105:113:administrator:/home:/bin/bash").unwrap();
        assert_eq!((owner.uid, owner.gid), (105, 113));
        assert!(Owner::parse("root:x:0:0:root:/root:/bin/bash").is_none());
    }
}
