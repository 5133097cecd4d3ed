//! The kinds that this server knows, and the policy of all others.

use roundsman_core::jobs::{KindCatalog, KindName, KindSpec, MergeRule, RetryPolicy, Role};
use roundsman_engine::jobs::prune_spec;

use crate::config::Jobs;

/// The configured policy applies to the kinds of outside workers.
pub(crate) fn catalog(jobs: &Jobs) -> KindCatalog {
    let defaults = KindSpec {
        kind: KindName::new("default").expect("the name is a kind"),
        lease_ttl: jobs.stalled,
        heartbeat_every: jobs.heartbeat,
        deadline: None,
        max_attempts: Some(jobs.attempts_max),
        retry: RetryPolicy { base: jobs.backoff_base, cap: jobs.backoff_cap },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    };
    KindCatalog::new(defaults).with(prune_spec())
}
