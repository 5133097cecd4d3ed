//! The record, looked at from outside: which changes it has. The server is not asked, so that it has
//! nothing to do but what is measured.

use bench_support::place::Place;

use crate::churn::{Change, What};

pub(crate) enum Record {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Record {
    pub(crate) async fn open(place: &Place) -> anyhow::Result<Record> {
        Ok(match place.postgres().await? {
            Some(client) => Record::Postgres(client),
            None => Record::Sqlite(place.sqlite()?),
        })
    }

    /// For each change whether it is there.
    pub(crate) async fn has(&self, changes: &[Change]) -> anyhow::Result<Vec<bool>> {
        let is_open = match self {
            Record::Sqlite(file) => open_in_sqlite(file, changes)?,
            Record::Postgres(client) => open_in_postgres(client, changes).await?,
        };
        let is_there = |(change, is_open): (&Change, Option<bool>)| match change.what {
            What::Comes => is_open == Some(true),
            What::Goes => is_open == Some(false),
        };
        Ok(changes.iter().zip(is_open).map(is_there).collect())
    }
}

/// For each change whether its session is open; `None` if it is not known.
fn open_in_sqlite(
    file: &rusqlite::Connection,
    changes: &[Change],
) -> anyhow::Result<Vec<Option<bool>>> {
    let mut statement = file.prepare_cached(
        "SELECT left_at IS NULL FROM presence_sessions WHERE meeting_id = ?1 AND session_id = ?2",
    )?;
    let mut found = Vec::with_capacity(changes.len());
    for change in changes {
        let mut rows = statement.query((change.meeting, &change.session))?;
        found.push(rows.next()?.map(|row| row.get(0)).transpose()?);
    }
    Ok(found)
}

async fn open_in_postgres(
    client: &tokio_postgres::Client,
    changes: &[Change],
) -> anyhow::Result<Vec<Option<bool>>> {
    let meetings: Vec<i64> = changes.iter().map(|change| change.meeting).collect();
    let sessions: Vec<&str> = changes.iter().map(|change| change.session.as_str()).collect();
    let rows = client
        .query(
            "SELECT (SELECT left_at IS NULL FROM roundsman.presence_sessions s
                      WHERE s.meeting_id = w.meeting_id AND s.session_id = w.session_id)
               FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY
                    AS w(meeting_id, session_id, place)
              ORDER BY place",
            &[&meetings, &sessions],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
