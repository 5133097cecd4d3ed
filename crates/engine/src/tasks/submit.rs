//! The job that sends a task to its generator.
//!
//! Invariant: that a task is being sent is written before it is sent. Whoever finds it so and does not
//! know what came of it asks the generator, repeats what may be repeated, or ends the task as
//! `submit_unknown`: it is never paid for twice without anybody knowing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::failpoint;
use roundsman_core::jobs::{JobError, KindSpec, LeaseRef, MergeRule, Outcome, RetryPolicy};
use roundsman_core::ports::{
    ChangeAnswer, Executor, ExternalTask, FailureCode, Idempotency, LookedUp, Refusal, Scope,
    StoreError, Submission, Submitted, TaskChange, TaskResult,
};
use roundsman_core::tasks::{
    SUBMIT_KIND, SUBMIT_UNKNOWN, Task, TaskError, TaskEvent, TaskStage, task_of_key,
};

use super::work::{TaskWork, built_in, done, request_of, storage};
use crate::jobs::{Handler, HandlerResult, JobContext};

/// How long a task waits when all slots of its generator are taken.
const SLOT_WAIT: Duration = Duration::from_secs(2);
/// A submission whose answer was lost may still be on its way for this long after the generator's own
/// limit: before that, nobody is believed who says that there is no such task.
const ON_ITS_WAY: Duration = Duration::from_secs(30);

/// The policy of the job. The task's deadline ends it.
pub(super) fn submit_spec(at_once_max: usize) -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(60),
        heartbeat_every: Duration::from_secs(15),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) },
        merge: MergeRule::Keep,
        concurrency: Some(at_once_max),
        lease_name: Some("task_submit:{key}"),
        ..KindSpec::new(built_in(SUBMIT_KIND))
    }
}

pub(super) fn submitter(work: &TaskWork) -> Arc<dyn Handler> {
    Arc::new(Submitter { work: work.clone() })
}

struct Submitter {
    work: TaskWork,
}

#[async_trait]
impl Handler for Submitter {
    fn spec(&self) -> KindSpec {
        submit_spec(self.work.options.submits_at_once_max)
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let Some(id) = task_of_key(context.job.key.as_ref()) else { return done().into() };
        let found = self.work.tasks.task(Scope::All, id).await;
        let ended = match found {
            Ok(Some(task)) => {
                let run =
                    Run { work: &self.work, lease: context.lease, attempt: context.job.attempt };
                run.go_on(task).await
            }
            Ok(None) => Ok(done()),
            Err(error) => Err(error),
        };
        ended.unwrap_or_else(|error| storage(&error)).into()
    }
}

/// One run of the job.
struct Run<'a> {
    work: &'a TaskWork,
    lease: LeaseRef,
    attempt: u32,
}

impl Run<'_> {
    async fn go_on(&self, task: Task) -> Result<Outcome, StoreError> {
        if !matches!(task.stage, TaskStage::Waiting | TaskStage::Sending) {
            return Ok(done());
        }
        if self.now() >= task.deadline_at {
            return self.end(&task, TaskEvent::Overdue).await;
        }
        let Some(executor) = self.work.executor(&task).cloned() else {
            let said = format!("no executor is configured for {}", task.external_service);
            let error = TaskError::new("not_configured", said);
            return self.end(&task, TaskEvent::Failed { error }).await;
        };
        if task.stage == TaskStage::Sending {
            return self.resolve(&executor, task).await;
        }
        self.send(&executor, task).await
    }

    /// Notes that it is being sent, and sends it.
    async fn send(&self, executor: &Arc<dyn Executor>, task: Task) -> Result<Outcome, StoreError> {
        let change = TaskChange {
            version: Some(task.version),
            guard: Some(self.lease),
            slots_max: executor.capabilities().slots_max,
            ..TaskChange::new(task.id, TaskEvent::Sending, self.work.options.rules)
        };
        match self.work.tasks.change_task(change, self.now()).await? {
            ChangeAnswer::Changed { task, .. } => self.sent(executor, *task).await,
            ChangeAnswer::NoSlot => Ok(again(self.now() + SLOT_WAIT)),
            // Somebody has changed it meanwhile: look again.
            ChangeAnswer::Stale(_) => Ok(again(self.now())),
            ChangeAnswer::LeaseLost => Ok(Outcome::Release),
            ChangeAnswer::Unchanged(_) | ChangeAnswer::NotFound => Ok(done()),
        }
    }

    async fn sent(&self, executor: &Arc<dyn Executor>, task: Task) -> Result<Outcome, StoreError> {
        let time_max = executor.capabilities().submit_time_max;
        let service = executor.service();
        let url = self.work.options.public_url.as_ref();
        let callback_url = url
            .filter(|_| executor.capabilities().has_webhooks)
            .map(|url| format!("{url}/webhooks/{service}"));
        let submission = Submission { request: request_of(&task), callback_url, time_max };
        failpoint::hit("tasks.sending");
        // The executor has limits of its own; this one is for a mistake of its.
        let limit = time_max.saturating_add(Duration::from_secs(5));
        let submitted = tokio::time::timeout(limit, executor.submit(&submission)).await;
        failpoint::hit("tasks.sent");
        let late = || Submitted::Unknown { reason: "it was not answered in time".to_owned() };
        let submitted = submitted.unwrap_or_else(|_| late());
        self.work.metrics.task_submitted(service, word_of(&submitted));
        self.take(executor, task, submitted).await
    }

    async fn take(
        &self,
        executor: &Arc<dyn Executor>,
        task: Task,
        submitted: Submitted,
    ) -> Result<Outcome, StoreError> {
        match submitted {
            Submitted::Accepted { external_task_id } => {
                self.accepted(executor, &task, external_task_id).await
            }
            Submitted::Completed(result) => self.completed(executor, &task, result).await,
            Submitted::Failed(failure) => {
                let error = TaskError::new(failure.code.as_str(), failure.message);
                self.end(&task, TaskEvent::Failed { error }).await
            }
            Submitted::Refused(refusal) => self.refused(&task, refusal).await,
            Submitted::Unknown { reason } => {
                let id = task.id.to_string();
                tracing::warn!(task = id, "nobody knows whether a task was taken: {reason}");
                match executor.capabilities().idempotency {
                    Idempotency::None => self.unknown(&task, &reason).await,
                    Idempotency::LookUp | Idempotency::Repeat => Ok(retry(SUBMIT_UNKNOWN, &reason)),
                }
            }
        }
    }

    /// It was being sent when somebody stopped, or its answer was lost.
    async fn resolve(
        &self,
        executor: &Arc<dyn Executor>,
        task: Task,
    ) -> Result<Outcome, StoreError> {
        match executor.capabilities().idempotency {
            Idempotency::None => {
                self.unknown(&task, "whoever sent it stopped before it was answered").await
            }
            Idempotency::Repeat => self.sent(executor, task).await,
            Idempotency::LookUp => {
                let found = executor.look_up(&request_of(&task)).await;
                self.looked_up(executor, task, found).await
            }
        }
    }

    async fn looked_up(
        &self,
        executor: &Arc<dyn Executor>,
        task: Task,
        found: LookedUp,
    ) -> Result<Outcome, StoreError> {
        match found {
            LookedUp::Found { external_task_id } => {
                self.accepted(executor, &task, external_task_id).await
            }
            LookedUp::Absent => {
                let on_its_way = executor.capabilities().submit_time_max + ON_ITS_WAY;
                let until = task.updated_at + on_its_way;
                if self.now() < until {
                    let error = JobError::new(SUBMIT_UNKNOWN, "it may still be on its way");
                    let after = Some(until.since(self.now()));
                    return Ok(Outcome::Retry { error, after });
                }
                let error = TaskError::new("not_sent", "its generator does not know it");
                match self.change(&task, TaskEvent::NotSent { error }).await? {
                    ChangeAnswer::Changed { task, .. } => self.send(executor, *task).await,
                    answer => Ok(self.after(&answer)),
                }
            }
            LookedUp::Unclear(unclear) => {
                let error = JobError::new(unclear.code.as_str(), unclear.message);
                Ok(Outcome::Retry { error, after: unclear.retry_after })
            }
            LookedUp::Unsupported => self.unknown(&task, "its generator cannot be asked").await,
        }
    }

    async fn accepted(
        &self,
        executor: &Arc<dyn Executor>,
        task: &Task,
        external_task_id: String,
    ) -> Result<Outcome, StoreError> {
        let chance = self.work.chance();
        let look_after = executor.capabilities().schedule.pause(0, chance);
        let event = TaskEvent::Accepted { external_task_id: external_task_id.clone(), look_after };
        let answer = self.change(task, event).await?;
        if let ChangeAnswer::Unchanged(_) = &answer {
            // It was cancelled, or its time was over, while it was being sent.
            let external = ExternalTask { external_task_id, request: request_of(task) };
            let cancelled = executor.cancel(&external).await;
            let id = task.id.to_string();
            tracing::warn!(task = id, ?cancelled, "a task was taken that nobody wants any more");
        }
        Ok(self.after(&answer))
    }

    async fn completed(
        &self,
        executor: &Arc<dyn Executor>,
        task: &Task,
        result: TaskResult,
    ) -> Result<Outcome, StoreError> {
        match self.work.keep_result(executor, task, result, self.lease).await {
            Ok(produced) => self.end(task, TaskEvent::Produced(produced)).await,
            // There is nobody to ask for it again.
            Err(trouble) => {
                let error = TaskError::new("result_unavailable", trouble.message);
                self.end(task, TaskEvent::Failed { error }).await
            }
        }
    }

    /// It was not taken, surely: it may be sent again.
    async fn refused(&self, task: &Task, refusal: Refusal) -> Result<Outcome, StoreError> {
        let Refusal { code, message, is_retryable, retry_after } = refusal;
        let error = TaskError::new(code.as_str(), message);
        let waits_for_room = matches!(code, FailureCode::Busy | FailureCode::RateLimited);
        let tries_left = self.attempt < self.work.options.submit_attempts_max;
        if !is_retryable || !(waits_for_room || tries_left) {
            return self.end(task, TaskEvent::Failed { error }).await;
        }
        let answer = self.change(task, TaskEvent::NotSent { error: error.clone() }).await?;
        if !matches!(answer, ChangeAnswer::Changed { .. }) {
            return Ok(self.after(&answer));
        }
        // Waiting for a slot is no failure, however long it takes.
        if waits_for_room {
            let pause = retry_after.unwrap_or(self.work.options.rules.poll_every);
            return Ok(again(self.now() + pause));
        }
        Ok(Outcome::Retry { error, after: retry_after })
    }

    async fn unknown(&self, task: &Task, reason: &str) -> Result<Outcome, StoreError> {
        let said = format!(
            "it was sent to {}, and nobody knows whether it was taken: {reason}. It was not sent \
             again, because that could be paid for twice",
            task.external_service
        );
        let error = TaskError::new(SUBMIT_UNKNOWN, said);
        self.end(task, TaskEvent::Failed { error }).await
    }

    async fn end(&self, task: &Task, event: TaskEvent) -> Result<Outcome, StoreError> {
        let answer = self.change(task, event).await?;
        Ok(self.after(&answer))
    }

    async fn change(&self, task: &Task, event: TaskEvent) -> Result<ChangeAnswer, StoreError> {
        self.work.change(task, event, Some(self.lease)).await
    }

    fn after(&self, answer: &ChangeAnswer) -> Outcome {
        match answer {
            ChangeAnswer::Stale(_) | ChangeAnswer::NoSlot => again(self.now()),
            ChangeAnswer::LeaseLost => Outcome::Release,
            ChangeAnswer::Changed { .. } | ChangeAnswer::Unchanged(_) | ChangeAnswer::NotFound => {
                done()
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.work.clock.now()
    }
}

fn again(at: Timestamp) -> Outcome {
    Outcome::Again { at, payload: None }
}

fn retry(code: &str, message: &str) -> Outcome {
    Outcome::Retry { error: JobError::new(code, message), after: None }
}

fn word_of(submitted: &Submitted) -> &'static str {
    match submitted {
        Submitted::Completed(_) => "completed",
        Submitted::Accepted { .. } => "accepted",
        Submitted::Failed(_) => "failed",
        Submitted::Refused(_) => "refused",
        Submitted::Unknown { .. } => "unknown",
    }
}
