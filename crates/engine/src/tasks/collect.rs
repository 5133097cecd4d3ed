//! The job that fetches what a task brought.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{JobError, KindSpec, LeaseRef, MergeRule, Outcome, RetryPolicy};
use roundsman_core::ports::{ChangeAnswer, Polled, Scope, StoreError};
use roundsman_core::tasks::{COLLECT_KIND, Task, TaskError, TaskEvent, TaskStage, task_of_key};

use super::files::Trouble;
use super::work::{TaskWork, built_in, done, external_of, storage};
use crate::jobs::{Handler, HandlerResult, JobContext};

/// The policy of the job. How often it is tried is the handler's to say, because the task ends with it.
pub(super) fn collect_spec(at_once_max: usize) -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(120),
        heartbeat_every: Duration::from_secs(30),
        deadline: Some(Duration::from_secs(3600)),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(5), cap: Duration::from_secs(300) },
        merge: MergeRule::Keep,
        concurrency: Some(at_once_max),
        lease_name: Some("task_collect:{key}"),
        ..KindSpec::new(built_in(COLLECT_KIND))
    }
}

pub(super) fn collector(work: &TaskWork) -> Arc<dyn Handler> {
    Arc::new(Collector { work: work.clone() })
}

struct Collector {
    work: TaskWork,
}

#[async_trait]
impl Handler for Collector {
    fn spec(&self) -> KindSpec {
        collect_spec(self.work.options.collects_at_once_max)
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let Some(id) = task_of_key(context.job.key.as_ref()) else { return done().into() };
        let ended = match self.work.tasks.task(Scope::All, id).await {
            Ok(Some(task)) if task.stage == TaskStage::Collecting => {
                self.collect(&task, context.lease, context.job.attempt).await
            }
            Ok(_) => Ok(done()),
            Err(error) => Err(error),
        };
        ended.unwrap_or_else(|error| storage(&error)).into()
    }
}

impl Collector {
    async fn collect(
        &self,
        task: &Task,
        lease: LeaseRef,
        attempt: u32,
    ) -> Result<Outcome, StoreError> {
        let now = self.work.clock.now();
        if now >= task.deadline_at {
            return self.end(task, TaskEvent::Overdue, lease).await;
        }
        match self.fetch(task, lease).await {
            Ok(event) => self.end(task, event, lease).await,
            Err(trouble)
                if trouble.is_final || attempt >= self.work.options.collect_attempts_max =>
            {
                let error = TaskError::new("result_unavailable", trouble.message);
                self.end(task, TaskEvent::Failed { error }, lease).await
            }
            Err(trouble) => {
                let id = task.id.to_string();
                tracing::warn!(
                    task = id,
                    attempt,
                    "a result is fetched again: {}",
                    trouble.message
                );
                let error = JobError::new("result_unavailable", trouble.message);
                Ok(Outcome::Retry { error, after: None })
            }
        }
    }

    /// Asks once more where everything is: a link that was given before may have expired.
    async fn fetch(&self, task: &Task, lease: LeaseRef) -> Result<TaskEvent, Trouble> {
        let later = |message: String| Trouble { message, is_final: false };
        let Some((executor, external)) = self.work.executor(task).zip(external_of(task)) else {
            let message = format!("no executor is configured for {}", task.external_service);
            return Err(Trouble { message, is_final: true });
        };
        match executor.poll(&external).await {
            Polled::Succeeded(result) => {
                let produced = self.work.keep_result(executor, task, result, lease).await?;
                Ok(TaskEvent::Produced(produced))
            }
            Polled::Failed(failure) => {
                let error = TaskError::new(failure.code.as_str(), failure.message);
                Ok(TaskEvent::Failed { error })
            }
            Polled::Unclear(unclear) => Err(later(unclear.message)),
            Polled::NotFound => Err(later("its generator knows it no more".to_owned())),
            Polled::Pending { .. } => Err(later("its generator says that it goes on".to_owned())),
        }
    }

    async fn end(
        &self,
        task: &Task,
        event: TaskEvent,
        lease: LeaseRef,
    ) -> Result<Outcome, StoreError> {
        Ok(match self.work.change(task, event, Some(lease)).await? {
            ChangeAnswer::LeaseLost => Outcome::Release,
            ChangeAnswer::Stale(_) => Outcome::Again { at: self.work.clock.now(), payload: None },
            ChangeAnswer::Changed { .. }
            | ChangeAnswer::Unchanged(_)
            | ChangeAnswer::NoSlot
            | ChangeAnswer::NotFound => done(),
        })
    }
}
