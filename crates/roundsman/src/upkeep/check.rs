//! `roundsman check`: whether the database is sound and everything in it can be true.

use std::sync::Arc;

use anyhow::ensure;
use roundsman_core::effects::Violation;
use serde_json::json;

use super::tell;
use crate::cli::CheckArgs;
use crate::config::Config;
use crate::node::{Access, catalog, open_store};

pub(crate) async fn run(config: Config, args: CheckArgs) -> anyhow::Result<()> {
    let store = open_store(&config, Arc::new(catalog(&config)), Access::Tool).await?;
    let violations = store.check().await;
    let description = store.describe();
    store.close().await;
    let violations = violations?;
    let lines: Vec<String> = violations.iter().map(line).collect();
    let text =
        if lines.is_empty() { format!("{description}: all is well") } else { lines.join("\n") };
    let findings: Vec<_> = violations.iter().map(as_json).collect();
    tell(args.json, &json!({"database": description, "findings": findings}), &text)?;
    ensure!(violations.is_empty(), "{} findings", violations.len());
    Ok(())
}

pub(super) fn first_of(violations: &[Violation]) -> String {
    let first = violations.first().map_or_else(String::new, line);
    format!("{} findings; the first: {first}", violations.len())
}

fn line(found: &Violation) -> String {
    format!("{}: {} {}", found.rule, found.subject, found.explanation)
}

fn as_json(found: &Violation) -> serde_json::Value {
    json!({"rule": found.rule, "subject": found.subject, "explanation": found.explanation})
}
