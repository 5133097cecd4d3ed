//! PostgreSQL's own programs for copies, which know everything that a database can hold.
//!
//! Invariant: a password is handed over in the environment, where other users cannot see it.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use tokio::process::Command;
use tokio_postgres::config::Host;

use crate::node::postgres_config;

pub(super) async fn dump(url: &str, into: &Path) -> anyhow::Result<()> {
    ensure!(!into.exists(), "{} exists already", into.display());
    let mut command = tool("pg_dump", url)?;
    command.args(["--format=custom", "--no-owner", "--file"]).arg(into);
    run(command, "pg_dump").await.map(drop).inspect_err(|_| {
        // Half a copy is worse than none.
        let _ = std::fs::remove_file(into);
    })
}

pub(super) async fn restore(url: &str, from: &Path) -> anyhow::Result<()> {
    let mut command = tool("pg_restore", url)?;
    let database = postgres_config(url)?.get_dbname().unwrap_or("postgres").to_owned();
    command.args(["--no-owner", "--exit-on-error", "--single-transaction", "--dbname"]);
    command.arg(database).arg(from);
    run(command, "pg_restore").await.map(drop)
}

/// The tables whose rows a copy has.
pub(super) async fn contents(of: &Path) -> anyhow::Result<Vec<String>> {
    let mut command = Command::new("pg_restore");
    command.arg("--list").arg(of);
    let list = run(command, "pg_restore").await?;
    let data = list.lines().filter_map(|line| line.split_once(" TABLE DATA ").map(|(_, of)| of));
    let tables: Vec<String> =
        data.map(|of| of.split(' ').take(2).collect::<Vec<_>>().join(".")).collect();
    ensure!(!tables.is_empty(), "{} holds no tables", of.display());
    Ok(tables)
}

fn tool(program: &str, url: &str) -> anyhow::Result<Command> {
    let config = postgres_config(url)?;
    let mut command = Command::new(program);
    match config.get_hosts().first() {
        Some(Host::Tcp(name)) => command.env("PGHOST", name),
        Some(Host::Unix(folder)) => command.env("PGHOST", folder),
        None => &mut command,
    };
    if let Some(port) = config.get_ports().first() {
        command.env("PGPORT", port.to_string());
    }
    if let Some(user) = config.get_user() {
        command.env("PGUSER", user);
    }
    if let Some(password) = config.get_password() {
        command.env("PGPASSWORD", String::from_utf8_lossy(password).as_ref());
    }
    command.env("PGDATABASE", config.get_dbname().unwrap_or("postgres"));
    Ok(command)
}

async fn run(mut command: Command, name: &str) -> anyhow::Result<String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.with_context(|| {
        format!("cannot run {name}: install PostgreSQL's client programs (postgresql-client)")
    })?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = errors.lines().rev().take(3).collect();
        bail!("{name} failed: {}", last.into_iter().rev().collect::<Vec<_>>().join(" "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
