//! Video rooms with people in them, in a database whose server is not running. Whoever plays the
//! provider uses the same names, so that nothing differs before a measurement makes it.

use std::time::Duration;

use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

use crate::place::Place;

/// What the provider signs its events with, in the server and here.
pub const WEBHOOK_SECRET: &str = "YmVuY2gtd2ViaG9vay1zZWNyZXQtMDEyMzQ1Njc4OQ==";

/// Meetings began this long ago: longer than any answer is late, and not so long that one in which
/// nobody has been would be over.
const BEGAN_BEFORE: Duration = Duration::from_mins(10);

/// The room of a meeting.
pub fn room(meeting: i64) -> String {
    format!("bench-{meeting}")
}

/// Somebody in a meeting, in the form of the provider's ids.
pub fn session(meeting: i64, person: u16) -> String {
    format!("{meeting:08x}-0000-4000-8000-{person:012x}")
}

/// What they are called in every meeting.
pub fn person_name(person: u16) -> String {
    format!("guest-{person}")
}

/// Fills in open meetings of a user, numbered from one, with so many people in each, numbered from
/// zero.
pub async fn fill(place: &Place, user: i64, count: usize, people: u16) -> anyhow::Result<()> {
    match place.postgres().await? {
        Some(client) => fill_postgres(&client, user, count, people).await,
        None => fill_sqlite(place.sqlite()?, user, count, people),
    }
}

fn fill_sqlite(
    mut file: rusqlite::Connection,
    user: i64,
    count: usize,
    people: u16,
) -> anyhow::Result<()> {
    let began = (DatabaseClock::start().now() - BEGAN_BEFORE).as_micros();
    let first_came = (people > 0).then_some(began);
    let transaction = file.transaction()?;
    {
        let mut meetings = transaction.prepare(
            "INSERT INTO meetings (id, user_id, platform, platform_specific_id, status, start_time,
                                   data, created_at, updated_at)
             VALUES (?1, ?2, 'daily', ?3, 'open', ?4, '{}', ?5, ?5)",
        )?;
        let mut presence = transaction.prepare(
            "INSERT INTO presence (meeting_id, user_id, room, open, created_at, num_clients,
                                   look_no, failures)
             VALUES (?1, ?2, ?3, 1, ?4, ?5, 0, 0)",
        )?;
        let mut sessions = transaction.prepare(
            "INSERT INTO presence_sessions (meeting_id, session_id, user_id, user_name, joined_at)
             VALUES (?1, ?2, 'user-' || ?3, ?3, ?4)",
        )?;
        for id in 1..=i64::try_from(count)? {
            meetings.execute((id, user, room(id), first_came, began))?;
            presence.execute((id, user, room(id), began, people))?;
            for person in 0..people {
                sessions.execute((id, session(id, person), person_name(person), began))?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

async fn fill_postgres(
    client: &tokio_postgres::Client,
    user: i64,
    count: usize,
    people: u16,
) -> anyhow::Result<()> {
    let ago = format!("interval '{} seconds'", BEGAN_BEFORE.as_secs());
    client
        .batch_execute(&format!(
            "INSERT INTO public.meetings (id, user_id, platform, platform_specific_id, status,
                                          start_time, created_at, updated_at)
             SELECT n, {user}, 'daily', 'bench-' || n, 'open',
                    CASE WHEN {people} > 0 THEN t.at END, t.at, t.at
               FROM generate_series(1, {count}) n,
                    LATERAL (SELECT (now() AT TIME ZONE 'UTC') - {ago} AS at) t;
             SELECT setval('public.meetings_id_seq', {count});
             INSERT INTO roundsman.presence (meeting_id, user_id, room, open, created_at,
                                             num_clients, look_no, failures)
             SELECT n, {user}, 'bench-' || n, true, now() - {ago}, {people}, 0, 0
               FROM generate_series(1, {count}) n;
             INSERT INTO roundsman.presence_sessions (meeting_id, session_id, user_id, user_name,
                                                      joined_at)
             SELECT n, lpad(to_hex(n), 8, '0') || '-0000-4000-8000-' || lpad(to_hex(p), 12, '0'),
                    'user-guest-' || p, 'guest-' || p, now() - {ago}
               FROM generate_series(1, {count}) n, generate_series(0, {people} - 1) p;"
        ))
        .await?;
    client.batch_execute("VACUUM ANALYZE").await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_form_of_the_providers() {
        assert_eq!(session(10_000, 17), "00002710-0000-4000-8000-000000000011");
        assert_eq!(session(1, 0).len(), 36);
    }
}
