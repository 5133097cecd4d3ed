//! T-16: many who listen and do not read. What they cost is bounded, and nobody else notices.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::{JsonClient, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::heard::Listener;
use super::room::{Room, with_settings};
use crate::bots::place::BotSite;
use crate::bots::user::User;
use crate::site::{Node, SOON};

/// Those on WebSockets, and those on server-sent events.
const SOCKETS: usize = 50;
const EVENTS: usize = 10;
/// What one of them may cost.
const KIB_EACH_MAX: u64 = 1024;
/// What is said meanwhile: far more than the buffers of the system take for each.
const MESSAGES: usize = 160;
const SEGMENTS: usize = 4;
const TEXT_BYTES: usize = 15_000;
const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
/// Longer than the test: they are not closed while they are looked at.
const NEVER_SECS: &str = "3000";

#[tokio::test]
async fn those_who_do_not_read_cost_little_and_others_hear_everything() {
    async fn run() -> Result<()> {
        let site = BotSite::sqlite()?;
        let options = with_settings(site.options())
            .env("ROUNDSMAN_LIVE_SEND_SECS_MAX", NEVER_SECS)
            .env("ROUNDSMAN_LIVE_PING_SECS", NEVER_SECS)
            .env("ROUNDSMAN_TRANSCRIPTS_STABLE_AFTER_SECS", NEVER_SECS)
            .env("ROUNDSMAN_LOG_LEVEL", "info");
        let mut node = site.site.start(options).await?;
        let user = site.user("speaker", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        let listener = Listener::start(&site.base_url(), &user, &room);
        // The first time is for the database's own memory, and whatever else grows once.
        speak(&site, &room, &listener, 1).await?;
        let before = resident_kib(&node)?;
        let mut stalled = Vec::new();
        for number in 0..SOCKETS + EVENTS {
            stalled.push(stall(&node, &user, &room, number < SOCKETS).await?);
        }
        wait_listening(&site, SOCKETS + EVENTS + 1).await?;
        speak(&site, &room, &listener, 2).await?;
        let unread = unread_kib_max(&node)?;
        ensure!(unread <= KIB_EACH_MAX / 2, "the system keeps {unread} KiB for one of them");
        let grown = resident_kib(&node)?.saturating_sub(before);
        let grown_max = KIB_EACH_MAX * u64::try_from(SOCKETS + EVENTS)?;
        ensure!(grown <= grown_max, "{grown} KiB for {} who do not read", stalled.len());
        wait_listening(&site, SOCKETS + EVENTS + 1).await.context("somebody was closed")?;
        let (lines, seq) = room.read(&user).await?;
        listener.check(&lines, seq).await?;
        listener.expect_every_frame()?;
        drop(stalled);
        wait_listening(&site, 1).await.context("places of those who left")?;
        room.leave(&user).await?;
        site.wait_no_process().await?;
        node.stop().await
    }
    run().await.unwrap();
}

/// Says much, and waits for each word to be heard.
async fn speak(site: &BotSite, room: &Room, listener: &Listener, round: u32) -> Result<()> {
    let client = JsonClient::new(site.base_url())?;
    for number in 0..MESSAGES {
        let text = format!("{round} {number} {}", "x".repeat(TEXT_BYTES));
        let segment = |n: usize| json!({"start": 2 * n, "end": 2 * n + 1, "text": text});
        let segments: Vec<Value> = (0..SEGMENTS).map(segment).collect();
        let message = json!({"uid": room.session, "token": room.token, "segments": segments});
        let answer = client.post("/ingest/transcription", &message).await?.expect_status(200)?;
        listener.wait_for(answer.body["seq"].as_i64().context("no seq")?).await?;
    }
    Ok(())
}

/// Listens to the meeting, and reads nothing after the first word.
async fn stall(node: &Node, user: &User, room: &Room, on_socket: bool) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(([127, 0, 0, 1], node.port()).into()).await?;
    let (path, upgrade) =
        if on_socket { ("/ws".to_owned(), UPGRADE) } else { (format!("{}/events", room.path), "") };
    let key = &user.key;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n{upgrade}\r\n");
    stream.write_all(request.as_bytes()).await?;
    if on_socket {
        let wish =
            json!({"action": "subscribe", "meetings": [{"meeting_id": room.id}]}).to_string();
        let mut frame = vec![0x81, 0x80 | u8::try_from(wish.len())?, 0, 0, 0, 0];
        frame.extend(wish.bytes());
        stream.write_all(&frame).await?;
    }
    let mut said = Vec::new();
    while !said.ends_with(b"subscribed") {
        said.push(timeout(SOON, stream.read_u8()).await.context("not subscribed")??);
    }
    Ok(stream)
}

async fn wait_listening(site: &BotSite, count: usize) -> Result<()> {
    let line = format!("roundsman_listeners {count}\n");
    let mut seen = String::new();
    let listening = eventually(SOON, async || {
        seen = site.admin().ok()?.get("/metrics").await.ok()?.text;
        seen.contains(&line).then_some(())
    });
    let listening = listening.await;
    let shown =
        || seen.lines().find(|line| line.starts_with("roundsman_listeners ")).map(str::to_owned);
    listening.with_context(|| format!("not {count}: {:?}", shown()))
}

/// The most that the system keeps for a connection of the server whose client does not read it.
fn unread_kib_max(node: &Node) -> Result<u64> {
    let port = format!("{:04X}", node.port());
    let mut most = 0;
    for line in std::fs::read_to_string("/proc/net/tcp")?.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, _, queues, ..] = fields[..] else { continue };
        if local.ends_with(&port) {
            let (unsent, _) = queues.split_once(':').context("no queues")?;
            most = most.max(u64::from_str_radix(unsent, 16)? / 1024);
        }
    }
    ensure!(most > 0, "everything was read");
    Ok(most)
}

/// Memory of the server that is really there.
fn resident_kib(node: &Node) -> Result<u64> {
    let status = PathBuf::from(format!("/proc/{}/status", node.pid()?));
    let status = std::fs::read_to_string(status)?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.context("no VmRSS")?.trim().trim_end_matches(" kB");
    kib.parse().with_context(|| format!("{kib:?}"))
}
