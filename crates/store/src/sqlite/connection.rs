//! Connections and the settings each sort of them needs.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{Failure, Result};
use super::{BUSY_TIMEOUT, Durability, schema};

/// Statements kept compiled per connection; more than this adapter has.
const STATEMENTS_CACHED_MAX: usize = 256;

/// What every connection sets: nothing in the file is trusted to run code, and a damaged page is
/// noticed rather than followed. Memory mapping stays off because a failing disk would then kill
/// the process instead of failing a statement.
const COMMON: &str = "
    PRAGMA foreign_keys = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA cell_size_check = ON;
    PRAGMA mmap_size = 0;
    PRAGMA temp_store = MEMORY;";

/// The write connection never checkpoints by itself: see `checkpoint`. The cache is 16 MiB.
const WRITER: &str = "
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -16384;";

/// 2 MiB of cache each: readers are many and look at little.
const READER: &str = "
    PRAGMA query_only = ON;
    PRAGMA cache_size = -2048;";

/// The cache is never used: a checkpoint copies pages from file to file.
const CHECKPOINTER: &str = "
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -64;";

/// Opens the write connection. Refuses a file that is not ours before changing anything in it.
pub(super) fn open_writer(path: &Path, durability: Durability) -> Result<Connection> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    schema::refuse_foreign(&conn, path)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Failure::failed(format!(
            "{} cannot use a write-ahead log (journal mode {mode}); put it on a local disk",
            path.display()
        )));
    }
    conn.execute_batch(COMMON)?;
    conn.execute_batch(synchronous(durability))?;
    conn.execute_batch(WRITER)?;
    Ok(conn)
}

pub(super) fn open_reader(path: &Path) -> Result<Connection> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    conn.execute_batch(COMMON)?;
    conn.execute_batch(READER)?;
    Ok(conn)
}

pub(super) fn open_checkpointer(path: &Path) -> Result<Connection> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.execute_batch(COMMON)?;
    // A checkpoint must synchronise whatever the writer does: the log is overwritten after it.
    conn.execute_batch(synchronous(Durability::Full))?;
    conn.execute_batch(CHECKPOINTER)?;
    Ok(conn)
}

pub(super) fn open_in_memory() -> Result<Connection> {
    let conn = Connection::open_in_memory()?;
    conn.execute_batch(COMMON)?;
    keep_statements(&conn)?;
    Ok(conn)
}

fn open(path: &Path, access: OpenFlags) -> Result<Connection> {
    // Every connection belongs to one thread, so SQLite need not lock it.
    let conn = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    keep_statements(&conn)?;
    Ok(conn)
}

/// Compiles every statement once. Without the second setting SQLite takes bound values for a part
/// of the plan and compiles a statement that compares with the time anew whenever it is run, which
/// was half of all its work.
fn keep_statements(conn: &Connection) -> Result<()> {
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::Full => "PRAGMA synchronous = FULL;",
        Durability::Relaxed => "PRAGMA synchronous = NORMAL;",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::file;

    fn pragma(conn: &Connection, name: &str) -> String {
        let value: rusqlite::types::Value =
            conn.pragma_query_value(None, name, |row| row.get(0)).unwrap();
        match value {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn the_writer_survives_the_loss_of_power() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        file::prepare_database(&path).unwrap();
        for (durability, synchronous) in [(Durability::Full, "2"), (Durability::Relaxed, "1")] {
            let conn = open_writer(&path, durability).unwrap();
            let expected = [
                ("journal_mode", "wal"),
                ("synchronous", synchronous),
                ("wal_autocheckpoint", "0"),
                ("journal_size_limit", "67108864"),
                ("foreign_keys", "1"),
                ("trusted_schema", "0"),
                ("cell_size_check", "1"),
                ("cache_size", "-16384"),
                ("temp_store", "2"),
            ];
            for (name, value) in expected {
                assert_eq!(pragma(&conn, name), value, "{name} of {durability:?}");
            }
        }
        assert_eq!(pragma(&open_checkpointer(&path).unwrap(), "synchronous"), "2");
    }

    #[test]
    fn a_reader_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        file::prepare_database(&path).unwrap();
        let writer = open_writer(&path, Durability::Full).unwrap();
        writer.execute_batch("CREATE TABLE t (a INTEGER) STRICT").unwrap();
        let reader = open_reader(&path).unwrap();
        assert_eq!(pragma(&reader, "query_only"), "1");
        assert!(reader.execute("INSERT INTO t (a) VALUES (1)", []).is_err());
    }
}
