//! Keeps a lease while its job is worked on.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::api::{Api, CallError};
use crate::time::{now, pause};
use crate::{Context, Job, StopReason};

/// Sends heartbeats until there is a reason to stop. `confirmed` is from before the claim was sent, so
/// that a lease is never believed to last longer than the server believes it.
pub(crate) async fn keep(
    api: &Api,
    job: &Job,
    context: &Context,
    lease: Duration,
    mut confirmed: Instant,
) -> StopReason {
    let interval = lease / 3;
    loop {
        pause(interval).await;
        let sent = now();
        let progress = context.take_progress();
        let again = progress.clone();
        match timeout(interval, api.heartbeat(job, lease, progress)).await {
            Ok(Ok(beat)) if beat.cancel_requested => return StopReason::Cancelled,
            Ok(Ok(_)) => confirmed = sent,
            Ok(Err(CallError::LeaseLost)) => return StopReason::LeaseLost,
            unclear => {
                tracing::warn!(job = job.id, ?unclear, "a heartbeat was not answered");
                if let Some(progress) = again {
                    context.report(progress);
                }
            }
        }
        if now().saturating_duration_since(confirmed) + interval >= lease {
            tracing::warn!(job = job.id, "nobody has confirmed the lease in time");
            return StopReason::LeaseLost;
        }
    }
}
