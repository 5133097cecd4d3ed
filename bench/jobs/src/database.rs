//! A fresh database to measure on.

use std::path::{Path, PathBuf};
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

/// Where a fresh database is; a file goes with it.
pub(crate) enum Place {
    Sqlite { folder: TempDir },
    Postgres { config: Box<tokio_postgres::Config>, url: String },
}

impl Place {
    pub(crate) async fn make(target: &Target) -> anyhow::Result<Place> {
        match target {
            Target::Sqlite { folder } => {
                let folder = tempfile::Builder::new().prefix("bench-jobs-").tempdir_in(folder)?;
                Ok(Place::Sqlite { folder })
            }
            Target::Postgres { url } => {
                let (config, url) = fresh_database(url).await?;
                Ok(Place::Postgres { config: Box::new(config), url })
            }
        }
    }

    /// As another process finds it: a URL, or the path of a file.
    pub(crate) fn address(&self) -> String {
        match self {
            Place::Sqlite { folder } => file_in(folder).display().to_string(),
            Place::Postgres { url, .. } => url.clone(),
        }
    }

    /// A connection beside the store, if it is PostgreSQL.
    pub(crate) async fn postgres(&self) -> anyhow::Result<Option<tokio_postgres::Client>> {
        match self {
            Place::Sqlite { .. } => Ok(None),
            Place::Postgres { config, .. } => Ok(Some(connect(config).await?)),
        }
    }
}

fn file_in(folder: &TempDir) -> PathBuf {
    folder.path().join("bench.db")
}

/// An open store over a fresh database.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<DatabaseClock>,
    pub(crate) place: Place,
}

impl Bench {
    pub(crate) async fn open(target: &Target) -> anyhow::Result<Bench> {
        let place = Place::make(target).await?;
        let (store, clock) = open(&place.address()).await?;
        Ok(Bench { store, clock, place })
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// What an idle minute would have done: statistics and visibility after a bulk load.
    pub(crate) async fn settle_down(&self) -> anyhow::Result<()> {
        if let Some(client) = self.place.postgres().await? {
            client.batch_execute("VACUUM ANALYZE").await?;
        }
        Ok(())
    }

    /// Closes the store and leaves the database.
    pub(crate) async fn close(self) -> Place {
        self.store.close().await;
        self.place
    }
}

/// Opens the store at an address that [`Place::address`] gave.
pub(crate) async fn open(address: &str) -> anyhow::Result<(Arc<dyn Store>, Arc<DatabaseClock>)> {
    let catalog = support::catalog();
    let store: Arc<dyn Store> = if address.contains("://") {
        let options = PostgresOptions::new(tokio_postgres::Config::from_str(address)?);
        Arc::new(PostgresStore::connect(options, catalog).await?)
    } else {
        Arc::new(SqliteStore::open(&SqliteOptions::new(Path::new(address)), catalog)?)
    };
    let clock = Arc::new(DatabaseClock::start());
    clock.sync(store.as_ref()).await?;
    Ok((store, clock))
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

async fn fresh_database(url: &str) -> anyhow::Result<(tokio_postgres::Config, String)> {
    let mut config = tokio_postgres::Config::from_str(url).context("--postgres is no URL")?;
    let name = "bench_jobs";
    let client = connect(&config).await?;
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
    client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
    // What the one before has left behind is not written during this one.
    client.batch_execute("CHECKPOINT").await?;
    config.dbname(name);
    let server = url.rsplit_once('/').context("--postgres names no database")?.0;
    Ok((config, format!("{server}/{name}")))
}
