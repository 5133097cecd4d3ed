//! A fresh database to measure on, and live bots in it that nobody had to launch.

use bench_support::place::{Place, Target};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

use crate::Args;

/// Live bots to be filled in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    pub(crate) bots: usize,
    /// So many of them were last heard an hour ago.
    pub(crate) overdue: usize,
    /// The others will have been heard in so many hours: whoever sends no heartbeats is then not
    /// overdue however long a measurement takes.
    pub(crate) others_heard_in_hours: u32,
}

/// What the report calls a database.
pub(crate) fn name(target: &Target) -> &'static str {
    match target {
        Target::Sqlite { .. } => "SQLite (FULL)",
        Target::Postgres { .. } => "PostgreSQL",
    }
}

/// The place of one server. Only the one on PostgreSQL has a Redis.
pub(crate) async fn open(args: &Args, target: &Target) -> anyhow::Result<Place> {
    let redis = match target {
        Target::Sqlite { .. } => None,
        Target::Postgres { .. } => args.redis.clone(),
    };
    Place::open(target, redis, "bots").await
}

/// The name of the connection of a bot that was filled in; its meeting has its number.
pub(crate) fn connection_of(number: usize) -> String {
    format!("bench-{number}")
}

/// Fills in bots that are in their meetings, numbered from one, while no server runs.
pub(crate) async fn fill(place: &Place, fill: Fill) -> anyhow::Result<()> {
    match place.postgres().await? {
        Some(client) => fill_postgres(&client, fill).await,
        None => fill_sqlite(place.sqlite()?, fill),
    }
}

fn fill_sqlite(mut file: rusqlite::Connection, fill: Fill) -> anyhow::Result<()> {
    let now = DatabaseClock::start().now().as_micros();
    let hour = 3_600_000_000;
    let later = now + hour * i64::from(fill.others_heard_in_hours);
    let transaction = file.transaction()?;
    transaction.execute(
        "INSERT INTO users (email, max_concurrent_bots, data, created_at)
         VALUES ('bench@example.org', 10000, '{}', ?1)",
        [now],
    )?;
    let user = transaction.last_insert_rowid();
    for number in 1..=fill.bots {
        let id = i64::try_from(number)?;
        let (entered, heard) =
            if number <= fill.overdue { (now - hour, now - hour) } else { (now, later) };
        transaction
            .prepare_cached(
                "INSERT INTO meetings (id, user_id, platform, platform_specific_id, status,
                                       start_time, data, created_at, updated_at)
                 VALUES (?1, ?2, 'teams', ?3, 'active', ?4, '{}', ?4, ?4)",
            )?
            .execute((id, user, format!("{id:012}"), entered))?;
        transaction
            .prepare_cached(
                "INSERT INTO bots (meeting_id, user_id, connection_id, attempt, live,
                    was_active, beats, reserved_at, entered_at, heartbeat_at, missed,
                    config_version, config_applied, wish)
                 VALUES (?1, ?2, ?3, 1, 1, 1, 1, ?4, ?4, ?5, 0, 0, 0, '{}')",
            )?
            .execute((id, user, connection_of(number), entered, heard))?;
    }
    transaction.commit()?;
    Ok(())
}

async fn fill_postgres(client: &tokio_postgres::Client, fill: Fill) -> anyhow::Result<()> {
    let Fill { bots, overdue, others_heard_in_hours: hours } = fill;
    client
        .batch_execute(&format!(
            "INSERT INTO public.users (email, max_concurrent_bots)
             VALUES ('bench@example.org', 10000);
             INSERT INTO public.meetings (id, user_id, platform, platform_specific_id, status,
                                          start_time, created_at, updated_at)
             SELECT n, u.id, 'teams', lpad(n::text, 12, '0'), 'active', t.at, t.at, t.at
               FROM public.users u, generate_series(1, {bots}) n,
                    LATERAL (SELECT (now() AT TIME ZONE 'UTC') - CASE WHEN n <= {overdue}
                             THEN interval '1 hour' ELSE interval '0' END AS at) t;
             SELECT setval('public.meetings_id_seq', {bots});
             INSERT INTO roundsman.bots (meeting_id, user_id, connection_id, attempt, live,
                was_active, beats, reserved_at, entered_at, heartbeat_at, missed,
                config_version, config_applied, wish)
             SELECT id, user_id, 'bench-' || id, 1, true, true, true,
                    created_at AT TIME ZONE 'UTC', created_at AT TIME ZONE 'UTC',
                    now() + CASE WHEN id <= {overdue} THEN interval '-1 hour'
                            ELSE interval '{hours} hours' END,
                    0, 0, 0, '{{}}'
               FROM public.meetings;"
        ))
        .await?;
    client.batch_execute("VACUUM ANALYZE").await?;
    Ok(())
}
