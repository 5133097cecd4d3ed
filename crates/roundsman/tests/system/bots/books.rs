//! What is stored about bots, read beside the server with statements of the tests' own.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use roundsman_core::bots::{BotStatus, may_follow};
use roundsman_testkit::TestDatabase;
use rusqlite::OpenFlags;
use rusqlite::types::ValueRef;
use tokio_postgres::SimpleQueryMessage;

/// A row as text; `None` is NULL.
pub(crate) type Row = Vec<Option<String>>;

/// A reader of one database.
pub(crate) struct Books(Connection);

enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

/// A step in a meeting's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) from: Option<String>,
    pub(crate) to: String,
    pub(crate) cause: String,
}

impl Books {
    pub(crate) fn sqlite(path: &Path) -> Result<Books> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(path, flags)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Books(Connection::Sqlite(connection)))
    }

    pub(crate) async fn postgres(database: &TestDatabase) -> Result<Books> {
        let client = database.connect().await?;
        client.batch_execute("SET search_path = roundsman, public").await?;
        Ok(Books(Connection::Postgres(client)))
    }

    /// The rows of a statement that both databases understand.
    pub(crate) async fn rows(&self, sql: &str) -> Result<Vec<Row>> {
        match &self.0 {
            Connection::Sqlite(connection) => sqlite_rows(connection, sql),
            Connection::Postgres(client) => postgres_rows(client, sql).await,
        }
    }

    /// The one value of the one row.
    pub(crate) async fn value(&self, sql: &str) -> Result<Option<String>> {
        let rows = self.rows(sql).await?;
        ensure!(rows.len() == 1 && rows[0].len() == 1, "{sql} gave {rows:?}");
        Ok(rows[0][0].clone())
    }

    /// The log of a meeting, oldest step first.
    pub(crate) async fn steps(&self, meeting: i64) -> Result<Vec<Step>> {
        let sql = format!(
            "SELECT from_state, to_state, cause FROM transitions \
             WHERE entity = 'meeting' AND entity_id = {meeting} ORDER BY id"
        );
        let step = |row: Row| {
            let [from, Some(to), Some(cause)]: [Option<String>; 3] = row.try_into().ok()? else {
                return None;
            };
            Some(Step { from, to, cause })
        };
        let steps: Option<Vec<Step>> = self.rows(&sql).await?.into_iter().map(step).collect();
        steps.context("a step without a state")
    }

    /// The names of a meeting's sessions.
    pub(crate) async fn sessions(&self, meeting: i64) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT session_uid FROM meeting_sessions WHERE meeting_id = {meeting} ORDER BY id"
        );
        Ok(self.rows(&sql).await?.into_iter().flatten().flatten().collect())
    }

    /// Every meeting is over, finished, logged step by step, and in exactly one end.
    pub(crate) async fn expect_all_over(&self) -> Result<()> {
        let sql = "SELECT meetings.id, meetings.status, meetings.end_time, bots.finished_at, \
                   bots.connection_id, meetings.start_time \
                   FROM meetings LEFT JOIN bots ON bots.meeting_id = meetings.id \
                   ORDER BY meetings.id";
        for row in self.rows(sql).await? {
            let id: i64 = row[0].as_deref().context("no id")?.parse()?;
            let status = row[1].clone().context("no status")?;
            ensure!(["completed", "failed"].contains(&&*status), "meeting {id} is {status}");
            ensure!(row[2].is_some(), "meeting {id} is {status} without an end");
            ensure!(row[3].is_some(), "the work after meeting {id} was not done");
            let steps = self.steps(id).await?;
            check_steps(&steps, &status).with_context(|| format!("meeting {id}: {steps:?}"))?;
            let has_begun = steps.iter().any(|step| step.to == "starting");
            ensure!(row[5].is_some() == has_begun, "meeting {id}: start {:?}", row[5]);
            let sessions = self.sessions(id).await?;
            let adopted = steps.first().is_some_and(|step| step.cause == "adopted");
            if has_begun && !adopted {
                let connection = row[4].clone().unwrap_or_default();
                ensure!(sessions == [connection], "meeting {id} has sessions {sessions:?}");
            }
        }
        self.expect_told_once().await
    }

    /// No event of a meeting's end was made twice.
    async fn expect_told_once(&self) -> Result<()> {
        let sql = "SELECT event_id, count(*) FROM webhook_events GROUP BY event_id \
                   HAVING count(*) > 1";
        let doubled = self.rows(sql).await?;
        ensure!(doubled.is_empty(), "events were made twice: {doubled:?}");
        Ok(())
    }
}

/// The log leads from nothing to `status` by allowed steps, and ends once.
fn check_steps(steps: &[Step], status: &str) -> Result<()> {
    let mut state: Option<String> = None;
    for step in steps {
        ensure!(step.from == state, "a gap before {step:?}");
        if let Some(from) = &step.from {
            let (from, to) = (BotStatus::parse(from)?, BotStatus::parse(&step.to)?);
            ensure!(may_follow(from, to), "an edge that does not exist: {step:?}");
        }
        state = Some(step.to.clone());
    }
    ensure!(state.as_deref() == Some(status), "the log ends in {state:?}, the row in {status}");
    Ok(())
}

fn sqlite_rows(connection: &rusqlite::Connection, sql: &str) -> Result<Vec<Row>> {
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |index| match row.get_ref(index)? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number.to_string())),
            ValueRef::Real(number) => Ok(Some(number.to_string())),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
            }
        };
        let row: rusqlite::Result<Row> = (0..columns).map(text).collect();
        found.push(row?);
    }
    Ok(found)
}

async fn postgres_rows(client: &tokio_postgres::Client, sql: &str) -> Result<Vec<Row>> {
    let messages = client.simple_query(sql).await?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|index| row.get(index).map(str::to_owned)).collect())
        }
        _ => None,
    });
    Ok(rows.collect())
}
