//! The real server as a process, started for one measurement.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use crate::apart;
use crate::http::{Connection, request};
use crate::place::Place;
use crate::process;

const ADMIN_TOKEN: &str = "bench-admin-token-0123456789";
/// What meeting tokens are signed with, in the server and here.
pub const SECRET: &str = "bench-secret-0123456789abcdef0123456789";

pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts at this place and returns when the server has said where it is.
    pub fn start(
        binary: &Path,
        place: &Place,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Server> {
        let program = || format!("cannot start {}", binary.display());
        Server::start_by(binary, place, settings, |command| command.spawn().with_context(program))
    }

    /// The same, and the processor of a client that stands apart is not for it.
    pub fn start_beside(
        binary: &Path,
        place: &Place,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Server> {
        Server::start_by(binary, place, settings, apart::start_beside)
    }

    fn start_by(
        binary: &Path,
        place: &Place,
        settings: &[(&str, &str)],
        start: impl FnOnce(&mut Command) -> anyhow::Result<Child>,
    ) -> anyhow::Result<Server> {
        let mut command = Command::new(binary);
        command.env_clear().args(["serve", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(place.data());
        command.env("ROUNDSMAN_ADMIN_TOKEN", ADMIN_TOKEN);
        command.env("ROUNDSMAN_MEETING_TOKEN_SECRET", SECRET);
        command.env("ROUNDSMAN_LOG_LEVEL", "warn");
        command.envs(place.variables()).envs(settings.iter().copied());
        let log = std::fs::File::create(place.log())?;
        let mut child = start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log))?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            line.trim().strip_prefix("address")?.trim().strip_prefix("http://").map(str::to_owned)
        });
        let mut server = Server { child, address: String::new() };
        let Some(address) = address else {
            let status = server.child.wait()?;
            let log = std::fs::read_to_string(place.log())?;
            anyhow::bail!("the server ended with {status}:\n{log}");
        };
        server.address = address;
        Ok(server)
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// One request of the operator.
    pub async fn admin(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let key = format!("x-admin-api-key: {ADMIN_TOKEN}");
        let mut connection = Connection::open(&self.address).await?;
        let status = connection.call(&request(method, path, &[&key], &text)).await?;
        let body = String::from_utf8_lossy(connection.body()).into_owned();
        anyhow::ensure!((200..300).contains(&status), "{method} {path}: {status} {body}");
        Ok(serde_json::from_str(&body).unwrap_or_else(|_| json!(body)))
    }

    /// Processor time used so far.
    pub fn processor(&self) -> anyhow::Result<Duration> {
        process::processor(self.pid())
    }

    /// The value of one line of `/metrics`; zero if there is none yet.
    pub async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let text = self.admin("GET", "/metrics", &Value::Null).await?;
        let text = text.as_str().context("metrics are text")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.map(|value| value.trim().parse()).transpose()?.unwrap_or(0.0))
    }

    /// Makes a user and returns them with their key.
    pub async fn user(&self) -> anyhow::Result<(i64, String)> {
        let wish = json!({"email": "bench@example.org", "max_concurrent_bots": 10_000});
        let user = self.admin("POST", "/admin/users", &wish).await?;
        let id = user["id"].as_i64().context("no user")?;
        let path = format!("/admin/users/{id}/tokens");
        let token = self.admin("POST", &path, &Value::Null).await?;
        Ok((id, token["token"].as_str().context("no token")?.to_owned()))
    }
}

/// Ends it as a crash would: its database is thrown away.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
