//! Tells of frames that were stored: the listeners of this node at once, everybody else through the
//! bus.
//!
//! Invariants: nobody waits for the bus; a frame is built once, whoever gets it; one that was stored
//! is published at least once, by this process, or by whoever looks for such frames after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::{Frame, FrameChannel};
use roundsman_core::ports::{Bus, Clock, Store, StoreError};
use roundsman_core::transcripts::SeqRange;
use tokio_util::task::TaskTracker;

use super::channel::ring_frame;
use super::hub::Hub;
use super::notes::Notes;
use super::ring::RingFrame;
use crate::metrics::Metrics;
use crate::outgoing::{Cargo, Message, Outgoing, hand_over};

/// Frames that are read at once to be published again, and how often in one round: after an outage
/// of the bus nobody is helped by hours of frames.
const RELAYED_ROWS_MAX: u32 = 500;
const RELAYED_STEPS_MAX: u32 = 20;
/// Frames older than this are not looked for: they are not kept much longer.
const RELAYED_FROM: Duration = Duration::from_secs(600);

/// Where transcripts are told.
pub(super) fn transcript_topic(meeting: MeetingId) -> String {
    format!("tc:meeting:{meeting}:mutable")
}

/// Where it is told how a meeting and its bot are.
pub(super) fn status_topic(meeting: MeetingId) -> String {
    format!("bm:meeting:{meeting}:status")
}

/// Publishes frames. Cheap to clone.
#[derive(Clone)]
pub(super) struct FramePublisher {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    bus: Arc<dyn Bus>,
    metrics: Metrics,
    hub: Hub,
    outgoing: Outgoing<FrameCargo>,
    notes: Arc<Notes>,
    started_at: Timestamp,
    /// What processes before this one have left was published.
    is_past_relayed: AtomicBool,
}

struct FrameCargo {
    meeting: MeetingId,
    seq: i64,
    notes: Arc<Notes>,
}

impl Cargo for FrameCargo {
    fn lane(&self) -> i64 {
        self.meeting.get()
    }

    /// Says that there is a frame; whoever needs it reads it.
    fn stand_in(&self) -> Option<Bytes> {
        Some(Bytes::from(format!("{{\"seq\":{}}}", self.seq)))
    }

    fn ended(self, sent: bool) {
        if sent {
            self.notes.sent(self.meeting, self.seq);
        }
    }
}

impl FramePublisher {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        bus: Arc<dyn Bus>,
        metrics: Metrics,
        hub: Hub,
        tasks: TaskTracker,
    ) -> Self {
        let notes = Arc::new(Notes::default());
        let outgoing = Outgoing::new(bus.clone(), metrics.clone(), tasks);
        let started_at = clock.now();
        let is_past_relayed = AtomicBool::new(false);
        FramePublisher {
            inner: Arc::new(Inner {
                store,
                clock,
                bus,
                metrics,
                hub,
                outgoing,
                notes,
                started_at,
                is_past_relayed,
            }),
        }
    }

    /// Frames were committed, in this order.
    pub(super) fn publish<'a>(&self, frames: impl IntoIterator<Item = &'a Frame>) {
        let inner = &self.inner;
        let mut by_meeting: BTreeMap<MeetingId, Vec<RingFrame>> = BTreeMap::new();
        let mut messages = Vec::new();
        for frame in frames {
            let Some(meeting) = meeting_of(frame) else { continue };
            let told = ring_frame(frame);
            let cargo = FrameCargo { meeting, seq: frame.seq, notes: inner.notes.clone() };
            messages.push(Message { topic: topic(meeting, frame), body: told.text.clone(), cargo });
            by_meeting.entry(meeting).or_default().push(told);
        }
        // All at once, so that a listener is woken once.
        for (meeting, told) in by_meeting {
            inner.hub.offer(meeting, &told);
        }
        for message in messages {
            inner.outgoing.send(message);
        }
    }

    /// Writes down what was published. At first it also publishes what earlier processes have stored
    /// and not published, so that nobody waits longer than it takes to start.
    pub(super) async fn tick(&self) -> Result<(), StoreError> {
        let inner = &self.inner;
        if !inner.is_past_relayed.load(Ordering::Acquire) {
            let all = self.relay(inner.started_at).await?;
            inner.is_past_relayed.store(all, Ordering::Release);
        }
        let ranges = inner.notes.take();
        if ranges.is_empty() {
            return Ok(());
        }
        let noted = inner.store.frames_published(ranges.clone()).await;
        if noted.is_err() {
            inner.notes.put_back(ranges);
        }
        noted
    }

    /// Publishes frames that were stored until then and of which nobody has noted that they were
    /// published. Returns whether that is all of them; a bus that is away has them later.
    pub(super) async fn relay(&self, until: Timestamp) -> Result<bool, StoreError> {
        let inner = &self.inner;
        for _ in 0..RELAYED_STEPS_MAX {
            let from = inner.clock.now() - RELAYED_FROM;
            let frames = inner.store.unpublished_frames(from, until, RELAYED_ROWS_MAX).await?;
            let is_last = frames.len() < RELAYED_ROWS_MAX as usize;
            for (meeting, first) in first_of_each(&frames) {
                if !self.publish_from(meeting, first).await? {
                    return Ok(false);
                }
            }
            if is_last {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Publishes the frames of a meeting from this one on, also those that were published before:
    /// who hears an old frame last would show what is no longer true. Returns `false` if the bus
    /// takes no more.
    async fn publish_from(&self, meeting: MeetingId, first: i64) -> Result<bool, StoreError> {
        let inner = &self.inner;
        let stream = stream_of(meeting);
        let mut last = first - 1;
        // Until nothing has come meanwhile: others publish too.
        for _ in 0..RELAYED_STEPS_MAX {
            let frames = inner.store.frames(stream.clone(), last, RELAYED_ROWS_MAX).await?;
            let Some(newest) = frames.last().map(|frame| frame.seq) else { return Ok(true) };
            let published = self.publish_again(meeting, &frames).await;
            let all = published.len() == frames.len();
            if let (Some(one), Some(other)) = (published.first(), published.last()) {
                let range = SeqRange::new(one.seq, other.seq);
                inner.store.frames_published(vec![(meeting, range)]).await?;
                inner.metrics.frames_republished(published.len() as u64);
            }
            if !all {
                return Ok(false);
            }
            last = newest;
        }
        Ok(true)
    }

    /// One after the other, until the bus takes no more. Returns those that it took.
    async fn publish_again<'a>(&self, meeting: MeetingId, frames: &'a [Frame]) -> &'a [Frame] {
        let inner = &self.inner;
        for (count, frame) in frames.iter().enumerate() {
            let told = ring_frame(frame);
            inner.hub.offer(meeting, std::slice::from_ref(&told));
            let cargo = FrameCargo { meeting, seq: frame.seq, notes: inner.notes.clone() };
            let topic = topic(meeting, frame);
            if let Err(error) = hand_over(inner.bus.as_ref(), &topic, told.text, &cargo).await {
                inner.metrics.bus_failed();
                tracing::debug!(%error, "frames are published when the bus is back");
                return &frames[..count];
            }
        }
        frames
    }
}

/// Where what is missing begins, in each meeting.
fn first_of_each(frames: &[Frame]) -> BTreeMap<MeetingId, i64> {
    let mut first = BTreeMap::new();
    for frame in frames {
        if let Some(meeting) = meeting_of(frame) {
            first.entry(meeting).or_insert(frame.seq);
        }
    }
    first
}

fn topic(meeting: MeetingId, frame: &Frame) -> String {
    match frame.channel() {
        FrameChannel::Status => status_topic(meeting),
        FrameChannel::Transcript => transcript_topic(meeting),
    }
}

/// Whose stream it is.
fn meeting_of(frame: &Frame) -> Option<MeetingId> {
    frame.stream.strip_prefix("meeting:")?.parse().ok().map(MeetingId::new)
}
