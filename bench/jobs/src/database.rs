//! A fresh database to measure on.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use roundsman_core::ports::{Clock, Store};
use roundsman_engine::clock::DatabaseClock;
use roundsman_store::postgres::{PostgresOptions, PostgresStore};
use roundsman_store::sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

use crate::support;

/// What is measured.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Sqlite { folder: PathBuf },
    Postgres { url: String },
}

impl Target {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Target::Sqlite { .. } => "SQLite (FULL)",
            Target::Postgres { .. } => "PostgreSQL",
        }
    }
}

/// An open store over a fresh database.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<DatabaseClock>,
    /// Where raw statements go.
    pub(crate) raw: RawAccess,
}

/// The same database without the store.
pub(crate) enum RawAccess {
    Sqlite { folder: TempDir },
    Postgres { config: Box<tokio_postgres::Config> },
}

impl Bench {
    pub(crate) async fn open(target: &Target) -> anyhow::Result<Bench> {
        let catalog = support::catalog();
        let (store, raw): (Arc<dyn Store>, RawAccess) = match target {
            Target::Sqlite { folder } => {
                let folder = tempfile::Builder::new().prefix("bench-jobs-").tempdir_in(folder)?;
                let options = SqliteOptions::new(folder.path().join("bench.db"));
                (Arc::new(SqliteStore::open(&options, catalog)?), RawAccess::Sqlite { folder })
            }
            Target::Postgres { url } => {
                let config = fresh_database(url).await?;
                let options = PostgresOptions::new(config.clone());
                let store = PostgresStore::connect(options, catalog).await?;
                (Arc::new(store), RawAccess::Postgres { config: Box::new(config) })
            }
        };
        let clock = Arc::new(DatabaseClock::start());
        clock.sync(store.as_ref()).await?;
        Ok(Bench { store, clock, raw })
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// What an idle minute would have done: statistics and visibility after a bulk load.
    pub(crate) async fn settle_down(&self) -> anyhow::Result<()> {
        if let RawAccess::Postgres { config } = &self.raw {
            connect(config).await?.batch_execute("VACUUM ANALYZE").await?;
        }
        Ok(())
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.store.close().await;
        Ok(())
    }
}

/// One connection of its own, driven by a task that ends with it.
pub(crate) async fn connect(
    config: &tokio_postgres::Config,
) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
    #[expect(clippy::disallowed_methods, reason = "ends when the client is dropped")]
    tokio::spawn(connection);
    Ok(client)
}

async fn fresh_database(url: &str) -> anyhow::Result<tokio_postgres::Config> {
    let mut config = tokio_postgres::Config::from_str(url).context("--postgres is no URL")?;
    let name = "bench_jobs";
    let client = connect(&config).await?;
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
    client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
    config.dbname(name);
    Ok(config)
}
