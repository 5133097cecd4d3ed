//! The kinds, users and small values that the cases work with.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{
    JobError, JobKey, Json, KindCatalog, KindName, KindSpec, MergeRule, Outcome, RetryPolicy, Role,
};
use roundsman_core::users::UserId;

/// A kind of the users' own; a newer payload replaces the waiting one.
pub const RENDER: &str = "render";
/// A kind whose first payload stays.
pub const FIRST: &str = "keep.first";
/// A kind whose payloads are collected.
pub const COLLECT: &str = "collect.items";
/// A built-in kind: one lane for all users.
pub const SHARED: &str = "presence.poll";

/// Two users who must never notice each other.
pub const ADA: UserId = UserId::new(1);
pub const BOB: UserId = UserId::new(2);

/// The lease of every claim, unless a case says otherwise.
pub(super) const TTL: Duration = Duration::from_secs(300);
pub(super) const MICROSECOND: Duration = Duration::from_micros(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// The catalogue that a store under test must be opened with.
pub fn catalog() -> Arc<KindCatalog> {
    let spec = |name: &str, merge: MergeRule| KindSpec {
        kind: kind(name),
        lease_ttl: TTL,
        heartbeat_every: Duration::from_secs(30),
        deadline: None,
        max_attempts: Some(3),
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) },
        merge,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    };
    let catalog = KindCatalog::new(spec("default", MergeRule::Replace))
        .with(spec(FIRST, MergeRule::Keep))
        .with(spec(COLLECT, MergeRule::Append));
    Arc::new(catalog)
}

pub fn kind(text: &str) -> KindName {
    KindName::new(text).expect("the suite names valid kinds")
}

pub fn key(text: &str) -> JobKey {
    JobKey::new(text).expect("the suite names valid keys")
}

pub fn json(text: &str) -> Json {
    Json::parse(text).expect("the suite writes valid JSON")
}

pub(super) fn done(text: &str) -> Outcome {
    Outcome::Done { result: json(text) }
}

pub(super) fn boom() -> JobError {
    JobError::new("boom", "it broke")
}

/// A failure that is tried again after a time of its own choosing.
pub(super) fn retry_after(wait: Duration) -> Outcome {
    Outcome::Retry { error: boom(), after: Some(wait) }
}

pub(super) fn fail() -> Outcome {
    Outcome::Fail { error: boom() }
}
