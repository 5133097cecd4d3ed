//! Reads a stream of messages as one of its consumers.
//!
//! Invariants: an entry is acknowledged only when what it says is stored, or when it was put away
//! with the reason; a database that is away puts nothing away, it only makes everybody wait; what a
//! consumer that died had is taken over.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::ports::{IngestStream, StoreError, StreamEntry, StreamError};
use tokio_util::sync::CancellationToken;

use super::Transcripts;
use super::consume_segments::SegmentTaker;
use super::consume_speakers::SpeakerTaker;
use super::letters::{LETTERS_PER_STEP_MAX, letter};
use crate::health::Pulse;
use crate::wake::rest;

/// The pauses after failures: the first, which doubles, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How a stream is read.
#[derive(Debug, Clone, Copy)]
pub struct ConsumeOptions {
    /// Entries read at once.
    pub entries_max: usize,
    /// An entry that was not acknowledged for so long is somebody else's. Longer than a round takes.
    pub claim_idle: Duration,
    /// How often such entries are looked for.
    pub claim_every: Duration,
    /// An entry that cannot be taken is put away when it was given out this often.
    pub deliveries_max: u32,
    /// How often the stream is trimmed, and how old entries are that go.
    pub trim_every: Duration,
    pub retention: Duration,
    /// A consumer that has nothing and was silent for so long is gone.
    pub consumer_idle: Duration,
}

impl Default for ConsumeOptions {
    fn default() -> Self {
        ConsumeOptions {
            entries_max: 200,
            claim_idle: Duration::from_secs(60),
            claim_every: Duration::from_secs(5),
            deliveries_max: 5,
            trim_every: Duration::from_secs(15),
            retention: Duration::from_secs(3600),
            consumer_idle: Duration::from_secs(1800),
        }
    }
}

/// What one round came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consumed {
    /// Stored.
    pub taken: usize,
    /// Put away.
    pub refused: usize,
    /// Left with the stream for another try.
    pub left: usize,
}

/// Why a round was not finished. What it had is tried again with the next.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What becomes of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Taken,
    /// It will never be taken.
    Refused(String),
    /// It may be taken another time.
    Left(String),
}

/// What entries of a stream are for.
#[async_trait]
pub(super) trait EntryTaker: Send + Sync {
    /// Stores what entries say and tells what became of each. An error says that nothing is known
    /// of any.
    async fn take(&self, entries: &[StreamEntry]) -> Result<Vec<Fate>, StoreError>;

    /// What is kept of an entry that is put away.
    fn payload(&self, entry: &StreamEntry) -> String;
}

/// One consumer of one stream.
pub struct StreamConsumer {
    stream: Arc<dyn IngestStream>,
    taker: Arc<dyn EntryTaker>,
    transcripts: Transcripts,
    options: ConsumeOptions,
    /// Were read and could not be stored.
    held: Vec<StreamEntry>,
    /// Are done, but the stream does not know it.
    unacknowledged: Vec<String>,
    /// When each was last done, by the monotonic clock.
    claimed_at: Option<Duration>,
    trimmed_at: Option<Duration>,
}

impl StreamConsumer {
    /// Reads messages of producers.
    pub fn segments(
        stream: Arc<dyn IngestStream>,
        transcripts: &Transcripts,
        options: ConsumeOptions,
    ) -> Self {
        let taker = Arc::new(SegmentTaker::new(transcripts.clone()));
        Self::new(stream, taker, transcripts, options)
    }

    /// Reads who speaks when.
    pub fn speakers(
        stream: Arc<dyn IngestStream>,
        transcripts: &Transcripts,
        options: ConsumeOptions,
    ) -> Self {
        let taker = Arc::new(SpeakerTaker::new(transcripts.clone()));
        Self::new(stream, taker, transcripts, options)
    }

    fn new(
        stream: Arc<dyn IngestStream>,
        taker: Arc<dyn EntryTaker>,
        transcripts: &Transcripts,
        options: ConsumeOptions,
    ) -> Self {
        StreamConsumer {
            stream,
            taker,
            transcripts: transcripts.clone(),
            options,
            held: Vec::new(),
            unacknowledged: Vec::new(),
            claimed_at: None,
            trimmed_at: None,
        }
    }

    /// Reads until stopped. A round that has begun is finished.
    pub async fn run(mut self, pulse: Pulse, stop: CancellationToken) {
        let mut pause = PAUSE_MIN;
        while !stop.is_cancelled() {
            match self.tick().await {
                Ok(_) => {
                    pulse.beat();
                    pause = PAUSE_MIN;
                }
                Err(error) => {
                    pulse.failed(&error);
                    tracing::warn!(stream = self.stream.name(), %error, "a round failed");
                    let spread = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
                    let late = self.transcripts.random().below(spread);
                    rest(pause + Duration::from_micros(late), &stop).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// One round: what others have left, what is new, and what the last round could not store.
    pub async fn tick(&mut self) -> Result<Consumed, ConsumeError> {
        self.acknowledge(Vec::new()).await?;
        let mut consumed = Consumed::default();
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            consumed.add(self.handle(held).await?);
        }
        if self.is_due(self.claimed_at, self.options.claim_every) {
            let idle_ms = millis(self.options.claim_idle);
            let claimed = self.stream.claim(idle_ms, self.options.entries_max).await?;
            // With as many as were asked for there may be more.
            if claimed.len() < self.options.entries_max {
                self.claimed_at = Some(self.transcripts.clock().monotonic());
            }
            consumed.add(self.handle(claimed).await?);
        }
        let read = self.stream.read(self.options.entries_max).await?;
        consumed.add(self.handle(read).await?);
        self.trim().await?;
        Ok(consumed)
    }

    /// Stores entries, or holds all of them if the database is away.
    async fn handle(&mut self, entries: Vec<StreamEntry>) -> Result<Consumed, ConsumeError> {
        if entries.is_empty() {
            return Ok(Consumed::default());
        }
        match self.settle(&entries).await {
            Ok((consumed, done)) => {
                self.acknowledge(done).await?;
                Ok(consumed)
            }
            Err(error) => {
                self.held = entries;
                Err(error.into())
            }
        }
    }

    /// Returns the names of those that are done.
    async fn settle(&self, entries: &[StreamEntry]) -> Result<(Consumed, Vec<String>), StoreError> {
        let fates = self.fates(entries).await?;
        let (mut consumed, mut done, mut letters) = (Consumed::default(), Vec::new(), Vec::new());
        for (entry, fate) in entries.iter().zip(fates) {
            let reason = match fate {
                Fate::Taken => {
                    consumed.taken += 1;
                    done.push(entry.id.clone());
                    continue;
                }
                Fate::Left(_) if entry.deliveries < self.options.deliveries_max => {
                    consumed.left += 1;
                    continue;
                }
                Fate::Left(reason) | Fate::Refused(reason) => reason,
            };
            consumed.refused += 1;
            done.push(entry.id.clone());
            tracing::warn!(stream = self.stream.name(), entry = entry.id, %reason, "put away");
            letters.push(letter(self.stream.name(), entry, &reason, self.taker.payload(entry)));
        }
        if !letters.is_empty() {
            let count = letters.len();
            let now = self.transcripts.clock().now();
            for step in letters.chunks(LETTERS_PER_STEP_MAX as usize) {
                self.transcripts.store().put_dead_letters(step.to_vec(), now).await?;
            }
            self.transcripts.metrics().dead_lettered(self.stream.name(), count);
        }
        Ok((consumed, done))
    }

    /// All at once; one by one if the database cannot digest one of them.
    async fn fates(&self, entries: &[StreamEntry]) -> Result<Vec<Fate>, StoreError> {
        match self.taker.take(entries).await {
            Err(error) if !error.is_transient() => {}
            known => return known,
        }
        let mut fates = Vec::with_capacity(entries.len());
        for entry in entries {
            match self.taker.take(std::slice::from_ref(entry)).await {
                Ok(fate) => fates.extend(fate),
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => fates.push(Fate::Left(error.to_string())),
            }
        }
        Ok(fates)
    }

    async fn acknowledge(&mut self, done: Vec<String>) -> Result<(), StreamError> {
        self.unacknowledged.extend(done);
        if !self.unacknowledged.is_empty() {
            self.stream.acknowledge(&self.unacknowledged).await?;
            self.unacknowledged.clear();
        }
        Ok(())
    }

    async fn trim(&mut self) -> Result<(), StreamError> {
        if !self.is_due(self.trimmed_at, self.options.trim_every) {
            return Ok(());
        }
        let ConsumeOptions { retention, consumer_idle, .. } = self.options;
        let state = self.stream.trim(millis(retention), millis(consumer_idle)).await?;
        self.transcripts.metrics().stream_state(self.stream.name(), &state);
        self.trimmed_at = Some(self.transcripts.clock().monotonic());
        Ok(())
    }

    fn is_due(&self, last: Option<Duration>, every: Duration) -> bool {
        let now = self.transcripts.clock().monotonic();
        last.is_none_or(|last| now.saturating_sub(last) >= every)
    }
}

impl std::fmt::Debug for StreamConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamConsumer")
            .field("stream", &self.stream.name())
            .finish_non_exhaustive()
    }
}

impl Consumed {
    fn add(&mut self, other: Consumed) {
        self.taken += other.taken;
        self.refused += other.refused;
        self.left += other.left;
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
