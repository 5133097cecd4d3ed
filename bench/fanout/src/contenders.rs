//! The servers that are compared, each a process of its own with the same way in: what is published
//! on a Redis channel goes to everybody who listens.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use bench_support::http::{Connection, request};
use bench_support::meetings;
use bench_support::place::{Place, Target};
use bench_support::server::Server;
use roundsman_testkit::RedisServer;
use serde_json::json;

/// What clients of the reference hear about meeting 1 on.
const CHANNEL: &str = "tc:meeting:1:mutable";
/// More than are measured.
const CONNECTIONS_MAX: &str = "20000";
const MANY: [(&str, &str); 2] = [
    ("ROUNDSMAN_LIVE_CONNECTIONS_PER_KEY_MAX", CONNECTIONS_MAX),
    ("ROUNDSMAN_SERVER_CONNECTIONS_MAX", CONNECTIONS_MAX),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Frames come as those of another node do.
    Roundsman,
    /// Frames are made of transcripts that the server is told, and are stored before they go out.
    RoundsmanIngest,
    Bare(PathBuf),
    Node(PathBuf),
}

impl Contender {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Contender::Roundsman => "Roundsman",
            Contender::RoundsmanIngest => "Roundsman, told over HTTP and stored",
            Contender::Bare(_) => "bare axum",
            Contender::Node(_) => "Node ws",
        }
    }
}

/// A server that runs, and the way to publish through it.
pub(crate) struct Running {
    process: Process,
    publisher: Publisher,
    address: String,
    header: String,
    published: usize,
    // Dropped after the server.
    _redis: Option<RedisServer>,
    _place: Option<Place>,
}

enum Process {
    Roundsman(Server),
    Other(Child),
}

enum Publisher {
    Redis { connection: redis::aio::MultiplexedConnection, bytes: usize },
    Http { connection: Connection, token: String },
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Process::Other(child) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    pub(crate) async fn start(
        contender: &Contender,
        binary: &Path,
        folder: &Path,
        bytes: usize,
    ) -> anyhow::Result<Running> {
        let with_redis = *contender != Contender::RoundsmanIngest;
        let redis = if with_redis { Some(RedisServer::start().await?) } else { None };
        let url = redis.as_ref().map(RedisServer::url);
        let command = match contender {
            Contender::Bare(binary) => Command::new(binary),
            Contender::Node(script) => {
                let mut command = Command::new("node");
                command.arg(script);
                command
            }
            _ => return Running::start_roundsman(binary, folder, redis, bytes).await,
        };
        let url = url.context("no Redis")?;
        let (child, address) = start_other(command, &url)?;
        let publisher = Publisher::to_redis(&url, bytes).await?;
        Ok(Running {
            process: Process::Other(child),
            publisher,
            address,
            header: "x-api-key: nobody".to_owned(),
            published: 0,
            _redis: redis,
            _place: None,
        })
    }

    async fn start_roundsman(
        binary: &Path,
        folder: &Path,
        redis: Option<RedisServer>,
        bytes: usize,
    ) -> anyhow::Result<Running> {
        let url = redis.as_ref().map(RedisServer::url);
        let target = Target::Sqlite { folder: folder.to_owned() };
        let place = Place::open(&target, url.clone(), "fanout").await?;
        let first = Server::start(binary, &place, &[])?;
        let (user, key) = first.user().await?;
        drop(first);
        meetings::fill(&place, user, 1).await?;
        let server = Server::start(binary, &place, &MANY)?;
        let address = server.address().to_owned();
        let publisher = match url {
            Some(url) => Publisher::to_redis(&url, bytes).await?,
            None => Publisher::Http {
                connection: Connection::open(&address).await?,
                token: meetings::token(user, 1),
            },
        };
        Ok(Running {
            process: Process::Roundsman(server),
            publisher,
            address,
            header: format!("x-api-key: {key}"),
            published: 0,
            _redis: redis,
            _place: Some(place),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        match &self.process {
            Process::Roundsman(server) => server.pid(),
            Process::Other(child) => child.id(),
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Who listens, as a header.
    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    /// Publishes so many frames at once.
    pub(crate) async fn publish(&mut self, frames: usize) -> anyhow::Result<()> {
        let numbers = self.published + 1..=self.published + frames;
        self.published += frames;
        match &mut self.publisher {
            Publisher::Redis { connection, bytes } => {
                let mut pipeline = redis::pipe();
                for number in numbers {
                    pipeline.cmd("PUBLISH").arg(CHANNEL).arg(frame(number, *bytes));
                }
                let _: Vec<i64> = pipeline.query_async(connection).await?;
            }
            Publisher::Http { connection, token } => {
                let messages: Vec<String> = numbers.map(|number| message(number, token)).collect();
                let body = format!("[{}]", messages.join(","));
                let status =
                    connection.call(&request("POST", "/ingest/transcription", &[], &body)).await?;
                let answer = String::from_utf8_lossy(connection.body());
                anyhow::ensure!(status == 200 && !answer.contains("\"error\":"), "{answer}");
            }
        }
        Ok(())
    }
}

impl Publisher {
    async fn to_redis(url: &str, bytes: usize) -> anyhow::Result<Publisher> {
        let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Publisher::Redis { connection, bytes })
    }
}

fn start_other(mut command: Command, redis: &str) -> anyhow::Result<(Child, String)> {
    command.args([redis, CHANNEL]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let stdout = child.stdout.take().context("no standard output")?;
    let mut address = String::new();
    BufReader::new(stdout).read_line(&mut address)?;
    if address.trim().is_empty() {
        let _ = child.kill();
        anyhow::bail!("{command:?} ended with {}", child.wait()?);
    }
    Ok((child, address.trim().to_owned()))
}

/// A frame of this size, as one node of the server publishes it for the others.
fn frame(number: usize, bytes: usize) -> String {
    let frame = |text: &str| {
        format!(
            r#"{{"seq":{number},"type":"transcript.mutable","meeting":{{"id":1}},"payload":{{"segments":[{{"start":{number}.5,"text":"{text}"}}]}}}}"#
        )
    };
    let around = frame("").len();
    frame(&"x".repeat(bytes.saturating_sub(around)))
}

/// A message with one segment that has changed.
fn message(number: usize, token: &str) -> String {
    json!({
        "type": "transcription", "token": token, "uid": "bench",
        "segments": [{"start": "1.500", "end": "3.000", "text": format!(" Word {number}")}],
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_size_they_should() {
        for number in [1, 12_345] {
            let frame = frame(number, 200);
            assert_eq!(frame.len(), 200);
            let frame: serde_json::Value = serde_json::from_str(&frame).unwrap();
            assert_eq!(frame["seq"], number);
        }
    }
}
