//! What a handler gets, and how it is told to stop.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::Failure;

/// A job that was claimed.
#[derive(Debug, Clone, Deserialize)]
pub struct Job {
    pub id: i64,
    pub kind: String,
    pub key: Option<String>,
    pub payload: Value,
    pub attempt: u32,
    pub max_attempts: Option<u32>,
    /// The fencing token. Pass it on to whatever is written elsewhere for this job.
    pub lease_no: i64,
}

/// Does jobs of a kind. Functions of a [`Job`] and a [`Context`] that return a future are handlers.
#[async_trait]
pub trait Handler: Send + Sync {
    async fn run(&self, job: Job, context: Context) -> Result<Value, Failure>;
}

#[async_trait]
impl<F, Fut> Handler for F
where
    F: Fn(Job, Context) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Value, Failure>> + Send,
{
    async fn run(&self, job: Job, context: Context) -> Result<Value, Failure> {
        self(job, context).await
    }
}

/// Why a handler has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The lease is lost, or nobody confirmed it in time: whatever is done now is done for nothing.
    LeaseLost,
    /// Somebody cancelled the job.
    Cancelled,
    /// The worker ends. The job is handed back, and the attempt does not count.
    WorkerEnds,
}

/// A handler's connection to its worker. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Context {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    stop: CancellationToken,
    reason: OnceLock<StopReason>,
    progress: Mutex<Option<Value>>,
}

impl Context {
    /// Keeps how far the work is; it is sent with the next heartbeat.
    pub fn report(&self, progress: Value) {
        *self.inner.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    /// Why the handler has to stop, if it has to.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.inner.reason.get().copied()
    }

    /// Returns when the handler has to stop.
    pub async fn stopped(&self) -> StopReason {
        self.inner.stop.cancelled().await;
        self.stop_reason().unwrap_or(StopReason::LeaseLost)
    }

    pub(crate) fn stop(&self, reason: StopReason) {
        // The first reason stays.
        let _ = self.inner.reason.set(reason);
        self.inner.stop.cancel();
    }

    pub(crate) fn take_progress(&self) -> Option<Value> {
        self.inner.progress.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
