//! Meetings that are going on, in a database whose server is not running, and the tokens that
//! producers of their transcripts have.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingGrant, MeetingId, MeetingTokens};
use roundsman_core::ports::Clock;
use roundsman_core::users::UserId;
use roundsman_engine::clock::DatabaseClock;

use crate::place::Place;
use crate::server::SECRET;

/// Nobody is overdue before this, however long a measurement takes.
const HEARD_IN: Duration = Duration::from_secs(24 * 3600);
const TOKEN_FOR: Duration = Duration::from_secs(7200);

/// A meeting's id on its platform.
pub fn native_id(meeting: i64) -> String {
    format!("{meeting:012}")
}

/// Fills in meetings of a user, numbered from one, each with a bot in it.
pub async fn fill(place: &Place, user: i64, count: usize) -> anyhow::Result<()> {
    match place.postgres().await? {
        Some(client) => fill_postgres(&client, user, count).await,
        None => fill_sqlite(place.sqlite()?, user, count),
    }
}

fn fill_sqlite(mut file: rusqlite::Connection, user: i64, count: usize) -> anyhow::Result<()> {
    let now = DatabaseClock::start().now().as_micros();
    let heard = now + i64::try_from(HEARD_IN.as_micros())?;
    let transaction = file.transaction()?;
    for id in 1..=i64::try_from(count)? {
        transaction.execute(
            "INSERT INTO meetings (id, user_id, platform, platform_specific_id, status, start_time,
                                   data, created_at, updated_at)
             VALUES (?1, ?2, 'teams', ?3, 'active', ?4, '{}', ?4, ?4)",
            (id, user, native_id(id), now),
        )?;
        transaction.execute(
            "INSERT INTO bots (meeting_id, user_id, connection_id, attempt, live, was_active, beats,
                reserved_at, entered_at, heartbeat_at, missed, config_version, config_applied, wish)
             VALUES (?1, ?2, ?3, 1, 1, 1, 1, ?4, ?4, ?5, 0, 0, 0, '{}')",
            (id, user, format!("bench-{id}"), now, heard),
        )?;
    }
    transaction.commit()?;
    Ok(())
}

async fn fill_postgres(
    client: &tokio_postgres::Client,
    user: i64,
    count: usize,
) -> anyhow::Result<()> {
    let hours = HEARD_IN.as_secs() / 3600;
    client
        .batch_execute(&format!(
            "INSERT INTO public.meetings (id, user_id, platform, platform_specific_id, status,
                                          start_time, created_at, updated_at)
             SELECT n, {user}, 'teams', lpad(n::text, 12, '0'), 'active', t.at, t.at, t.at
               FROM generate_series(1, {count}) n,
                    LATERAL (SELECT now() AT TIME ZONE 'UTC' AS at) t;
             SELECT setval('public.meetings_id_seq', {count});
             INSERT INTO roundsman.bots (meeting_id, user_id, connection_id, attempt, live,
                was_active, beats, reserved_at, entered_at, heartbeat_at, missed,
                config_version, config_applied, wish)
             SELECT id, user_id, 'bench-' || id, 1, true, true, true, now(), now(),
                    now() + interval '{hours} hours', 0, 0, 0, '{{}}'
               FROM public.meetings;"
        ))
        .await?;
    client.batch_execute("VACUUM ANALYZE").await?;
    Ok(())
}

/// What a producer of this meeting's transcript shows.
pub fn token(user: i64, meeting: i64) -> String {
    let now = DatabaseClock::start().now();
    let lasts = i64::try_from(TOKEN_FOR.as_micros()).unwrap_or(i64::MAX);
    let until = Timestamp::from_micros(now.as_micros().saturating_add(lasts));
    let grant = MeetingGrant {
        meeting_id: MeetingId::new(meeting),
        user_id: UserId::new(user),
        platform: "teams".to_owned(),
        native_meeting_id: native_id(meeting),
    };
    MeetingTokens::new(SECRET.as_bytes()).sign(&grant, now, until, &format!("bench-{meeting}"))
}
