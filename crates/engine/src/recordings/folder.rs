//! Where a recording's files are while it is processed.
//!
//! Invariants: one run at a time uses a folder, whoever believes to have the lease: a run that finds
//! it taken by one that was given up and hangs has one of its own. What is in it is only a saving,
//! because everything can be had again; it is gone when the recording is processed, by whomever: one
//! that a dead process has left says whose it is. What nobody can make sense of is gone after a day.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use roundsman_core::jobs::LeaseRef;
use roundsman_core::recordings::{HeardSegment, RecordingId};
use sha2::{Digest, Sha256};

use super::trouble::Trouble;

const LOCK: &str = "lock";
/// Says which recording's folder it is.
const ID: &str = "id";
/// A folder that nobody has touched for so long was left.
const STALE_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The folder of one recording, for one run.
#[derive(Debug)]
pub(super) struct WorkFolder {
    path: PathBuf,
    /// Unlocked when dropped.
    _lock: File,
}

impl WorkFolder {
    /// Makes the folder, or takes up what an earlier run has left in it.
    pub(super) async fn open(
        root: &Path,
        id: &RecordingId,
        lease: LeaseRef,
    ) -> Result<Self, Trouble> {
        let (root, name) = (root.to_owned(), name_of(id));
        let own = format!("{name}-{}", lease.lease_no.get());
        let id = id.clone();
        let opened = move || {
            let folder = match open(&root, &name)? {
                Some(folder) => folder,
                None => open(&root, &own)?.ok_or_else(|| io::Error::other("all are taken"))?,
            };
            fs::write(folder.path.join(ID), id.as_str())?;
            Ok(folder)
        };
        let opened = tokio::task::spawn_blocking(opened).await;
        let opened = opened.unwrap_or_else(|error| Err(io::Error::other(error)));
        opened.map_err(|error| failed(&error))
    }

    /// Removes what is left of a recording here, unless somebody works on it.
    pub(super) async fn clear(root: &Path, id: &RecordingId) {
        let (root, name) = (root.to_owned(), name_of(id));
        let clear = move || {
            let entries = fs::read_dir(&root).into_iter().flatten().flatten();
            let ours =
                entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name));
            ours.for_each(|entry| remove_unused(&entry.path()));
        };
        // What stays is removed when it is old.
        let _ = tokio::task::spawn_blocking(clear).await;
    }

    /// The recordings of which something was left here and in which nobody works.
    pub(super) async fn left(root: &Path) -> Vec<RecordingId> {
        let root = root.to_owned();
        let left = move || {
            let folders = fs::read_dir(&root).into_iter().flatten().flatten();
            let unused = folders.map(|entry| entry.path()).filter(|path| unused(path).is_some());
            let ids = unused.filter_map(|path| fs::read_to_string(path.join(ID)).ok());
            ids.filter_map(|id| RecordingId::new(&id)).collect()
        };
        tokio::task::spawn_blocking(left).await.unwrap_or_default()
    }

    /// Where the file of a track belongs.
    pub(super) fn file(&self, index: usize) -> PathBuf {
        self.path.join(index.to_string())
    }

    /// What was heard in a file with this content, if an earlier run has asked.
    pub(super) async fn heard(&self, sha256: &str) -> Option<Vec<HeardSegment>> {
        let text = tokio::fs::read(self.heard_path(sha256)).await.ok()?;
        let told: Vec<(i64, i64, String)> = serde_json::from_slice(&text).ok()?;
        let segment = |(start_ms, end_ms, text)| HeardSegment { start_ms, end_ms, text };
        Some(told.into_iter().map(segment).collect())
    }

    /// Remembers what was heard: asking costs time, and mostly money.
    pub(super) async fn keep_heard(&self, sha256: &str, heard: &[HeardSegment]) {
        let told: Vec<_> = heard.iter().map(|s| (s.start_ms, s.end_ms, &s.text)).collect();
        // One that is torn cannot be read, and is asked for again.
        let text = serde_json::to_vec(&told).unwrap_or_default();
        if let Err(error) = tokio::fs::write(self.heard_path(sha256), text).await {
            tracing::warn!(%error, "what was heard cannot be remembered");
        }
    }

    /// Nothing in it is needed any more.
    pub(super) async fn remove(self) {
        let removed = tokio::task::spawn_blocking(move || fs::remove_dir_all(&self.path)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, "the files of a recording stay in the work folder for a day");
        }
    }

    fn heard_path(&self, sha256: &str) -> PathBuf {
        self.path.join(format!("heard-{sha256}.json"))
    }
}

/// `None` if somebody works in it.
fn open(root: &Path, name: &str) -> io::Result<Option<WorkFolder>> {
    let path = root.join(name);
    fs::create_dir_all(&path)?;
    let lock = File::create(path.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // The lock was made just now, by the clock of the disk.
    let now = lock.metadata()?.modified()?;
    for entry in fs::read_dir(root)?.flatten() {
        let other = entry.path();
        if other != path && touched_at(&other).is_some_and(|at| is_stale(at, now)) {
            remove_unused(&other);
        }
    }
    Ok(Some(WorkFolder { path, _lock: lock }))
}

/// When something in a folder was last changed.
fn touched_at(folder: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    entries.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max()
}

fn is_stale(at: SystemTime, now: SystemTime) -> bool {
    now.duration_since(at).is_ok_and(|age| age > STALE_AFTER)
}

/// Removes a folder in which nobody works.
fn remove_unused(folder: &Path) {
    if let Some(_lock) = unused(folder) {
        // Another process may have been faster.
        let _ = fs::remove_dir_all(folder);
    }
}

/// The lock of a folder in which nobody works: nobody begins to while it is held.
fn unused(folder: &Path) -> Option<File> {
    let lock = File::options().write(true).open(folder.join(LOCK)).ok()?;
    lock.try_lock().is_ok().then_some(lock)
}

/// Ids may have any characters; names of folders may not.
fn name_of(id: &RecordingId) -> String {
    let hash = hex::encode(Sha256::digest(id.as_str().as_bytes()));
    hash[..32].to_owned()
}

fn failed(error: &io::Error) -> Trouble {
    Trouble::later("work_folder", format!("the work folder cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use roundsman_core::jobs::{JobId, LeaseNo};

    use super::*;

    fn id(text: &str) -> RecordingId {
        RecordingId::new(text).unwrap()
    }

    async fn open_for(root: &Path, name: &str, lease_no: i64) -> WorkFolder {
        let lease = LeaseRef { id: JobId::new(1), lease_no: LeaseNo::new(lease_no) };
        WorkFolder::open(root, &id(name), lease).await.unwrap()
    }

    fn folders(root: &Path) -> usize {
        fs::read_dir(root).unwrap().count()
    }

    #[tokio::test]
    async fn one_run_at_a_time_uses_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let hangs = open_for(root, "../a", 1).await;
        fs::write(hangs.file(0), "half of it").unwrap();
        let second = open_for(root, "../a", 2).await;
        let other = open_for(root, "b", 3).await;
        assert!(!second.file(0).exists(), "nobody else writes to it");
        assert!(second.file(0).starts_with(root) && second.path != other.path);
        WorkFolder::clear(root, &id("../a")).await;
        assert_eq!(folders(root), 3, "somebody works in each");
        second.remove().await;
        drop(hangs);
        let again = open_for(root, "../a", 4).await;
        assert!(again.file(0).exists(), "what an earlier run has left is taken up");
        assert_eq!(WorkFolder::left(root).await, [], "somebody works in each");
        drop((again, other));
        let mut left = WorkFolder::left(root).await;
        left.sort();
        assert_eq!(left, [id("../a"), id("b")]);
        WorkFolder::clear(root, &id("../a")).await;
        WorkFolder::clear(root, &id("b")).await;
        assert_eq!(folders(root), 0);
    }

    #[tokio::test]
    async fn what_was_heard_is_remembered_for_its_content() {
        let root = tempfile::tempdir().unwrap();
        let folder = open_for(root.path(), "a", 1).await;
        let text = "hello \"there\"".to_owned();
        let heard = vec![HeardSegment { start_ms: 5, end_ms: 70, text }];
        assert_eq!(folder.heard("aa").await, None);
        folder.keep_heard("aa", &heard).await;
        assert_eq!(folder.heard("aa").await, Some(heard));
        assert_eq!(folder.heard("bb").await, None);
        fs::write(folder.heard_path("bb"), "[[5,7").unwrap();
        assert_eq!(folder.heard("bb").await, None);
    }

    #[tokio::test]
    async fn what_a_dead_process_has_left_is_gone_after_a_day() {
        let root = tempfile::tempdir().unwrap();
        let age = |folder: &WorkFolder, age: Duration| {
            for entry in fs::read_dir(&folder.path).unwrap() {
                let file = File::options().write(true).open(entry.unwrap().path()).unwrap();
                let now = file.metadata().unwrap().modified().unwrap();
                file.set_modified(now - age).unwrap();
            }
        };
        let left = open_for(root.path(), "left", 1).await;
        let used = open_for(root.path(), "used", 2).await;
        let recent = open_for(root.path(), "recent", 3).await;
        let minute = Duration::from_secs(60);
        age(&left, STALE_AFTER + minute);
        age(&used, STALE_AFTER + minute);
        age(&recent, STALE_AFTER.saturating_sub(minute));
        let (left_path, recent_path) = (left.path.clone(), recent.path.clone());
        drop((left, recent));
        let _new = open_for(root.path(), "new", 4).await;
        assert!(!left_path.exists() && used.path.exists() && recent_path.exists());
    }
}
