//! Running one handler, to its end or until it must stop.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use roundsman_core::effects::Effects;
use roundsman_core::failpoint;
use roundsman_core::jobs::{JobError, Json, Outcome, RunningJob, Settle};
use tokio::sync::watch;

use super::{StopReason, Worker};
use crate::jobs::{Handler, HandlerResult, JobContext};

impl Worker {
    /// Starts a handler on a task of its own.
    pub(super) fn spawn(
        &self,
        handler: Arc<dyn Handler>,
        job: RunningJob,
        progress: watch::Sender<Option<Json>>,
        stopped: watch::Receiver<Option<StopReason>>,
    ) {
        let lease = job.lease_ref();
        let context = JobContext { job: job.facts, lease, progress };
        let ending = self.ending();
        self.deps.tasks.spawn(async move {
            // Around everything, for a handler may panic even while it is dropped; whatever it
            // does, its slot must come back.
            let run = AssertUnwindSafe(run(handler, context, stopped)).catch_unwind();
            let result = run.await.unwrap_or_else(|panic| Some(panicked(&*panic)));
            let settle =
                result.map(|HandlerResult { outcome, effects }| Settle { lease, outcome, effects });
            failpoint::hit("worker.ended");
            ending.end(lease, settle);
        });
    }
}

/// The result to be written, or `None` if nothing may be written any more.
async fn run(
    handler: Arc<dyn Handler>,
    context: JobContext,
    mut stopped: watch::Receiver<Option<StopReason>>,
) -> Option<HandlerResult> {
    let stop = async {
        match stopped.wait_for(Option::is_some).await {
            Ok(reason) => *reason,
            // The worker is gone, and with it whoever could write the outcome.
            Err(_) => Some(StopReason::LeaseLost),
        }
    };
    tokio::select! {
        biased;
        reason = stop => stopped_outcome(reason?).map(HandlerResult::from),
        result = handler.run(context) => Some(result),
    }
}

fn stopped_outcome(reason: StopReason) -> Option<Outcome> {
    match reason {
        StopReason::LeaseLost => None,
        StopReason::Cancelled => Some(Outcome::Cancelled),
        StopReason::Shutdown => Some(Outcome::Release),
        StopReason::DeadlineExceeded => {
            let error =
                JobError::new("deadline_exceeded", "the run took longer than its kind allows");
            Some(Outcome::Retry { error, after: None })
        }
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> HandlerResult {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    let error = JobError::new("panic", format!("the handler panicked: {text}"));
    HandlerResult { outcome: Outcome::Retry { error, after: None }, effects: Effects::default() }
}
