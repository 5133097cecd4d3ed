//! The job that fires a user's alarm.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::alarms::{FAILING_ATTEMPTS_MIN, USER_ALARM_KIND, fired};
use roundsman_core::jobs::{Json, KindName, KindSpec, Lane, MergeRule, Outcome, RetryPolicy};
use roundsman_core::ports::Clock;
use roundsman_core::users::UserId;
use roundsman_core::webhooks::DELIVER_KIND;

use crate::jobs::{Handler, HandlerResult, JobContext};
use crate::metrics::Metrics;
use crate::wake::Wakes;

/// The policy of users' alarms. They are never given up.
pub fn alarm_spec() -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(30),
        heartbeat_every: Duration::from_secs(10),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) },
        merge: MergeRule::Replace,
        lease_name: Some("alarm:{key}"),
        ..KindSpec::new(KindName::new(USER_ALARM_KIND).expect("a built-in kind has a valid name"))
    }
}

/// What firing is made of.
#[derive(Clone)]
pub struct AlarmWork {
    pub clock: Arc<dyn Clock>,
    pub wakes: Wakes,
    pub metrics: Metrics,
}

impl AlarmWork {
    /// Tells a room and its owner that an alarm has fired. What is told commits with the alarm's end.
    pub fn handler(&self) -> Arc<dyn Handler> {
        Arc::new(Firer { work: self.clone() })
    }
}

impl std::fmt::Debug for AlarmWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlarmWork").finish_non_exhaustive()
    }
}

struct Firer {
    work: AlarmWork,
}

#[async_trait]
impl Handler for Firer {
    fn spec(&self) -> KindSpec {
        alarm_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let AlarmWork { clock, wakes, metrics } = &self.work;
        if context.job.attempt > FAILING_ATTEMPTS_MIN {
            metrics.alarm_failing();
        }
        let outcome = Outcome::Done { result: Json::null() };
        let Some(fired) = fired(&context.job, clock.now()) else { return outcome.into() };
        metrics.alarm_fired();
        let (project, name) = (fired.project.as_str(), fired.name.as_str());
        tracing::debug!(project, name, "an alarm fires");
        let kind = KindName::new(DELIVER_KIND).expect("a built-in kind has a valid name");
        wakes.signal([(Lane::of(UserId::SYSTEM, &kind), 1)]);
        HandlerResult { outcome, effects: fired.effects }
    }
}
