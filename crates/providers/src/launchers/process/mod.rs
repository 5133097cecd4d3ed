//! Bots as child processes of this machine.
//!
//! A bot outlives the server that started it, and the next server finds it by the mark in its
//! environment (`ROUNDSMAN_WORKLOAD`), which is there from the moment it exists: no list of process
//! numbers can be lost or point to a stranger. A small shell script runs around the bot to keep its
//! exit code (see `wrapper`).
//!
//! Invariants:
//! - Of two `ensure` of one workload, in whatever process, one starts it. Both hold a file lock
//!   while they look and start, which the kernel takes back from a server that is killed.
//! - A workload that was started is never [`Sighting::Absent`] before it is removed: the wrapper
//!   leaves a file before it starts the bot.
//! - Only processes that carry the mark, and the groups they are in, are ever signalled.
//!
//! A service manager that ends everything a service has started ends the bots too; with systemd,
//! `KillMode=process` lets them live through a restart of the server.

mod files;
mod marks;
mod program;
mod wrapper;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::bots::WorkloadId;
use roundsman_core::ports::{
    LaunchSpec, Launched, Launcher, Removed, SeenWorkload, Sighting, Unanswered,
};
use rustix::process::Signal;
use tokio_util::task::TaskTracker;

use super::Installation;
use crate::wait;
use files::{Files, Lock, Traces};
use marks::Marked;

/// The variable that marks every process of a workload with the workload's name.
const MARK: &str = "ROUNDSMAN_WORKLOAD";

/// How and where bots run. Not `Debug`: the environment may hold secrets.
#[derive(Clone)]
pub struct ProcessOptions {
    pub installation: Installation,
    /// The program and its arguments. A program without a slash is looked for in the `PATH` of
    /// `env`.
    pub command: Vec<String>,
    /// Where the bots run and their logs and exit codes are kept. Made if it is not there.
    pub folder: PathBuf,
    /// All that a bot gets of the environment beside what it is launched with.
    pub env: Vec<(String, String)>,
    /// Logs of removed workloads beyond these are deleted, oldest first.
    pub logs_kept_max: usize,
    /// A log that has grown beyond this is emptied.
    pub log_bytes_max: u64,
    /// How long a start waits for another of the same workload, and a removal for the end.
    pub wait_max: Duration,
}

impl ProcessOptions {
    pub fn new(installation: Installation, command: Vec<String>, folder: PathBuf) -> Self {
        ProcessOptions {
            installation,
            command,
            folder,
            env: Vec::new(),
            logs_kept_max: 200,
            log_bytes_max: 16 * 1024 * 1024,
            wait_max: Duration::from_secs(10),
        }
    }
}

/// Runs bots as processes.
pub struct ProcessLauncher {
    options: Arc<ProcessOptions>,
    files: Files,
    /// Tasks that take away ended children. Nobody waits for them: a bot may outlive the server.
    reapers: TaskTracker,
}

impl ProcessLauncher {
    /// Makes the folder; only its owner may look into it.
    pub fn new(options: ProcessOptions) -> io::Result<Self> {
        let files = Files::open(std::path::absolute(&options.folder)?)?;
        Ok(ProcessLauncher { options: Arc::new(options), files, reapers: TaskTracker::new() })
    }

    async fn lock(&self, workload: WorkloadId) -> Result<Lock, Unanswered> {
        let locked = wait::until(self.options.wait_max, || async move {
            self.files.try_lock(workload).transpose()
        });
        match locked.await {
            Some(Ok(lock)) => Ok(lock),
            Some(Err(error)) => Err(unanswered("cannot lock", &error)),
            None => Err(Unanswered::new("somebody else is starting or ending this workload")),
        }
    }

    async fn sight(&self, name: String) -> Result<Sighting, Unanswered> {
        let files = self.files.clone();
        blocking(move || {
            let before = files.traces(&name)?;
            let marked = marks::scan()?;
            let after = files.traces(&name)?;
            Ok(sighting(before, marks::foremost(&marked, &name), after))
        })
        .await
    }

    async fn start(&self, spec: &LaunchSpec, name: &str) -> Result<Launched, Unanswered> {
        let refused = |reason: String| Ok(Launched::Refused { reason });
        let program = match program::find(&self.options.command, &self.options.env) {
            Ok(program) => program,
            Err(reason) => return refused(reason),
        };
        let log = self.files.open_log(name);
        let log = log.map_err(|error| unanswered("cannot open the log", &error))?;
        let mut command = wrapper::command(&program, &self.options, &self.files, name, spec);
        let spawned = wrapper::attach(&mut command, log).and_then(|()| command.spawn());
        let mut child = match spawned {
            Ok(child) => child,
            // What cannot be passed to a process now cannot be passed to it later either.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::ArgumentListTooLong
                ) =>
            {
                return refused(format!("cannot start {}: {error}", program.display()));
            }
            Err(error) => return Err(unanswered("cannot start a process", &error)),
        };
        let named = name.to_owned();
        self.reapers.spawn(async move {
            let ended = child.wait().await;
            tracing::debug!(name = named, ?ended, "a bot's process has ended");
        });
        // A new process carries its mark only a moment after it exists.
        let seen = wait::until(self.options.wait_max, || async move {
            self.sight(name.to_owned()).await.ok().and_then(launched)
        });
        seen.await.ok_or_else(|| Unanswered::new("the new process was not seen"))
    }

    /// Kills until a look finds nothing: a process that is just being forked is found the next time.
    async fn kill_all(&self, name: &str) -> Result<(), Unanswered> {
        let gone = wait::until(self.options.wait_max, || async move {
            let name = name.to_owned();
            let killed = blocking(move || {
                let marked = marks::scan()?;
                marks::kill_groups(&marked, &name)?;
                Ok(marked.iter().all(|process| process.name != name))
            });
            match killed.await {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            }
        });
        gone.await.unwrap_or_else(|| Err(Unanswered::new("killed, and still there")))
    }
}

#[async_trait]
impl Launcher for ProcessLauncher {
    async fn ensure(&self, spec: &LaunchSpec) -> Result<Launched, Unanswered> {
        let name = self.options.installation.name_of(spec.workload);
        let _lock = self.lock(spec.workload).await?;
        match launched(self.sight(name.clone()).await?) {
            Some(found) => Ok(found),
            None => self.start(spec, &name).await,
        }
    }

    async fn look(&self, workload: WorkloadId) -> Result<Sighting, Unanswered> {
        self.sight(self.options.installation.name_of(workload)).await
    }

    async fn list(&self) -> Result<Vec<SeenWorkload>, Unanswered> {
        let (options, files) = (self.options.clone(), self.files.clone());
        blocking(move || {
            files.shorten_logs(options.log_bytes_max)?;
            let before = files.all_traces()?;
            let marked = marks::scan()?;
            let after = files.all_traces()?;
            let running = marked.iter().map(|process| &process.name);
            let names: BTreeSet<&String> =
                running.chain(before.keys()).chain(after.keys()).collect();
            let seen = names.into_iter().filter_map(|name| {
                let workload = options.installation.workload_of(name)?;
                let process = marks::foremost(&marked, name);
                let (before, after) = (before.get(name).copied(), after.get(name).copied());
                let sighting = sighting(before, process, after);
                (sighting != Sighting::Absent).then_some(SeenWorkload { workload, sighting })
            });
            Ok(seen.collect())
        })
        .await
    }

    async fn terminate(&self, workload: WorkloadId) -> Result<(), Unanswered> {
        let name = self.options.installation.name_of(workload);
        blocking(move || marks::ask_to_end(&marks::scan()?, &name)).await
    }

    async fn remove(&self, workload: WorkloadId) -> Result<Removed, Unanswered> {
        let name = self.options.installation.name_of(workload);
        let _lock = self.lock(workload).await?;
        let (was_there, exit_code) = match self.sight(name.clone()).await? {
            Sighting::Running { .. } => (true, None),
            Sighting::Exited { exit_code } => (true, exit_code),
            Sighting::Absent => (false, None),
        };
        self.kill_all(&name).await?;
        let (files, logs_kept_max) = (self.files.clone(), self.options.logs_kept_max);
        blocking(move || {
            files.remove_traces(&name)?;
            files.prune_logs(logs_kept_max)
        })
        .await?;
        Ok(Removed { was_there, exit_code })
    }

    fn name(&self) -> &'static str {
        "process"
    }
}

/// What a workload's files before and after a look at the processes, and that look, say together.
///
/// - A bot that has ended may have left processes behind; it has ended nevertheless.
/// - One without a process has ended only if it had been started before the look. Otherwise it was
///   started during the look, and the look says what was true before that.
fn sighting(before: Option<Traces>, process: Option<&Marked>, after: Option<Traces>) -> Sighting {
    let recorded = [before, after].into_iter().flatten().find(|traces| traces.has_ended);
    match (recorded, process, before) {
        (Some(Traces { exit_code, .. }), _, _) => Sighting::Exited { exit_code },
        (None, Some(process), _) => Sighting::Running { handle: handle(process) },
        (None, None, Some(_)) => Sighting::Exited { exit_code: None },
        (None, None, None) => Sighting::Absent,
    }
}

fn launched(sighting: Sighting) -> Option<Launched> {
    match sighting {
        Sighting::Running { handle } => Some(Launched::Running { handle }),
        Sighting::Exited { exit_code } => Some(Launched::Exited { exit_code }),
        Sighting::Absent => None,
    }
}

fn handle(process: &Marked) -> String {
    format!("process:{}", process.pid.as_raw_nonzero())
}

/// Looking at every process reads many small files, which would hold up others on this thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Unanswered> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(unanswered("cannot look at the processes", &error)),
        Err(error) => Err(Unanswered::new(error.to_string())),
    }
}

fn unanswered(what: &str, error: &io::Error) -> Unanswered {
    Unanswered::new(format!("{what}: {error}"))
}
