//! The job that tells a generator that nobody wants a task any more.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{JobError, KindSpec, MergeRule, Outcome, RetryPolicy};
use roundsman_core::ports::{Cancelled, Scope};
use roundsman_core::tasks::{CANCEL_KIND, task_of_key};

use super::work::{TaskWork, built_in, done, external_of, storage};
use crate::jobs::{Handler, HandlerResult, JobContext};

/// Tries to tell. The task is over for us, whatever comes of it.
const ATTEMPTS_MAX: u32 = 6;

pub(super) fn cancel_spec() -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(60),
        heartbeat_every: Duration::from_secs(15),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) },
        merge: MergeRule::Keep,
        concurrency: Some(8),
        lease_name: Some("task_cancel:{key}"),
        ..KindSpec::new(built_in(CANCEL_KIND))
    }
}

pub(super) fn canceller(work: &TaskWork) -> Arc<dyn Handler> {
    Arc::new(Canceller { work: work.clone() })
}

struct Canceller {
    work: TaskWork,
}

#[async_trait]
impl Handler for Canceller {
    fn spec(&self) -> KindSpec {
        cancel_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let Some(id) = task_of_key(context.job.key.as_ref()) else { return done().into() };
        let task = match self.work.tasks.task(Scope::All, id).await {
            Ok(Some(task)) => task,
            Ok(None) => return done().into(),
            Err(error) => return storage(&error).into(),
        };
        let Some((executor, external)) = self.work.executor(&task).zip(external_of(&task)) else {
            return done().into();
        };
        match executor.cancel(&external).await {
            Cancelled::Accepted | Cancelled::TooLate | Cancelled::Unsupported => done().into(),
            Cancelled::Unclear(unclear) if context.job.attempt < ATTEMPTS_MAX => {
                let error = JobError::new(unclear.code.as_str(), unclear.message);
                Outcome::Retry { error, after: unclear.retry_after }.into()
            }
            Cancelled::Unclear(unclear) => {
                let error = JobError::new(unclear.code.as_str(), unclear.message);
                Outcome::Fail { error }.into()
            }
        }
    }
}
