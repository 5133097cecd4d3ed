//! Ends what nobody hears any more: compares the rows with the runtime, gives up bots that are
//! overdue, removes workloads that belong to no live bot.
//!
//! Invariants: a runtime that cannot be asked ends nothing; absence counts only when it was seen
//! more than once in a row; after a break of our own every bot has a full timeout to report.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, BotTimeouts, WorkloadId};
use roundsman_core::failpoint;
use roundsman_core::jobs::{JobError, Json, KindSpec, Outcome, RetryPolicy};
use roundsman_core::ports::{
    Announced, BotSweep, RuntimeNote, Seen, SeenWorkload, Sighting, StoreError,
};

use super::BotWork;
use super::announce::Announcer;
use super::watch::{RoundBefore, Watch};
use crate::jobs::{Handler, HandlerResult, JobContext, next_round, periodic_spec};

/// The kind of the sweeping job.
pub const SWEEP_KIND: &str = "bots.sweep";

/// Rows read or written with one statement.
const ROWS_PER_STEP_MAX: u32 = 500;
/// Meetings of an existing database taken over in one round.
const ADOPTED_PER_ROUND_MAX: u32 = 1000;
/// Workloads of nobody that are removed in one round, and at once.
const ORPHANS_PER_ROUND_MAX: usize = 500;
const ORPHANS_AT_ONCE_MAX: usize = 8;

/// How bots are given up.
#[derive(Debug, Clone, Copy)]
pub struct BotSweepOptions {
    pub every: Duration,
    pub timeouts: BotTimeouts,
    /// Bots given up in one round; with more, something else is wrong, and somebody should look.
    pub rows_max: u32,
    /// How often in a row a workload must be found gone.
    pub misses_max: u32,
}

/// What one round came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BotRound {
    /// Meetings that were given a bot.
    pub adopted: u32,
    /// Bots that are over now.
    pub ended: usize,
    /// Workloads of nobody that are gone now.
    pub orphans: usize,
    /// The runtime could be asked.
    pub runtime_answered: bool,
}

/// The sweep and what it needs.
pub struct BotSweeper {
    work: BotWork,
    announcer: Announcer,
    options: BotSweepOptions,
    watch: Mutex<Watch>,
}

/// The policy of the sweeping job.
pub fn sweep_spec() -> KindSpec {
    KindSpec {
        deadline: Some(Duration::from_secs(300)),
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(60) },
        ..periodic_spec(SWEEP_KIND)
    }
}

impl BotSweeper {
    pub(super) fn new(work: &BotWork, options: BotSweepOptions) -> Self {
        let (announcer, work) = (work.announcer(), work.clone());
        let watch = Mutex::new(Watch::starting(work.clock.now()));
        BotSweeper { work, announcer, options, watch }
    }

    /// One round.
    pub async fn tick(&self) -> Result<BotRound, StoreError> {
        self.tick_after(None).await
    }

    /// One round after one that some node ran at `before`.
    async fn tick_after(&self, before: Option<Timestamp>) -> Result<BotRound, StoreError> {
        let clock = self.work.clock.as_ref();
        let every = self.options.every;
        // Silence up to the timeout may be the bot's own; a break of ours and the heartbeat that
        // follows it must fit into it.
        let break_max = (self.options.timeouts.active / 2).max(every + every / 2);
        let before = before.map(|at| RoundBefore { at, break_max });
        let serving_since = self.watch().begin_round(clock, every, before);
        let round = self.round(serving_since).await;
        if round.is_err() {
            self.watch().lost_database();
        }
        round
    }

    /// The handler of the sweeping job.
    pub fn handler(self) -> Arc<dyn Handler> {
        Arc::new(SweepHandler(self))
    }

    async fn round(&self, serving_since: Timestamp) -> Result<BotRound, StoreError> {
        let store = &self.work.store;
        let adopted = store.adopt_meetings(ADOPTED_PER_ROUND_MAX, self.work.clock.now()).await?;
        // The rows first: what is launched while the runtime is asked must not count as missing.
        let live = self.live().await?;
        let seen = match self.work.launcher.list().await {
            Ok(seen) => Some(seen),
            Err(error) => {
                self.work.metrics.launcher_called("unanswered");
                tracing::warn!(%error, "the runtime cannot be asked: no bot is given up for it");
                None
            }
        };
        let mut ended = 0;
        if let Some(seen) = &seen {
            ended += self.note(&live, seen).await?;
        }
        let runtime_answered = seen.is_some();
        ended += self.give_up(serving_since, runtime_answered).await?;
        failpoint::hit("bots.swept");
        let orphans = self.remove_orphans(&seen.unwrap_or_default()).await?;
        self.work.metrics.bots_live(&store.bot_counts().await?);
        if ended + orphans > 0 {
            tracing::info!(ended, orphans, "swept bots");
        }
        Ok(BotRound { adopted, ended, orphans, runtime_answered })
    }

    /// The live bots, each with whether it is known to have been launched.
    async fn live(&self) -> Result<Vec<(WorkloadId, bool)>, StoreError> {
        let mut live = Vec::new();
        let mut after = None;
        loop {
            let page = self.work.store.live_bots(after, ROWS_PER_STEP_MAX).await?;
            after = page.last().map(|record| record.meeting.id);
            let launched = |record: &BotRecord| record.meeting.container_id.is_some();
            live.extend(page.iter().map(|record| (record.workload(), launched(record))));
            if page.len() < ROWS_PER_STEP_MAX as usize {
                return Ok(live);
            }
        }
    }

    /// Writes down what the runtime says about bots. Returns how many ended by it.
    async fn note(
        &self,
        live: &[(WorkloadId, bool)],
        seen: &[SeenWorkload],
    ) -> Result<usize, StoreError> {
        let seen: HashMap<WorkloadId, &Sighting> =
            seen.iter().map(|seen| (seen.workload, &seen.sighting)).collect();
        let notes: Vec<RuntimeNote> = live
            .iter()
            .filter_map(|(workload, launched)| {
                let seen = match seen.get(workload) {
                    Some(Sighting::Running { .. }) => Seen::Running,
                    // It may still be on its way: nobody has said yet that it is there.
                    _ if !launched => return None,
                    Some(Sighting::Exited { exit_code }) => Seen::Exited { exit_code: *exit_code },
                    Some(Sighting::Absent) | None => Seen::Absent,
                };
                Some(RuntimeNote { workload: *workload, seen })
            })
            .collect();
        let mut ended = 0;
        for step in notes.chunks(ROWS_PER_STEP_MAX as usize) {
            let (now, misses_max) = (self.work.clock.now(), self.options.misses_max);
            let over = self.work.store.note_runtime(step.to_vec(), misses_max, now).await?;
            ended += self.announce(&over);
        }
        Ok(ended)
    }

    /// Gives up bots that are overdue, up to the limit of a round. Returns how many.
    async fn give_up(
        &self,
        serving_since: Timestamp,
        runtime_answered: bool,
    ) -> Result<usize, StoreError> {
        let mut ended = 0;
        let mut left = self.options.rows_max;
        while left > 0 {
            let rows_max = left.min(ROWS_PER_STEP_MAX);
            let timeouts = self.options.timeouts;
            let request = BotSweep { timeouts, serving_since, runtime_answered, rows_max };
            let over = self.work.store.sweep_bots(request, self.work.clock.now()).await?;
            ended += self.announce(&over);
            let count = u32::try_from(over.len()).unwrap_or(u32::MAX);
            if count < rows_max {
                return Ok(ended);
            }
            left = left.saturating_sub(count);
        }
        self.work.metrics.limit_hit("bots_swept");
        tracing::warn!(ended, "as many bots were given up as one round may: is something wrong?");
        Ok(ended)
    }

    /// Removes workloads that belong to no live bot. One that cannot be removed is tried again in
    /// the next round. Returns how many are gone.
    async fn remove_orphans(&self, seen: &[SeenWorkload]) -> Result<usize, StoreError> {
        let mut orphans = Vec::new();
        for step in seen.chunks(ROWS_PER_STEP_MAX as usize) {
            let workloads: Vec<WorkloadId> = step.iter().map(|seen| seen.workload).collect();
            // Asked after the list was made: a bot has its row before it has a workload.
            let live = self.work.store.live_workloads(workloads.clone()).await?;
            let live: HashSet<WorkloadId> = live.into_iter().collect();
            orphans.extend(workloads.into_iter().filter(|workload| !live.contains(workload)));
        }
        orphans.truncate(ORPHANS_PER_ROUND_MAX);
        let gone = stream::iter(orphans).map(|workload| self.remove(workload));
        let gone = gone.buffer_unordered(ORPHANS_AT_ONCE_MAX).filter(|gone| {
            let gone = *gone;
            async move { gone }
        });
        Ok(gone.count().await)
    }

    async fn remove(&self, workload: WorkloadId) -> bool {
        let meeting = workload.meeting_id.get();
        match self.work.launcher.remove(workload).await {
            Ok(_) => {
                failpoint::hit("bots.removed");
                self.work.metrics.bot_orphan_removed();
                tracing::info!(meeting, attempt = workload.attempt, "removed a workload of nobody");
                true
            }
            Err(error) => {
                tracing::warn!(meeting, %error, "a workload of nobody could not be removed");
                false
            }
        }
    }

    fn announce(&self, over: &[Announced]) -> usize {
        for announced in over {
            self.announcer.announce(announced);
        }
        over.len()
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for BotSweeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BotSweeper").field("options", &self.options).finish_non_exhaustive()
    }
}

struct SweepHandler(BotSweeper);

#[async_trait]
impl Handler for SweepHandler {
    fn spec(&self) -> KindSpec {
        sweep_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let BotSweeper { work, options, .. } = &self.0;
        let before = context.job.payload.to_value().as_i64().map(Timestamp::from_micros);
        match self.0.tick_after(before).await {
            Ok(_) => {
                let now = work.clock.now();
                let at = next_round(now, options.every, work.random.as_ref());
                // Whichever node runs the next round learns when this one was.
                let payload = Some(Json::from_stored(now.as_micros().to_string()));
                Outcome::Again { at, payload }.into()
            }
            Err(error) => {
                let error = JobError::new("storage", error.to_string());
                Outcome::Retry { error, after: None }.into()
            }
        }
    }
}
