//! The published client, in a process of its own.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use roundsman_testkit::env;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::bots::python::script;

const ANSWER_MAX: Duration = Duration::from_secs(60);

pub(super) struct NpmClient {
    stdin: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl NpmClient {
    /// Starts a client and connects it.
    pub(super) async fn connect(url: &str) -> Result<NpmClient> {
        let mut child = Command::new("node")
            .arg(script("rooms_client.cjs"))
            .arg(env::clients_node()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .context("cannot run node")?;
        let stdin = child.stdin.take().context("no standard input")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let answers = BufReader::new(stdout).lines();
        let mut client = NpmClient { stdin, answers, _child: child };
        client.call("connect", json!({"url": url})).await?;
        Ok(client)
    }

    /// Tells the client to do something, and waits until it has.
    pub(super) async fn call(&mut self, command: &str, mut args: Value) -> Result<Value> {
        args["command"] = json!(command);
        self.stdin.write_all(format!("{args}\n").as_bytes()).await?;
        let line = tokio::time::timeout(ANSWER_MAX, self.answers.next_line()).await;
        let line = line.with_context(|| format!("{command} is not answered"))??;
        let answer: Value = serde_json::from_str(&line.context("the client has ended")?)?;
        match answer.get("error") {
            Some(error) => Err(anyhow!("{command} of {args}: {error}")),
            None => Ok(answer["ok"].clone()),
        }
    }

    pub(super) async fn join(&mut self, room: &str, token: &str) -> Result<Value> {
        self.call("join", json!({"room": room, "tokens": [token]})).await
    }

    pub(super) async fn set(&mut self, room: &str, key: &str, value: &Value) -> Result<()> {
        let args = json!({"room": room, "map": "nodes", "key": key, "value": value});
        self.call("set", args).await.map(|_| ())
    }

    pub(super) async fn wait(&mut self, room: &str, key: &str, value: &Value) -> Result<()> {
        let args = json!({"room": room, "map": "nodes", "key": key, "value": value});
        self.call("wait", args).await.map(|_| ())
    }
}
