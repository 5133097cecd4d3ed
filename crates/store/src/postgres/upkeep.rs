//! What an operator should know about a PostgreSQL server, and what a restored database needs.

use roundsman_core::ports::StoreError;
use tokio_postgres::NoTls;

use super::PostgresStore;
use super::error::Failure;
use super::pool::Operation;
use super::session::Session;
use crate::advice::{Advice, Grade};

/// Whoever held a lease when the copy was made, or got one since, must not meet its number again.
const LEASES_SKIPPED: i64 = 1_000_000;

impl PostgresStore {
    /// Looks at settings, transactions and tables that decide whether the promises hold and stay fast.
    pub async fn advise(&self) -> Result<Vec<Advice>, StoreError> {
        self.pool.run(&Advise).await
    }

    /// To be called once after a copy was put back.
    pub async fn advance_leases(&self) -> Result<(), StoreError> {
        self.change("store.advance_leases", &AdvanceLeases).await
    }
}

/// Whether a database holds anything of ours already, and so is no place for a copy.
pub async fn is_in_use(config: &tokio_postgres::Config) -> Result<bool, StoreError> {
    let failed = |error: tokio_postgres::Error| StoreError::Unavailable(Box::new(error));
    let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
    let asked = async move {
        let row = client.query_one(IN_USE, &[]).await.map_err(failed)?;
        row.try_get(0).map_err(failed)
    };
    // The connection ends when the client is dropped, which is when it was answered.
    let (answer, ended) = tokio::join!(asked, connection);
    ended.map_err(failed)?;
    answer
}

const IN_USE: &str = "-- in_use
SELECT to_regclass('roundsman.job_queue') IS NOT NULL";

const ADVANCE: &str = "-- advance
SELECT setval('roundsman.lease_no_seq', last_value + $1) FROM roundsman.lease_no_seq";

struct AdvanceLeases;

impl Operation for AdvanceLeases {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> Result<(), Failure> {
        // Done twice after a broken connection it skips more, which is as good.
        session.query(ADVANCE, &[&LEASES_SKIPPED]).await?;
        Ok(())
    }
}

struct Advise;

impl Operation for Advise {
    type Answer = Vec<Advice>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Advice>, Failure> {
        let mut advice = Vec::new();
        for row in session.query(SETTINGS, &[]).await? {
            advice.push(setting(row.try_get(0)?, row.try_get(1)?));
        }
        for looked in LOOKS {
            let rows = session.query(looked.statement, &[]).await?;
            if rows.is_empty() {
                advice.push(Advice::fine(looked.subject, looked.fine));
            }
            for row in rows.iter().take(looked.rows_max) {
                let found: String = row.try_get(0)?;
                advice.push(Advice::new(looked.grade, looked.subject, found, looked.todo));
            }
        }
        Ok(advice)
    }
}

const SETTINGS: &str = "-- settings
SELECT name::text, setting::text FROM pg_catalog.pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts')
ORDER BY name";

/// What a setting means for the promises.
fn setting(name: &str, value: &str) -> Advice {
    let found = format!("{name} = {value}");
    let wrong = |why: &str| {
        let todo = format!("{why}; set {name} = on and reload the server");
        Advice::new(Grade::Wrong, "server setting", found.clone(), todo)
    };
    match (name, value) {
        ("fsync", "off") => wrong("what was acknowledged is lost, or all of it, with the power"),
        ("full_page_writes", "off") => wrong("a loss of power may damage the database"),
        ("synchronous_commit", "off") => wrong("the last moments are lost with the power"),
        ("autovacuum", "off") => wrong("claims slow down until somebody vacuums by hand"),
        ("track_counts", "off") => wrong("autovacuum cannot see what there is to do"),
        _ => Advice::fine("server setting", found),
    }
}

/// A statement whose rows are what is wrong, each told in its first column.
struct Look {
    subject: &'static str,
    statement: &'static str,
    fine: &'static str,
    grade: Grade,
    todo: &'static str,
    rows_max: usize,
}

const LOOKS: &[Look] = &[
    Look {
        subject: "long transactions",
        statement: LONG_TRANSACTIONS,
        fine: "none is older than five minutes",
        grade: Grade::Wrong,
        todo: "it keeps dead rows from being removed and slows claims; end it, or have it end \
               (SELECT pg_terminate_backend(PID)), and set idle_in_transaction_session_timeout",
        rows_max: 10,
    },
    Look {
        subject: "prepared transactions",
        statement: PREPARED_TRANSACTIONS,
        fine: "none is older than five minutes",
        grade: Grade::Wrong,
        todo: "nobody finishes it: COMMIT PREPARED or ROLLBACK PREPARED it",
        rows_max: 10,
    },
    Look {
        subject: "replication slots",
        statement: IDLE_SLOTS,
        fine: "none is without a reader",
        grade: Grade::Doubtful,
        todo: "its log is kept until the disk is full; have it read, or drop it",
        rows_max: 10,
    },
    Look {
        subject: "autovacuum of hot tables",
        statement: BARE_TABLES,
        fine: "as they were made",
        grade: Grade::Doubtful,
        todo: "somebody changed its storage parameters; set autovacuum_vacuum_scale_factor = 0.01, \
               autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0, and reset \
               autovacuum_enabled",
        rows_max: 10,
    },
    Look {
        subject: "dead rows",
        statement: DEAD_ROWS,
        fine: "autovacuum keeps up",
        grade: Grade::Doubtful,
        todo: "autovacuum lags; look for long transactions, or VACUUM the table",
        rows_max: 10,
    },
    Look {
        subject: "indexes",
        statement: INVALID_INDEXES,
        fine: "all are valid",
        grade: Grade::Wrong,
        todo: "it is not used; REINDEX INDEX it",
        rows_max: 10,
    },
    Look {
        subject: "connections",
        statement: FEW_CONNECTIONS,
        fine: "more than a fifth is free",
        grade: Grade::Doubtful,
        todo: "raise max_connections, or lower database.pool_max of the nodes",
        rows_max: 1,
    },
];

const LONG_TRANSACTIONS: &str = "-- long_transactions
SELECT format('process %s of %s (%s) is %s since %s', pid, coalesce(usename, '?'),
              coalesce(nullif(application_name, ''), 'no name'), state,
              date_trunc('second', xact_start))
FROM pg_catalog.pg_stat_activity
WHERE xact_start < clock_timestamp() - interval '5 minutes' AND backend_type = 'client backend'
  AND pid <> pg_backend_pid()
ORDER BY xact_start LIMIT 20";

const PREPARED_TRANSACTIONS: &str = "-- prepared_transactions
SELECT format('%s of %s since %s', gid, owner, date_trunc('second', prepared))
FROM pg_catalog.pg_prepared_xacts
WHERE prepared < clock_timestamp() - interval '5 minutes' ORDER BY prepared LIMIT 20";

const IDLE_SLOTS: &str = "-- idle_slots
SELECT format('%s has no reader', slot_name) FROM pg_catalog.pg_replication_slots
WHERE NOT active ORDER BY slot_name LIMIT 20";

const BARE_TABLES: &str = "-- bare_tables
SELECT CASE WHEN array_to_string(c.reloptions, ',') LIKE '%autovacuum_enabled=false%'
            THEN format('%s is never vacuumed by itself', c.relname)
            ELSE format('%s has no autovacuum settings of its own', c.relname) END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'roundsman' AND c.relname IN ('job_queue', 'job_running')
  AND (NOT coalesce(array_to_string(c.reloptions, ',') LIKE '%autovacuum_vacuum_scale_factor%', false)
       OR array_to_string(c.reloptions, ',') LIKE '%autovacuum_enabled=false%')
ORDER BY c.relname";

const DEAD_ROWS: &str = "-- dead_rows
SELECT format('%s has %s dead rows and %s live ones', relname, n_dead_tup, n_live_tup)
FROM pg_catalog.pg_stat_user_tables
WHERE schemaname = 'roundsman' AND n_dead_tup > 100000 AND n_dead_tup > n_live_tup
ORDER BY n_dead_tup DESC LIMIT 20";

const INVALID_INDEXES: &str = "-- invalid_indexes
SELECT format('%s is not valid', i.indexrelid::regclass) FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE NOT i.indisvalid AND n.nspname = 'roundsman' LIMIT 20";

const FEW_CONNECTIONS: &str = "-- few_connections
SELECT format('%s of %s are taken', taken, most) FROM (
    SELECT count(*) AS taken, current_setting('max_connections')::int AS most
    FROM pg_catalog.pg_stat_activity) counted
WHERE taken > most * 0.8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_break_promises_are_wrong() {
        assert_eq!(setting("fsync", "on").grade, Grade::Fine);
        assert_eq!(setting("synchronous_commit", "remote_apply").grade, Grade::Fine);
        for name in ["fsync", "full_page_writes", "synchronous_commit", "autovacuum"] {
            let advice = setting(name, "off");
            assert_eq!(advice.grade, Grade::Wrong, "{name}");
            assert!(advice.todo.contains(name), "{}", advice.todo);
        }
    }
}
