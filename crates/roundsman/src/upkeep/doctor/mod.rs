//! `roundsman doctor`: what is configured, what of it can be reached, what is wrong and what to do.
//!
//! Invariant: it changes nothing but what opening the database changes, sends nothing to a provider,
//! and shows no secret.

mod database;
mod finding;
mod outside;
mod place;

use anyhow::ensure;
use roundsman_store::advice::Grade;
use serde_json::json;

use self::finding::Finding;
use super::tell;
use crate::cli::DoctorArgs;
use crate::config::Config;

pub(crate) async fn run(
    config: Config,
    hints: Vec<String>,
    args: DoctorArgs,
) -> anyhow::Result<()> {
    let mut findings: Vec<Finding> = hints.iter().map(|hint| Finding::hint(hint)).collect();
    findings.extend(place::look(&config));
    findings.extend(database::look(&config).await);
    findings.extend(outside::look(&config).await);
    let count = |grade: Grade| findings.iter().filter(|finding| finding.grade == grade).count();
    let (wrong, doubtful) = (count(Grade::Wrong), count(Grade::Doubtful));
    let json = json!({
        "wrong": wrong,
        "doubtful": doubtful,
        "findings": findings.iter().map(Finding::as_json).collect::<Vec<_>>(),
    });
    let mut lines: Vec<String> = findings.iter().map(Finding::line).collect();
    lines.push(format!("{wrong} wrong, {doubtful} doubtful, {} fine", count(Grade::Fine)));
    tell(args.json, &json, &lines.join("\n"))?;
    ensure!(wrong == 0, "{wrong} things are wrong");
    Ok(())
}
