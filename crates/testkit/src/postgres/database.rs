//! Fresh databases on a shared server, one per test.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use tokio_util::task::TaskTracker;

use crate::env;

/// The advisory lock under which templates are made ("rtmp" in ASCII).
const TEMPLATE_LOCK: i64 = 0x7274_6d70;

/// Copies files, and not their pages through the log: on a server that keeps nothing on disk that is
/// several times as fast. Before PostgreSQL 15 there was no other way, and no word for it.
const STRATEGY: &str = "SELECT CASE WHEN current_setting('server_version_num')::integer >= 150000
                             THEN ' STRATEGY FILE_COPY' ELSE '' END";

/// A database that nobody else uses. Dropped, with its connections, when this is.
#[derive(Debug)]
pub struct TestDatabase {
    server_url: String,
    name: String,
}

impl TestDatabase {
    /// An empty database on the shared server.
    pub async fn create() -> Result<Self> {
        Self::create_on(&env::postgres_url()?).await
    }

    /// An empty database on the server that `server_url` leads to.
    pub async fn create_on(server_url: &str) -> Result<Self> {
        Self::clone_of(server_url, "template0").await
    }

    /// A copy of the template called `name` on the shared server. The first to ask, in whichever
    /// process, makes the template by calling `prepare` with the URL of an empty database.
    ///
    /// The name must say what is in it, with a hash of the migrations for example: a template is
    /// made once in the life of the server.
    pub async fn from_template<F>(name: &str, prepare: F) -> Result<Self>
    where
        F: AsyncFnOnce(&str) -> Result<()>,
    {
        let server_url = env::postgres_url()?;
        let server = connect(&server_url).await?;
        // Nearly always it is there, and nobody has to wait for anybody.
        if !exists(&server, name).await? {
            ensure_template(&server_url, name, prepare).await?;
        }
        Self::clone_with(&server, &server_url, name).await
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn url(&self) -> String {
        with_database(&self.server_url, &self.name)
    }

    /// A connection of the test's own, beside those of the program that is tested.
    pub async fn connect(&self) -> Result<Client> {
        connect(&self.url()).await
    }

    /// Ends every connection to this database from the server's side; returns how many.
    pub async fn terminate_backends(&self) -> Result<usize> {
        let server = connect(&self.server_url).await?;
        terminate_backends(&server, &self.name).await
    }

    async fn clone_of(server_url: &str, template: &str) -> Result<Self> {
        Self::clone_with(&connect(server_url).await?, server_url, template).await
    }

    async fn clone_with(server: &Client, server_url: &str, template: &str) -> Result<Self> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        let strategy: String = server.query_one(STRATEGY, &[]).await?.get(0);
        let create = format!("CREATE DATABASE {name} TEMPLATE \"{template}\"{strategy}");
        let mut created = server.batch_execute(&create).await;
        if let Err(error) = &created
            && error.code() == Some(&SqlState::DUPLICATE_DATABASE)
        {
            // A killed process of the same number has left one behind.
            server.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
            created = server.batch_execute(&create).await;
        }
        created.with_context(|| format!("cannot make a database from {template}"))?;
        Ok(TestDatabase { server_url: server_url.to_owned(), name })
    }
}

impl Drop for TestDatabase {
    /// Needs a runtime, and the test's own may be the one that is blocked in here: a thread with
    /// another one does it. Waits, because a test process ends right after its last drop.
    fn drop(&mut self) {
        let server_url = std::mem::take(&mut self.server_url);
        let drop_database = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let work = move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                connect(&server_url).await?.batch_execute(&drop_database).await?;
                Ok(())
            })
        };
        // A server that is down, as some tests leave theirs, takes the database with it.
        let _ = std::thread::spawn(work).join();
    }
}

/// Builds under another name and renames at the end: what carries the name is complete, even when
/// the process that made it was killed.
async fn ensure_template<F>(server_url: &str, name: &str, prepare: F) -> Result<()>
where
    F: AsyncFnOnce(&str) -> Result<()>,
{
    let server = connect(server_url).await?;
    // Held until this connection closes, so that others wait for the template instead of making it.
    server.execute("SELECT pg_advisory_lock($1)", &[&TEMPLATE_LOCK]).await?;
    if exists(&server, name).await? {
        return Ok(());
    }
    let draft = format!("{name}_draft");
    server.batch_execute(&format!("DROP DATABASE IF EXISTS \"{draft}\" WITH (FORCE)")).await?;
    server.batch_execute(&format!("CREATE DATABASE \"{draft}\" TEMPLATE template0")).await?;
    prepare(&with_database(server_url, &draft)).await.context("cannot fill the template")?;
    // A database with connections can be neither renamed nor copied.
    let closed = format!("ALTER DATABASE \"{draft}\" WITH ALLOW_CONNECTIONS false");
    server.batch_execute(&closed).await?;
    terminate_backends(&server, &draft).await?;
    let renamed = format!("ALTER DATABASE \"{draft}\" RENAME TO \"{name}\"");
    server.batch_execute(&renamed).await?;
    Ok(())
}

async fn exists(server: &Client, name: &str) -> Result<bool> {
    let there = "SELECT 1 FROM pg_database WHERE datname = $1";
    Ok(server.query_opt(there, &[&name]).await?.is_some())
}

async fn terminate_backends(server: &Client, database: &str) -> Result<usize> {
    let ended = server
        .query(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
             WHERE datname = $1 AND pid <> pg_backend_pid()",
            &[&database],
        )
        .await?;
    Ok(ended.len())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .with_context(|| format!("cannot connect to {url}"))?;
    // Ends by itself when the client is dropped.
    TaskTracker::new().spawn(connection);
    Ok(client)
}

/// The same URL with another database in its path.
fn with_database(url: &str, database: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, ""), |(left, right)| (left, right));
    let authority_start = address.find("://").map_or(0, |scheme_end| scheme_end + 3);
    let authority_end =
        address[authority_start..].find('/').map_or(address.len(), |slash| authority_start + slash);
    let separator = if query.is_empty() { "" } else { "?" };
    format!("{}/{database}{separator}{query}", &address[..authority_end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_a_url_is_replaced() {
        let cases = [
            ("postgres://me@127.0.0.1:5432/postgres", "postgres://me@127.0.0.1:5432/other"),
            ("postgres://me@127.0.0.1:5432", "postgres://me@127.0.0.1:5432/other"),
            ("postgres://h/a?sslmode=disable", "postgres://h/other?sslmode=disable"),
        ];
        for (given, expected) in cases {
            assert_eq!(with_database(given, "other"), expected);
        }
    }
}
