//! riverqueue, taken through the same steps in the same order as ours: see `bench/jobs/src/peers.rs`
//! for what it is asked for and what it answers. Its settings are those of its own benchmark.

mod engine;
mod steps;

use std::io::Write;

use anyhow::Context;
use serde::Deserialize;

use engine::Engine;

/// What the only argument asks for.
#[derive(Debug, Clone, Deserialize)]
struct Task {
    /// A PostgreSQL URL, or the path of a file.
    database: String,
    /// Of a file: `FULL` or `NORMAL`.
    synchronous: String,
    /// So many jobs a second for so many seconds; otherwise how fast it is.
    rate: Option<u32>,
    secs: u32,
    warm_up: usize,
    jobs: usize,
    batch: usize,
    callers: usize,
    singles: usize,
    pickups: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let task = std::env::args().nth(1).context("usage: bench-jobs-river TASK_AS_JSON")?;
    let task: Task = serde_json::from_str(&task)?;
    let engine = Engine::open(&task.database, &task.synchronous).await?;
    let seen = match task.rate {
        Some(rate) => steps::steady(&engine, &task, rate).await?,
        None => steps::speed(&engine, &task).await?,
    };
    writeln!(std::io::stdout().lock(), "{seen}")?;
    Ok(())
}
