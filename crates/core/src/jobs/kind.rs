//! Kinds of jobs: their names, the lanes they wait in, and the policy each one has.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::{JobId, MergeRule, RetryPolicy};
use crate::limits::{KEY_BYTES_MAX, KIND_BYTES_MAX};

/// The first part of every built-in kind. Users cannot name kinds in these systems, so that a
/// later release may add one without meeting somebody's jobs.
pub const RESERVED_SYSTEMS: [&str; 10] = [
    "audits",
    "bots",
    "jobs",
    "meetings",
    "presence",
    "recordings",
    "rooms",
    "tasks",
    "transcripts",
    "webhooks",
];

/// A kind's name: lower-case words joined by dots, such as `presence.poll`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct KindName(String);

/// The text is no kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a kind is 1 to {KIND_BYTES_MAX} characters: words of a-z, 0-9, _ and - that begin with a \
     letter, joined by dots, such as reports.render"
)]
pub struct InvalidKind;

impl KindName {
    pub fn new(text: &str) -> Result<Self, InvalidKind> {
        let word_ok = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
        };
        if text.len() > KIND_BYTES_MAX || !text.split('.').all(word_ok) {
            return Err(InvalidKind);
        }
        Ok(KindName(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name lies in a system of Roundsman's own.
    pub fn is_reserved(&self) -> bool {
        let system = self.0.split('.').next().unwrap_or_default();
        RESERVED_SYSTEMS.contains(&system)
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a job is about, within its kind: at most one waits and one runs per key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct JobKey(String);

/// The text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is 1 to {KEY_BYTES_MAX} bytes without control characters")]
pub struct InvalidKey;

impl JobKey {
    pub fn new(text: &str) -> Result<Self, InvalidKey> {
        if text.is_empty() || text.len() > KEY_BYTES_MAX || text.chars().any(char::is_control) {
            return Err(InvalidKey);
        }
        Ok(JobKey(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Which role of a node claims a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Ordinary work.
    Worker,
    /// Periodic housekeeping.
    Scheduler,
}

/// What is particular to one kind of job.
#[derive(Debug, Clone)]
pub struct KindSpec {
    pub kind: KindName,
    /// How long a claim holds without a heartbeat.
    pub lease_ttl: Duration,
    /// How often the holder extends it.
    pub heartbeat_every: Duration,
    /// How long one run may take in all, heartbeats or not.
    pub deadline: Option<Duration>,
    /// How many attempts there are; `None` tries for ever, backing off.
    pub max_attempts: Option<u32>,
    pub retry: RetryPolicy,
    pub merge: MergeRule,
    /// How many run at once in one process; `None` is bounded by the process's slots alone.
    pub concurrency: Option<usize>,
    pub role: Role,
    /// The lease's name as operators know it, with `{key}` in place of the key.
    pub lease_name: Option<&'static str>,
}

impl KindSpec {
    /// A kind with nothing particular: a lease of five minutes, a heartbeat every 30 seconds, three
    /// attempts, backing off from two seconds to five minutes.
    pub fn new(kind: KindName) -> Self {
        KindSpec {
            kind,
            lease_ttl: Duration::from_secs(300),
            heartbeat_every: Duration::from_secs(30),
            deadline: None,
            max_attempts: Some(3),
            retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) },
            merge: MergeRule::default(),
            concurrency: None,
            role: Role::Worker,
            lease_name: None,
        }
    }

    /// The name under which the lease of a job of this kind is shown.
    pub fn lease_name_of(&self, id: JobId, key: Option<&JobKey>) -> String {
        let key_text = key.map_or_else(|| format!("#{}", id.get()), |key| key.0.clone());
        match self.lease_name {
            Some(template) => template.replace("{key}", &key_text),
            None => format!("{}:{key_text}", self.kind),
        }
    }
}

/// Every kind with a policy of its own, and the policy of all the others.
#[derive(Debug, Clone)]
pub struct KindCatalog {
    defaults: KindSpec,
    specs: BTreeMap<KindName, KindSpec>,
}

impl KindCatalog {
    /// `defaults` is the policy of kinds that nobody described; its name is not used.
    pub fn new(defaults: KindSpec) -> Self {
        KindCatalog { defaults, specs: BTreeMap::new() }
    }

    #[must_use]
    pub fn with(mut self, spec: KindSpec) -> Self {
        self.specs.insert(spec.kind.clone(), spec);
        self
    }

    /// The policy of a kind.
    pub fn spec(&self, kind: &KindName) -> KindSpec {
        match self.specs.get(kind) {
            Some(spec) => spec.clone(),
            None => KindSpec { kind: kind.clone(), ..self.defaults.clone() },
        }
    }

    /// The retry policy of a kind, without copying the rest.
    pub fn retry(&self, kind: &KindName) -> RetryPolicy {
        self.specs.get(kind).map_or(self.defaults.retry, |spec| spec.retry)
    }

    /// The merge rule of a kind, without copying the rest.
    pub fn merge(&self, kind: &KindName) -> MergeRule {
        self.specs.get(kind).map_or(self.defaults.merge, |spec| spec.merge)
    }

    /// The kinds that were described, in the order of their names.
    pub fn specs(&self) -> impl Iterator<Item = &KindSpec> {
        self.specs.values()
    }

    pub fn knows(&self, kind: &KindName) -> bool {
        self.specs.contains_key(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_dotted_lower_case_words() {
        for good in ["a", "presence.poll", "reports.render-pdf", "x1.y_2.z"] {
            assert!(KindName::new(good).is_ok(), "{good}");
        }
        let long = "a".repeat(KIND_BYTES_MAX + 1);
        for bad in ["", ".", "a.", ".a", "A", "1a", "a b", "a\0", "ä", "a..b", long.as_str()] {
            assert_eq!(KindName::new(bad), Err(InvalidKind), "{bad:?}");
        }
    }

    #[test]
    fn keys_hold_no_control_characters() {
        assert!(JobKey::new("meeting 7 ✓").is_ok());
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        for bad in ["", "a\0", "a\nb", long.as_str()] {
            assert_eq!(JobKey::new(bad), Err(InvalidKey), "{bad:?}");
        }
    }
}
