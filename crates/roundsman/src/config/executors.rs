//! `[executors.NAME]`: outside generators, as many as there are, each described in a table of its own.
//!
//! They are not in the list of settings, because their names are the operator's. What they say is
//! checked by the executor itself; here it is collected, and secrets are set apart from it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use roundsman_providers::executors::{ExecutorOptions, SECRET_NAMES, Secrets, validate};
use secrecy::SecretString;
use toml::{Table, Value};

use super::env::{Environment, PREFIX};
use super::file;
use super::problem::Problems;
use super::redact::HIDDEN;

/// The section of the file.
pub(super) const SECTION: &str = "executors";
const VARIABLE: &str = "EXECUTORS_";
/// What can be said in the environment beside secrets.
const PLAIN_KEYS: [&str; 2] = ["preset", "base_url"];
/// `ROUNDSMAN_EXECUTORS_VEO_SETTINGS_PROJECT`.
const SETTINGS: &str = "_SETTINGS_";

/// All that were named.
#[derive(Clone, Default)]
pub(crate) struct Executors {
    by_name: BTreeMap<String, Executor>,
}

#[derive(Clone, Default)]
struct Executor {
    description: Table,
    /// By name; shown to nobody.
    secrets: BTreeMap<String, SecretString>,
    /// Where it was named first.
    from: String,
}

/// What a variable says about an executor.
struct Variable {
    executor: String,
    key: Key,
}

enum Key {
    Plain(&'static str),
    Setting(String),
    Secret(&'static str),
    SecretFile(&'static str),
}

impl Executors {
    /// What every one needs to be made.
    pub(crate) fn options(&self) -> impl Iterator<Item = ExecutorOptions> {
        self.by_name.iter().map(|(name, executor)| ExecutorOptions {
            name: name.clone(),
            description: executor.description.clone(),
            secrets: executor.secrets.iter().fold(Secrets::default(), |secrets, (name, secret)| {
                secrets.with(name, secret.clone())
            }),
        })
    }

    /// A table of the file.
    pub(super) fn add(&mut self, name: &str, value: Value, from: &str, problems: &mut Problems) {
        let Value::Table(mut table) = value else {
            return problems.add(format!(
                "executors.{name} ({from}): expected a table; write [executors.{name}]"
            ));
        };
        let executor = self.by_name.entry(name.to_owned()).or_default();
        from.clone_into(&mut executor.from);
        for secret in SECRET_NAMES {
            match table.remove(secret) {
                None => {}
                Some(Value::String(text)) => {
                    executor.secrets.insert(secret.to_owned(), SecretString::from(text));
                }
                Some(_) => {
                    let message = format!("executors.{name}.{secret} ({from}): text in quotes");
                    problems.spoil(&path_of(name), message);
                }
            }
        }
        executor.description = table;
    }

    /// A variable; `false` if it says nothing about executors.
    pub(super) fn add_variable(
        &mut self,
        variable: &str,
        environment: &Environment,
        problems: &mut Problems,
    ) -> bool {
        let Some(Variable { executor, key }) = read_variable(variable) else { return false };
        let text = environment.get(variable).unwrap_or_default().to_owned();
        let path = path_of(&executor);
        let executor = self.by_name.entry(executor).or_default();
        if executor.from.is_empty() {
            executor.from = format!("environment {variable}");
        }
        match key {
            Key::Plain(key) => drop(executor.description.insert(key.to_owned(), text.into())),
            Key::Setting(name) => {
                let settings = executor.description.entry("settings");
                let settings = settings.or_insert_with(|| Value::Table(Table::new()));
                match settings.as_table_mut() {
                    Some(settings) => drop(settings.insert(name, text.into())),
                    None => problems.add(format!("environment {variable}: settings is no table")),
                }
            }
            Key::Secret(name) => drop(executor.secrets.insert(name.to_owned(), text.into())),
            Key::SecretFile(name) => {
                let other = variable.trim_end_matches("_FILE");
                if environment.get(other).is_some() {
                    let message = format!("{other} is set too; remove one of them");
                    problems.spoil(&path, format!("environment {variable}: {message}"));
                    return true;
                }
                match file::read_secret(Path::new(&text)) {
                    Ok(secret) => {
                        executor.secrets.insert(name.to_owned(), SecretString::from(secret));
                    }
                    Err(error) => {
                        let message = format!(
                            "environment {variable}: cannot read {text} ({error}); name a \
                             readable text file"
                        );
                        problems.spoil(&path, message);
                    }
                }
            }
        }
        true
    }

    /// Adds a problem for each that cannot be made, and for types that two of them take.
    pub(super) fn check(&self, problems: &mut Problems) {
        let mut takers: BTreeMap<String, String> = BTreeMap::new();
        for options in self.options() {
            let name = options.name.clone();
            if problems.is_spoiled(&path_of(&name)) {
                continue;
            }
            let from = &self.by_name[&name].from;
            match validate(options) {
                Err(error) => {
                    for problem in error.problems {
                        problems.add(format!("executors.{name} ({from}): {problem}"));
                    }
                }
                Ok(task_types) => {
                    for task_type in task_types {
                        if let Some(first) = takers.insert(task_type.clone(), name.clone()) {
                            problems.add(format!(
                                "executors.{name} ({from}): executors.{first} takes tasks of type \
                                 {task_type} too; name others in [executors.{name}.task_types]"
                            ));
                        }
                    }
                }
            }
        }
    }

    /// As they are shown: with no secret in them.
    pub(super) fn shown(&self) -> Table {
        let mut shown = Table::new();
        for (name, executor) in &self.by_name {
            let mut table = without_headers(&executor.description);
            for secret in executor.secrets.keys() {
                table.insert(secret.clone(), Value::from(HIDDEN));
            }
            shown.insert(name.clone(), Value::Table(table));
        }
        shown
    }
}

/// Names only.
impl fmt::Debug for Executors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

fn path_of(name: &str) -> String {
    format!("{SECTION}.{name}")
}

fn read_variable(name: &str) -> Option<Variable> {
    let rest = name.strip_prefix(PREFIX)?.strip_prefix(VARIABLE)?;
    if let Some((executor, setting)) = rest.split_once(SETTINGS) {
        let key = Key::Setting(setting.to_lowercase());
        return Some(Variable { executor: executor.to_lowercase(), key });
    }
    let ends_with = |key: &str| rest.strip_suffix(&format!("_{}", key.to_uppercase()));
    let plain = PLAIN_KEYS.iter().map(|key| (ends_with(key), Key::Plain(key)));
    let secret = SECRET_NAMES.iter().map(|key| (ends_with(key), Key::Secret(key)));
    let files = SECRET_NAMES.iter();
    let files = files.map(|key| (ends_with(&format!("{key}_file")), Key::SecretFile(key)));
    let mut all = plain.chain(secret).chain(files);
    let found = all.find_map(|(executor, key)| Some((executor.filter(|e| !e.is_empty())?, key)));
    found.map(|(executor, key)| Variable { executor: executor.to_lowercase(), key })
}

/// A header may be a key in disguise.
fn without_headers(table: &Table) -> Table {
    let shown = table.iter().map(|(name, value)| match value {
        Value::Table(headers) if name == "headers" => {
            let hidden = headers.keys().map(|name| (name.clone(), Value::from(HIDDEN)));
            (name.clone(), Value::Table(hidden.collect()))
        }
        Value::Table(below) => (name.clone(), Value::Table(without_headers(below))),
        other => (name.clone(), other.clone()),
    });
    shown.collect()
}
