//! The process environment, read once at start.
//!
//! Invariant: nothing else in Roundsman reads environment variables; whatever they decide is in the
//! configuration and is shown by `roundsman config`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use super::schema::ALIASES;

/// What all our variables begin with.
pub(super) const PREFIX: &str = "ROUNDSMAN_";
/// Names the configuration file; the flag `--config` goes before it.
pub(super) const CONFIG: &str = "ROUNDSMAN_CONFIG";
/// Arms failpoints in tests.
const FAILPOINTS: &str = "ROUNDSMAN_FAILPOINTS";
/// Belongs to the tests, which may be run by the same shell.
const TEST_PREFIX: &str = "ROUNDSMAN_TEST_";

/// The variables that begin with [`PREFIX`], and those that are [`ALIASES`]. An empty variable counts as absent, because that is
/// what composed environments (`NAME=${OTHER:-}`) mean by it.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    /// Names of variables that are not valid UTF-8.
    garbled: Vec<String>,
}

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub(crate) fn of_process() -> Environment {
        Environment::from_pairs(std::env::vars_os())
    }

    pub(crate) fn from_pairs(
        pairs: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Environment {
        let mut environment = Environment::default();
        for (name, value) in pairs {
            let is_ours = |name: &String| {
                name.starts_with(PREFIX) || ALIASES.iter().any(|(alias, _)| alias == name)
            };
            let Some(name) = name.into().into_string().ok().filter(is_ours) else {
                continue;
            };
            match value.into().into_string() {
                Ok(value) if value.is_empty() => {}
                Ok(value) => drop(environment.variables.insert(name, value)),
                Err(_) => environment.garbled.push(name),
            }
        }
        environment
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub(super) fn garbled(&self) -> &[String] {
        &self.garbled
    }

    pub(super) fn failpoints(&self) -> Option<String> {
        self.get(FAILPOINTS).map(str::to_owned)
    }

    /// Names that could only be settings: what is set for other purposes is left out.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &str> {
        let meant_for_us = |(name, value): &(&String, &String)| {
            name.starts_with(PREFIX)
                && **name != CONFIG
                && **name != FAILPOINTS
                && !name.starts_with(TEST_PREFIX)
                && !is_service_link(name, value)
        };
        self.variables.iter().filter(meant_for_us).map(|(name, _)| name.as_str())
    }
}

/// Kubernetes describes a Service called `roundsman` to every pod beside it in variables such as
/// `ROUNDSMAN_SERVICE_HOST` and `ROUNDSMAN_PORT_8080_TCP_ADDR`; nobody wrote those by mistake.
fn is_service_link(name: &str, value: &str) -> bool {
    let numbered_port = name
        .split_once("_PORT_")
        .is_some_and(|(_, rest)| rest.starts_with(|first: char| first.is_ascii_digit()));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || numbered_port
        || (name.ends_with("_PORT") && (value.starts_with("tcp://") || value.starts_with("udp://")))
}

/// Names only: values may be secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_could_be_a_setting_is_a_candidate() {
        let environment = Environment::from_pairs([
            ("PATH", "/bin"),
            ("ROUNDSMAN_CONFIG", "x.toml"),
            ("ROUNDSMAN_FAILPOINTS", "commit=exit"),
            ("ROUNDSMAN_JOBS_SLOTS", "7"),
            ("ROUNDSMAN_LOG_LEVEL", ""),
            ("ROUNDSMAN_MISTAKE", "1"),
            ("ROUNDSMAN_PORT", "tcp://10.0.0.1:8080"),
            ("ROUNDSMAN_API_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("ROUNDSMAN_SERVICE_HOST", "10.0.0.1"),
            ("ROUNDSMAN_SERVICE_PORT_HTTP", "8080"),
            ("ROUNDSMAN_TEST_POSTGRES_URL", "postgres://x"),
        ]);
        let candidates: Vec<&str> = environment.candidates().collect();
        assert_eq!(candidates, ["ROUNDSMAN_JOBS_SLOTS", "ROUNDSMAN_MISTAKE"]);
        assert_eq!(environment.failpoints().as_deref(), Some("commit=exit"));
    }

    #[test]
    fn values_are_not_printed() {
        let environment = Environment::from_pairs([("ROUNDSMAN_ADMIN_TOKEN", "canary")]);
        assert_eq!(format!("{environment:?}"), r#"{"ROUNDSMAN_ADMIN_TOKEN"}"#);
    }
}
