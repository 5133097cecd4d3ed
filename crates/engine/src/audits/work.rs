//! The jobs of audits, as a node puts them together.

use std::sync::Arc;
use std::time::Duration;

use roundsman_audit::{Device, JudgeOptions};
use roundsman_core::Timestamp;
use roundsman_core::audits::{AskedAudit, AuditOptions, PriorityRule, domain_of, priority_of};
use roundsman_core::jobs::{KindName, KindSpec, Lane, NewJob, RetryPolicy};
use roundsman_core::ports::{AuditFilter, Clock, Pages, Random, Scope, Store, StoreError};
use roundsman_core::users::UserId;
use serde_json::Value;

use super::prune::{PRUNE_KIND, prune_spec, pruner};
use super::recur::{recur_spec, recurrer};
use super::run::{run_spec, runner};
use crate::jobs::{Handler, periodic_wish};
use crate::metrics::Metrics;
use crate::wake::Wakes;

/// What the jobs of audits are made of. Cheap to clone.
#[derive(Clone)]
pub struct AuditWork {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub wakes: Wakes,
    pub metrics: Metrics,
    pub pages: Arc<dyn Pages>,
    pub settings: Arc<AuditSettings>,
}

/// How audits are made. The defaults are those of the system that this one replaces.
#[derive(Debug, Clone)]
pub struct AuditSettings {
    /// Without a heartbeat for so long, an audit is stalled and goes to another worker.
    pub stalled_after: Duration,
    pub heartbeat_every: Duration,
    pub attempts_max: u32,
    /// The first wait after a failure, and the longest.
    pub retry: RetryPolicy,
    /// Audits that are made at once in one process.
    pub at_once_max: usize,
    /// A look at a page takes at most so long.
    pub look_time_max: Duration,
    pub device: Device,
    /// Whether users may have pages measured in a browser.
    pub browser: bool,
    /// What is obeyed unless a request says otherwise.
    pub obey_robots: bool,
    /// Audits of one user that are not finished.
    pub unfinished_per_user_max: u32,
    pub recurring_per_user_max: u32,
    pub recurring_interval_min: Duration,
    /// Users ask for priorities from minus to plus this.
    pub priority_asked_max: i16,
    pub rules: Vec<PriorityRule>,
    pub keep_for: Duration,
}

impl Default for AuditSettings {
    fn default() -> Self {
        AuditSettings {
            stalled_after: Duration::from_secs(300),
            heartbeat_every: Duration::from_secs(30),
            attempts_max: 3,
            retry: RetryPolicy { base: Duration::from_secs(10), cap: Duration::from_secs(300) },
            at_once_max: 8,
            look_time_max: Duration::from_secs(60),
            device: Device::Mobile,
            browser: true,
            obey_robots: true,
            unfinished_per_user_max: 100,
            recurring_per_user_max: 50,
            recurring_interval_min: Duration::from_secs(3600),
            priority_asked_max: 10,
            rules: Vec::new(),
            keep_for: Duration::from_secs(365 * 24 * 3600),
        }
    }
}

impl AuditSettings {
    pub(super) fn judging(&self) -> JudgeOptions {
        JudgeOptions { device: self.device }
    }

    /// What is done of what is asked for.
    pub(super) fn allowed(&self, asked: AuditOptions) -> AuditOptions {
        AuditOptions { browser: asked.browser && self.browser, ..asked }
    }
}

/// The policies of all kinds of jobs about audits.
pub fn audit_specs(settings: &AuditSettings) -> Vec<KindSpec> {
    vec![run_spec(settings), recur_spec(), prune_spec()]
}

/// The wishes that keep the periodic jobs alive; every start repeats them.
pub fn audit_wishes(now: Timestamp) -> Vec<NewJob> {
    vec![periodic_wish(PRUNE_KIND, now)]
}

impl AuditWork {
    /// The handlers of all kinds of jobs about audits.
    pub fn handlers(&self) -> Vec<Arc<dyn Handler>> {
        vec![runner(self), recurrer(self), pruner(self)]
    }

    /// There is new work of a kind.
    pub(super) fn wake(&self, user: UserId, kind: &str) {
        let kind = KindName::new(kind).expect("a built-in kind has a valid name");
        self.wakes.signal([(Lane::of(user, &kind), 1)]);
    }

    /// Where an audit stands in the queue: what was asked for, and what the rules add.
    pub(super) async fn priority(
        &self,
        user_id: UserId,
        website_url: &str,
        wanted: i16,
        is_recurring: bool,
    ) -> Result<i16, StoreError> {
        let rules = &self.settings.rules;
        if rules.is_empty() {
            return Ok(wanted);
        }
        let user = self.store.user(user_id).await?;
        let plan = user.and_then(|user| plan_of(&user.data));
        let filter =
            AuditFilter { website_url: Some(website_url.to_owned()), ..AuditFilter::default() };
        let last = self.store.audits(Scope::User(user_id), filter, None, 1).await?;
        let now = self.clock.now();
        let asked = AskedAudit {
            user_id,
            plan: plan.as_deref(),
            domain: &domain_of(website_url).unwrap_or_default(),
            last_age: last.first().map(|audit| now.since(audit.created_at)),
            is_recurring,
        };
        Ok(priority_of(rules, wanted, &asked))
    }
}

impl std::fmt::Debug for AuditWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditWork").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The plan that the operator has noted of a user, under the original's name for it or a shorter one.
fn plan_of(data: &str) -> Option<String> {
    let data: Value = serde_json::from_str(data).ok()?;
    let plan = ["plan", "subscription_tier"].into_iter().find_map(|name| data.get(name)?.as_str());
    plan.map(ToOwned::to_owned)
}
