//! The job that delivers one event.
//!
//! Invariant: a try is logged under the lease before the job goes on. A crash in between sends the
//! event once more, with the same id, and receivers drop what they know.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::failpoint;
use roundsman_core::jobs::{JobError, Json, KindName, KindSpec, MergeRule, Outcome, RetryPolicy};
use roundsman_core::ports::{DeliveryEntry, NotSent, StoreError, WebhookRequest};
use roundsman_core::webhooks::{
    DELIVER_KIND, Delivery, DeliveryState, Endpoint, EndpointChange, SigningSecret, StoredEvent,
    Verdict, judge,
};

use super::WebhookWork;
use crate::jobs::{Handler, HandlerResult, JobContext};

/// Deliveries at once in one process.
const AT_ONCE_MAX: usize = 32;
/// Why a try failed is kept up to this length.
const ERROR_CHARS_MAX: usize = 300;
const USER_AGENT: &str = concat!("roundsman/", env!("CARGO_PKG_VERSION"));

/// The policy of the job. The rules of webhooks say when it is given up, so it has no limit of
/// attempts of its own.
pub fn deliver_spec() -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(30),
        heartbeat_every: Duration::from_secs(10),
        deadline: Some(Duration::from_secs(120)),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(1), cap: Duration::from_secs(60) },
        merge: MergeRule::Keep,
        concurrency: Some(AT_ONCE_MAX),
        ..KindSpec::new(KindName::new(DELIVER_KIND).expect("a built-in kind has a valid name"))
    }
}

pub(super) fn deliverer(work: &WebhookWork) -> Arc<dyn Handler> {
    Arc::new(Deliverer { work: work.clone() })
}

struct Deliverer {
    work: WebhookWork,
}

#[async_trait]
impl Handler for Deliverer {
    fn spec(&self) -> KindSpec {
        deliver_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let outcome = self.deliver(&context).await.unwrap_or_else(|error| {
            let error = JobError::new("storage", error.to_string());
            Outcome::Retry { error, after: None }
        });
        outcome.into()
    }
}

impl Deliverer {
    async fn deliver(&self, context: &JobContext) -> Result<Outcome, StoreError> {
        let Some(key) = &context.job.key else { return Ok(done()) };
        let event = self.work.store.webhook_event(key.as_str().to_owned()).await?;
        // A run that crashed after it had logged its success leaves nothing to do.
        let Some(event) = event.filter(|event| event.state == DeliveryState::Pending) else {
            return Ok(done());
        };
        let endpoint = self.work.store.endpoint(event.event.user_id).await?;
        let wanted = endpoint.filter(|endpoint| endpoint.wants(&event.event.event_type));
        let signed = match wanted {
            Some(endpoint) => self.with_secret(endpoint).await?,
            None => None,
        };
        let Some((url, secret)) = signed else {
            let state = DeliveryState::Skipped;
            let entry = DeliveryEntry { delivery: None, state, disable: false };
            return self.log(context, &event, entry, done()).await;
        };
        self.send(context, &event, url, &secret).await
    }

    async fn send(
        &self,
        context: &JobContext,
        event: &StoredEvent,
        url: String,
        secret: &SigningSecret,
    ) -> Result<Outcome, StoreError> {
        let (at, began) = (self.work.clock.now(), self.work.clock.monotonic());
        let body = event.event.body.as_str().to_owned();
        let mut headers = secret.headers(&event.event.event_id, &body, at);
        headers.push(("content-type", "application/json".to_owned()));
        headers.push(("user-agent", USER_AGENT.to_owned()));
        let time_max = self.work.request_max;
        let request = WebhookRequest { url: url.clone(), headers, body, time_max };
        let answer = self.work.sender.post(request).await;
        failpoint::hit("webhooks.sent");
        let duration = self.work.clock.monotonic().saturating_sub(began);
        let status = answer.as_ref().ok().map(|answer| answer.status);
        let error = answer.as_ref().err().map(short);
        // The tries of this job: an event that is replayed begins anew.
        let tries = context.job.attempt.max(1);
        let verdict = match &answer {
            // It will not become another address by waiting.
            Err(NotSent::BlockedTarget(_)) => Verdict::GiveUp,
            _ => judge(status, tries, event.since, self.work.clock.now()),
        };
        let delivery = Some(Delivery { at, url, status, error, duration });
        let (state, outcome) = match verdict {
            Verdict::Delivered => (DeliveryState::Delivered, done()),
            Verdict::GiveUp | Verdict::Disable => (DeliveryState::Failed, done()),
            Verdict::Retry(after) => {
                let code = if status.is_some() { "refused" } else { "not_sent" };
                let error = JobError::new(code, told(status, delivery.as_ref()));
                (DeliveryState::Pending, Outcome::Retry { error, after: Some(after) })
            }
        };
        self.work.metrics.webhook_tried(match verdict {
            Verdict::Delivered => "delivered",
            Verdict::Retry(_) => "retried",
            Verdict::GiveUp => "given_up",
            Verdict::Disable => "disabled",
        });
        let entry = DeliveryEntry { delivery, state, disable: verdict == Verdict::Disable };
        self.log(context, event, entry, outcome).await
    }

    /// Where to send and what to sign with. An endpoint of an existing Vexa database has no secret
    /// and gets one now.
    async fn with_secret(
        &self,
        endpoint: Endpoint,
    ) -> Result<Option<(String, SigningSecret)>, StoreError> {
        if let Some(secret) = endpoint.secret {
            return Ok(Some((endpoint.url, secret)));
        }
        let change = EndpointChange {
            url: Some(endpoint.url),
            secret: None,
            fresh_secret: SigningSecret::draw(self.work.random.as_ref()),
            events: None,
        };
        let now = self.work.clock.now();
        let set = self.work.store.set_endpoint(endpoint.user_id, change, now).await?;
        let endpoint = set.and_then(|(_, endpoint)| endpoint);
        Ok(endpoint.and_then(|endpoint| Some((endpoint.url, endpoint.secret?))))
    }

    async fn log(
        &self,
        context: &JobContext,
        event: &StoredEvent,
        entry: DeliveryEntry,
        outcome: Outcome,
    ) -> Result<Outcome, StoreError> {
        let id = event.event.event_id.clone();
        let now = self.work.clock.now();
        let logged = self.work.store.log_delivery(id, entry, context.lease, now).await?;
        // Whoever has the lease now goes on.
        Ok(if logged { outcome } else { Outcome::Release })
    }
}

fn done() -> Outcome {
    Outcome::Done { result: Json::null() }
}

fn short(error: &NotSent) -> String {
    error.to_string().chars().filter(|c| !c.is_control()).take(ERROR_CHARS_MAX).collect()
}

fn told(status: Option<u16>, delivery: Option<&Delivery>) -> String {
    match status {
        Some(status) => format!("the endpoint answered {status}"),
        None => delivery.and_then(|delivery| delivery.error.clone()).unwrap_or_default(),
    }
}
