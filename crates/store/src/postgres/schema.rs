//! Bringing the schema up to date when a server starts.
//!
//! Invariants: steps run forward only, each once, each in a transaction of its own and under a lock,
//! so that any number of servers may start at the same time. Servers of the release before go on
//! meanwhile: a step waits for a table only for as long as they wait for it. The tables in `public`
//! may belong to somebody else: they are made if they are absent, looked at if they are there, and
//! never changed.

use std::time::Duration;

use roundsman_core::ports::StoreError;
use tokio_postgres::error::SqlState;

use super::error::Failure;
use super::pool::{Operation, Pool};
use super::session::Session;
use crate::migrations::{MIGRATIONS, SCHEMA_KNOWN};

/// The oldest server whose features are used (`server_version_num`).
const SERVER_VERSION_MIN: i32 = 140_000;
/// Waiting for another server to finish its migration, and running ours.
const MIGRATION_LIMIT: Duration = Duration::from_secs(600);
/// A step that waits for a table has everybody else wait behind it. So it gives up before their own
/// patience ends (`lock_timeout` of ordinary statements is two seconds), lets them through, and tries
/// again: for five minutes, should somebody's transaction stay open.
const TABLE_LIMIT: &str = "SET LOCAL lock_timeout = '1s'";
const TABLE_TRIES_MAX: u32 = 300;
/// Another server's steps, and the longest that one of ours takes. The limits of ordinary statements
/// are too short for either.
const STEP_LIMITS: &str = "SET LOCAL lock_timeout = '300s'; SET LOCAL statement_timeout = '600s'";
/// The key of the advisory lock ("rmig" in ASCII).
const MIGRATION_LOCK: i64 = 0x726d_6967;

/// A table that may be somebody else's: the columns that are used, and the types they may have.
struct SeedTable {
    name: &'static str,
    columns: &'static [(&'static str, &'static [&'static str])],
}

const WHOLE: &[&str] = &["integer", "bigint"];
const TEXT: &[&str] = &["character varying", "text"];
const NAIVE: &[&str] = &["timestamp without time zone"];

const SEED_TABLES: [SeedTable; 4] = [
    SeedTable {
        name: "users",
        columns: &[
            ("id", WHOLE),
            ("email", TEXT),
            ("name", TEXT),
            ("image_url", TEXT),
            ("created_at", NAIVE),
            ("max_concurrent_bots", &["integer"]),
            ("data", &["jsonb"]),
        ],
    },
    SeedTable {
        name: "meetings",
        columns: &[
            ("id", WHOLE),
            ("user_id", WHOLE),
            ("platform", TEXT),
            ("platform_specific_id", TEXT),
            ("status", TEXT),
            ("bot_container_id", TEXT),
            ("start_time", NAIVE),
            ("end_time", NAIVE),
            ("data", &["jsonb"]),
            ("created_at", NAIVE),
            ("updated_at", NAIVE),
        ],
    },
    SeedTable {
        name: "meeting_sessions",
        columns: &[
            ("id", WHOLE),
            ("meeting_id", WHOLE),
            ("session_uid", TEXT),
            ("session_start_time", &["timestamp with time zone"]),
        ],
    },
    SeedTable {
        name: "transcriptions",
        columns: &[
            ("id", WHOLE),
            ("meeting_id", WHOLE),
            ("start_time", &["double precision"]),
            ("end_time", &["double precision"]),
            ("text", TEXT),
            ("speaker", TEXT),
            ("language", TEXT),
            ("created_at", NAIVE),
            ("session_uid", TEXT),
        ],
    },
];

/// Migrates if that is needed and returns the server's version.
pub(super) async fn prepare(pool: &Pool) -> Result<String, StoreError> {
    pool.run_within(&Prepare, MIGRATION_LIMIT).await
}

const SERVER: &str = "-- server
SELECT current_setting('server_version_num')::integer, current_setting('server_version')";

/// Reads the catalogue's tables, because `to_regclass` may answer from a cache that has not heard
/// yet of what another server did while we waited for the lock.
const SCHEMA_STATE: &str = "-- schema_state
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'roundsman'),
       EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'roundsman' AND c.relname = 'migrations')";

const SCHEMA_NUMBER: &str = "-- schema_number
SELECT coalesce(max(number), 0) FROM roundsman.migrations";

const TAKE_LOCK: &str = "-- take_lock
SELECT pg_advisory_xact_lock($1)";

const CREATE_MIGRATIONS: &str = "-- create_migrations
CREATE TABLE roundsman.migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL
)";

/// When a step was applied is for operators only, so the server's own clock may tell it.
const LOG_MIGRATION: &str = "-- log_migration
INSERT INTO roundsman.migrations (number, name, applied_at) VALUES ($1, $2, clock_timestamp())";

const COLUMNS_OF: &str = "-- columns_of
SELECT a.attname::text, format_type(a.atttypid, NULL),
       a.atthasdef OR a.attidentity <> ''
  FROM pg_attribute a
 WHERE a.attrelid = to_regclass('public.' || $1::text) AND a.attnum > 0 AND NOT a.attisdropped";

const EMAIL_IS_UNIQUE: &str = "-- email_is_unique
SELECT EXISTS (
    SELECT FROM pg_index i
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
     WHERE i.indrelid = to_regclass('public.users') AND i.indisunique AND i.indnkeyatts = 1
       AND i.indpred IS NULL AND a.attname = 'email')";

struct Prepare;

impl Operation for Prepare {
    type Answer = String;

    async fn run(&self, session: &mut Session) -> Result<String, Failure> {
        let version = check_server(session).await?;
        // Most starts find nothing to do, and need no lock to see that.
        if schema_number(session).await? < SCHEMA_KNOWN {
            migrate(session).await?;
        }
        check_seed_tables(session).await?;
        Ok(version)
    }
}

async fn check_server(session: &mut Session) -> Result<String, Failure> {
    let rows = session.query(SERVER, &[]).await?;
    let row = rows.first().ok_or(Failure::Raced)?;
    let (number, version): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
    if number < SERVER_VERSION_MIN {
        return Err(refuse(format!(
            "the server is PostgreSQL {version}; Roundsman needs 14 or newer"
        )));
    }
    // Distributions add their own words: "15.18 (Debian 15.18-0+deb12u1)".
    Ok(version.split(' ').next().unwrap_or_default().to_owned())
}

/// The number of the newest step that was applied; a schema of a newer program is refused.
async fn schema_number(session: &mut Session) -> Result<u32, Failure> {
    let rows = session.query(SCHEMA_STATE, &[]).await?;
    if !rows.first().ok_or(Failure::Raced)?.try_get::<_, bool>(1)? {
        return Ok(0);
    }
    let rows = session.query(SCHEMA_NUMBER, &[]).await?;
    let number: i32 = rows.first().ok_or(Failure::Raced)?.try_get(0)?;
    let found = u32::try_from(number).unwrap_or(0);
    if found > SCHEMA_KNOWN {
        return Err(StoreError::SchemaTooNew { found, known: SCHEMA_KNOWN }.into());
    }
    Ok(found)
}

async fn migrate(session: &mut Session) -> Result<(), Failure> {
    let mut tries = 1;
    loop {
        match next_step(session).await {
            Ok(Applied::One) => {}
            Ok(Applied::All) => return Ok(()),
            Err(Failure::Statement(error)) if is_in_use(&error) && tries < TABLE_TRIES_MAX => {
                if tries == 1 {
                    tracing::warn!("a transaction of somebody else is in the way of a migration");
                }
                tries += 1;
                session.undo().await?;
            }
            Err(Failure::Statement(error)) if is_in_use(&error) => {
                return Err(Failure::Store(StoreError::Unavailable(
                    "a transaction that stays open keeps the schema from being migrated; \
                     `roundsman doctor` of the release that runs names it"
                        .into(),
                )));
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn is_in_use(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    One,
    /// There was nothing left to apply.
    All,
}

/// Applies the next step that is missing.
async fn next_step(session: &mut Session) -> Result<Applied, Failure> {
    session.begin();
    session.batch(STEP_LIMITS).await?;
    session.query(TAKE_LOCK, &[&MIGRATION_LOCK]).await?;
    session.batch(TABLE_LIMIT).await?;
    // Looked at again, now that nobody else can be at it.
    let applied = schema_number(session).await?;
    let rows = session.query(SCHEMA_STATE, &[]).await?;
    let state = rows.first().ok_or(Failure::Raced)?;
    // `IF NOT EXISTS` would ask for the right to create even when there is nothing to create.
    if !state.try_get::<_, bool>(0)? {
        session.batch("CREATE SCHEMA roundsman").await?;
    }
    if !state.try_get::<_, bool>(1)? {
        session.batch(CREATE_MIGRATIONS).await?;
    }
    let next = MIGRATIONS.iter().find(|migration| migration.number > applied);
    if let Some(migration) = next {
        session.batch(migration.postgres).await?;
        let number = i32::try_from(migration.number).unwrap_or(i32::MAX);
        session.execute(LOG_MIGRATION, &[&number, &migration.name]).await?;
        tracing::info!(number, name = migration.name, "migrated the database");
    }
    session.commit().await?;
    Ok(if next.is_some() { Applied::One } else { Applied::All })
}

async fn check_seed_tables(session: &mut Session) -> Result<(), Failure> {
    for table in &SEED_TABLES {
        check_columns(session, table).await?;
    }
    let rows = session.query(EMAIL_IS_UNIQUE, &[]).await?;
    if !rows.first().ok_or(Failure::Raced)?.try_get::<_, bool>(0)? {
        return Err(refuse("public.users has no unique index on email".to_owned()));
    }
    Ok(())
}

async fn check_columns(session: &mut Session, table: &SeedTable) -> Result<(), Failure> {
    let name = table.name;
    let rows = session.query(COLUMNS_OF, &[&name]).await?;
    let mut found: Vec<(String, String, bool)> = Vec::with_capacity(rows.len());
    for row in &rows {
        found.push((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    }
    for (column, types) in table.columns {
        let Some((_, found_type, has_default)) = found.iter().find(|(known, ..)| known == column)
        else {
            return Err(refuse(format!("public.{name} has no column {column}")));
        };
        if !types.contains(&found_type.as_str()) {
            let expected = types.join(" or ");
            return Err(refuse(format!(
                "public.{name}.{column} is {found_type}, expected {expected}"
            )));
        }
        if *column == "id" && !has_default {
            return Err(refuse(format!("public.{name}.id is not filled by a sequence")));
        }
    }
    Ok(())
}

fn refuse(reason: String) -> Failure {
    Failure::Store(StoreError::Failed(reason.into()))
}
