//! Where a measured server keeps what it knows: a fresh database for each measurement.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use tempfile::TempDir;

/// What is measured.
#[derive(Debug, Clone)]
pub enum Target {
    Sqlite { folder: PathBuf },
    Postgres { url: String },
}

impl Target {
    pub fn name(&self) -> &'static str {
        match self {
            Target::Sqlite { .. } => "SQLite",
            Target::Postgres { .. } => "PostgreSQL",
        }
    }
}

/// The place of one server and its database. Removed when dropped.
pub struct Place {
    folder: TempDir,
    postgres: Option<Postgres>,
    redis: Option<String>,
}

struct Postgres {
    config: tokio_postgres::Config,
    url: String,
}

impl Place {
    /// `name` is that of the measurement, and of its database.
    pub async fn open(target: &Target, redis: Option<String>, name: &str) -> anyhow::Result<Place> {
        let mut folder = tempfile::Builder::new();
        folder.prefix("bench-");
        match target {
            Target::Sqlite { folder: parent } => {
                Ok(Place { folder: folder.tempdir_in(parent)?, postgres: None, redis })
            }
            Target::Postgres { url } => {
                let postgres = Some(fresh_database(url, &format!("bench_{name}")).await?);
                Ok(Place { folder: folder.tempdir()?, postgres, redis })
            }
        }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub fn sqlite(&self) -> anyhow::Result<rusqlite::Connection> {
        let path: &Path = &self.data().join("roundsman.db");
        rusqlite::Connection::open(path).context("no database")
    }

    /// `None` for a place with SQLite.
    pub async fn postgres(&self) -> anyhow::Result<Option<tokio_postgres::Client>> {
        match &self.postgres {
            Some(postgres) => Ok(Some(connect(&postgres.config).await?)),
            None => Ok(None),
        }
    }

    /// The settings that lead the server here.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        let database = self.postgres.as_ref().map(|postgres| postgres.url.clone());
        variables.extend(database.map(|url| ("ROUNDSMAN_DATABASE_URL", url)));
        variables.extend(self.redis.clone().map(|url| ("ROUNDSMAN_REDIS_URL", url)));
        variables
    }
}

/// One connection of its own, driven by a task that ends with it.
async fn connect(config: &tokio_postgres::Config) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
    #[expect(clippy::disallowed_methods, reason = "ends when the client is dropped")]
    tokio::spawn(connection);
    Ok(client)
}

async fn fresh_database(url: &str, name: &str) -> anyhow::Result<Postgres> {
    let mut config = tokio_postgres::Config::from_str(url).context("--postgres is no URL")?;
    let client = connect(&config).await?;
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
    client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
    config.dbname(name);
    let server = url.rsplit_once('/').context("--postgres names no database")?.0;
    Ok(Postgres { config, url: format!("{server}/{name}") })
}
