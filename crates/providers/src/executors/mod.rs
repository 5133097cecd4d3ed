//! Outside generators: one executor that is described in data, and descriptions for those that many
//! use.
//!
//! - [`HttpExecutor`] speaks to a service as its description says.
//! - [`presets`] holds descriptions; an operator's own words go over them.
//!
//! Invariants:
//! - A submission is refused only where the service said so or nothing was sent; what a gateway says
//!   in its place, or nobody, leaves it unknown.
//! - What a task failed with is the service's own word about that task. A poll that was refused, was
//!   late or is odd says nothing about it.
//! - Keys go to the service's own addresses only. Addresses that users or answers name go through
//!   the [`egress`](crate::egress) guard, unless they are the service's own.
//! - No key, and no link to a result, is in a log or an error.

mod auth;
mod call;
#[cfg(feature = "conformance")]
pub mod conformance;
mod description;
mod downloads;
mod errors;
mod form;
mod params;
mod pictures;
mod plan;
mod pointer;
mod polls;
pub mod presets;
mod results;
mod secrets;
mod submits;
mod template;
mod webhook;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::ports::{
    Cancelled, Clock, Executor, ExecutorCapabilities, ExternalTask, Fetched, LookedUp, MediaError,
    Polled, ResultFile, Submission, Submitted, TaskRequest, Unverified, WebhookDelivery,
};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use self::auth::Auth;
use self::pictures::PictureFetcher;
use self::plan::Plan;
pub use self::secrets::{SECRET_NAMES, Secrets};
use self::template::{Pictures, Place, Scope, is_name};
use self::webhook::Verifier;
use crate::egress::{EgressGuard, EgressOptions};
use crate::http::Tls;
use crate::media::HttpMediaFetcher;

/// One executor, as an operator describes it.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// As `external_service` will have it.
    pub name: String,
    /// Its description. `preset` names the one that it goes over; there are no secrets in it.
    pub description: toml::Table,
    pub secrets: Secrets,
}

/// What every executor needs.
#[derive(Clone)]
pub struct ExecutorParts {
    /// Decides about addresses that users and answers name.
    pub guard: EgressGuard,
    pub clock: Arc<dyn Clock>,
}

/// Why an executor cannot be: every reason, not only the first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the executor {name}: {}", problems.join("; "))]
pub struct InvalidExecutor {
    pub name: String,
    pub problems: Vec<String>,
}

/// Whether an executor could be made; the types of tasks that it would take.
pub fn validate(options: ExecutorOptions) -> Result<Vec<String>, InvalidExecutor> {
    let guard = EgressGuard::new(EgressOptions::default());
    let executor = HttpExecutor::new(options, &ExecutorParts { guard, clock: Arc::new(Stopped) })?;
    Ok(executor.task_types().into_iter().map(str::to_owned).collect())
}

/// Nothing is asked of whoever is only looked at.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// Speaks to a service over HTTP.
pub struct HttpExecutor {
    name: String,
    plan: Plan,
    auth: Auth,
    webhook: Option<Verifier>,
    pictures: PictureFetcher,
    /// Where a submission may need a picture.
    submit_places: Vec<Place>,
    files: HttpMediaFetcher,
    guard: EgressGuard,
    tls: Tls,
    clock: Arc<dyn Clock>,
    calls: Semaphore,
}

impl HttpExecutor {
    pub fn new(options: ExecutorOptions, parts: &ExecutorParts) -> Result<Self, InvalidExecutor> {
        let ExecutorOptions { name, description, secrets } = options;
        let built = HttpExecutor::build(&name, description, &secrets, parts);
        built.map_err(|problems| InvalidExecutor { name, problems })
    }

    fn build(
        name: &str,
        over: toml::Table,
        secrets: &Secrets,
        parts: &ExecutorParts,
    ) -> Result<Self, Vec<String>> {
        let one = |problem: String| vec![problem];
        if !is_name(name) {
            return Err(one("its name has small letters, digits and `_` only".to_owned()));
        }
        let whole = presets::complete(over).map_err(one)?;
        let description = description::read(whole).map_err(one)?;
        let mut plan = Plan::new(&description)?;
        let clock = parts.clock.clone();
        let tls = Tls::new(None).map_err(|error| one(error.to_string()))?;
        let auth = Auth::new(&description.auth, secrets, &tls, &clock).map_err(one)?;
        let webhook = plan.webhook.as_ref();
        let webhook = webhook.map(|plan| Verifier::new(plan, secrets, &tls, &clock));
        let webhook = webhook.transpose().map_err(one)?.flatten();
        plan.capabilities.has_webhooks = webhook.is_some();
        let files = HttpMediaFetcher::new(downloads::limits(&plan.limits), None);
        let limits = plan.limits;
        Ok(HttpExecutor {
            name: name.to_owned(),
            submit_places: plan.submit.places(),
            auth,
            webhook,
            pictures: PictureFetcher { guard: parts.guard.clone(), tls: tls.clone(), limits },
            files: files.map_err(|error| one(error.to_string()))?,
            guard: parts.guard.clone(),
            tls,
            clock,
            calls: Semaphore::new(limits.calls_max),
            plan,
        })
    }

    fn scope<'a>(
        &'a self,
        params: &'a Map<String, Value>,
        key: &'a str,
        ids: &'a [&'a str],
        pictures: &'a Pictures,
    ) -> Scope<'a> {
        let settings = &self.plan.settings;
        Scope { params, settings, key, ids, callback_url: None, pictures, item: None }
    }

    /// The callback's address as the service is told it; `None` where nobody could believe it.
    fn callback(&self, url: Option<&str>) -> Option<String> {
        self.webhook.as_ref()?.callback(url?)
    }
}

#[async_trait]
impl Executor for HttpExecutor {
    fn service(&self) -> &str {
        &self.name
    }

    fn task_types(&self) -> Vec<&str> {
        self.plan.params.task_types()
    }

    fn capabilities(&self) -> &ExecutorCapabilities {
        &self.plan.capabilities
    }

    fn check(&self, request: &TaskRequest) -> Result<(), String> {
        self.plan.params.settle(&request.task_type, &request.params).map(drop)
    }

    async fn submit(&self, submission: &Submission) -> Submitted {
        self.submit_one(submission).await
    }

    async fn look_up(&self, request: &TaskRequest) -> LookedUp {
        self.look_up_one(request).await
    }

    async fn poll(&self, task: &ExternalTask) -> Polled {
        self.poll_one(task).await
    }

    async fn poll_many(&self, tasks: &[ExternalTask]) -> Vec<Polled> {
        if self.plan.capabilities.batch_max > 1 && tasks.len() > 1 {
            let mut all = Vec::new();
            for batch in tasks.chunks(self.plan.capabilities.batch_max) {
                all.extend(self.poll_batch(batch).await);
            }
            return all;
        }
        let mut all = Vec::new();
        for task in tasks {
            all.push(self.poll_one(task).await);
        }
        all
    }

    async fn cancel(&self, task: &ExternalTask) -> Cancelled {
        self.cancel_one(task).await
    }

    async fn verify_webhook(&self, delivery: &WebhookDelivery<'_>) -> Result<String, Unverified> {
        match &self.webhook {
            None => Err(Unverified::NoWebhooks),
            Some(verifier) => verifier.verify(delivery).await,
        }
    }

    async fn download(&self, file: &ResultFile, to: &Path) -> Result<Fetched, MediaError> {
        self.download_one(file, to).await
    }
}

impl std::fmt::Debug for HttpExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpExecutor").field("name", &self.name).finish_non_exhaustive()
    }
}
