//! The job that looks at a page and judges it.
//!
//! Invariant: it writes nothing while it works. What it found is returned with the outcome, and lands
//! with it under the lease.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_audit::{Verdict, judge};
use roundsman_core::audits::observed::Observed;
use roundsman_core::audits::{Audit, AuditId, RUN_KIND};
use roundsman_core::effects::Effects;
use roundsman_core::failpoint;
use roundsman_core::jobs::{JobError, Json, KindName, KindSpec, MergeRule, Outcome};
use roundsman_core::ports::{
    ObserveError, ObserveProgress, ObserveStep, ObserveWish, Scope, StoreError,
};
use roundsman_core::webhooks::{WebhookEvent, event_id};
use serde_json::json;

use super::found::result_of;
use super::work::{AuditSettings, AuditWork};
use crate::jobs::{Handler, HandlerResult, JobContext};

/// A run that sends heartbeats and does not end is ended after the longest look and so much. Longer than
/// the wait for a stalled one, so that a worker that died is called that.
const DEADLINE_MARGIN: Duration = Duration::from_secs(120);

/// The policy of the job.
pub fn run_spec(settings: &AuditSettings) -> KindSpec {
    KindSpec {
        lease_ttl: settings.stalled_after,
        heartbeat_every: settings.heartbeat_every,
        deadline: Some(settings.stalled_after + settings.look_time_max + DEADLINE_MARGIN),
        max_attempts: Some(settings.attempts_max),
        retry: settings.retry,
        merge: MergeRule::Keep,
        concurrency: Some(settings.at_once_max),
        lease_name: Some("audit:{key}"),
        ..KindSpec::new(KindName::new(RUN_KIND).expect("a built-in kind has a valid name"))
    }
}

pub(super) fn runner(work: &AuditWork) -> Arc<dyn Handler> {
    Arc::new(Runner { work: work.clone() })
}

struct Runner {
    work: AuditWork,
}

/// Why there is no verdict.
enum Stopped {
    /// That says nothing about the page.
    Store(StoreError),
    Look(ObserveError),
    /// A bug of ours; another page may fare better.
    Judging(String),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Stopped::Store(error)
    }
}

#[async_trait]
impl Handler for Runner {
    fn spec(&self) -> KindSpec {
        run_spec(&self.work.settings)
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let key = context.job.key.as_ref();
        let id = key.and_then(|key| key.as_str().parse().ok()).map(AuditId::new);
        let audit = match id {
            Some(id) => self.work.store.audit(Scope::All, id).await,
            None => Ok(None),
        };
        let audit = match audit {
            Ok(Some(audit)) => audit,
            // Nobody asks for it any more.
            Ok(None) => return Outcome::Done { result: Json::null() }.into(),
            Err(error) => return storage(&error),
        };
        match self.audit(&audit, &context).await {
            Ok(result) => result,
            Err(stopped) => self.stopped(&audit, &context, stopped),
        }
    }
}

impl Runner {
    async fn audit(&self, audit: &Audit, context: &JobContext) -> Result<HandlerResult, Stopped> {
        let AuditWork { store, clock, metrics, pages, settings, .. } = &self.work;
        let options = settings.allowed(audit.options);
        let wish = ObserveWish {
            url: audit.website_url.clone(),
            in_browser: options.browser,
            allow_private: false,
            obey_robots: options.obey_robots,
            time_max: settings.look_time_max,
        };
        let progress = Arc::new(Reporting(context.clone()));
        let seen = pages.observe(wish, progress).await.map_err(Stopped::Look)?;
        metrics.audit_looked(&seen);
        failpoint::hit("audits.looked");
        let began = clock.monotonic();
        let (verdict, screenshot) = self.judge(seen).await?;
        metrics.audit_phase("judge", clock.monotonic().saturating_sub(began));
        let previous =
            store.previous_audit(audit.user_id, audit.website_url.clone(), audit.id).await?;
        let overall = verdict.overall;
        let attempt = context.job.attempt;
        let result = result_of(audit, verdict, previous.as_ref(), screenshot, attempt)
            .map_err(|error| Stopped::Judging(error.to_string()))?;
        metrics.audit_attempt("completed");
        tracing::info!(
            audit = audit.id.get(),
            url = audit.website_url,
            overall,
            attempt,
            "an audit is done"
        );
        let now = clock.now();
        let mut effects = Effects { audits: vec![result], ..Effects::default() };
        let said = json!({ "audit": {
            "id": audit.id.get(),
            "website_url": audit.website_url,
            "status": "completed",
            "overall_score": overall,
        }});
        let event = event_id(&["audit", &audit.id.to_string(), "completed"]);
        WebhookEvent::new(audit.user_id, event, "audit.completed", said, now)
            .add_to(&mut effects, now);
        let told = json!({ "audit_id": audit.id.get(), "overall_score": overall });
        let result = Json::from_value(&told).unwrap_or_else(|_| Json::null());
        Ok(HandlerResult { outcome: Outcome::Done { result }, effects })
    }

    /// Judging computes: it has a thread of its own, so that heartbeats are sent meanwhile.
    async fn judge(&self, seen: Observed) -> Result<(Verdict, Option<Vec<u8>>), Stopped> {
        let options = self.work.settings.judging();
        let judging = move || {
            let verdict = judge(&seen, &options);
            let browser = seen.browser.as_option();
            (verdict, browser.and_then(|browser| browser.screenshot_png.clone()))
        };
        tokio::task::spawn_blocking(judging)
            .await
            .map_err(|error| Stopped::Judging(error.to_string()))
    }

    fn stopped(&self, audit: &Audit, context: &JobContext, stopped: Stopped) -> HandlerResult {
        let (error, is_passing) = match stopped {
            Stopped::Store(error) => return storage(&error),
            Stopped::Look(error) => {
                (JobError::new(error.kind.as_str(), error.detail), error.kind.is_passing())
            }
            Stopped::Judging(said) => (JobError::new("internal", said), true),
        };
        self.work.metrics.audit_attempt(error.code.as_str());
        let (code, attempt) = (error.code.as_str(), context.job.attempt);
        let (url, why) = (&audit.website_url, error.message.as_str());
        tracing::warn!(audit = audit.id.get(), url, code, why, attempt, "an audit did not succeed");
        // Whoever ends the job for good tells it, whether that is we or a sweep.
        let outcome = if is_passing {
            Outcome::Retry { error, after: None }
        } else {
            Outcome::Fail { error }
        };
        outcome.into()
    }
}

/// The database's trouble is not the page's, but an attempt was made.
fn storage(error: &StoreError) -> HandlerResult {
    let error = JobError::new("storage", error.to_string());
    Outcome::Retry { error, after: None }.into()
}

/// Tells how far a look is, with the next heartbeat.
struct Reporting(JobContext);

impl ObserveProgress for Reporting {
    fn step(&self, step: ObserveStep) {
        let said = match step {
            ObserveStep::Page => json!({ "step": "page" }),
            ObserveStep::Robots => json!({ "step": "robots" }),
            ObserveStep::Sitemap => json!({ "step": "sitemap" }),
            ObserveStep::Resources { done, of } => {
                json!({ "step": "resources", "done": done, "of": of })
            }
            ObserveStep::Browser => json!({ "step": "browser" }),
        };
        if let Ok(said) = Json::from_value(&said) {
            self.0.report_progress(said);
        }
    }
}
