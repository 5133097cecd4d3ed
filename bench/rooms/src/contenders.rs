//! The servers that are compared, each a process of its own with a fresh database: started, killed,
//! started again on what it has stored.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::http::{Connection, request};
use bench_support::pause;
use bench_support::place::{Place, Target};
use bench_support::process;
use bench_support::server::Server;
use serde_json::Value;

use crate::documents::filled;
use crate::wire::Wire;

/// Nobody is refused for being too fast, and documents that were filled are merged at once.
const SETTINGS: [(&str, &str); 4] = [
    ("ROUNDSMAN_ROOMS_UPDATES_PER_SEC_MAX", "100000"),
    ("ROUNDSMAN_LIVE_CONNECTIONS_PER_KEY_MAX", "20000"),
    ("ROUNDSMAN_SERVER_CONNECTIONS_MAX", "20000"),
    ("ROUNDSMAN_ROOMS_SNAPSHOT_SECS", "1"),
];
/// Logs are merged within this time.
const MERGED_MAX: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
pub(crate) enum Contender {
    Sqlite { binary: PathBuf, folder: PathBuf },
    Postgres { binary: PathBuf, url: String, redis: String },
    Hocuspocus { script: PathBuf, url: String },
}

impl Contender {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Contender::Sqlite { .. } => "Roundsman, SQLite",
            Contender::Postgres { .. } => "Roundsman, PostgreSQL and Redis",
            Contender::Hocuspocus { .. } => "Hocuspocus, PostgreSQL",
        }
    }

    pub(crate) fn wire(&self) -> Wire {
        match self {
            Contender::Hocuspocus { .. } => Wire::Yjs,
            _ => Wire::Loro,
        }
    }

    /// Whether what it acknowledges is to be there after a kill.
    pub(crate) fn is_durable(&self) -> bool {
        self.wire() == Wire::Loro
    }
}

/// One that runs.
pub(crate) struct Running {
    contender: Contender,
    // Dropped before its place.
    process: Option<Process>,
    place: Place,
    /// Opens every room.
    token: String,
}

enum Process {
    Roundsman(Server),
    Node(Node),
}

struct Node {
    child: Child,
    address: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub(crate) async fn start(contender: &Contender) -> anyhow::Result<Running> {
        let (target, redis, name) = match contender {
            Contender::Sqlite { folder, .. } => {
                (Target::Sqlite { folder: folder.clone() }, None, "rooms")
            }
            Contender::Postgres { url, redis, .. } => {
                (Target::Postgres { url: url.clone() }, Some(redis.clone()), "rooms")
            }
            Contender::Hocuspocus { url, .. } => {
                (Target::Postgres { url: url.clone() }, None, "rooms_peer")
            }
        };
        let place = Place::open(&target, redis, name).await?;
        let token = "nobody's".to_owned();
        let mut running = Running { contender: contender.clone(), process: None, place, token };
        running.restart()?;
        if let Some(Process::Roundsman(server)) = &running.process {
            running.token = server.user().await?.1;
        }
        Ok(running)
    }

    /// Kills it and starts it again: nothing is in its memory.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        drop(self.process.take());
        self.process = Some(match &self.contender {
            Contender::Sqlite { binary, .. } | Contender::Postgres { binary, .. } => {
                Process::Roundsman(Server::start(binary, &self.place, &SETTINGS)?)
            }
            Contender::Hocuspocus { script, .. } => {
                Process::Node(serve(script, &self.database_url()?)?)
            }
        });
        Ok(())
    }

    fn process(&self) -> anyhow::Result<&Process> {
        self.process.as_ref().context("it does not run")
    }

    pub(crate) fn address(&self) -> anyhow::Result<&str> {
        Ok(match self.process()? {
            Process::Roundsman(server) => server.address(),
            Process::Node(node) => &node.address,
        })
    }

    fn pid(&self) -> anyhow::Result<u32> {
        Ok(match self.process()? {
            Process::Roundsman(server) => server.pid(),
            Process::Node(node) => node.child.id(),
        })
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Of the server's process alone.
    pub(crate) fn processor(&self) -> anyhow::Result<Duration> {
        process::processor(self.pid()?)
    }

    pub(crate) fn resident_kib(&self) -> anyhow::Result<f64> {
        process::resident_kib(self.pid()?)
    }

    /// Stores documents with so many nodes each, as `PREFIX0`, `PREFIX1` and so on.
    pub(crate) async fn fill(
        &self,
        prefix: &str,
        count: usize,
        nodes: usize,
    ) -> anyhow::Result<()> {
        if let Contender::Hocuspocus { script, .. } = &self.contender {
            let (count, nodes) = (count.to_string(), nodes.to_string());
            node(script, &["fill", &self.database_url()?, prefix, &count, &nodes])?;
            return Ok(());
        }
        let document = filled(nodes)?;
        let mut connection = Connection::open(self.address()?).await?;
        for number in 0..count {
            let path = format!("/rooms/{prefix}{number}/doc/import");
            let key = format!("x-api-key: {}", self.token);
            let length = format!("content-length: {}", document.len());
            let sort = "content-type: application/octet-stream";
            let lines =
                [&format!("POST {path} HTTP/1.1"), "host: bench", &key, sort, &length, "", ""];
            let mut whole = lines.join("\r\n").into_bytes();
            whole.extend(&document);
            let status = connection.call(&whole).await?;
            let said = String::from_utf8_lossy(connection.body());
            ensure!(status == 200, "{path}: {status} {said}");
        }
        self.merged().await
    }

    /// Waits until every log is merged into its snapshot.
    async fn merged(&self) -> anyhow::Result<()> {
        const DIRTY: &str = "SELECT count(*) FROM rooms WHERE dirty_since IS NOT NULL";
        let mut left: i64 = 0;
        for _ in 0..MERGED_MAX.as_millis() / LOOK_EVERY.as_millis() {
            left = match self.place.postgres().await? {
                Some(client) => {
                    let statement = DIRTY.replace("rooms", "roundsman.rooms");
                    client.query_one(&statement, &[]).await?.get(0)
                }
                None => self.place.sqlite()?.query_row(DIRTY, [], |row| row.get(0))?,
            };
            if left == 0 {
                return Ok(());
            }
            pause(LOOK_EVERY).await;
        }
        anyhow::bail!("{left} rooms are not merged")
    }

    /// What the stored documents of these rooms say, by room.
    pub(crate) async fn stored(&self, rooms: usize) -> anyhow::Result<BTreeMap<String, Value>> {
        if let Contender::Hocuspocus { script, .. } = &self.contender {
            let said = node(script, &["read", &self.database_url()?])?;
            return Ok(serde_json::from_str(&said)?);
        }
        let mut stored = BTreeMap::new();
        let mut connection = Connection::open(self.address()?).await?;
        for number in 0..rooms {
            let (path, key) =
                (format!("/rooms/room-{number}/doc"), format!("x-api-key: {}", self.token));
            let status = connection.call(&request("GET", &path, &[&key], "")).await?;
            ensure!(status == 200, "{path}: {status}");
            let mut said: Value = serde_json::from_slice(connection.body())?;
            stored.insert(format!("room-{number}"), said["doc"]["nodes"].take());
        }
        Ok(stored)
    }

    fn database_url(&self) -> anyhow::Result<String> {
        let mut variables = self.place.variables().into_iter();
        let found = variables.find(|(name, _)| *name == "ROUNDSMAN_DATABASE_URL");
        Ok(found.context("no PostgreSQL")?.1)
    }
}

fn serve(script: &Path, url: &str) -> anyhow::Result<Node> {
    let mut command = Command::new("node");
    command.arg(script).args(["serve", url]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot run node")?;
    let stdout = child.stdout.take().context("no standard output")?;
    let mut node = Node { child, address: String::new() };
    BufReader::new(stdout).read_line(&mut node.address)?;
    node.address = node.address.trim().to_owned();
    ensure!(!node.address.is_empty(), "the server of Node ended with {}", node.child.wait()?);
    Ok(node)
}

fn node(script: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("node").arg(script).args(arguments).output();
    let output = output.context("cannot run node")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "node {arguments:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}
