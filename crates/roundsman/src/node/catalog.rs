//! The kinds that this server knows, and the policy of all others.

use roundsman_core::jobs::{KindCatalog, KindName, KindSpec, RetryPolicy};
use roundsman_engine::jobs::prune_spec;

use crate::config::Jobs;

/// The configured policy applies to the kinds of outside workers.
pub(crate) fn catalog(jobs: &Jobs) -> KindCatalog {
    let name = KindName::new("default").expect("the name is a kind");
    let defaults = KindSpec {
        lease_ttl: jobs.stalled,
        heartbeat_every: jobs.heartbeat,
        max_attempts: Some(jobs.attempts_max),
        retry: RetryPolicy { base: jobs.backoff_base, cap: jobs.backoff_cap },
        ..KindSpec::new(name)
    };
    KindCatalog::new(defaults).with(prune_spec())
}
