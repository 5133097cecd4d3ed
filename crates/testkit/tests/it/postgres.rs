//! Private clusters survive what tests do to them; databases are fresh, separate and removed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use roundsman_testkit::postgres::{Durability, StopMode};
use roundsman_testkit::{PostgresServer, TestDatabase, env, eventually};
use tokio_postgres::{Client, NoTls};
use tokio_util::task::TaskTracker;

#[tokio::test]
async fn a_cluster_keeps_its_data_however_it_ends() {
    let mut server = PostgresServer::start().await.unwrap();
    let port = server.port();
    let client = connect(&server.url()).await.unwrap();
    client.batch_execute("CREATE TABLE seen (mode text)").await.unwrap();

    for mode in [StopMode::Fast, StopMode::Immediate, StopMode::Kill] {
        let client = connect(&server.url()).await.unwrap();
        client.execute("INSERT INTO seen VALUES ($1)", &[&format!("{mode:?}")]).await.unwrap();
        server.stop(mode).await.unwrap();
        assert!(connect(&server.url()).await.is_err(), "still there after {mode:?}");
        server.start_again().await.unwrap();
        assert_eq!(server.port(), port);
    }
    let client = connect(&server.url()).await.unwrap();
    let rows = client.query("SELECT mode FROM seen ORDER BY 1", &[]).await.unwrap();
    let modes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(modes, ["Fast", "Immediate", "Kill"]);
}

#[tokio::test]
async fn durability_is_as_asked_and_the_end_takes_everything_with_it() {
    let (url, log);
    {
        let server = PostgresServer::start_with(Durability::Fsync).await.unwrap();
        (url, log) = (server.url(), server.log());
        let client = connect(&url).await.unwrap();
        for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
            let row = client.query_one(&format!("SHOW {setting}"), &[]).await.unwrap();
            assert_eq!(row.get::<_, String>(0), "on", "{setting}");
        }
        assert!(log.exists());
    }
    assert!(connect(&url).await.is_err());
    assert!(!log.exists());
}

#[tokio::test]
async fn a_paused_postmaster_serves_nobody_new_and_can_be_dropped() {
    let server = PostgresServer::start().await.unwrap();
    let open = connect(&server.url()).await.unwrap();
    server.pause().unwrap();
    let url = server.url();
    let attempt = tokio::time::timeout(Duration::from_millis(200), connect(&url)).await;
    assert!(attempt.is_err(), "a paused postmaster answered");
    open.query_one("SELECT 1", &[]).await.unwrap();
    server.resume().unwrap();
    connect(&url).await.unwrap();
    server.pause().unwrap();
    drop(server);
    assert!(connect(&url).await.is_err());
}

#[tokio::test]
async fn databases_are_fresh_and_dropped_with_their_connections() {
    let first = TestDatabase::create().await.unwrap();
    let second = TestDatabase::create().await.unwrap();
    assert_ne!(first.name(), second.name());
    let connection = first.connect().await.unwrap();
    connection.batch_execute("CREATE TABLE only_in_first ()").await.unwrap();
    let there = "SELECT count(*) FROM pg_tables WHERE tablename = 'only_in_first'";
    let found = second.connect().await.unwrap().query_one(there, &[]).await.unwrap();
    assert_eq!(found.get::<_, i64>(0), 0);

    let name = first.name().to_owned();
    drop(first);
    assert!(connection.query("SELECT 1", &[]).await.is_err());
    let server = connect(&env::postgres_url().unwrap()).await.unwrap();
    assert!(!exists(&server, &name).await.unwrap());
}

#[tokio::test]
async fn terminated_backends_are_counted_and_gone() {
    let database = TestDatabase::create().await.unwrap();
    let connections = [database.connect().await.unwrap(), database.connect().await.unwrap()];
    assert_eq!(database.terminate_backends().await.unwrap(), 2);
    eventually(Duration::from_secs(5), async || {
        connections.iter().all(Client::is_closed).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(database.terminate_backends().await.unwrap(), 0);
}

#[tokio::test]
async fn a_template_is_made_once_and_copied() {
    static MADE: AtomicU32 = AtomicU32::new(0);
    // Unique to this run: a template lives as long as the server.
    let name = format!("template_of_{}", std::process::id());
    let copy = || {
        TestDatabase::from_template(&name, async |url| {
            MADE.fetch_add(1, Ordering::Relaxed);
            let client = connect(url).await?;
            client.batch_execute("CREATE TABLE t AS SELECT 7 AS n").await?;
            Ok(())
        })
    };
    let (first, second) = tokio::join!(copy(), copy());
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(MADE.load(Ordering::Relaxed), 1);
    for database in [&first, &second] {
        let row = database.connect().await.unwrap().query_one("SELECT n FROM t", &[]).await;
        assert_eq!(row.unwrap().get::<_, i32>(0), 7);
    }
    let server = connect(&env::postgres_url().unwrap()).await.unwrap();
    server.batch_execute(&format!("DROP DATABASE {name}")).await.unwrap();
}

#[tokio::test]
async fn a_template_that_failed_is_made_anew() {
    let name = format!("failed_template_of_{}", std::process::id());
    let failed = TestDatabase::from_template(&name, async |url| {
        connect(url).await?.batch_execute("CREATE TABLE half ()").await?;
        anyhow::bail!("interrupted")
    });
    assert!(failed.await.is_err());
    let made = TestDatabase::from_template(&name, async |url| {
        connect(url).await?.batch_execute("CREATE TABLE half ()").await?;
        Ok(())
    });
    made.await.unwrap().connect().await.unwrap().query("SELECT * FROM half", &[]).await.unwrap();
    let server = connect(&env::postgres_url().unwrap()).await.unwrap();
    server.batch_execute(&format!("DROP DATABASE {name}")).await.unwrap();
}

async fn exists(server: &Client, database: &str) -> Result<bool> {
    let there = "SELECT 1 FROM pg_database WHERE datname = $1";
    Ok(server.query_opt(there, &[&database]).await?.is_some())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    TaskTracker::new().spawn(connection);
    Ok(client)
}
