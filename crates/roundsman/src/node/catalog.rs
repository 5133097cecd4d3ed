//! The kinds that this server knows, and the policy of all others.

use roundsman_core::jobs::{KindCatalog, KindName, KindSpec, RetryPolicy};
use roundsman_engine::audits::audit_specs;
use roundsman_engine::bots::bot_specs;
use roundsman_engine::jobs::{prune_spec, schedule_spec};
use roundsman_engine::presence::presence_specs;
use roundsman_engine::recordings::recording_specs;
use roundsman_engine::rooms::room_specs;
use roundsman_engine::transcripts::transcript_specs;
use roundsman_engine::webhooks::webhook_specs;

use crate::config::Config;

/// The configured policy applies to the kinds of outside workers.
pub(crate) fn catalog(config: &Config) -> KindCatalog {
    let jobs = &config.jobs;
    let name = KindName::new("default").expect("the name is a kind");
    let defaults = KindSpec {
        lease_ttl: jobs.stalled,
        heartbeat_every: jobs.heartbeat,
        max_attempts: Some(jobs.attempts_max),
        retry: RetryPolicy { base: jobs.backoff_base, cap: jobs.backoff_cap },
        ..KindSpec::new(name)
    };
    let mut specs = vec![prune_spec(), schedule_spec()];
    specs.extend(bot_specs(config.bots.launches_at_once_max));
    specs.extend(webhook_specs());
    specs.extend(transcript_specs());
    specs.extend(presence_specs(&super::presence::limits(config)));
    specs.extend(recording_specs(config.recordings.process_at_once_max));
    specs.extend(audit_specs(&super::audits::settings(config)));
    specs.extend(super::tasks::specs(config));
    specs.extend(room_specs());
    specs.into_iter().fold(KindCatalog::new(defaults), KindCatalog::with)
}
