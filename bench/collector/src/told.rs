//! What was told of changes, counted from outside: by somebody who listens, and in the frames that
//! the database has.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use bench_support::place::Place;
use bench_support::websocket::{Socket, text_frame};
use futures_util::StreamExt;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use crate::workload::{Meeting, Workload};

/// After everything is acknowledged, a listener knows it at the latest after this time.
const HEARD_MAX: Duration = Duration::from_secs(30);

/// Frames about changes, and segments in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) frames: usize,
    pub(crate) segments: usize,
}

/// Somebody who listens to every meeting. What is heard is only looked at afterwards.
pub(crate) struct Listener {
    frames: UnboundedReceiver<String>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    /// Over the server's own WebSocket.
    pub(crate) async fn on_server(
        address: &str,
        key: &str,
        workload: &Workload,
    ) -> anyhow::Result<Listener> {
        let key = format!("x-api-key: {key}");
        let mut socket = Socket::open(address, "/ws", &[&key]).await?;
        let meetings: Vec<Value> =
            workload.meetings.iter().map(|meeting| json!({"meeting_id": meeting.id})).collect();
        let wish = json!({"action": "subscribe", "meetings": meetings});
        socket.send(&text_frame(&wish.to_string())).await?;
        let answer = socket.text().await?;
        let answer: Value = serde_json::from_str(&answer)?;
        let heard = answer["meetings"].as_array().map_or(0, Vec::len);
        anyhow::ensure!(heard == workload.meetings.len(), "{answer}");
        let (sender, frames) = unbounded_channel();
        let task = bench_support::spawn(async move {
            loop {
                let _ = sender.send(socket.text().await?);
            }
        });
        Ok(Listener { frames, task })
    }

    /// On the channels of Redis that clients of the reference listen to.
    pub(crate) async fn on_redis(url: &str) -> anyhow::Result<Listener> {
        let mut redis = redis::Client::open(url)?.get_async_pubsub().await?;
        redis.psubscribe("tc:meeting:*:mutable").await?;
        let (sender, frames) = unbounded_channel();
        let task = bench_support::spawn(async move {
            let mut messages = redis.on_message();
            while let Some(message) = messages.next().await {
                let _ = sender.send(message.get_payload()?);
            }
            bail!("Redis closed the connection")
        });
        Ok(Listener { frames, task })
    }

    /// Waits until everything was heard that was said last, and tells how it was told.
    pub(crate) async fn heard(mut self, workload: &Workload) -> anyhow::Result<Told> {
        let clock = DatabaseClock::start();
        let mut rendered = Rendered::default();
        loop {
            while let Ok(frame) = self.frames.try_recv() {
                rendered.apply(&frame)?;
            }
            if workload.meetings.iter().all(|meeting| rendered.shows(meeting)) {
                return Ok(rendered.told);
            }
            let left = HEARD_MAX.saturating_sub(clock.monotonic());
            let next = tokio::time::timeout(left, self.frames.recv()).await;
            let Ok(Some(frame)) = next else {
                let Rendered { told, late, .. } = rendered;
                bail!("what was said last was not heard last: {told:?}, {late} frames came late");
            };
            rendered.apply(&frame)?;
        }
    }
}

/// What a client shows: the last text of every segment.
#[derive(Default)]
struct Rendered {
    told: Told,
    texts: BTreeMap<i64, BTreeMap<i64, String>>,
    /// The place of the last frame of each meeting, if frames have places.
    places: BTreeMap<i64, i64>,
    /// Frames that came after a later one.
    late: usize,
}

impl Rendered {
    fn apply(&mut self, frame: &str) -> anyhow::Result<()> {
        let frame: Value = serde_json::from_str(frame)?;
        if frame["type"] != "transcript.mutable" {
            return Ok(());
        }
        let meeting = frame["meeting"]["id"].as_i64().context("no meeting")?;
        let segments = frame["payload"]["segments"].as_array().context("no segments")?;
        self.told.frames += 1;
        self.told.segments += segments.len();
        if let Some(seq) = frame["seq"].as_i64() {
            let last = self.places.entry(meeting).or_default();
            self.late += usize::from(seq <= *last);
            *last = seq.max(*last);
        }
        let texts = self.texts.entry(meeting).or_default();
        for segment in segments {
            let start = segment["start"].as_f64().context("no start")?;
            let text = segment["text"].as_str().context("no text")?;
            texts.insert(millis(start), text.to_owned());
        }
        Ok(())
    }

    fn shows(&self, meeting: &Meeting) -> bool {
        self.texts.get(&meeting.id) == Some(&meeting.texts)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a day of milliseconds")]
fn millis(seconds: f64) -> i64 {
    (seconds * 1000.0).round() as i64
}

/// What the database says was told. Its server must have ended.
pub(crate) async fn stored(place: &Place) -> anyhow::Result<Told> {
    let mut rendered = Rendered::default();
    if let Some(client) = place.postgres().await? {
        for row in client.query("SELECT body FROM roundsman.frames", &[]).await? {
            rendered.apply(row.get(0))?;
        }
        return Ok(rendered.told);
    }
    let file = place.sqlite()?;
    let mut statement = file.prepare("SELECT body FROM frames")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        rendered.apply(row.get_ref(0)?.as_str()?)?;
    }
    Ok(rendered.told)
}
