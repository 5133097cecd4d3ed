//! Looks after what a mistake or an operator has lost: a periodic job, so that one node does it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{KindSpec, Outcome};
use roundsman_core::ports::{DocumentError, StoreError};
use roundsman_core::tasks::{COLLECT_KIND, POLLING_KIND, SUBMIT_KIND, SWEEP_KIND, completion};

use super::work::{TaskWork, storage};
use crate::jobs::{Handler, HandlerResult, JobContext, next_round, periodic_spec};

/// Tasks in one transaction, and transactions in one run: what is beyond waits for the next.
const ROWS_PER_STEP_MAX: u32 = 500;
const STEPS_MAX: u32 = 200;
/// Documents that are told of tasks in one run.
const TOLD_MAX: u32 = 200;

pub(super) fn sweep_spec() -> KindSpec {
    KindSpec { deadline: Some(Duration::from_secs(300)), ..periodic_spec(SWEEP_KIND) }
}

pub(super) fn sweeper(work: &TaskWork) -> Arc<dyn Handler> {
    Arc::new(Sweeper { work: work.clone() })
}

struct Sweeper {
    work: TaskWork,
}

#[async_trait]
impl Handler for Sweeper {
    fn spec(&self) -> KindSpec {
        sweep_spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        let swept = async {
            self.rearm().await?;
            self.tell().await
        };
        if let Err(error) = swept.await {
            return storage(&error).into();
        }
        let TaskWork { clock, random, options, .. } = &self.work;
        let at = next_round(clock.now(), options.sweep_every, random.as_ref());
        Outcome::Again { at, payload: None }.into()
    }
}

impl Sweeper {
    /// Every task that waits has its jobs again.
    async fn rearm(&self) -> Result<(), StoreError> {
        let (mut after, mut lost) = (None, 0);
        for _ in 0..STEPS_MAX {
            let now = self.work.clock.now();
            let rearmed = self.work.tasks.rearm_tasks(after, ROWS_PER_STEP_MAX, now).await?;
            lost += rearmed.jobs;
            after = rearmed.next_after;
            if after.is_none() {
                break;
            }
        }
        if lost > 0 {
            self.work.metrics.task_jobs_lost(u64::from(lost));
            tracing::error!(jobs = lost, "jobs of tasks were lost and are there again");
            for kind in [SUBMIT_KIND, POLLING_KIND, COLLECT_KIND] {
                self.work.wake(kind);
            }
        }
        Ok(())
    }

    /// Every document is told of the tasks that have ended while it could not be written.
    async fn tell(&self) -> Result<(), StoreError> {
        for task in self.work.tasks.untold_tasks(TOLD_MAX).await? {
            let Some(completion) = completion(&task) else { continue };
            let update = match self.work.documents.completion_update(&completion).await {
                Ok(update) => update,
                Err(DocumentError::NoSuchRoom(_)) => None,
                Err(error) => {
                    self.work.not_told(&task, &error);
                    continue;
                }
            };
            let now = self.work.clock.now();
            if let Some(appended) = self.work.tasks.tell_task(task.id, update, now).await? {
                self.work.documents.appended(appended).await;
            }
        }
        Ok(())
    }
}
