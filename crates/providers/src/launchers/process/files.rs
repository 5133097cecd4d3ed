//! What is kept of workloads in a folder: logs, exit codes, and locks.
//!
//! `NAME.started` and `NAME.exit` say that a workload was started and how it ended; both go when it
//! is removed. `NAME.log` stays for a while after that.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use roundsman_core::bots::WorkloadId;

/// How many locks there are. Workloads share them, so that no lock file is ever removed: a removed
/// one could be held by somebody while somebody else locks its successor.
const LOCKS: i64 = 64;

const STARTED: &str = "started";
const EXIT: &str = "exit";
const LOG: &str = "log";

#[derive(Clone)]
pub(super) struct Files {
    folder: Arc<Path>,
}

/// Held while a workload is started or removed; given back when dropped, or by the kernel when this
/// process is killed.
pub(super) struct Lock {
    _file: File,
}

/// What the files say about a workload that was started.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traces {
    /// Whether its end was recorded. One that was killed with its wrapper has left no record.
    pub(super) has_ended: bool,
    pub(super) exit_code: Option<i32>,
}

impl Files {
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Files { folder: folder.into() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn started(&self, name: &str) -> PathBuf {
        self.path(name, STARTED)
    }

    pub(super) fn exit(&self, name: &str) -> PathBuf {
        self.path(name, EXIT)
    }

    /// `None` if somebody else holds it.
    pub(super) fn try_lock(&self, workload: WorkloadId) -> io::Result<Option<Lock>> {
        let number = workload.meeting_id.get().rem_euclid(LOCKS);
        let file = private().write(true).open(self.folder.join(format!("lock-{number}")))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// `None` if it was never started, or was removed.
    pub(super) fn traces(&self, name: &str) -> io::Result<Option<Traces>> {
        match fs::read_to_string(self.exit(name)) {
            Ok(text) => Ok(Some(Traces { has_ended: true, exit_code: text.trim().parse().ok() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(self.started(name).try_exists()?.then(Traces::default))
            }
            Err(error) => Err(error),
        }
    }

    /// Of every workload, by name.
    pub(super) fn all_traces(&self) -> io::Result<BTreeMap<String, Traces>> {
        let mut found = BTreeMap::new();
        for (name, kind) in self.names()? {
            if kind == STARTED || kind == EXIT {
                found.extend(self.traces(&name)?.map(|traces| (name, traces)));
            }
        }
        Ok(found)
    }

    /// The exit code goes last: a look in between must not find a workload that ended unknown.
    pub(super) fn remove_traces(&self, name: &str) -> io::Result<()> {
        remove(&self.started(name))?;
        remove(&self.path(name, "exit.new"))?;
        remove(&self.exit(name))
    }

    pub(super) fn open_log(&self, name: &str) -> io::Result<File> {
        private().append(true).open(self.path(name, LOG))
    }

    /// Empties logs that have grown too long. Their writers append, so they go on from the start.
    pub(super) fn shorten_logs(&self, bytes_max: u64) -> io::Result<()> {
        for (name, _) in self.names()?.into_iter().filter(|(_, kind)| kind == LOG) {
            let path = self.path(&name, LOG);
            // Somebody else may prune it at the same time.
            if fs::metadata(&path).is_ok_and(|log| log.len() > bytes_max) {
                tracing::warn!(name, bytes_max, "a bot's log was emptied: it was too long");
                OpenOptions::new().write(true).open(&path)?.set_len(0)?;
            }
        }
        Ok(())
    }

    /// Deletes the oldest logs of workloads that are gone.
    pub(super) fn prune_logs(&self, kept_max: usize) -> io::Result<()> {
        let mut logs = Vec::new();
        for (name, _) in self.names()?.into_iter().filter(|(_, kind)| kind == LOG) {
            let path = self.path(&name, LOG);
            if self.traces(&name)?.is_none() {
                logs.extend(
                    fs::metadata(&path).and_then(|log| log.modified()).ok().zip(Some(path)),
                );
            }
        }
        logs.sort();
        let surplus = logs.len().saturating_sub(kept_max);
        logs[..surplus].iter().try_for_each(|(_, path)| remove(path))
    }

    fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{name}.{kind}"))
    }

    /// The files as name and kind; the names of workloads have no dot.
    fn names(&self) -> io::Result<Vec<(String, String)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let file = entry?.file_name();
            let parts = file.to_str().and_then(|name| name.split_once('.'));
            names.extend(parts.map(|(name, kind)| (name.to_owned(), kind.to_owned())));
        }
        Ok(names)
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
