//! Shows the effective configuration with where each value came from, and no secret.

use std::fmt::Write;

use serde_json::{Map, json};
use toml::Value;

use super::layers::Settings;

impl Settings {
    /// As TOML, with the source of each value in a comment.
    pub(crate) fn to_toml(&self) -> String {
        let lines: Vec<(String, String)> = self
            .iter()
            .map(|s| (format!("{} = {}", s.key.name, s.shown()), s.source.to_string()))
            .collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
        let mut text =
            String::from("# The effective configuration and where each value came from.\n");
        let mut section = "";
        for (setting, (line, source)) in self.iter().zip(&lines) {
            if setting.key.section != section {
                section = &setting.key.section;
                writeln!(text, "\n[{section}]").expect("writing to a string cannot fail");
            }
            writeln!(text, "{line:width$}  # {source}").expect("writing to a string cannot fail");
        }
        let executors = self.executors.shown();
        if !executors.is_empty() {
            let table = toml::Table::from_iter([("executors".to_owned(), Value::Table(executors))]);
            writeln!(text, "\n{table}").expect("writing to a string cannot fail");
        }
        text
    }

    /// As JSON: `section.key.value` and `section.key.from`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut sections = Map::new();
        for setting in self.iter() {
            let section = sections.entry(&setting.key.section).or_insert_with(|| json!({}));
            section[&setting.key.name] = json!({
                "value": json_from(&setting.shown()),
                "from": setting.source.to_string(),
            });
        }
        let executors = self.executors.shown();
        if !executors.is_empty() {
            sections.insert("executors".to_owned(), json_from(&Value::Table(executors)));
        }
        serde_json::Value::Object(sections)
    }
}

fn json_from(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => json!(text),
        Value::Integer(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::Boolean(flag) => json!(flag),
        Value::Array(items) => items.iter().map(json_from).collect(),
        Value::Table(table) => {
            let members = table.iter().map(|(name, value)| (name.clone(), json_from(value)));
            serde_json::Value::Object(members.collect())
        }
        // No setting has such a type.
        Value::Datetime(_) => json!(value.to_string()),
    }
}
