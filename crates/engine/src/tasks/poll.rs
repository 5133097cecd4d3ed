//! A room's round over its tasks: the alarm `task_polling`.
//!
//! Invariants: all tasks of a room that are due are looked at in one round, so many at once, each look
//! bounded, and what is learned of one is written at once: a slow one keeps nobody waiting who has a
//! place. A round that finds nothing left is the last one; a task that was made meanwhile has wished
//! for the next one in the transaction that made it.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use roundsman_core::Timestamp;
use roundsman_core::failpoint;
use roundsman_core::jobs::{KindSpec, LeaseRef, MergeRule, Outcome, RetryPolicy};
use roundsman_core::ports::{
    ChangeAnswer, Executor, ExternalTask, FailureCode, Polled, StoreError, Unclear,
};
use roundsman_core::rooms::ProjectId;
use roundsman_core::tasks::{
    Due, POLLING_KIND, Produced, Task, TaskError, TaskEvent, TaskId, TaskStage, come_back_at, due,
};
use tokio::time::timeout;

use super::files::result_data;
use super::work::{TaskWork, built_in, done, external_of, storage};
use crate::jobs::{Handler, HandlerResult, JobContext};

/// What one round reads of a room. No more tasks can be under way in one.
const LOOKS_MAX: u32 = 10_000;
/// Tasks that are read at once, with all they say.
const TASKS_PER_READ_MAX: usize = 64;
/// A round takes nothing new on after this long, so that others get a place.
const ROUND_MAX: Duration = Duration::from_secs(60);

/// The policy of the rounds. They are never given up.
pub fn polling_spec(rooms_at_once_max: usize) -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(30),
        heartbeat_every: Duration::from_secs(10),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) },
        merge: MergeRule::Keep,
        concurrency: Some(rooms_at_once_max),
        lease_name: Some("task_polling:{key}"),
        ..KindSpec::new(built_in(POLLING_KIND))
    }
}

pub(super) fn poller(work: &TaskWork) -> Arc<dyn Handler> {
    Arc::new(Poller { work: work.clone() })
}

struct Poller {
    work: TaskWork,
}

#[async_trait]
impl Handler for Poller {
    fn spec(&self) -> KindSpec {
        polling_spec(self.work.options.rooms_at_once_max)
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let key = context.job.key.as_ref();
        let Some(project) = key.and_then(|key| ProjectId::new(key.as_str()).ok()) else {
            return done().into();
        };
        let round = Round { work: &self.work, project, lease: context.lease };
        match round.run().await {
            Ok(Some(at)) => Outcome::Again { at, payload: None }.into(),
            Ok(None) => done().into(),
            // Whoever has the lease now goes on.
            Err(Stopped::LeaseLost) => Outcome::Release.into(),
            Err(Stopped::Store(error)) => storage(&error).into(),
        }
    }
}

/// Why a round did not come to its end.
#[derive(Debug)]
enum Stopped {
    LeaseLost,
    Store(StoreError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Stopped::Store(error)
    }
}

struct Round<'a> {
    work: &'a TaskWork,
    project: ProjectId,
    lease: LeaseRef,
}

/// What is done with one request: tasks of one service, or the end of one that nobody can be asked
/// about.
enum Unit {
    Poll(Arc<dyn Executor>, Vec<(Task, ExternalTask)>),
    Overdue(Box<Task>),
    /// Its service is configured no more.
    Orphan(Box<Task>),
}

impl Round<'_> {
    /// Looks at all that is due. Returns when to come back; `None` if nothing is left.
    async fn run(&self) -> Result<Option<Timestamp>, Stopped> {
        let began_at = self.work.clock.now();
        let mut asked: BTreeMap<TaskId, Timestamp> = BTreeMap::new();
        let mut under_way = FuturesUnordered::new();
        let mut units = VecDeque::new();
        let mut looked_at: Option<Timestamp> = None;
        loop {
            let now = self.work.clock.now();
            let is_time = looked_at.is_none_or(|at| now.since(at) >= Duration::from_secs(1));
            if units.is_empty() && is_time && now.since(began_at) < ROUND_MAX {
                looked_at = Some(now);
                units = self.due_units(&mut asked, now).await?;
            }
            while under_way.len() < self.work.options.polls_at_once_max.max(1)
                && let Some(unit) = units.pop_front()
            {
                under_way.push(self.do_unit(unit));
            }
            // What was learned of the others is written; an error ends the round after that.
            match under_way.next().await {
                Some(ended) => ended?,
                None => break,
            }
        }
        self.work.metrics.task_round(asked.len());
        failpoint::hit("tasks.round");
        let looks = self.work.tasks.task_looks(self.project.clone(), LOOKS_MAX).await?;
        Ok(come_back_at(&looks, self.work.options.rules, self.work.clock.now()))
    }

    /// What is due and was not asked for yet, as few requests as its services allow.
    async fn due_units(
        &self,
        asked: &mut BTreeMap<TaskId, Timestamp>,
        now: Timestamp,
    ) -> Result<VecDeque<Unit>, StoreError> {
        let looks = self.work.tasks.task_looks(self.project.clone(), LOOKS_MAX).await?;
        let pause = self.work.options.rules.poll_every;
        let wanted = due(&looks, now).into_iter().map(|(Due::Poll(id) | Due::Overdue(id))| id);
        // One that is still due after it was looked at was not settled: not again at once.
        let is_new = |id: &TaskId| asked.get(id).is_none_or(|at| now.since(*at) >= pause);
        let wanted: Vec<TaskId> = wanted.filter(is_new).collect();
        let mut units = VecDeque::new();
        for ids in wanted.chunks(TASKS_PER_READ_MAX) {
            let tasks = self.work.tasks.tasks_by_id(ids.to_vec()).await?;
            units.extend(self.units_of(tasks));
        }
        asked.extend(wanted.into_iter().map(|id| (id, now)));
        Ok(units)
    }

    fn units_of(&self, tasks: Vec<Task>) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut groups: BTreeMap<String, Vec<(Task, ExternalTask)>> = BTreeMap::new();
        for task in tasks {
            match (task.stage, external_of(&task), self.work.executor(&task)) {
                (TaskStage::Polling, Some(external), Some(executor)) => {
                    let batch_max = executor.capabilities().batch_max.max(1);
                    let group = groups.entry(task.external_service.clone()).or_default();
                    group.push((task, external));
                    if group.len() >= batch_max {
                        units.push(Unit::Poll(executor.clone(), std::mem::take(group)));
                    }
                }
                (TaskStage::Polling, _, _) => units.push(Unit::Orphan(task.into())),
                (TaskStage::Over, _, _) => {}
                _ => units.push(Unit::Overdue(task.into())),
            }
        }
        for (service, group) in groups {
            let executor = self.work.executors.of_service(&service);
            if let Some(executor) = executor.filter(|_| !group.is_empty()) {
                units.push(Unit::Poll(executor.clone(), group));
            }
        }
        units
    }

    async fn do_unit(&self, unit: Unit) -> Result<(), Stopped> {
        match unit {
            Unit::Overdue(task) => self.change(&task, TaskEvent::Overdue).await,
            Unit::Orphan(task) => {
                let said = format!("no executor is configured for {}", task.external_service);
                let error = TaskError::new("not_configured", said);
                let event = TaskEvent::PollFailed { error, look_after: None, is_counted: true };
                self.change(&task, event).await
            }
            Unit::Poll(executor, tasks) => self.poll(executor.as_ref(), tasks).await,
        }
    }

    async fn poll(
        &self,
        executor: &dyn Executor,
        tasks: Vec<(Task, ExternalTask)>,
    ) -> Result<(), Stopped> {
        let asked_at = self.work.clock.now();
        let limit = self.work.options.poll_time_max.min(executor.capabilities().poll_time_max);
        let (tasks, externals): (Vec<Task>, Vec<ExternalTask>) = tasks.into_iter().unzip();
        let asking = AssertUnwindSafe(async {
            match externals.as_slice() {
                [one] => vec![executor.poll(one).await],
                many => executor.poll_many(many).await,
            }
        });
        // A mistake in an executor is a look that came to nothing: it must not end the round, which
        // looks after other tasks, too.
        let (answers, without) = match timeout(limit, asking.catch_unwind()).await {
            Ok(Ok(answers)) => (answers, odd("fewer answers than tasks")),
            Ok(Err(_)) => (Vec::new(), odd("a mistake in its executor")),
            Err(_) => (Vec::new(), silent(limit)),
        };
        failpoint::hit("tasks.polled");
        let mut answers = answers.into_iter();
        for task in tasks {
            let polled = answers.next().unwrap_or_else(|| without.clone());
            self.work.metrics.task_polled(executor.service(), word_of(&polled));
            let event = self.event_of(executor, &task, polled, asked_at);
            self.change(&task, event).await?;
        }
        Ok(())
    }

    /// What is learned from an answer.
    fn event_of(
        &self,
        executor: &dyn Executor,
        task: &Task,
        polled: Polled,
        asked_at: Timestamp,
    ) -> TaskEvent {
        match polled {
            Polled::Pending { .. } => {
                let schedule = &executor.capabilities().schedule;
                let looks = task.polls.saturating_add(1);
                let look_after = schedule.pause(looks, self.work.chance());
                TaskEvent::Unfinished { look_after, asked_at }
            }
            Polled::Succeeded(result) if result.files.is_empty() => {
                let result_data = result_data(&result.data, &[]);
                TaskEvent::Produced(Produced { result_data, ..Produced::default() })
            }
            Polled::Succeeded(_) => TaskEvent::Ready,
            Polled::Failed(failure) => {
                let error = TaskError::new(failure.code.as_str(), failure.message);
                TaskEvent::Failed { error }
            }
            Polled::NotFound => {
                let said = format!("{} knows no such task", task.external_service);
                let error = TaskError::new(FailureCode::NotFound.as_str(), said);
                TaskEvent::PollFailed { error, look_after: None, is_counted: true }
            }
            Polled::Unclear(Unclear { code, message, retry_after }) => {
                let is_counted = !matches!(code, FailureCode::RateLimited | FailureCode::Busy);
                let error = TaskError::new(code.as_str(), message);
                TaskEvent::PollFailed { error, look_after: retry_after, is_counted }
            }
        }
    }

    async fn change(&self, task: &Task, event: TaskEvent) -> Result<(), Stopped> {
        match self.work.change(task, event, Some(self.lease)).await? {
            ChangeAnswer::LeaseLost => Err(Stopped::LeaseLost),
            // Somebody was faster: what was learned of what it was is of no use.
            ChangeAnswer::Changed { .. }
            | ChangeAnswer::Unchanged(_)
            | ChangeAnswer::Stale(_)
            | ChangeAnswer::NoSlot
            | ChangeAnswer::NotFound => Ok(()),
        }
    }
}

fn odd(message: &str) -> Polled {
    let (code, message) = (FailureCode::Odd, message.to_owned());
    Polled::Unclear(Unclear { code, message, retry_after: None })
}

fn silent(limit: Duration) -> Polled {
    let message = format!("no answer in {} ms", limit.as_millis());
    Polled::Unclear(Unclear { code: FailureCode::Unavailable, message, retry_after: None })
}

fn word_of(polled: &Polled) -> &'static str {
    match polled {
        Polled::Pending { .. } => "pending",
        Polled::Succeeded(_) => "succeeded",
        Polled::Failed(_) => "failed",
        Polled::NotFound => "not_found",
        Polled::Unclear(_) => "unclear",
    }
}
