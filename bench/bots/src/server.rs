//! The server as a process: started for one measurement, with its processor time read from outside.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use crate::database::Bench;
use crate::http::{Connection, request};

pub(crate) const ADMIN_TOKEN: &str = "bench-admin-token-0123456789";
/// What bots' tokens are made from, in the server and here.
pub(crate) const SECRET: &str = "bench-secret-0123456789abcdef0123456789";
/// A tick of the kernel's accounting on Linux.
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts on the bench's database and returns when the server has said where it is.
    pub(crate) fn start(
        binary: &Path,
        bench: &Bench,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Server> {
        let mut command = Command::new(binary);
        command.env_clear().args(["serve", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(bench.data());
        command.env("ROUNDSMAN_ADMIN_TOKEN", ADMIN_TOKEN);
        command.env("ROUNDSMAN_MEETING_TOKEN_SECRET", SECRET);
        command.env("ROUNDSMAN_LOG_LEVEL", "warn");
        command.envs(bench.variables()).envs(settings.iter().copied());
        let log = std::fs::File::create(log_of(bench))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        let mut child = child.with_context(|| format!("cannot start {}", binary.display()))?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            line.trim().strip_prefix("address")?.trim().strip_prefix("http://").map(str::to_owned)
        });
        let mut server = Server { child, address: String::new() };
        let Some(address) = address else {
            let status = server.child.wait()?;
            let log = std::fs::read_to_string(log_of(bench))?;
            anyhow::bail!("the server ended with {status}:\n{log}");
        };
        server.address = address;
        Ok(server)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Processor time used so far.
    pub(crate) fn processor(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after_name = stat.rsplit_once(") ").context("no process name")?.1;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let ticks: u32 = fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
        Ok(TICK * ticks)
    }

    /// One request of the operator.
    pub(crate) async fn admin(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<Value> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let key = format!("x-admin-api-key: {ADMIN_TOKEN}");
        let mut connection = Connection::open(&self.address).await?;
        let status = connection.call(&request(method, path, &[&key], &text)).await?;
        let body = String::from_utf8_lossy(connection.body()).into_owned();
        anyhow::ensure!((200..300).contains(&status), "{method} {path}: {status} {body}");
        Ok(serde_json::from_str(&body).unwrap_or_else(|_| json!(body)))
    }

    /// The value of one line of `/metrics`; zero if there is none yet.
    pub(crate) async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let text = self.admin("GET", "/metrics", &Value::Null).await?;
        let text = text.as_str().context("metrics are text")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.map(|value| value.trim().parse()).transpose()?.unwrap_or(0.0))
    }
}

/// Ends it as a crash would: its database is thrown away.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tells whoever watches how far it is.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn log_of(bench: &Bench) -> PathBuf {
    bench.data().with_extension("log")
}
