//! Producers that speak to the server itself: over HTTP, and over WebSockets.

use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::http::{Connection, request};
use bench_support::websocket::{Socket, text_frame};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use serde_json::json;

use crate::workload::{Meeting, Workload, in_turn};

/// Nothing takes longer than this.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(300);
/// Messages of one connection that are not answered yet.
const WINDOW: usize = 32;

/// Says when sessions started and who spoke in them, before anything is measured.
pub(crate) async fn prepare(address: &str, workload: &Workload) -> anyhow::Result<()> {
    let mut connection = Connection::open(address).await?;
    for meeting in &workload.meetings {
        let events = meeting.speaker_events.iter();
        let events = events.map(|event| json!({"type": "speaker_activity", "payload": event}));
        let events: Vec<String> = events.map(|event| event.to_string()).collect();
        let body = format!("[{},{}]", meeting.session_start, events.join(","));
        send(&mut connection, &post(&body)).await?;
    }
    Ok(())
}

/// Sends everything over HTTP, so many messages in a request, and returns how long it took until
/// the last was acknowledged. The messages of a meeting are sent on one connection.
pub(crate) async fn over_http(
    address: &str,
    workload: &Workload,
    connections: usize,
    messages_per_request: usize,
) -> anyhow::Result<Duration> {
    let mut lanes = Vec::new();
    for messages in lanes_of(workload, connections) {
        let requests: Vec<Vec<u8>> = messages
            .chunks(messages_per_request)
            .map(|messages| match messages {
                [message] => post(message),
                messages => post(&format!("[{}]", messages.join(","))),
            })
            .collect();
        lanes.push((Connection::open(address).await?, requests));
    }
    let clock = DatabaseClock::start();
    let started = clock.monotonic();
    let tasks: Vec<_> = lanes
        .into_iter()
        .map(|(mut connection, requests)| {
            bench_support::spawn(async move {
                for request in requests {
                    send(&mut connection, &request).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    all(tasks).await?;
    Ok(clock.monotonic().saturating_sub(started))
}

/// Sends everything over WebSockets, a message in a frame.
pub(crate) async fn over_websockets(
    address: &str,
    workload: &Workload,
    connections: usize,
) -> anyhow::Result<Duration> {
    let mut lanes = Vec::new();
    for messages in lanes_of(workload, connections) {
        let frames: Vec<Vec<u8>> = messages.iter().map(|message| text_frame(message)).collect();
        lanes.push((Socket::open(address, "/ingest/ws", &[]).await?, frames));
    }
    let clock = DatabaseClock::start();
    let started = clock.monotonic();
    let tasks: Vec<_> = lanes
        .into_iter()
        .map(|(socket, frames)| bench_support::spawn(send_frames(socket, frames)))
        .collect();
    all(tasks).await?;
    Ok(clock.monotonic().saturating_sub(started))
}

/// Each half of the window is sent at once, when the one before it was answered.
async fn send_frames(mut socket: Socket, frames: Vec<Vec<u8>>) -> anyhow::Result<()> {
    let mut unanswered = 0;
    for half in frames.chunks(WINDOW / 2) {
        socket.send(&half.concat()).await?;
        unanswered += half.len();
        while unanswered > WINDOW / 2 {
            acknowledged(&socket.text().await?)?;
            unanswered -= 1;
        }
    }
    for _ in 0..unanswered {
        acknowledged(&socket.text().await?)?;
    }
    Ok(())
}

fn acknowledged(answer: &str) -> anyhow::Result<()> {
    ensure!(answer.starts_with(r#"{"type":"ack""#), "not taken: {answer}");
    Ok(())
}

/// The messages of each connection.
fn lanes_of(workload: &Workload, connections: usize) -> Vec<Vec<&str>> {
    let lanes = (0..connections.min(workload.meetings.len())).map(|lane| {
        let meetings: Vec<&Meeting> =
            workload.meetings.iter().skip(lane).step_by(connections).collect();
        in_turn(&meetings)
    });
    lanes.collect()
}

fn post(body: &str) -> Vec<u8> {
    request("POST", "/ingest/transcription", &[], body)
}

async fn send(connection: &mut Connection, request: &[u8]) -> anyhow::Result<()> {
    let status = connection.call(request).await?;
    let body = connection.body();
    let refused = body.windows(8).any(|part| part == b"\"error\":");
    ensure!(status == 200 && !refused, "{status} {}", String::from_utf8_lossy(body));
    Ok(())
}

async fn all(tasks: Vec<tokio::task::JoinHandle<anyhow::Result<()>>>) -> anyhow::Result<()> {
    let done = async {
        for task in tasks {
            task.await.context("a producer")??;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(TIME_MAX, done).await.context("still not done")?
}
