//! The configuration: flags over environment over file over defaults, checked as a whole at start.
//!
//! Invariants: a [`Config`] that exists is valid; its secrets cannot be printed; the rest of the
//! program gets the section it needs and never looks at files, variables or flags itself.

mod audits;
mod bots;
mod docs;
mod env;
mod executors;
mod file;
mod layers;
mod presence;
mod problem;
mod reader;
mod redact;
mod relations;
mod rooms;
mod schema;
mod sections;
mod show;
mod tasks;
mod transcripts;
mod unknown;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub(crate) use bots::LauncherKind;
pub(crate) use docs::reference;
pub(crate) use env::Environment;
pub(crate) use layers::Settings;
pub(crate) use presence::{MediaPlace, endpoint_of};
pub(crate) use problem::Problems;
pub(crate) use schema::DEFAULT_TOML;
pub(crate) use sections::*;

/// Everything that can decide about the configuration.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) purpose: Purpose,
    pub(crate) environment: Environment,
    /// The file that `--config` names.
    pub(crate) config: Option<PathBuf>,
    /// The file that is read if it exists and no other is named.
    pub(crate) default_file: PathBuf,
    pub(crate) flags: Flags,
}

/// What the configuration is for. Only a server has to be safe to reach: a migration with the same
/// file must not fail because the server's token is not at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Serving,
    Maintenance,
}

/// The settings that have a flag of their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(crate) data: Option<String>,
    pub(crate) listen: Option<String>,
    pub(crate) roles: Option<String>,
}

/// A valid configuration and how it came about.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) settings: Settings,
    /// What is allowed but probably not meant; for the log.
    pub(crate) hints: Vec<String>,
}

/// Reads and checks the configuration. The error holds every problem, not only the first.
pub(crate) fn load(inputs: &Inputs) -> Result<Loaded, Problems> {
    let (settings, problems) = layers::merge(inputs);
    let mut reader = reader::Reader::new(&settings, problems);
    let config = Config::read(&mut reader, inputs.environment.failpoints());
    let mut problems = reader.finish();
    relations::check(&config, &settings, inputs.purpose, &mut problems);
    let hints = relations::hints(&config);
    problems.into_result(Loaded { config, settings, hints })
}

impl Flags {
    /// Setting, flag and value of each flag that was given.
    fn given(&self) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
        let all = [
            ("server.data", "--data", self.data.as_deref()),
            ("server.listen", "--listen", self.listen.as_deref()),
            ("server.roles", "--roles", self.roles.as_deref()),
        ];
        all.into_iter().filter_map(|(path, flag, value)| Some((path, flag, value?)))
    }
}
