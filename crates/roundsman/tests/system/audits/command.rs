//! `roundsman audit` as an engineer uses it: without a server.

use std::process::Output;

use anyhow::{Result, ensure};
use roundsman_testkit::TestSite;
use roundsman_testkit::site::Door;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use super::COMMAND_MAX;

async fn roundsman(folder: &TempDir, args: &[&str], variables: &[(&str, &str)]) -> Result<Output> {
    let run = Command::new(env!("CARGO_BIN_EXE_roundsman"))
        .args(args)
        .current_dir(folder.path())
        .env_clear()
        .envs(variables.iter().copied())
        .output();
    Ok(tokio::time::timeout(COMMAND_MAX, run).await??)
}

#[tokio::test]
async fn a_site_is_audited_in_the_terminal() {
    audited().await.unwrap();
}

async fn audited() -> Result<()> {
    let (folder, web) = (tempfile::tempdir()?, TestSite::start().await?);
    let page = web.url(Door::Plain, "/");
    let args = [
        "audit",
        &page,
        "--allow-private",
        "--json",
        "--html",
        "report.html",
        "--pdf",
        "report.pdf",
    ];
    let output = roundsman(&folder, &args, &[]).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    ensure!(said.contains("fetching the page"), "it says how far it is: {said}");
    let verdict: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(verdict["overall"].as_u64().is_some_and(|score| score > 50), "{}", verdict["overall"]);
    ensure!(verdict["raw_data"]["checks"].as_object().is_some_and(|checks| checks.len() == 14));
    let html = std::fs::read_to_string(folder.path().join("report.html"))?;
    ensure!(html.contains("<svg") && html.contains("</html>"), "a report with pictures");
    ensure!(std::fs::read(folder.path().join("report.pdf"))?.starts_with(b"%PDF"));
    let output = roundsman(&folder, &["audit", &page, "--allow-private", "-q"], &[]).await?;
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success() && output.stderr.is_empty(), "quiet is quiet");
    ensure!(table.contains("Performance") && table.contains("Security"), "{table}");
    let left = std::fs::read_dir(folder.path())?.count();
    ensure!(left == 2, "it leaves the reports and no database");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_audited_is_said() {
    told().await.unwrap();
}

async fn told() -> Result<()> {
    let (folder, web) = (tempfile::tempdir()?, TestSite::start().await?);
    let page = web.url(Door::Plain, "/");
    for (args, part) in [
        (vec!["audit", &page], "--allow-private"),
        (vec!["audit", "ftp://example.org/"], "invalid_url"),
        (vec!["audit", "http://127.0.0.1:1/", "--allow-private"], "connect_failure"),
    ] {
        let output = roundsman(&folder, &args, &[]).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "{args:?}: {said}");
        ensure!(said.contains(part), "{args:?}: {said}");
        ensure!(output.stdout.is_empty());
    }
    ensure!(web.connections() == 0, "nothing was connected to");
    Ok(())
}

#[tokio::test]
async fn a_wrong_rule_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let rules = [("ROUNDSMAN_AUDITS_PRIORITY_RULES", "plan pro +5, weather sunny +5")];
    let output = roundsman(&folder, &["serve", "--listen", "127.0.0.1:0"], &rules).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("audits.priority_rules") && said.contains("weather sunny +5"), "{said}");
}
