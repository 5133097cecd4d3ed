//! Keys while they are in use: one that is revoked at another node closes what it has opened (T-18),
//! and the one of the tokens can be changed while bots run.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{TestDatabase, eventually};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::heard::{Socket, connect, next, subscribe};
use super::producer::Producer;
use super::room::{Room, with_settings};
use crate::bots::place::{BotSite, SLACK};
use crate::bots::user::{User, end_reason};
use crate::site::{Backend, SOON, Stopwatch};

/// How long a node believes a key without asking, and how often a connection is asked about: 30 s
/// each unless told otherwise, a minute together.
const CACHE: Duration = Duration::from_millis(500);
const RECHECK: Duration = Duration::from_millis(500);
/// Of the tokens of bots.
const OLD: &str = "canary-key-of-last-year-4be1";
const NEW: &str = "canary-key-of-this-year-90cd";

#[tokio::test]
async fn a_key_that_is_revoked_at_another_node_is_closed_within_its_time() {
    async fn run() -> Result<()> {
        let site = BotSite::on(TestDatabase::create().await?).await?;
        let mut first = site.site.start(watchful(site.options())).await?;
        let mut second = site.site.start(watchful(site.options_beside())).await?;
        let user = site.user("listener", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        let (key, id) = another_key(&site, &user).await?;
        let url = second.base_url().replacen("http", "ws", 1) + "/ws";
        let mut revoked = listen(&url, &key, &room).await?;
        let mut stays = listen(&url, &user.key, &room).await?;
        let mut events = open_events(second.port(), &key, &room).await?;

        let watch = Stopwatch::start();
        site.admin()?.delete(&format!("/admin/tokens/{id}")).await?.expect_status(204)?;
        let code = timeout(SOON, closed(&mut revoked)).await.context("never closed")??;
        ensure!(code == 4401, "closed with {code}");
        let mut rest = Vec::new();
        timeout(SOON, events.read_to_end(&mut rest)).await.context("events never end")??;
        let took = watch.elapsed();
        ensure!(took <= CACHE + RECHECK + SLACK, "closed after {took:?}");
        let again = timeout(SOON, closed(&mut connect(&url, Some(&key)).await?)).await??;
        ensure!(again == 4401, "opened again: {again}");

        // Whoever has another key of the same user goes on.
        let producer = Producer::over_http(&room, &site.base_url())?;
        producer.say().await?;
        ensure!(heard(&mut stays).await? == "transcript.mutable", "it hears something else");
        taken_away(&site, &user, &room, &mut stays).await?;
        room.leave(&user).await?;
        site.wait_no_process().await?;
        first.stop().await?;
        second.stop().await
    }
    run().await.unwrap();
}

/// Others write the table of meetings too: one that becomes somebody else's is heard no more.
async fn taken_away(site: &BotSite, user: &User, room: &Room, socket: &mut Socket) -> Result<()> {
    let other = site.user("other", 1).await?;
    let database = site.database()?.connect().await?;
    let give = async |to: i64| -> Result<()> {
        let sql = format!("UPDATE public.meetings SET user_id = {to} WHERE id = {}", room.id);
        Ok(database.batch_execute(&sql).await?)
    };
    give(other.id).await?;
    loop {
        let kind = heard(socket).await?;
        // What was said before may still come.
        if kind == "unsubscribed" {
            break;
        }
        ensure!(kind == "transcript.mutable" || kind == "meeting.status", "{kind}");
    }
    give(user.id).await
}

/// A server is started with another key, and told of the one that its bots were started with.
#[tokio::test]
async fn a_key_can_be_changed_while_bots_run() {
    async fn run(backend: Backend) -> Result<()> {
        let site = BotSite::new(backend).await?;
        site.site.keep_secret(OLD);
        site.site.keep_secret(NEW);
        let with_key =
            |key: &str| with_settings(site.options()).env("ROUNDSMAN_MEETING_TOKEN_SECRET", key);
        let mut node = site.site.start(with_key(OLD)).await?;
        let user = site.user("speaker", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        node.stop().await?;
        let both = with_key(NEW).env("ROUNDSMAN_MEETING_TOKEN_SECRETS_ACCEPTED", OLD);
        let mut node = site.site.start(both).await?;
        let beats = eventually(SOON, async || {
            let metrics = site.admin().ok()?.get("/metrics").await.ok()?.text;
            let mut counts = metrics
                .lines()
                .filter_map(|line| line.strip_prefix("roundsman_bot_heartbeats_total "));
            (counts.next()?.parse::<u64>().ok()? >= 2).then_some(metrics)
        });
        let metrics = beats.await.context("the bot is not heard")?;
        ensure!(!metrics.contains("limit=\"callback_refused\""), "refused:\n{metrics}");
        Producer::over_http(&room, &site.base_url())?.say().await?;
        let over = room.leave(&user).await?;
        ensure!(end_reason(&over) == "self_initiated_leave", "it could not say so: {over}");
        site.wait_no_process().await?;
        node.stop().await
    }
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.and(postgres).unwrap();
}

fn watchful(options: ServerOptions) -> ServerOptions {
    with_settings(options)
        .env("ROUNDSMAN_AUTH_TOKEN_CACHE_SECS", CACHE.as_secs_f64().to_string())
        .env("ROUNDSMAN_LIVE_RECHECK_SECS", RECHECK.as_secs_f64().to_string())
}

/// One more key of a user, and its number.
async fn another_key(site: &BotSite, user: &User) -> Result<(String, String)> {
    let path = format!("/admin/users/{}/tokens", user.id);
    let token = site.admin()?.post(&path, &json!({})).await?.expect_status(201)?;
    let key = token.body["token"].as_str().context("no token")?.to_owned();
    site.site.keep_secret(&key);
    let id = key.split('_').nth(1).context("no number")?.to_owned();
    Ok((key, id))
}

async fn listen(url: &str, key: &str, room: &Room) -> Result<Socket> {
    let mut socket = connect(url, Some(key)).await?;
    subscribe(&mut socket, room.id, None).await?;
    ensure!(heard(&mut socket).await? == "subscribed", "not subscribed");
    Ok(socket)
}

async fn heard(socket: &mut Socket) -> Result<String> {
    let frame = timeout(SOON, next(socket)).await.context("nothing is heard")??;
    Ok(frame["type"].as_str().unwrap_or_default().to_owned())
}

/// The code of the end, past whatever is said before it.
async fn closed(socket: &mut Socket) -> Result<u16> {
    loop {
        if let Message::Close(reason) = socket.next().await.context("no word of an end")?? {
            return Ok(reason.context("no reason")?.code.into());
        }
    }
}

/// Server-sent events, of which the first has come.
async fn open_events(port: u16, key: &str, room: &Room) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let path = format!("/transcripts/by-id/{}/events", room.id);
    let head = format!("host: x\r\nconnection: close\r\nx-api-key: {key}");
    let request = format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut said = Vec::new();
    while !said.ends_with(b"\n\n\r\n") {
        said.push(timeout(SOON, stream.read_u8()).await.context("no event")??);
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(said.starts_with("HTTP/1.1 200") && said.contains("subscribed"), "{said}");
    Ok(stream)
}
