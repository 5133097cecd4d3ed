//! The files of a database: who may open them, and that only one server does.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::beside;
use super::error::{Failure, Result};

/// Held for as long as any thread has the database open; the operating system gives it up when the
/// process dies, however it dies.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
    held: bool,
}

impl FileLock {
    /// Takes the lock beside the database. It is a file of its own because SQLite's locks on the
    /// database are released whenever any other handle of the process on it is closed.
    pub(super) fn take(database: &Path) -> Result<Self> {
        let lock = Self::take_if_free(database)?;
        if lock.held {
            return Ok(lock);
        }
        Err(Failure::unavailable(format!(
            "another server has {} open (it holds {}); stop it, or give this one a data folder of \
             its own",
            database.display(),
            beside(database, ".lock").display()
        )))
    }

    /// Takes the lock, or goes without it while a server has it.
    pub(super) fn take_if_free(database: &Path) -> Result<Self> {
        let path = beside(database, ".lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| on_file("cannot open the lock file", &path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(FileLock { _file: file, held: true }),
            Err(TryLockError::WouldBlock) => Ok(FileLock { _file: file, held: false }),
            Err(TryLockError::Error(error)) => {
                Err(on_file("cannot lock the lock file", &path, &error))
            }
        }
    }

    /// Whether the database is ours alone.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }
}

/// Makes the folder if there is none, for its owner alone. A folder that exists is left as it is:
/// somebody chose its permissions.
pub(super) fn prepare_folder(database: &Path) -> Result<()> {
    let Some(folder) = database.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| on_file("cannot make the data folder", folder, &error))
}

/// Makes an empty file with the right permissions before SQLite makes one with the wrong ones. The
/// log and the shared memory beside it get the permissions of the database.
pub(super) fn prepare_database(path: &Path) -> Result<()> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    opened.map_err(|error| on_file("cannot open the database", path, &error))?;
    fs::set_permissions(path, Permissions::from_mode(0o600))
        .map_err(|error| on_file("cannot protect the database", path, &error))
}

pub(super) fn on_file(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{what} {}: {error}", path.display()))
}
