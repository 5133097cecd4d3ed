//! Copies of the embedded database, and putting one back.
//!
//! Invariants: a copy is one moment of the database, whatever a server writes meanwhile. A copy takes
//! the place of the database only after it was found sound, and what was there before is kept beside it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use roundsman_core::effects::Violation;
use roundsman_core::ports::StoreError;
use rusqlite::Connection;

use super::check::check;
use super::connection::{open_reader, open_writer};
use super::error::{Failure, Result};
use super::file::{FileLock, on_file, prepare_database, prepare_folder};
use super::{Durability, beside, schema};
use crate::advice::{Advice, Grade};

/// Whoever held a lease when the copy was made, or got one since, must not meet its number again.
const LEASES_SKIPPED: i64 = 1_000_000;
/// A log larger than this is not being copied back into the database.
const LOG_MIB_MAX: u64 = 256;

/// What a copy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyReport {
    pub bytes: u64,
    pub schema: u32,
    /// Rows by table, in the order of their names.
    pub rows: Vec<(String, i64)>,
    /// What cannot be true of it.
    pub violations: Vec<Violation>,
}

impl CopyReport {
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Writes one moment of the database into a new file. A server may run meanwhile.
pub fn backup(database: &Path, into: &Path) -> std::result::Result<CopyReport, StoreError> {
    back_up(database, into).map_err(StoreError::from)
}

/// Looks at a copy and changes nothing: brings a copy of the copy up to date and checks it.
pub fn verify(copy: &Path) -> std::result::Result<CopyReport, StoreError> {
    let examined = beside(copy, ".verifying");
    let report = examine(copy, &examined, 0);
    let removed = remove_with_log(&examined);
    report.and_then(|report| removed.map(|()| report)).map_err(StoreError::from)
}

/// Puts a copy in the place of the database. Refused while a server has it. With `is_checked`, a copy
/// in which anything cannot be true is refused too. Returns where the database of before is now.
pub fn restore(
    copy: &Path,
    database: &Path,
    is_checked: bool,
) -> std::result::Result<(CopyReport, Option<PathBuf>), StoreError> {
    put_back(copy, database, is_checked).map_err(StoreError::from)
}

/// What is worth knowing about the files.
pub fn advise(database: &Path) -> std::result::Result<Vec<Advice>, StoreError> {
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let log_mib = bytes(&beside(database, "-wal")) >> 20;
    let log = format!("{log_mib} MiB");
    let log = if log_mib <= LOG_MIB_MAX {
        Advice::fine("write-ahead log", log)
    } else {
        let todo =
            "a reader stays open for long, or the disk is slow; end it, or restart the server";
        Advice::new(Grade::Doubtful, "write-ahead log", log, todo)
    };
    let conn = open_reader(database).map_err(StoreError::from)?;
    let mode: rusqlite::Result<String> =
        conn.query_row("PRAGMA journal_mode", [], |row| row.get(0));
    let mode = mode.map_err(|error| StoreError::from(Failure::from(error)))?;
    let size = format!("{} MiB, journal mode {mode}", bytes(database) >> 20);
    Ok(vec![Advice::fine("database file", size), log])
}

fn back_up(database: &Path, into: &Path) -> Result<CopyReport> {
    if into.exists() {
        return Err(Failure::failed(format!("{} exists already", into.display())));
    }
    prepare_folder(into)?;
    // Unfinished copies have another name, so that whatever has the right one is whole.
    let unfinished = beside(into, ".unfinished");
    remove_if_there(&unfinished)?;
    let path = unfinished.to_str().ok_or_else(|| Failure::failed("its name must be UTF-8"))?;
    // Readers may not write, not even elsewhere; this connection changes nothing here all the same.
    let conn = open_writer(database, Durability::Full)?;
    conn.execute(COPY_INTO, [path])?;
    drop(conn);
    let owned = prepare_database(&unfinished).and_then(|()| synchronised(&unfinished));
    owned.and_then(|()| renamed(&unfinished, into))?;
    let conn = open_reader(into)?;
    report(&conn, into, Vec::new())
}

/// Copies a copy to `beside` and brings it up to date there.
fn examine(copy: &Path, beside: &Path, leases_at_least: i64) -> Result<CopyReport> {
    fs::copy(copy, beside).map_err(|error| on_file("cannot copy", copy, &error))?;
    prepare_database(beside)?;
    let conn = open_writer(beside, Durability::Full)?;
    schema::refuse_empty(&conn, copy)?;
    schema::migrate(&conn)?;
    conn.execute(ADVANCE_LEASES, [leases_at_least, LEASES_SKIPPED])?;
    let violations = check(&conn)?;
    report(&conn, beside, violations)
}

fn put_back(
    copy: &Path,
    database: &Path,
    is_checked: bool,
) -> Result<(CopyReport, Option<PathBuf>)> {
    prepare_folder(database)?;
    let _lock = FileLock::take(database)?;
    let arriving = beside(database, ".restoring");
    remove_with_log(&arriving)?;
    let leases = if database.exists() { lease_counter(database).unwrap_or(0) } else { 0 };
    let report = examine(copy, &arriving, leases).inspect_err(|_| {
        // The error of the copy is the one worth telling.
        let _ = remove_with_log(&arriving);
    })?;
    if is_checked && !report.is_sound() {
        remove_with_log(&arriving)?;
        let told = |found: &Violation| format!("{}: {}", found.subject, found.explanation);
        let first = report.violations.first().map_or_else(String::new, told);
        let count = report.violations.len();
        return Err(Failure::failed(format!("the copy is not sound ({count} findings): {first}")));
    }
    synchronised(&arriving)?;
    let kept = set_aside(database)?;
    renamed(&arriving, database)?;
    Ok((report, kept))
}

fn lease_counter(database: &Path) -> Result<i64> {
    let conn = open_reader(database)?;
    Ok(conn.query_row(LEASE_COUNTER, [], |row| row.get(0))?)
}

/// Renames the database and its log; they belong together.
fn set_aside(database: &Path) -> Result<Option<PathBuf>> {
    if !database.exists() {
        return Ok(None);
    }
    let free = |number: &u32| !beside(database, &format!(".before-restore-{number}")).exists();
    let number = (1..1000).find(free).ok_or_else(|| Failure::failed("too many older databases"))?;
    let aside = beside(database, &format!(".before-restore-{number}"));
    for part in ["-wal", ""] {
        let from = beside(database, part);
        if from.exists() {
            renamed(&from, &beside(&aside, part))?;
        }
    }
    remove_if_there(&beside(database, "-shm"))?;
    Ok(Some(aside))
}

fn report(conn: &Connection, path: &Path, violations: Vec<Violation>) -> Result<CopyReport> {
    let mut names = conn.prepare(TABLES)?;
    let names: Vec<String> =
        names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut rows = Vec::with_capacity(names.len());
    for name in names {
        let quoted = name.replace('"', "\"\"");
        let count =
            conn.query_row(&format!("SELECT count(*) FROM \"{quoted}\""), [], |row| row.get(0))?;
        rows.push((name, count));
    }
    let bytes = fs::metadata(path).map_err(|error| on_file("cannot look at", path, &error))?.len();
    Ok(CopyReport { bytes, schema: schema::version(conn)?, rows, violations })
}

fn remove_with_log(database: &Path) -> Result<()> {
    ["", "-wal", "-shm"].iter().try_for_each(|part| remove_if_there(&beside(database, part)))
}

fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(on_file("cannot remove", path, &error))
        }
        _ => Ok(()),
    }
}

fn synchronised(path: &Path) -> Result<()> {
    let opened = File::open(path).and_then(|file| file.sync_all());
    opened.map_err(|error| on_file("cannot synchronise", path, &error))
}

/// Renames, and has the folder remember it through a loss of power.
fn renamed(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|error| on_file("cannot rename", from, &error))?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    synchronised(folder.unwrap_or(Path::new(".")))
}

const COPY_INTO: &str = "-- copy_into
    VACUUM INTO ?1";

const ADVANCE_LEASES: &str = "-- advance_leases
    UPDATE counters SET value = max(value, ?1) + ?2 WHERE name = 'lease_no'";

const LEASE_COUNTER: &str = "-- lease_counter
    SELECT value FROM counters WHERE name = 'lease_no'";

/// The parts of a full-text index are tables too, and of no interest.
const TABLES: &str = "-- tables
    SELECT name FROM sqlite_schema
    WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite_%'
    ORDER BY name";

#[cfg(test)]
mod tests;
