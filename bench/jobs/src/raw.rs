//! The yardstick: claim and complete in batches with bare statements on one table, without fence,
//! history, retries or anything else that makes a job engine.

use bench_support::per_second;
use roundsman_core::ports::Clock;

use crate::database::{Bench, Place, connect};

/// Jobs per claim and per completion.
const BATCH: usize = 1_000;

/// Jobs per second.
pub(crate) async fn drain(bench: &Bench, jobs: usize) -> anyhow::Result<f64> {
    match &bench.place {
        Place::Sqlite { folder } => sqlite(bench, &folder.path().join("raw.db"), jobs),
        Place::Postgres { config, .. } => postgres(bench, config, jobs).await,
    }
}

fn sqlite(bench: &Bench, path: &std::path::Path, jobs: usize) -> anyhow::Result<f64> {
    let mut db = rusqlite::Connection::open(path)?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE raw_jobs (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, payload TEXT NOT NULL);
         CREATE INDEX raw_ready ON raw_jobs (id) WHERE state = 0;",
    )?;
    let fill = db.transaction()?;
    for n in 0..jobs {
        fill.prepare_cached("INSERT INTO raw_jobs (id, state, payload) VALUES (?1, 0, ?2)")?
            .execute((i64::try_from(n)? + 1, format!("{{\"n\":{n}}}")))?;
    }
    fill.commit()?;
    let started = bench.clock.monotonic();
    loop {
        let claim = db.transaction()?;
        let ids: Vec<i64> = claim
            .prepare_cached(
                "UPDATE raw_jobs SET state = 1 WHERE id IN
                 (SELECT id FROM raw_jobs WHERE state = 0 ORDER BY id LIMIT ?1) RETURNING id",
            )?
            .query_map([i64::try_from(BATCH)?], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        claim.commit()?;
        if ids.is_empty() {
            break;
        }
        let complete = db.transaction()?;
        for id in ids {
            complete
                .prepare_cached("UPDATE raw_jobs SET state = 2 WHERE id = ?1")?
                .execute([id])?;
        }
        complete.commit()?;
    }
    Ok(per_second(jobs, bench.clock.monotonic().saturating_sub(started)))
}

async fn postgres(
    bench: &Bench,
    config: &tokio_postgres::Config,
    jobs: usize,
) -> anyhow::Result<f64> {
    let client = connect(config).await?;
    client
        .batch_execute(&format!(
            "CREATE TABLE raw_jobs (id bigint PRIMARY KEY, state smallint NOT NULL, payload text NOT NULL);
             CREATE INDEX raw_ready ON raw_jobs (id) WHERE state = 0;
             INSERT INTO raw_jobs SELECT n, 0, '{{\"n\":' || n || '}}' FROM generate_series(1, {jobs}) n;
             ANALYZE raw_jobs;",
        ))
        .await?;
    let claim = client
        .prepare(&format!(
            "WITH c AS MATERIALIZED (SELECT id FROM raw_jobs WHERE state = 0 ORDER BY id
             LIMIT {BATCH} FOR UPDATE SKIP LOCKED)
             UPDATE raw_jobs j SET state = 1 FROM c WHERE j.id = c.id RETURNING j.id, j.payload",
        ))
        .await?;
    let complete =
        client.prepare("UPDATE raw_jobs SET state = 2 WHERE id = ANY($1) AND state = 1").await?;
    let started = bench.clock.monotonic();
    loop {
        let rows = client.query(&claim, &[]).await?;
        if rows.is_empty() {
            break;
        }
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        client.execute(&complete, &[&ids]).await?;
    }
    let rate = per_second(jobs, bench.clock.monotonic().saturating_sub(started));
    client.batch_execute("DROP TABLE raw_jobs").await?;
    Ok(rate)
}
