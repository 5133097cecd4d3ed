//! Puts the layers on top of each other: defaults, file, environment, flags; the last one wins.
//!
//! Invariant: every setting knows where its value came from, and whatever does not match a known
//! setting is a problem, never ignored.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::Value;

use super::Inputs;
use super::env::{self, Environment};
use super::executors::{self, Executors};
use super::file::{self, Entry};
use super::problem::Problems;
use super::redact;
use super::schema::{ALIASES, Exposure, Key, schema};
use super::unknown;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Default,
    File { path: PathBuf, line: usize },
    Environment { name: String },
    EnvironmentFile { name: String, path: PathBuf },
    Flag { name: &'static str },
}

/// One setting with its value.
pub(super) struct Setting {
    pub(super) key: &'static Key,
    pub(super) value: Value,
    pub(super) source: Source,
}

/// All settings, in the order of the default file.
#[derive(Debug)]
pub(crate) struct Settings {
    settings: Vec<Setting>,
    /// Beside them, because their names are the operator's.
    pub(super) executors: Executors,
}

/// The effective settings and what was wrong on the way to them.
pub(super) fn merge(inputs: &Inputs) -> (Settings, Problems) {
    let mut merge = Merge { settings: Settings::defaults(), problems: Problems::default() };
    merge.apply_file(inputs);
    merge.apply_environment(&inputs.environment);
    for (path, flag, value) in inputs.flags.given() {
        merge.set_text(path, value, Source::Flag { name: flag });
    }
    (merge.settings, merge.problems)
}

impl Settings {
    pub(super) fn defaults() -> Settings {
        let default = |key: &'static Key| Setting {
            key,
            value: key.default.clone(),
            source: Source::Default,
        };
        Settings {
            settings: schema().keys().map(default).collect(),
            executors: Executors::default(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter()
    }

    /// The setting called `path`, which the default file must have.
    pub(super) fn get(&self, path: &str) -> &Setting {
        let found = self.settings.iter().find(|setting| setting.key.path == path);
        found.unwrap_or_else(|| panic!("{path} is missing in the default configuration"))
    }
}

impl Setting {
    /// The value with nothing secret in it.
    pub(super) fn shown(&self) -> Value {
        shown(self.key, &self.value)
    }
}

/// `section.key = value (where from)`, the way every message begins.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key.path, self.shown(), self.source)
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => write!(f, "default"),
            Source::File { path, line } => write!(f, "file {}:{line}", path.display()),
            Source::Environment { name } => write!(f, "environment {name}"),
            Source::EnvironmentFile { name, path } => {
                write!(f, "environment {name}, file {}", path.display())
            }
            Source::Flag { name } => write!(f, "flag {name}"),
        }
    }
}

struct Merge {
    settings: Settings,
    problems: Problems,
}

impl Merge {
    fn apply_file(&mut self, inputs: &Inputs) {
        let named = inputs.config.clone();
        let named = named.or_else(|| inputs.environment.get(env::CONFIG).map(PathBuf::from));
        let path = match named {
            Some(path) => path,
            // Only a file that nobody named may be missing.
            None if inputs.default_file.exists() => inputs.default_file.clone(),
            None => return,
        };
        match file::read_entries(&path) {
            Ok(entries) => entries.into_iter().for_each(|entry| self.apply_entry(&path, entry)),
            Err(problem) => self.problems.add(problem),
        }
    }

    fn apply_entry(&mut self, path: &Path, entry: Entry) {
        let source = Source::File { path: path.to_owned(), line: entry.line };
        if entry.section.as_deref() == Some(executors::SECTION) {
            let (executors, from) = (&mut self.settings.executors, source.to_string());
            return executors.add(&entry.key, entry.value, &from, &mut self.problems);
        }
        let section = entry.section.as_deref().and_then(|name| schema().section(name));
        let Some(key) = section.and_then(|s| s.keys.iter().find(|key| key.name == entry.key))
        else {
            let name = entry.section.iter().fold(entry.key.clone(), |key, s| format!("{s}.{key}"));
            self.problems.add(format!("{name} ({source}): {}", unknown::entry(&entry)));
            return;
        };
        if key.kind.accepts(&entry.value) {
            self.set(key, entry.value, source);
        } else {
            self.refuse_type(key, &entry.value, &source);
        }
    }

    fn apply_environment(&mut self, environment: &Environment) {
        for name in environment.garbled() {
            self.problems.add(format!("environment {name}: not valid UTF-8; set it to plain text"));
        }
        let mut known = BTreeMap::new();
        for key in schema().keys() {
            known.insert(key.env.clone(), key);
            known.extend(key.env_file().map(|name| (name, key)));
        }
        for (name, path) in ALIASES {
            if let Some(text) = environment.get(name) {
                self.set_text(path, text, Source::Environment { name: name.to_owned() });
            }
        }
        for name in environment.candidates() {
            let text = environment.get(name).unwrap_or_default();
            match known.get(name) {
                Some(key) if key.env == name => {
                    let source = Source::Environment { name: name.to_owned() };
                    self.set_text(&key.path, text, source);
                }
                Some(key) => self.apply_secret_file(key, name, Path::new(text), environment),
                None => {
                    let executors = &mut self.settings.executors;
                    if executors.add_variable(name, environment, &mut self.problems) {
                        continue;
                    }
                    let advice = unknown::variable(name, known.keys().map(String::as_str));
                    self.problems.add(format!("environment {name}: {advice}"));
                }
            }
        }
    }

    fn apply_secret_file(
        &mut self,
        key: &'static Key,
        name: &str,
        path: &Path,
        environment: &Environment,
    ) {
        if environment.get(&key.env).is_some() {
            let message = format!("environment {name}: {} is set too; remove one of them", key.env);
            return self.problems.spoil(&key.path, message);
        }
        match file::read_secret(path) {
            Ok(text) => {
                let source =
                    Source::EnvironmentFile { name: name.to_owned(), path: path.to_owned() };
                self.set(key, Value::String(text), source);
            }
            Err(error) => {
                let path = path.display();
                let message = format!(
                    "environment {name}: cannot read {path} ({error}); name a readable text file"
                );
                self.problems.spoil(&key.path, message);
            }
        }
    }

    fn set_text(&mut self, path: &str, text: &str, source: Source) {
        let key = self.settings.get(path).key;
        match key.kind.parse(text) {
            Some(value) => self.set(key, value, source),
            None => self.refuse_type(key, &Value::from(text), &source),
        }
    }

    fn set(&mut self, key: &'static Key, value: Value, source: Source) {
        let place = self.settings.settings.iter_mut().find(|s| std::ptr::eq(s.key, key));
        let place = place.expect("the settings hold every key of the schema");
        *place = Setting { key, value, source };
    }

    fn refuse_type(&mut self, key: &Key, given: &Value, source: &Source) {
        let message = format!(
            "{} = {} ({source}): expected {}; the default is {}",
            key.path,
            shown(key, given),
            key.kind.describe(),
            key.default
        );
        self.problems.spoil(&key.path, message);
    }
}

fn shown(key: &Key, value: &Value) -> Value {
    match (key.exposure, value) {
        (Exposure::Open, value) => value.clone(),
        (Exposure::Url, Value::String(text)) => Value::String(redact::url(text)),
        (Exposure::Secret, Value::String(text)) => Value::String(redact::secret(text)),
        // A value of the wrong type in the place of a secret is still the secret.
        (Exposure::Url | Exposure::Secret, _) => Value::String(redact::HIDDEN.to_owned()),
    }
}
