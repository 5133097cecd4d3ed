//! Scripts in Python that drive what others have published.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::env;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

const SCRIPT_MAX: Duration = Duration::from_mins(2);

/// Where a script of this name is.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/clients").join(name)
}

/// Runs a script with `input` as JSON on its standard input; returns what it prints. A script that
/// fails says why on standard error.
pub(crate) async fn run(name: &str, input: &Value) -> Result<String> {
    let mut child = Command::new(env::clients_python()?)
        .arg(script(name))
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    stdin.write_all(input.to_string().as_bytes()).await?;
    drop(stdin);
    let output = tokio::time::timeout(SCRIPT_MAX, child.wait_with_output()).await;
    let output = output.with_context(|| format!("{name} does not end"))??;
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{name} ended with {}:\n{said}\n{errors}", output.status);
    Ok(said.into_owned())
}
