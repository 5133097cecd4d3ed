//! Blobs in a folder.
//!
//! Invariant: a blob appears under its name only after it was written whole and is on the disk: it
//! is written under another name, synchronised, and renamed. Several servers may share a folder. What
//! one of them has left half written is removed by whoever keeps or deletes something next.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::ports::{MediaError, MediaStore};

use super::{blob, blocking, failed};

/// Where blobs are before they have their names.
const INCOMING: &str = "incoming";
/// What has been there for so long was left by a server that died.
const STALE_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Keeps blobs in a folder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FolderMediaStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    next: AtomicU64,
}

impl FolderMediaStore {
    /// The folder is made when it is needed.
    pub fn new(root: PathBuf) -> Self {
        FolderMediaStore { inner: Arc::new(Inner { root, next: AtomicU64::new(0) }) }
    }
}

#[async_trait]
impl MediaStore for FolderMediaStore {
    async fn keep(&self, file: &Path, sha256: &str) -> Result<String, MediaError> {
        let (inner, file, sha256) = (self.inner.clone(), file.to_owned(), sha256.to_owned());
        blocking(move || inner.keep(&file, &sha256)).await
    }

    async fn read(&self, blob: &str, to: &Path) -> Result<(), MediaError> {
        let hash = blob::hash_of(blob).ok_or(MediaError::NotFound)?;
        let (from, to) = (self.inner.root.join(blob), to.to_owned());
        blocking(move || read(&from, &to, &hash)).await
    }

    async fn delete(&self, blob: &str) -> Result<bool, MediaError> {
        if blob::hash_of(blob).is_none() {
            return Ok(false);
        }
        let (inner, path) = (self.inner.clone(), self.inner.root.join(blob));
        blocking(move || {
            remove_left(&inner.root.join(INCOMING));
            match fs::remove_file(&path) {
                Ok(()) => sync_folder_of(&path).map(|()| true).map_err(|error| failed(&error)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(failed(&error)),
            }
        })
        .await
    }
}

impl Inner {
    fn keep(&self, file: &Path, sha256: &str) -> Result<String, MediaError> {
        let name = blob::name_of(sha256)?;
        let path = self.root.join(&name);
        remove_left(&self.root.join(INCOMING));
        let mut from = File::open(file).map_err(|error| failed(&error))?;
        let bytes = from.metadata().map_err(|error| failed(&error))?.len();
        // One of another length was damaged, and is replaced.
        if fs::metadata(&path).is_ok_and(|kept| kept.len() == bytes) {
            return Ok(name);
        }
        let (incoming, mut to) = self.incoming(sha256).map_err(|error| failed(&error))?;
        let kept = blob::copy(&mut from, &mut to).and_then(|hash| {
            if hash != sha256 {
                return Err(io::Error::other("the file is not what it was said to be"));
            }
            to.sync_all()?;
            self.make_folder_of(&path)?;
            fs::rename(&incoming, &path)?;
            sync_folder_of(&path)
        });
        if let Err(error) = kept {
            // Whatever is left of it is removed when it is old.
            let _ = fs::remove_file(&incoming);
            return Err(MediaError::Failed(error.to_string()));
        }
        Ok(name)
    }

    /// A file that nobody else writes to, on this machine or another that shares the folder.
    fn incoming(&self, sha256: &str) -> io::Result<(PathBuf, File)> {
        let folder = self.root.join(INCOMING);
        fs::create_dir_all(&folder)?;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{}-{number}", &sha256[..16], std::process::id());
            let path = folder.join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    // Where there are no locks, what is left is known by its age alone.
                    let _ = file.try_lock();
                    remove_stale(&folder, &file);
                    return Ok((path, file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn make_folder_of(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.root);
        if !folder.exists() {
            fs::create_dir_all(folder)?;
            sync_folder_of(folder)?;
        }
        Ok(())
    }
}

fn read(from: &Path, to: &Path, hash: &str) -> Result<(), MediaError> {
    let mut from = File::open(from).map_err(|error| failed(&error))?;
    let written = File::create(to).and_then(|mut to| blob::copy(&mut from, &mut to));
    match written {
        Ok(found) if found == hash => Ok(()),
        Ok(_) => Err(MediaError::Failed("the blob is damaged".to_owned())),
        Err(error) => Err(MediaError::Failed(error.to_string())),
    }
}

/// Makes sure that a name is found, or is not found any more, also after the power failed.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Removes what servers that died have left: nobody holds its lock any more. What has no content yet
/// may be about to be locked.
fn remove_left(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let has_content = entry.metadata().is_ok_and(|metadata| metadata.len() > 0);
        let file = OpenOptions::new().write(true).open(entry.path());
        if has_content && file.is_ok_and(|file| file.try_lock().is_ok()) {
            // Another server may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes what servers that died have left where there are no locks. How old something is, is told by a file that is new: the
/// folder may be on a machine with another clock.
fn remove_stale(folder: &Path, new: &File) {
    let modified = |metadata: fs::Metadata| metadata.modified();
    let Ok(now) = new.metadata().and_then(modified) else { return };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let at = entry.metadata().and_then(modified);
        let age = at.ok().and_then(|at| now.duration_since(at).ok());
        if age.is_some_and(|age| age > STALE_AFTER) {
            // Another server may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_writes_any_more_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["dead", "written"] {
            fs::write(path(name), "half of it").unwrap();
        }
        fs::write(path("begun"), "").unwrap();
        let written = OpenOptions::new().write(true).open(path("written")).unwrap();
        written.try_lock().unwrap();
        remove_left(folder.path());
        assert!(!path("dead").exists() && path("written").exists() && path("begun").exists());
        drop(written);
        remove_left(folder.path());
        assert!(!path("written").exists());
    }

    #[test]
    fn only_what_is_old_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| File::create(folder.path().join(name)).unwrap();
        let (old, recent, new) = (make("old"), make("recent"), make("new"));
        let now = new.metadata().unwrap().modified().unwrap();
        old.set_modified(now - STALE_AFTER - Duration::from_secs(1)).unwrap();
        recent.set_modified(now - STALE_AFTER + Duration::from_secs(1)).unwrap();
        remove_stale(folder.path(), &new);
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["new", "recent"]);
    }
}
