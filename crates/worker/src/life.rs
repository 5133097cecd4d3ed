//! One job from its claim to what is said of it.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::Value;
use tokio::select;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, CallError};
use crate::keep::keep;
use crate::time::{now, pause};
use crate::{Context, Failure, Handler, Job, StopReason};

/// How long to wait before something that was not answered is said again.
const AGAIN_MS: u64 = 200;

/// What became of a job, as far as this worker knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Completed,
    Failed,
    Cancelled,
    Released,
    Lost,
}

/// What one job needs of its worker.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) api: Api,
    pub(crate) lease: Duration,
    pub(crate) stop_grace: Duration,
    /// The worker ends, and its patience is over.
    pub(crate) ending: CancellationToken,
}

/// Runs the handler and tells the server how it ended. `claimed` is from before the claim was sent.
pub(crate) async fn work(
    around: &Surroundings,
    handler: &dyn Handler,
    job: Job,
    claimed: Instant,
) -> Ending {
    let context = Context::default();
    let mut running =
        Box::pin(AssertUnwindSafe(handler.run(job.clone(), context.clone())).catch_unwind());
    let kept = keep(&around.api, &job, &context, around.lease, claimed);
    let reason = select! {
        biased;
        done = &mut running => return settle(around, &job, &outcome(done)).await,
        reason = kept => reason,
        () = around.ending.cancelled() => StopReason::WorkerEnds,
    };
    context.stop(reason);
    let ended = timeout(around.stop_grace, &mut running).await.map(outcome);
    match (reason, ended) {
        (StopReason::LeaseLost, _) => Ending::Lost,
        // It was done all the same, just in time.
        (_, Ok(Outcome::Done(result))) => settle(around, &job, &Outcome::Done(result)).await,
        (StopReason::Cancelled, _) => settle(around, &job, &Outcome::Cancelled).await,
        (StopReason::WorkerEnds, _) => settle(around, &job, &Outcome::Unfinished).await,
    }
}

/// What is to be said about a job.
#[derive(Debug)]
enum Outcome {
    Done(Value),
    Failed(Failure),
    Cancelled,
    Unfinished,
}

type Caught = Result<Result<Value, Failure>, Box<dyn std::any::Any + Send>>;

fn outcome(caught: Caught) -> Outcome {
    match caught {
        Ok(Ok(result)) => Outcome::Done(result),
        Ok(Err(failure)) => Outcome::Failed(failure),
        Err(panic) => Outcome::Failed(Failure::new(panic_text(&*panic)).with_code("panic")),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "the handler panicked".to_owned())
}

/// Says it until it is heard, or until the lease would be over. Nothing keeps the lease meanwhile.
async fn settle(around: &Surroundings, job: &Job, outcome: &Outcome) -> Ending {
    let until = now() + around.lease;
    loop {
        let (said, ending) = match outcome {
            Outcome::Done(result) => (around.api.complete(job, result).await, Ending::Completed),
            Outcome::Failed(failure) => (around.api.fail(job, failure).await, Ending::Failed),
            Outcome::Cancelled => (around.api.cancelled(job).await, Ending::Cancelled),
            Outcome::Unfinished => (around.api.release(job).await, Ending::Released),
        };
        match said {
            Ok(()) => return ending,
            Err(CallError::LeaseLost) => return Ending::Lost,
            Err(CallError::Refused { status, detail }) => {
                return refused(around, job, status, &detail).await;
            }
            Err(CallError::Unanswered(why)) => {
                tracing::warn!(job = job.id, why, "the server does not answer");
                if now() >= until {
                    return Ending::Lost;
                }
                pause(Duration::from_millis(AGAIN_MS)).await;
            }
        }
    }
}

/// A result that the server does not take (too large, not storable) is a failure that says so.
async fn refused(around: &Surroundings, job: &Job, status: u16, detail: &str) -> Ending {
    tracing::error!(job = job.id, status, detail, "the server refused how the job ended");
    let failure = Failure::new(format!("the server refused the result with {status}: {detail}"));
    match around.api.fail(job, &failure.with_code("result_refused")).await {
        Ok(()) => Ending::Failed,
        Err(_) => Ending::Lost,
    }
}
