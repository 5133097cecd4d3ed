//! Clients that others wrote, or would write from the documentation.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::heard::{connect, next, subscribe};
use super::producer::Producer;
use super::room::{Room, with_settings};
use crate::bots::place::BotSite;
use crate::bots::python;
use crate::bots::user::User;
use crate::site::Backend;

const MESSAGES: usize = 9;

#[tokio::test]
async fn the_published_client_reads_and_deletes_a_transcript() {
    async fn run(backend: Backend) -> Result<()> {
        let site = BotSite::new(backend).await?;
        let mut node = site.site.start(with_settings(site.options())).await?;
        let user = site.user("reader", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        let producer = Producer::over_http(&room, &site.base_url())?;
        for _ in 0..MESSAGES {
            producer.say().await?;
        }
        let (lines, _) = room.read(&user).await?;
        let texts: Vec<&str> = lines.values().map(|line| &*line.text).collect();
        let input = json!({
            "base_url": site.base_url(),
            "api_key": user.key,
            "meeting": room.native_id,
            "meeting_id": room.id,
            "texts": texts,
        });
        let said = python::run("vexa_transcript.py", &input).await?;
        ensure!(said.trim() == "read and deleted", "{said}");
        site.wait_no_process().await?;
        node.stop().await
    }
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.and(postgres).unwrap();
}

/// Reads, then applies frames by `absolute_start_time`, and so has what a reader has at the end.
#[tokio::test]
async fn a_client_that_follows_the_documentation_misses_nothing() {
    async fn run() -> Result<()> {
        let site = BotSite::sqlite()?;
        let mut node = site.site.start(with_settings(site.options())).await?;
        let user = site.user("reader", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        let producer = Producer::over_http(&room, &site.base_url())?;
        for _ in 0..MESSAGES {
            producer.say().await?;
        }
        let stop = CancellationToken::new();
        let reading = async {
            let known = follow(&site, &user, &room, &producer).await;
            stop.cancel();
            known
        };
        let (known, spoken) = tokio::join!(reading, producer.speak(&stop));
        let (mut known, mut socket) = known?;
        spoken?;
        room.leave(&user).await?;
        let end = read(&user, &room).await?;
        let last = end["seq"].as_i64().context("no seq")?;
        while known.seq < last {
            known.apply(&next(&mut socket).await?)?;
        }
        let mut at_end = Known::default();
        at_end.apply_all(&end["segments"])?;
        ensure!(known.lines == at_end.lines, "{:?} is not {:?}", known.lines, at_end.lines);
        ensure!(known.lines.len() > MESSAGES / 3, "nothing was said meanwhile");
        site.wait_no_process().await?;
        node.stop().await
    }
    type Followed = (
        Known,
        tokio_tungstenite::WebSocketStream<
            tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>,
        >,
    );
    async fn follow(
        site: &BotSite,
        user: &User,
        room: &Room,
        producer: &Producer,
    ) -> Result<Followed> {
        let mut known = Known::default();
        let begin = read(user, room).await?;
        known.apply_all(&begin["segments"])?;
        known.seq = begin["seq"].as_i64().context("no seq")?;
        producer.wait_for_more(MESSAGES).await?;
        let url = site.base_url().replacen("http", "ws", 1) + "/ws";
        let mut socket = connect(&url, Some(&user.key)).await?;
        subscribe(&mut socket, room.id, Some(known.seq)).await?;
        producer.wait_for_more(MESSAGES).await?;
        Ok((known, socket))
    }
    run().await.unwrap();
}

async fn read(user: &User, room: &Room) -> Result<Value> {
    let path = format!("{}?dedupe=false", room.path);
    Ok(user.client.get(&path).await?.expect_status(200)?.body)
}

/// What such a client keeps.
#[derive(Default)]
struct Known {
    seq: i64,
    /// Text and end, by the absolute start.
    lines: BTreeMap<String, (Value, Value)>,
}

impl Known {
    fn apply(&mut self, frame: &Value) -> Result<()> {
        let Some(seq) = frame["seq"].as_i64() else { return Ok(()) };
        self.seq = seq;
        match frame["type"].as_str() {
            Some("transcript.mutable") => self.apply_all(&frame["payload"]["segments"]),
            Some("meeting.status") => Ok(()),
            _ => anyhow::bail!("not expected here: {frame}"),
        }
    }

    fn apply_all(&mut self, segments: &Value) -> Result<()> {
        for segment in segments.as_array().context("no list")? {
            let start = segment["absolute_start_time"].as_str().context("no absolute start")?;
            let content = (segment["text"].clone(), segment["absolute_end_time"].clone());
            self.lines.insert(start.to_owned(), content);
        }
        Ok(())
    }
}
