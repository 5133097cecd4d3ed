//! `roundsman restore`: puts a copy in the place of the database. No server may run.

use std::sync::Arc;

use anyhow::{Context, ensure};
use roundsman_core::ports::{Database, EffectStore};
use roundsman_store::postgres::upkeep::is_in_use;
use roundsman_store::sqlite::upkeep;
use secrecy::ExposeSecret;
use serde_json::json;

use super::backup::{as_json, summary};
use super::check::first_of;
use super::{postgres_tools, tell};
use crate::cli::RestoreArgs;
use crate::config::{Config, DatabaseTarget};
use crate::node::{catalog, open_postgres, postgres_config};

pub(crate) async fn run(config: Config, args: RestoreArgs) -> anyhow::Result<()> {
    match &config.database.target {
        DatabaseTarget::Sqlite(path) => embedded(path.clone(), args).await,
        DatabaseTarget::Postgres(url) => {
            let url = url.expose_secret().to_owned();
            postgres(&config, &url, &args).await
        }
    }
}

async fn embedded(database: std::path::PathBuf, args: RestoreArgs) -> anyhow::Result<()> {
    let file = args.file.clone();
    if args.dry_run {
        let report = tokio::task::spawn_blocking(move || upkeep::verify(&file)).await??;
        let (json, text) = (as_json(&args.file, &report), summary(&report));
        tell(args.json, &json, &format!("{text}: {} findings", report.violations.len()))?;
        ensure!(report.is_sound(), "{}", first_of(&report.violations));
        return Ok(());
    }
    let is_checked = args.verify;
    let target = database.clone();
    let restored =
        tokio::task::spawn_blocking(move || upkeep::restore(&file, &target, is_checked)).await?;
    let (report, kept) = restored?;
    let mut json = as_json(&args.file, &report);
    json["restored_to"] = json!(database);
    json["kept_as"] = json!(kept);
    let mut text = format!("{} restored: {}", database.display(), summary(&report));
    if let Some(kept) = kept {
        text = format!("{text}\nwhat was there before is {}", kept.display());
    }
    tell(args.json, &json, &text)
}

/// Into an empty database alone: what is there cannot be kept beside it, as a file can.
async fn postgres(config: &Config, url: &str, args: &RestoreArgs) -> anyhow::Result<()> {
    if args.dry_run {
        let tables = postgres_tools::contents(&args.file).await?;
        let json = json!({"file": args.file, "tables": tables, "database": "postgresql"});
        return tell(args.json, &json, &format!("{} tables with their data", tables.len()));
    }
    let in_use = is_in_use(&postgres_config(url)?).await?;
    ensure!(!in_use, "the database has a schema `roundsman` already: restore into an empty one");
    postgres_tools::restore(url, &args.file).await?;
    let store = open_postgres(config, url, Arc::new(catalog(config))).await;
    let store = store.context("the copy was restored, and cannot be opened")?;
    store.advance_leases().await?;
    let violations = if args.verify { store.check().await? } else { Vec::new() };
    let description = store.describe();
    store.close().await;
    let json = json!({
        "file": args.file,
        "restored_to": description,
        "findings": violations.len(),
    });
    tell(args.json, &json, &format!("{description}: restored, {} findings", violations.len()))?;
    ensure!(violations.is_empty(), "{}", first_of(&violations));
    Ok(())
}
