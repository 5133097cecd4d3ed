//! Where the servers for tests are: the variables that `scripts/test` sets.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// The shared PostgreSQL: a superuser on a server that tests may fill with databases of their own.
pub const POSTGRES_URL: &str = "ROUNDSMAN_TEST_POSTGRES_URL";
/// The shared Redis. A test that stops or empties Redis starts its own [`crate::RedisServer`].
pub const REDIS_URL: &str = "ROUNDSMAN_TEST_REDIS_URL";
/// The folder with `initdb` and `postgres`; optional where the distribution's can be found.
pub const POSTGRES_BIN: &str = "ROUNDSMAN_TEST_POSTGRES_BIN";

/// The Python that has the published clients which tests drive.
pub const CLIENTS_PYTHON: &str = "ROUNDSMAN_TEST_CLIENTS_PYTHON";

/// The example of the TypeScript worker library, compiled.
pub const TYPESCRIPT_WORKER: &str = "ROUNDSMAN_TEST_TYPESCRIPT_WORKER";

/// The folder with the published clients of npm that tests drive.
pub const CLIENTS_NODE: &str = "ROUNDSMAN_TEST_CLIENTS_NODE";

/// How often the kill tests kill; without it, each place once.
pub const KILLS: &str = "ROUNDSMAN_TEST_KILLS";

/// The program of the release before, which `scripts/upgrade` builds.
pub const PREVIOUS_BINARY: &str = "ROUNDSMAN_TEST_PREVIOUS_BINARY";

/// Set to anything: suites that count run with the numbers that the project promises.
pub const FULL: &str = "ROUNDSMAN_TEST_FULL";

/// The URL of the shared PostgreSQL, or an error that says how to get one.
pub fn postgres_url() -> Result<String> {
    required(POSTGRES_URL)
}

/// The URL of the shared Redis, or an error that says how to get one.
pub fn redis_url() -> Result<String> {
    required(REDIS_URL)
}

/// The interpreter with the published clients, or an error that says how to get one.
pub fn clients_python() -> Result<PathBuf> {
    required(CLIENTS_PYTHON).map(PathBuf::from)
}

/// The compiled example of the TypeScript worker library, or an error that says how to get one.
pub fn typescript_worker() -> Result<PathBuf> {
    required(TYPESCRIPT_WORKER).map(PathBuf::from)
}

/// The folder with the published clients of npm, or an error that says how to get one.
pub fn clients_node() -> Result<PathBuf> {
    required(CLIENTS_NODE).map(PathBuf::from)
}

/// How many kills were asked for, if anybody did.
pub fn kills() -> Result<Option<usize>> {
    let text = optional(KILLS);
    let parsed = text.map(|text| text.parse().with_context(|| format!("{KILLS}={text}")));
    parsed.transpose()
}

/// The program of the release before, if there is one.
pub fn previous_binary() -> Option<PathBuf> {
    optional(PREVIOUS_BINARY).map(PathBuf::from)
}

/// Whether a run of everything was asked for.
pub fn full() -> bool {
    optional(FULL).is_some()
}

pub(crate) fn postgres_bin() -> Option<PathBuf> {
    optional(POSTGRES_BIN).map(PathBuf::from)
}

/// A variable that is handed on to child processes, whose environment is otherwise empty.
#[expect(clippy::disallowed_methods, reason = "this module is the testkit's environment")]
pub(crate) fn optional(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Absence is a failure and never a skip: a suite that passes without its database proves nothing.
fn required(name: &str) -> Result<String> {
    optional(name).with_context(|| {
        format!(
            "{name} is not set: run `scripts/test`, or `scripts/services` and set what it prints"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_variable_names_the_command_that_sets_it() {
        let error = required("ROUNDSMAN_TEST_OF_A_MISSING_VARIABLE").unwrap_err().to_string();
        assert!(error.contains("ROUNDSMAN_TEST_OF_A_MISSING_VARIABLE"), "{error}");
        assert!(error.contains("scripts/test"), "{error}");
    }
}
