//! Forgets tasks that ended long ago: a periodic job, so that one node does it at a time. Those that
//! brought files stay, because documents link to them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{KindSpec, Outcome};
use roundsman_core::tasks::PRUNE_KIND;

use super::work::{TaskWork, storage};
use crate::jobs::{Handler, HandlerResult, JobContext, next_round, periodic_spec};

const EVERY: Duration = Duration::from_secs(600);
/// Tasks in one transaction, and transactions in one run: what is beyond waits for the next.
const ROWS_PER_STEP_MAX: u32 = 500;
const STEPS_MAX: u32 = 20;

pub(super) fn prune_spec() -> KindSpec {
    KindSpec { deadline: Some(Duration::from_secs(300)), ..periodic_spec(PRUNE_KIND) }
}

pub(super) fn pruner(work: &TaskWork) -> Arc<dyn Handler> {
    Arc::new(Pruner { work: work.clone() })
}

struct Pruner {
    work: TaskWork,
}

#[async_trait]
impl Handler for Pruner {
    fn spec(&self) -> KindSpec {
        prune_spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        let TaskWork { tasks, clock, random, metrics, options, .. } = &self.work;
        for _ in 0..STEPS_MAX {
            let before = clock.now() - options.keep_for;
            match tasks.prune_tasks(before, ROWS_PER_STEP_MAX).await {
                Ok(rows) => {
                    metrics.pruned(rows);
                    if rows < u64::from(ROWS_PER_STEP_MAX) {
                        break;
                    }
                }
                Err(error) => return storage(&error).into(),
            }
        }
        let at = next_round(clock.now(), EVERY, random.as_ref());
        Outcome::Again { at, payload: None }.into()
    }
}
