//! Somebody who tells what is said, a little more with every message, and repeats each message until
//! it was acknowledged.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::{JsonClient, eventually};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::heard::Lines;
use super::redis_look::RedisLook;
use super::room::{OVER_WITHIN, Room, breathe};
use crate::site::SOON;

/// How often a segment is told before the next one begins.
const REVISIONS: usize = 3;
/// Between the starts of two segments.
const SEGMENT_MS: i64 = 2000;
/// Between two messages.
const MESSAGE_EVERY: Duration = Duration::from_millis(15);
/// Servers are killed and Redis stands still meanwhile.
const ACKNOWLEDGED_WITHIN: Duration = OVER_WITHIN;

/// How messages are sent.
pub(super) enum Way {
    Http(JsonClient),
    /// The stream in Redis. Whatever Redis took counts as acknowledged.
    Stream(RedisLook),
}

/// One producer, which has a session of its own.
pub(super) struct Producer {
    room: Room,
    session: String,
    way: Mutex<std::sync::Arc<Way>>,
    told: Mutex<Told>,
    /// Held while a message is under way.
    turn: tokio::sync::Mutex<()>,
}

/// What was acknowledged.
#[derive(Default)]
struct Told {
    messages: usize,
    /// The last words of each segment, by its start.
    texts: BTreeMap<i64, String>,
}

impl Producer {
    /// Speaks in the bot's own session, over HTTP.
    pub(super) fn over_http(room: &Room, base_url: &str) -> Result<Producer> {
        let way = Way::Http(JsonClient::new(base_url)?);
        Ok(Producer::new(room, &room.session, way))
    }

    /// Speaks in a session that begins now, through Redis.
    pub(super) async fn over_stream(room: &Room, redis: RedisLook) -> Result<Producer> {
        let session = format!("{}-stream", room.session);
        let producer = Producer::new(room, &session, Way::Stream(redis));
        producer.begin().await?;
        Ok(producer)
    }

    pub(super) fn new(room: &Room, session: &str, way: Way) -> Producer {
        Producer {
            room: room.clone(),
            session: session.to_owned(),
            way: Mutex::new(std::sync::Arc::new(way)),
            told: Mutex::default(),
            turn: tokio::sync::Mutex::new(()),
        }
    }

    /// Goes on in another way from the next try on, that of the present message included.
    pub(super) fn go_by(&self, way: Way) {
        *lock(&self.way) = std::sync::Arc::new(way);
    }

    /// Speaks until told to stop. What was begun is acknowledged before it returns.
    pub(super) async fn speak(&self, stop: &CancellationToken) -> Result<()> {
        while !stop.is_cancelled() {
            self.say().await?;
            breathe(MESSAGE_EVERY).await;
        }
        Ok(())
    }

    /// One message: the segment before, as it was, and a little more of the present one.
    pub(super) async fn say(&self) -> Result<()> {
        let _turn = self.turn.lock().await;
        let messages = lock(&self.told).messages;
        let (number, revision) = (messages / REVISIONS, messages % REVISIONS);
        let start = SEGMENT_MS * i64::try_from(number)?;
        let text = words(number, revision);
        let mut segments = Vec::new();
        if let Some(before) = number.checked_sub(1) {
            segments.push(segment(start - SEGMENT_MS, &words(before, REVISIONS - 1)));
        }
        segments.push(segment(start, &text));
        self.tell(&self.transcription(&segments)).await?;
        let mut told = lock(&self.told);
        told.messages += 1;
        told.texts.insert(start, text);
        Ok(())
    }

    /// Does something to Redis while no message is under way, then tells everything again: what
    /// nobody had read before is otherwise lost with Redis.
    pub(super) async fn interrupted<T>(&self, fault: impl Future<Output = Result<T>>) -> Result<T> {
        let _turn = self.turn.lock().await;
        let done = fault.await?;
        self.begin().await?;
        let all: Vec<Value> =
            lock(&self.told).texts.iter().map(|(start, text)| segment(*start, text)).collect();
        self.tell(&self.transcription(&all)).await?;
        Ok(done)
    }

    /// Repeats a message until it is acknowledged.
    pub(super) async fn tell(&self, message: &Value) -> Result<()> {
        let mut last = None;
        let told = eventually(ACKNOWLEDGED_WITHIN, async || {
            let way = lock(&self.way).clone();
            match way.send(message).await {
                Ok(()) => Some(()),
                Err(error) => {
                    last = Some(error);
                    None
                }
            }
        });
        told.await.with_context(|| format!("never acknowledged: {last:?}"))
    }

    /// Waits until so many more messages were acknowledged.
    pub(super) async fn wait_for_more(&self, messages: usize) -> Result<()> {
        let until = lock(&self.told).messages + messages;
        let more = eventually(SOON, async || (lock(&self.told).messages >= until).then_some(()));
        more.await.context("the producer does not get on")
    }

    /// Everything that was acknowledged is among the lines, with its last words, and nothing else of
    /// its session.
    pub(super) fn check(&self, lines: &Lines) -> Result<()> {
        let told = lock(&self.told);
        ensure!(!told.texts.is_empty(), "nothing was told in {}", self.session);
        for (start, text) in &told.texts {
            let line = lines.get(&(self.session.clone(), *start));
            let shown = line.map(|line| &line.text);
            ensure!(shown == Some(text), "{start} ms is {shown:?}, and was told as {text:?}");
        }
        let shown = lines.keys().filter(|(session, _)| *session == self.session).count();
        ensure!(shown == told.texts.len(), "{shown} segments, {} told", told.texts.len());
        Ok(())
    }

    async fn begin(&self) -> Result<()> {
        let start = "2026-01-31T12:00:00Z";
        let (uid, token) = (&self.session, &self.room.token);
        let message =
            json!({"type": "session_start", "uid": uid, "token": token, "start_timestamp": start});
        self.tell(&message).await
    }

    fn transcription(&self, segments: &[Value]) -> Value {
        let (uid, token) = (&self.session, &self.room.token);
        json!({"type": "transcription", "uid": uid, "token": token, "segments": segments})
    }
}

impl Way {
    async fn send(&self, message: &Value) -> Result<()> {
        match self {
            Way::Http(client) => {
                client.post("/ingest/transcription", message).await?.expect_status(200)?;
                Ok(())
            }
            Way::Stream(redis) => redis.add_message(&message.to_string()).await.map(drop),
        }
    }
}

/// What a segment says after so many revisions.
fn words(number: usize, revision: usize) -> String {
    let parts = ["chapter", "talks about budgets", "and agrees on them"];
    format!("Number {number} {}", parts[..=revision].join(" "))
}

fn segment(start_ms: i64, text: &str) -> Value {
    // What is longer took longer to say.
    let end_ms = start_ms + 20 * i64::try_from(text.len()).unwrap_or_default();
    let seconds = |ms: i64| format!("{}.{:03}", ms / 1000, ms % 1000);
    json!({"start": seconds(start_ms), "end": seconds(end_ms), "text": text, "language": "en"})
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
