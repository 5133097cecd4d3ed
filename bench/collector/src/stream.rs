//! Producers that write to a Redis stream, whoever reads it.

use std::time::Duration;

use anyhow::{Context, ensure};
use redis::aio::MultiplexedConnection;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use serde_json::Value;

use crate::requests::TIME_MAX;
use crate::workload::{Meeting, Workload, in_turn};

pub(crate) const SEGMENTS: (&str, &str) = ("transcription_segments", "collector_group");
pub(crate) const SPEAKERS: (&str, &str) = ("speaker_events_relative", "collector_speaker_group");
/// Messages that are written at once.
const PIPELINE: usize = 500;
/// Looking costs Redis something too.
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(crate) struct Producer {
    connection: MultiplexedConnection,
}

impl Producer {
    pub(crate) async fn open(url: &str) -> anyhow::Result<Producer> {
        let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Producer { connection })
    }

    /// Says when sessions started, before anything is measured, and waits until it was read.
    pub(crate) async fn start_sessions(&mut self, workload: &Workload) -> anyhow::Result<()> {
        let starts: Vec<&str> =
            workload.meetings.iter().map(|meeting| meeting.session_start.as_str()).collect();
        self.write(&starts).await?;
        self.drained(SEGMENTS).await
    }

    /// Says who spoke when, through the stream for that.
    pub(crate) async fn tell_speakers(&mut self, workload: &Workload) -> anyhow::Result<()> {
        for meeting in &workload.meetings {
            let mut pipeline = redis::pipe();
            for event in &meeting.speaker_events {
                let command = pipeline.cmd("XADD").arg(SPEAKERS.0).arg("*");
                for (name, value) in event.as_object().context("an event is an object")? {
                    command.arg(name).arg(flat(value));
                }
            }
            let _: Vec<String> = pipeline.query_async(&mut self.connection).await?;
        }
        self.drained(SPEAKERS).await
    }

    /// The same as a consumer would have stored it.
    pub(crate) async fn store_speakers(&mut self, workload: &Workload) -> anyhow::Result<()> {
        for meeting in &workload.meetings {
            let mut pipeline = redis::pipe();
            for event in &meeting.speaker_events {
                let at = &event["relative_client_timestamp_ms"];
                let key = format!("speaker_events:{}", meeting.uid);
                pipeline.cmd("ZADD").arg(key).arg(flat(at)).arg(event.to_string());
            }
            let _: Vec<i64> = pipeline.query_async(&mut self.connection).await?;
        }
        Ok(())
    }

    /// Writes everything as fast as Redis takes it, and returns how long it took until everything
    /// was acknowledged by whoever reads it.
    pub(crate) async fn produce(&mut self, workload: &Workload) -> anyhow::Result<Duration> {
        let meetings: Vec<&Meeting> = workload.meetings.iter().collect();
        let messages = in_turn(&meetings);
        let clock = DatabaseClock::start();
        let started = clock.monotonic();
        for messages in messages.chunks(PIPELINE) {
            self.write(messages).await?;
        }
        self.drained(SEGMENTS).await?;
        Ok(clock.monotonic().saturating_sub(started))
    }

    /// Processor time that Redis has used.
    pub(crate) async fn redis_processor(&mut self) -> anyhow::Result<Duration> {
        let info: String = redis::cmd("INFO").arg("cpu").query_async(&mut self.connection).await?;
        let seconds = |name: &str| -> anyhow::Result<f64> {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            Ok(line.context("no processor time")?.trim().parse()?)
        };
        Ok(Duration::from_secs_f64(seconds("used_cpu_sys:")? + seconds("used_cpu_user:")?))
    }

    async fn write(&mut self, messages: &[&str]) -> anyhow::Result<()> {
        let mut pipeline = redis::pipe();
        for message in messages {
            pipeline.cmd("XADD").arg(SEGMENTS.0).arg("*").arg("payload").arg(message);
        }
        let _: Vec<String> = pipeline.query_async(&mut self.connection).await?;
        Ok(())
    }

    /// Waits until the group has been given everything and has acknowledged all of it.
    async fn drained(&mut self, (stream, group): (&str, &str)) -> anyhow::Result<()> {
        let clock = DatabaseClock::start();
        loop {
            let info: redis::Value = redis::cmd("XINFO")
                .arg("GROUPS")
                .arg(stream)
                .query_async(&mut self.connection)
                .await?;
            if is_drained(&info, group) {
                return Ok(());
            }
            ensure!(clock.monotonic() < TIME_MAX, "{stream} is still not drained");
            bench_support::pause(LOOK_EVERY).await;
        }
    }
}

/// Nothing is pending and nothing is left to be given out.
fn is_drained(info: &redis::Value, group: &str) -> bool {
    let redis::Value::Array(groups) = info else { return false };
    groups.iter().any(|entry| {
        let redis::Value::Array(fields) = entry else { return false };
        let field = |name: &str| {
            let named = |pair: &&[redis::Value]| text(&pair[0]).as_deref() == Some(name);
            fields.chunks_exact(2).find(named).and_then(|pair| text(&pair[1]))
        };
        field("name").as_deref() == Some(group)
            && field("pending").as_deref() == Some("0")
            && field("lag").as_deref() == Some("0")
    })
}

fn text(value: &redis::Value) -> Option<String> {
    match value {
        redis::Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        redis::Value::SimpleString(text) => Some(text.clone()),
        redis::Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

fn flat(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
