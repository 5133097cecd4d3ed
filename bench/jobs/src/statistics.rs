//! What the database says about the work it was given.

use std::time::Duration;

use anyhow::Context;
use bench_support::pause;
use tokio::sync::watch;
use tokio_postgres::Client;

/// How often rows that are dead are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Bytes written so far: to PostgreSQL's log, or, with the embedded database, by this process.
pub(crate) async fn bytes_written(client: Option<&Client>) -> anyhow::Result<f64> {
    let Some(client) = client else { return own_writes() };
    let row = client
        .query_one("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8", &[])
        .await?;
    Ok(row.try_get(0)?)
}

/// What this process has handed to the kernel to be written.
fn own_writes() -> anyhow::Result<f64> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).context("no wchar")?;
    Ok(line.parse()?)
}

/// Rows of all tables that are dead and not yet vacuumed, as far as the statistics know.
pub(crate) async fn dead_rows(client: &Client) -> anyhow::Result<f64> {
    let row = client
        .query_one("SELECT coalesce(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables", &[])
        .await?;
    Ok(row.try_get(0)?)
}

/// Looks at dead rows until told to stop, and returns the most that were seen and the last.
pub(crate) async fn watch_dead_rows(
    client: Option<Client>,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<(f64, f64)> {
    let Some(client) = client else { return Ok((f64::NAN, f64::NAN)) };
    let mut most = 0.0_f64;
    loop {
        let last = dead_rows(&client).await?;
        most = most.max(last);
        if *stop.borrow() {
            return Ok((most, last));
        }
        tokio::select! {
            () = pause(LOOK_EVERY) => {}
            // Whoever watches is gone: that is the end, too.
            changed = stop.changed() => if changed.is_err() { return Ok((most, last)) },
        }
    }
}
