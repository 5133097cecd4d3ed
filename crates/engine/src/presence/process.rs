//! Ends meetings that are over: a periodic job finds those that may be, and a job for each of them
//! decides, under the lock that keeps two decisions about one meeting apart. The periodic job also
//! deletes what nobody needs any more.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{KindName, KindSpec, MergeRule, Outcome, RetryPolicy};
use roundsman_core::ports::{CommitAnswer, PresencePrune, StoreError};
use roundsman_core::presence::{JUDGE_KIND, PROCESS_KIND, judge_wish};

use super::work::{PresenceWork, done, enqueue, meeting_of, storage_failed};
use crate::jobs::{Handler, HandlerResult, JobContext, next_round, periodic_spec};

/// Meetings read, and wishes written, with one statement.
const ROWS_PER_STEP_MAX: u32 = 1000;
/// Meetings that are decided about at once in one process.
const JUDGED_AT_ONCE_MAX: usize = 8;
/// Rows of each sort that are deleted with one statement, and how many of those a round has.
const PRUNE_ROWS_MAX: u32 = 1000;
const PRUNE_STEPS_MAX: u32 = 20;
/// Who said to be on their way is remembered this much longer than it counts.
const JOINING_KEPT_FOR: Duration = Duration::from_secs(3600);

/// The policy of the periodic job.
pub fn process_spec() -> KindSpec {
    KindSpec {
        deadline: Some(Duration::from_secs(300)),
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(60) },
        ..periodic_spec(PROCESS_KIND)
    }
}

/// The policy of the job that decides.
pub fn judge_spec() -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(120),
        heartbeat_every: Duration::from_secs(30),
        deadline: Some(Duration::from_secs(100)),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(30) },
        merge: MergeRule::Keep,
        concurrency: Some(JUDGED_AT_ONCE_MAX),
        lease_name: Some("meeting_process_lock:{key}"),
        ..KindSpec::new(KindName::new(JUDGE_KIND).expect("a built-in kind has a valid name"))
    }
}

/// What one round came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessRound {
    /// Meetings that may be over.
    pub empty: usize,
    /// Rows that are gone.
    pub pruned: u64,
}

/// The round and what it needs.
#[derive(Debug)]
pub struct Processor {
    work: PresenceWork,
    every: Duration,
    inbox_for: Duration,
}

impl Processor {
    pub(super) fn new(work: &PresenceWork, every: Duration, inbox_for: Duration) -> Self {
        Processor { work: work.clone(), every, inbox_for }
    }

    /// The handler of the job.
    pub fn handler(self) -> Arc<dyn Handler> {
        Arc::new(ProcessHandler(self))
    }

    /// One round.
    pub async fn tick(&self) -> Result<ProcessRound, StoreError> {
        let empty = self.ask_about_empty().await?;
        let pruned = self.prune().await?;
        self.work.metrics.pruned(pruned);
        self.work.metrics.presence_counts(&self.work.store.presence_counts().await?);
        Ok(ProcessRound { empty, pruned })
    }

    async fn ask_about_empty(&self) -> Result<usize, StoreError> {
        let mut empty = 0;
        let mut after = None;
        loop {
            let page = self.work.store.empty_presences(after, ROWS_PER_STEP_MAX).await?;
            let count = page.len();
            after = page.last().copied();
            empty += count;
            let now = self.work.clock.now();
            let wishes = page.into_iter().map(|id| judge_wish(id, now)).collect();
            enqueue(&self.work, wishes).await?;
            if count < ROWS_PER_STEP_MAX as usize {
                return Ok(empty);
            }
        }
    }

    async fn prune(&self) -> Result<u64, StoreError> {
        let now = self.work.clock.now();
        let request = PresencePrune {
            inbox_before: now - self.inbox_for,
            joining_before: now - JOINING_KEPT_FOR,
            rows_max: PRUNE_ROWS_MAX,
        };
        let mut pruned = 0;
        for _ in 0..PRUNE_STEPS_MAX {
            let rows = self.work.store.prune_presence(request).await?;
            pruned += rows;
            if rows < u64::from(PRUNE_ROWS_MAX) {
                break;
            }
        }
        Ok(pruned)
    }
}

struct ProcessHandler(Processor);

#[async_trait]
impl Handler for ProcessHandler {
    fn spec(&self) -> KindSpec {
        process_spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        let Processor { work, every, .. } = &self.0;
        match self.0.tick().await {
            Ok(_) => {
                let at = next_round(work.clock.now(), *every, work.random.as_ref());
                Outcome::Again { at, payload: None }.into()
            }
            Err(error) => storage_failed(&error).into(),
        }
    }
}

pub(super) fn judge(work: &PresenceWork) -> Arc<dyn Handler> {
    Arc::new(Judge { work: work.clone() })
}

struct Judge {
    work: PresenceWork,
}

#[async_trait]
impl Handler for Judge {
    fn spec(&self) -> KindSpec {
        judge_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let Some(id) = meeting_of(&context.job) else { return done().into() };
        let PresenceWork { store, clock, rules, .. } = &self.work;
        match store.judge_presence(id, *rules, context.lease, clock.now()).await {
            Ok(CommitAnswer::Written(written)) => {
                self.work.announce(&written);
                done().into()
            }
            Ok(CommitAnswer::Unchanged | CommitAnswer::NoSuchMeeting) => done().into(),
            // Whoever has the lease now decides.
            Ok(CommitAnswer::LeaseLost) => Outcome::Release.into(),
            Err(error) => storage_failed(&error).into(),
        }
    }
}
