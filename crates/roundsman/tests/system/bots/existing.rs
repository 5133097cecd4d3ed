//! A database that another program made: its keys work, its meetings end, and none of its columns
//! is changed. (The tables and words are those of Vexa's first releases.)

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::postgres::VEXA_SCHEMA;
use roundsman_testkit::{TestDatabase, eventually};
use serde_json::json;

use super::place::BotSite;
use super::user::{User, end_reason, native_id};
use crate::site::SOON;

/// A key as such a database keeps it: forty letters and digits.
const KEY: &str = "Zq3vTn8LwYb5Xc1Rk7Hd0Jm2Pf9Gs6Ae4Uo1Vi8x";

/// What such a database looks like in the middle of its work.
const ROWS: &str = "
    INSERT INTO users (email, name, max_concurrent_bots, data)
        VALUES ('ada@example.org', 'Ada', 4, '{\"kept\": [1, 2]}');
    INSERT INTO meetings (user_id, platform, platform_specific_id, status, data, created_at)
    VALUES
        (1, 'google_meet', 'old-aaaa-old', 'completed', '{\"name\": \"Done\"}', now() - interval '9 days'),
        (1, 'google_meet', 'old-bbbb-old', 'error', '{}', now() - interval '8 days'),
        (1, 'google_meet', 'old-cccc-old', 'requested', '{}', now() - interval '1 day'),
        (1, 'teams', '1234567890', 'active', '{\"name\": \"Live\"}', now() - interval '1 hour'),
        (1, 'google_meet', 'old-dddd-old', 'awaiting_admission', '{}', now() - interval '1 hour');
    UPDATE meetings SET bot_container_id = 'deadbeef', start_time = now() - interval '1 hour'
        WHERE id = 4;
    UPDATE meetings SET end_time = now() - interval '8 days' WHERE id IN (1, 2);
    INSERT INTO meeting_sessions (meeting_id, session_uid) VALUES (1, 'session-1'), (4, 'session-4');
    INSERT INTO transcriptions (meeting_id, start_time, end_time, text, speaker, language, session_uid)
    VALUES (1, 0.5, 1.5, 'Hello', 'Ada', 'en', 'session-1'),
           (4, 0.5, 2.5, 'Still here', 'Grace', 'en', 'session-4');";

/// Everything about the tables that belongs to them, in one text.
const SHAPE: &str = "
    SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
        SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable,
                      column_default) AS line
          FROM information_schema.columns WHERE table_schema = 'public'
        UNION ALL
        SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL
        SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid))
          FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    ) AS lines";

/// The rows that are over, as they were.
const OVER: &str = "
    SELECT (SELECT string_agg(to_jsonb(m)::text, E'\\n' ORDER BY id) FROM meetings m WHERE id <= 2)
        || (SELECT string_agg(to_jsonb(t)::text, E'\\n' ORDER BY id) FROM transcriptions t)
        || (SELECT string_agg(to_jsonb(k)::text, E'\\n' ORDER BY id) FROM api_tokens k)";

#[tokio::test]
async fn a_database_of_another_program_is_worked_on_as_it_is() {
    async fn run() -> Result<()> {
        let database = TestDatabase::create().await?;
        let client = database.connect().await?;
        // Names are shown without their schema only where no other comes first.
        client.batch_execute("SET search_path = public").await?;
        client.batch_execute(VEXA_SCHEMA).await?;
        client.batch_execute(ROWS).await?;
        let key = format!("INSERT INTO api_tokens (token, user_id) VALUES ('{KEY}', 1)");
        client.batch_execute(&key).await?;
        let look = async |sql: &str| -> Result<String> {
            Ok(client.query_one(sql, &[]).await?.get::<_, Option<String>>(0).unwrap_or_default())
        };
        let (shape, over) = (look(SHAPE).await?, look(OVER).await?);
        ensure!(shape.contains("meetings.status"), "{shape}");

        let site = BotSite::on(database).await?;
        site.site.keep_secret(KEY);
        let options = site.options().env("ROUNDSMAN_BOTS_RESERVED_SECS_MAX", "3");
        let options = options.env("ROUNDSMAN_BOTS_STARTING_SECS_MAX", "3");
        let mut node = site.site.start(options).await?;
        let user = User::new(&site.base_url(), 1, KEY)?;
        the_live_ones_end(&user).await?;
        works_on(&user).await?;
        site.wait_no_process().await?;

        expect_same(&shape, &look(SHAPE).await?).context("the tables were changed")?;
        expect_same(&over, &look(OVER).await?).context("rows that were over were changed")?;
        let data = look("SELECT data::text FROM users WHERE id = 1").await?;
        ensure!(data.contains("kept"), "{data}");
        ends_soundly(&site, &mut node).await
    }
    run().await.unwrap();
}

fn expect_same(before: &str, after: &str) -> Result<()> {
    let lost: Vec<_> = before.lines().filter(|line| !after.contains(line)).collect();
    let new: Vec<_> = after.lines().filter(|line| !before.contains(line)).collect();
    ensure!(lost.is_empty() && new.is_empty(), "lost {lost:?}, new {new:?}");
    Ok(())
}

/// What was live when the other program ended is not live any more, and its slots are free.
async fn the_live_ones_end(user: &User) -> Result<()> {
    let expected = [
        (1, "completed", "completed"),
        (2, "failed", "failed"),
        (3, "failed", "never_started"),
        (4, "failed", ""),
        (5, "failed", "join_timeout"),
    ];
    for (id, state, reason) in expected {
        let limit = SOON + Duration::from_secs(10);
        let over = user.wait_for(id, state, limit).await?;
        if id > 2 {
            ensure!(over["end_time"].is_string(), "{over}");
            ensure!(reason.is_empty() || end_reason(&over) == reason, "{over}");
        }
    }
    let names: Vec<_> = user.meetings().await?.iter().map(|m| m["data"]["name"].clone()).collect();
    ensure!(names.contains(&json!("Live")) && names.contains(&json!("Done")), "{names:?}");
    let live = eventually(SOON, async || {
        let page = user.client.get("/bots/status").await.ok()?;
        page.body["running_bots"].as_array()?.is_empty().then_some(())
    });
    live.await.context("bots of another program are still shown")
}

/// The key that was there starts and ends a bot of ours.
async fn works_on(user: &User) -> Result<()> {
    let id = user.start("normal", 1).await?;
    ensure!(id == 6, "the numbers go on: {id}");
    user.wait_for(id, "active", SOON).await?;
    let path = format!("/bots/google_meet/{}", native_id(1));
    user.client.delete(&path).await?.expect_status(202)?;
    user.wait_for(id, "completed", SOON).await?;
    Ok(())
}

async fn ends_soundly(site: &BotSite, node: &mut crate::site::Node) -> Result<()> {
    node.stop().await?;
    let stored = site.site.stored().await?;
    ensure!(stored.violations.is_empty(), "the store: {:?}", stored.violations);
    let books = site.books().await?;
    let live = "SELECT count(*) FROM meetings WHERE status NOT IN ('completed', 'failed', 'error')";
    ensure!(books.value(live).await?.as_deref() == Some("0"), "something is still live");
    let kept = "SELECT status FROM meetings WHERE id = 2";
    ensure!(books.value(kept).await?.as_deref() == Some("error"), "an old word was rewritten");
    for id in 3..=5 {
        let steps = books.steps(id).await?;
        let first = steps.first().with_context(|| format!("meeting {id} has no log"))?;
        ensure!(first.cause == "adopted" && first.from.is_none(), "{steps:?}");
    }
    Ok(())
}
