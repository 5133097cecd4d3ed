//! Makes final what has not changed for a while: a periodic job, so that one node does it at a time.
//! It also looks after what else is due now and then: the cache, the index for searches, frames that
//! nobody has published, rows that nobody needs.
//!
//! Invariant: what a round does not come to is found by the next.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{JobError, KindSpec, LeaseRef, NewJob, Outcome, RetryPolicy};
use roundsman_core::ports::{LiveMeeting, StoreError, TranscriptPrune};

use super::Transcripts;
use crate::jobs::{Handler, HandlerResult, JobContext, next_round, periodic_spec, periodic_wish};

/// The kind of the job.
pub const PERSIST_KIND: &str = "transcripts.persist";

/// Meetings read with one statement.
const MEETINGS_PER_STEP_MAX: u32 = 500;
/// Transactions for one meeting in one round.
const STEPS_PER_MEETING_MAX: u32 = 100;
/// Rows of others that are indexed in one round: steps and rows of each.
const INDEX_STEPS_MAX: u32 = 20;
const INDEX_ROWS_MAX: u32 = 500;
/// Rows of each sort that are deleted in one transaction.
const PRUNE_ROWS_MAX: u32 = 1000;

/// When segments are final, and how long the rest is kept.
#[derive(Debug, Clone, Copy)]
pub struct PersistOptions {
    pub every: Duration,
    /// A segment that has not changed for so long will not change.
    pub stable_after: Duration,
    /// A frame that was stored this long ago and not published was forgotten.
    pub relay_after: Duration,
    pub speaker_events_for: Duration,
    pub dead_letters_for: Duration,
    /// After they have ended.
    pub shares_for: Duration,
    /// How long it is remembered what the filter has dropped.
    pub dropped_for: Duration,
}

impl Default for PersistOptions {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        PersistOptions {
            every: Duration::from_secs(10),
            stable_after: Duration::from_secs(30),
            relay_after: Duration::from_secs(5),
            speaker_events_for: day,
            dead_letters_for: 30 * day,
            shares_for: day,
            dropped_for: day,
        }
    }
}

/// What one round came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PersistRound {
    /// Segments that are final now.
    pub kept: u32,
    /// Segments the filter refused.
    pub dropped: u32,
    /// Meetings that could not be looked at; the next round tries again.
    pub failed: u32,
}

/// The policies of all kinds of jobs about transcripts.
pub fn transcript_specs() -> Vec<KindSpec> {
    vec![persist_spec()]
}

/// The wishes that keep the periodic jobs alive; every start repeats them.
pub fn transcript_wishes(now: Timestamp) -> Vec<NewJob> {
    vec![periodic_wish(PERSIST_KIND, now)]
}

/// The policy of the job.
pub fn persist_spec() -> KindSpec {
    KindSpec {
        deadline: Some(Duration::from_secs(300)),
        retry: RetryPolicy { base: Duration::from_secs(1), cap: Duration::from_secs(10) },
        ..periodic_spec(PERSIST_KIND)
    }
}

/// The job and what it needs.
#[derive(Debug)]
pub struct Persister {
    transcripts: Transcripts,
    options: PersistOptions,
}

impl Persister {
    pub fn new(transcripts: &Transcripts, options: PersistOptions) -> Self {
        Persister { transcripts: transcripts.clone(), options }
    }

    /// The handler of the job.
    pub fn handler(self) -> Arc<dyn Handler> {
        Arc::new(PersistHandler(self))
    }

    /// One round. With a guard, segments become final only while that lease is held.
    pub async fn tick(&self, guard: Option<LeaseRef>) -> Result<PersistRound, StoreError> {
        let store = self.transcripts.store();
        let mut round = PersistRound::default();
        let live = self.live().await?;
        let stable_before = self.transcripts.clock().now() - self.options.stable_after;
        for meeting in live.iter().filter(|meeting| meeting.unchanged_since <= stable_before) {
            match self.settle(meeting.meeting_id, stable_before, guard).await {
                Ok((kept, dropped)) => {
                    round.kept += kept;
                    round.dropped += dropped;
                }
                Err(error) if error.is_transient() => return Err(error),
                // One meeting that cannot be stored must not keep the others from it.
                Err(error) => {
                    round.failed += 1;
                    let meeting = meeting.meeting_id.get();
                    tracing::error!(meeting, %error, "segments cannot be made final");
                }
            }
        }
        self.transcripts.metrics().settle_failed(round.failed);
        let until = self.transcripts.clock().now() - self.options.relay_after;
        self.transcripts.frames().relay(until).await?;
        let meetings: BTreeSet<MeetingId> = live.iter().map(|live| live.meeting_id).collect();
        self.transcripts.mirror().repair_some(&meetings).await?;
        self.index().await?;
        let pruned = store.prune_transcripts(self.prune_request()).await?;
        self.transcripts.metrics().pruned(pruned);
        self.transcripts.metrics().live_segments(store.live_segment_count().await?);
        Ok(round)
    }

    async fn live(&self) -> Result<Vec<LiveMeeting>, StoreError> {
        let mut live = Vec::new();
        let mut after = None;
        loop {
            let page = self.transcripts.store().live_meetings(after, MEETINGS_PER_STEP_MAX).await?;
            after = page.last().map(|meeting| meeting.meeting_id);
            live.extend_from_slice(&page);
            if page.len() < MEETINGS_PER_STEP_MAX as usize {
                return Ok(live);
            }
        }
    }

    /// Makes final what is stable in one meeting. Returns how many were kept and dropped.
    async fn settle(
        &self,
        meeting: MeetingId,
        stable_before: Timestamp,
        guard: Option<LeaseRef>,
    ) -> Result<(u32, u32), StoreError> {
        let (mut kept, mut dropped) = (0, 0);
        for _ in 0..STEPS_PER_MEETING_MAX {
            let request = self.transcripts.settle_request(Some(stable_before));
            let rows_max = request.rows_max;
            let settled = self.transcripts.collector().settle(meeting, request, guard).await?;
            let gone = settled.kept + settled.dropped.values().sum::<u32>();
            kept += settled.kept;
            dropped += gone - settled.kept;
            if settled.left == 0 && gone > 0 {
                self.clear(meeting, &settled.sessions).await?;
            }
            if gone < rows_max {
                break;
            }
        }
        Ok((kept, dropped))
    }

    /// Nothing of a meeting is live: if it is over, nothing about it is to be left in the cache. Its
    /// end has seen to that, but segments may have come later.
    async fn clear(&self, meeting: MeetingId, sessions: &[String]) -> Result<(), StoreError> {
        if !self.transcripts.mirror().exists() {
            return Ok(());
        }
        let record = self.transcripts.store().bot(meeting).await?;
        if record.is_some_and(|record| record.status.is_over()) {
            self.transcripts.mirror().forget(meeting, sessions).await;
        }
        Ok(())
    }

    async fn index(&self) -> Result<(), StoreError> {
        for _ in 0..INDEX_STEPS_MAX {
            let rows = self.transcripts.store().index_transcriptions(INDEX_ROWS_MAX).await?;
            if rows < INDEX_ROWS_MAX {
                break;
            }
        }
        Ok(())
    }

    fn prune_request(&self) -> TranscriptPrune {
        let now = self.transcripts.clock().now();
        TranscriptPrune {
            speaker_events_before: now - self.options.speaker_events_for,
            dead_letters_before: now - self.options.dead_letters_for,
            shares_before: now - self.options.shares_for,
            dropped_before: now - self.options.dropped_for,
            rows_max: PRUNE_ROWS_MAX,
        }
    }
}

struct PersistHandler(Persister);

#[async_trait]
impl Handler for PersistHandler {
    fn spec(&self) -> KindSpec {
        persist_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let Persister { transcripts, options } = &self.0;
        match self.0.tick(Some(context.lease)).await {
            Ok(_) => {
                let now = transcripts.clock().now();
                let at = next_round(now, options.every, transcripts.random().as_ref());
                Outcome::Again { at, payload: None }.into()
            }
            Err(error) => {
                let error = JobError::new("storage", error.to_string());
                Outcome::Retry { error, after: None }.into()
            }
        }
    }
}
