//! A private Redis ends, returns, freezes and forgets as it is told.

use std::time::Duration;

use anyhow::{Result, ensure};
use roundsman_testkit::redis::Persistence;
use roundsman_testkit::{RedisServer, env};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_killed_server_returns_empty_on_the_same_port() {
    let mut server = RedisServer::start().await.unwrap();
    let url = server.url();
    assert_eq!(ask(&url, "SET key value").await.unwrap(), "+OK");
    server.kill_9().await.unwrap();
    assert!(ask(&url, "PING").await.is_err());
    server.restart().await.unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(ask(&url, "EXISTS key").await.unwrap(), ":0");
}

#[tokio::test]
async fn a_persistent_server_keeps_every_answered_write() {
    let mut server = RedisServer::start_with(Persistence::EveryWrite).await.unwrap();
    assert_eq!(ask(&server.url(), "SET key value").await.unwrap(), "+OK");
    server.kill_9().await.unwrap();
    server.restart().await.unwrap();
    assert_eq!(ask(&server.url(), "EXISTS key").await.unwrap(), ":1");
    server.wipe().await.unwrap();
    assert_eq!(ask(&server.url(), "EXISTS key").await.unwrap(), ":0");
}

#[tokio::test]
async fn a_paused_server_is_silent_until_resumed_and_can_be_stopped() {
    let mut server = RedisServer::start().await.unwrap();
    let url = server.url();
    server.pause().unwrap();
    let silent = tokio::time::timeout(Duration::from_millis(200), ask(&url, "PING")).await;
    assert!(silent.is_err(), "a paused server answered");
    server.resume().unwrap();
    assert_eq!(ask(&url, "PING").await.unwrap(), "+PONG");
    server.pause().unwrap();
    server.stop().await.unwrap();
    assert!(ask(&url, "PING").await.is_err());
}

#[tokio::test]
async fn dropped_clients_see_the_end_of_their_connection() {
    let server = RedisServer::start().await.unwrap();
    let mut connection = BufReader::new(connect(&server.url()).await.unwrap());
    connection.write_all(b"PING\r\n").await.unwrap();
    let mut answer = String::new();
    connection.read_line(&mut answer).await.unwrap();
    assert_eq!(answer, "+PONG\r\n");
    server.drop_clients().await.unwrap();
    assert_eq!(connection.read_line(&mut answer).await.unwrap_or(0), 0);
    assert_eq!(ask(&server.url(), "PING").await.unwrap(), "+PONG");
}

#[tokio::test]
async fn the_shared_server_is_there() {
    assert_eq!(ask(&env::redis_url().unwrap(), "PING").await.unwrap(), "+PONG");
}

async fn ask(url: &str, command: &str) -> Result<String> {
    let mut stream = BufReader::new(connect(url).await?);
    stream.write_all(format!("{command}\r\n").as_bytes()).await?;
    let mut answer = String::new();
    ensure!(stream.read_line(&mut answer).await? > 0, "closed without an answer");
    Ok(answer.trim_end().to_owned())
}

async fn connect(url: &str) -> Result<TcpStream> {
    let address = url.trim_start_matches("redis://").trim_end_matches('/');
    Ok(TcpStream::connect(address).await?)
}
