//! Audits of this node: how pages are looked at, and the jobs that look.

use std::sync::Arc;

use anyhow::Context;
use roundsman_core::jobs::RetryPolicy;
use roundsman_core::ports::{Clock, Pages};
use roundsman_engine::audits::{AuditSettings, AuditWork, Audits};
use roundsman_engine::jobs::Handler;
use roundsman_providers::egress::{EgressGuard, EgressOptions};
use roundsman_providers::pages::{BrowserOptions, HttpPages, PageLimits, PagesOptions, Politeness};

use super::bots::Parts;
use crate::config::Config;

/// The service for the edge, and the handlers for the worker.
pub(super) struct NodeAudits {
    pub(super) audits: Audits,
    pub(super) handlers: Vec<Arc<dyn Handler>>,
}

impl NodeAudits {
    pub(super) fn build(parts: &Parts<'_>) -> anyhow::Result<NodeAudits> {
        let work = AuditWork {
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            wakes: parts.wakes.clone(),
            metrics: parts.metrics.clone(),
            pages: pages(parts.config, parts.clock.clone())?,
            settings: Arc::new(settings(parts.config)),
        };
        Ok(NodeAudits { audits: Audits::new(&work), handlers: work.handlers() })
    }
}

pub(super) fn settings(config: &Config) -> AuditSettings {
    let audits = &config.audits;
    AuditSettings {
        stalled_after: audits.stalled,
        heartbeat_every: audits.heartbeat,
        attempts_max: audits.attempts_max,
        retry: RetryPolicy { base: audits.backoff_base, cap: audits.backoff_cap },
        at_once_max: audits.at_once_max,
        look_time_max: audits.look_max,
        device: audits.device,
        browser: audits.browser,
        obey_robots: audits.obey_robots,
        unfinished_per_user_max: audits.unfinished_per_user_max,
        recurring_per_user_max: audits.recurring_per_user_max,
        recurring_interval_min: audits.recurring_min,
        priority_asked_max: audits.priority_asked_max,
        rules: audits.priority_rules.clone(),
        keep_for: audits.retention,
    }
}

/// The way to websites, for a node and for the command line.
pub(crate) fn pages(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Arc<dyn Pages>> {
    let audits = &config.audits;
    let egress = EgressOptions { allow: config.egress.allow.clone(), ports_denied: Vec::new() };
    let options = PagesOptions {
        limits: PageLimits {
            body_bytes_max: audits.page_bytes_max,
            redirects_max: audits.redirects_max,
            resources_max: audits.resources_max,
            ..PageLimits::default()
        },
        politeness: Politeness {
            host_concurrency_max: audits.host_concurrency_max,
            host_delay: audits.host_delay,
            ..Politeness::default()
        },
        browser: BrowserOptions {
            chromium: audits.chromium.clone(),
            at_once_max: audits.browsers_max,
            ..BrowserOptions::default()
        },
        ..PagesOptions::new(EgressGuard::new(egress))
    };
    Ok(Arc::new(HttpPages::new(options, clock).context("[audits]")?))
}
