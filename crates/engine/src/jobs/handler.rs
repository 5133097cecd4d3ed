//! What runs a kind of job inside the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{JobFacts, Json, KindName, KindSpec, LeaseRef, Outcome};
use tokio::sync::watch;

/// Runs one kind of job.
///
/// A handler may be stopped at any `await`: when its lease is lost, the job is cancelled, its
/// deadline passes or the process goes down. What it wants to happen for good it returns as the
/// outcome and effects, which land together under its lease, or writes through the store with the
/// lease as guard. Long computation belongs on a blocking thread, or heartbeats cannot be sent.
#[async_trait]
pub trait Handler: Send + Sync {
    fn spec(&self) -> KindSpec;

    async fn run(&self, context: JobContext) -> HandlerResult;
}

/// What a handler came to.
#[derive(Debug, Clone)]
pub struct HandlerResult {
    pub outcome: Outcome,
    /// Committed with the outcome, or not at all.
    pub effects: Effects,
}

impl From<Outcome> for HandlerResult {
    fn from(outcome: Outcome) -> Self {
        HandlerResult { outcome, effects: Effects::default() }
    }
}

/// What a handler is given.
#[derive(Debug, Clone)]
pub struct JobContext {
    pub job: JobFacts,
    /// Guards writes of the handler's own; also an idempotency key for the outside.
    pub lease: LeaseRef,
    pub(super) progress: watch::Sender<Option<Json>>,
}

impl JobContext {
    /// For whoever runs a handler without a worker: nobody hears how far the work is.
    pub fn alone(job: JobFacts, lease: LeaseRef) -> Self {
        JobContext { job, lease, progress: watch::Sender::new(None) }
    }

    /// Tells how far the work is; stored with the next heartbeat.
    pub fn report_progress(&self, progress: Json) {
        self.progress.send_replace(Some(progress));
    }
}

/// The handlers of a process, by kind.
#[derive(Clone, Default)]
pub struct HandlerRegistry {
    handlers: BTreeMap<KindName, Registered>,
}

/// A handler with its spec, asked for once.
#[derive(Clone)]
pub(super) struct Registered {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) spec: Arc<KindSpec>,
}

impl HandlerRegistry {
    #[must_use]
    pub fn with(mut self, handler: Arc<dyn Handler>) -> Self {
        let spec = Arc::new(handler.spec());
        self.handlers.insert(spec.kind.clone(), Registered { handler, spec });
        self
    }

    pub(super) fn get(&self, kind: &KindName) -> Option<Registered> {
        self.handlers.get(kind).cloned()
    }

    pub(super) fn specs(&self) -> Vec<KindSpec> {
        self.handlers.values().map(|registered| KindSpec::clone(&registered.spec)).collect()
    }
}

impl std::fmt::Debug for HandlerRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.handlers.keys()).finish()
    }
}
