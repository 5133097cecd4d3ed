//! Opens the configured database.

use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::Store;
use roundsman_store::postgres::{PostgresOptions, PostgresStore, ProcessLock};
use roundsman_store::sqlite::{self, SqliteOptions, SqliteStore};
use secrecy::ExposeSecret;

use crate::config::{Config, DatabaseTarget, Durability};

/// What the database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// A server: an embedded database is then its alone.
    Server,
    /// A command that does one thing and may run beside a server.
    Tool,
}

/// Opens the database and brings its schema up to date.
pub(crate) async fn open_store(
    config: &Config,
    catalog: Arc<KindCatalog>,
    access: Access,
) -> anyhow::Result<Arc<dyn Store>> {
    let database = &config.database;
    match &database.target {
        DatabaseTarget::Sqlite(path) => {
            let options = SqliteOptions {
                readers: database.readers,
                durability: match database.durability {
                    Durability::Full => sqlite::Durability::Full,
                    Durability::Relaxed => sqlite::Durability::Relaxed,
                },
                beside_a_server: access == Access::Tool,
                ..SqliteOptions::new(path)
            };
            let store = SqliteStore::open(&options, catalog)
                .with_context(|| format!("cannot open the database {}", path.display()))?;
            Ok(Arc::new(store))
        }
        DatabaseTarget::Postgres(url) => {
            Ok(Arc::new(open_postgres(config, url.expose_secret(), catalog).await?))
        }
    }
}

/// For what only PostgreSQL can be asked; everybody else takes any [`Store`].
pub(crate) async fn open_postgres(
    config: &Config,
    url: &str,
    catalog: Arc<KindCatalog>,
) -> anyhow::Result<PostgresStore> {
    let database = &config.database;
    let options = PostgresOptions {
        pool_max: database.pool_max,
        connect_timeout: database.connect_max,
        wait_timeout: database.connect_max,
        statement_timeout: database.statement_max,
        // A call may be several statements, and its answer may be lost on the way.
        call_timeout: database.statement_max + database.connect_max,
        process_lock: if database.process_lock { ProcessLock::Held } else { ProcessLock::Off },
        ..PostgresOptions::new(postgres_config(url)?)
    };
    PostgresStore::connect(options, catalog).await.context("cannot open the PostgreSQL database")
}

/// The URL may hold a password, so an error must not repeat it.
pub(crate) fn postgres_config(url: &str) -> anyhow::Result<tokio_postgres::Config> {
    tokio_postgres::Config::from_str(url)
        .map_err(|_| anyhow::anyhow!("database.url is not a valid PostgreSQL URL"))
}
