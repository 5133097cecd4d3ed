//! Brings a database to the schema this program knows, or refuses it.

use std::path::Path;

use roundsman_core::ports::StoreError;
use rusqlite::Connection;

use super::error::{Failure, Result};
use crate::migrations::{MIGRATIONS, Migration, SCHEMA_KNOWN};

/// Marks a file as ours: `Rnds` in ASCII.
const APPLICATION_ID: i32 = 0x526e_6473;

/// Refuses a file of another program, or of a newer release, without touching it.
pub(super) fn refuse_foreign(conn: &Connection, path: &Path) -> Result<()> {
    let application_id: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let found = version(conn)?;
    let tables: i64 = conn.query_row(COUNT_TABLES, [], |row| row.get(0))?;
    let ours = application_id == APPLICATION_ID || (application_id == 0 && tables == 0);
    if !ours {
        let path = path.display();
        return Err(Failure::failed(format!("{path} is a database of another program")));
    }
    if found > SCHEMA_KNOWN {
        return Err(StoreError::SchemaTooNew { found, known: SCHEMA_KNOWN }.into());
    }
    Ok(())
}

/// Refuses a file without any schema: it is no copy of a database.
pub(super) fn refuse_empty(conn: &Connection, path: &Path) -> Result<()> {
    if version(conn)? == 0 {
        return Err(Failure::failed(format!("{} is empty", path.display())));
    }
    Ok(())
}

/// Refuses a database that a server of an older release has open: it cannot be migrated under it.
pub(super) fn refuse_older(conn: &Connection) -> Result<()> {
    let found = version(conn)?;
    if found == SCHEMA_KNOWN {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "a server with schema {found} has the database open and this program needs {SCHEMA_KNOWN}; \
         stop it first"
    )))
}

/// Applies what is missing, each step in a transaction with its number.
pub(super) fn migrate(conn: &Connection) -> Result<()> {
    let from = version(conn)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > from) {
        apply(conn, migration)?;
    }
    Ok(())
}

const COUNT_TABLES: &str = "-- count_tables
    SELECT count(*) FROM sqlite_schema";

fn apply(conn: &Connection, migration: &Migration) -> Result<()> {
    let Migration { number, name, sqlite, .. } = migration;
    tracing::info!(number, name, "applying a migration");
    let all = format!(
        "BEGIN IMMEDIATE;
         {sqlite}
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {number};
         COMMIT;"
    );
    conn.execute_batch(&all).inspect_err(|_| {
        // The error of the statement is the one worth telling; without a transaction this fails.
        let _ = conn.execute_batch("ROLLBACK");
    })?;
    Ok(())
}

pub(super) fn version(conn: &Connection) -> Result<u32> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrating_is_done_once_and_leaves_its_marks() {
        let conn = Connection::open_in_memory().unwrap();
        migrate(&conn).unwrap();
        migrate(&conn).unwrap();
        assert_eq!(version(&conn).unwrap(), SCHEMA_KNOWN);
        refuse_foreign(&conn, Path::new("x.db")).unwrap();
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let conn = Connection::open_in_memory().unwrap();
        migrate(&conn).unwrap();
        conn.pragma_update(None, "user_version", SCHEMA_KNOWN + 1).unwrap();
        match refuse_foreign(&conn, Path::new("x.db")) {
            Err(Failure::Store(StoreError::SchemaTooNew { found, known })) => {
                assert_eq!((found, known), (SCHEMA_KNOWN + 1, SCHEMA_KNOWN));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_of_another_program_is_refused() {
        for theirs in ["CREATE TABLE t (a)", "PRAGMA application_id = 7"] {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch(theirs).unwrap();
            assert!(refuse_foreign(&conn, Path::new("x.db")).is_err(), "{theirs}");
        }
    }

    #[test]
    fn a_step_that_fails_leaves_nothing() {
        let conn = Connection::open_in_memory().unwrap();
        let broken = Migration {
            number: 1,
            name: "0001_broken",
            sqlite: "CREATE TABLE t (a INTEGER) STRICT; SELECT nothing FROM nowhere;",
            postgres: "",
        };
        assert!(apply(&conn, &broken).is_err());
        let tables: i64 = conn.query_row(COUNT_TABLES, [], |row| row.get(0)).unwrap();
        assert_eq!((tables, version(&conn).unwrap()), (0, 0));
        assert!(conn.is_autocommit());
    }
}
