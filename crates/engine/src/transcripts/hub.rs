//! What the listeners of this node hear: every meeting that somebody listens to, and nothing else.
//!
//! Invariants: the bus is only a hint; whatever it brings is used if it is the very next frame, and
//! otherwise the database is asked. A meeting is listened to on the bus as long as it has listeners.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{Bus, BusMessage, BusSubscription, Clock, Store, StoreError};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::channel::Channel;
use super::limits::TranscriptLimits;
use super::pace::PaceLimits;
use super::publish::{status_topic, transcript_topic};
use super::ring::{RingFrame, RingLimits};
use crate::metrics::Metrics;
use crate::wake::rest;

/// Meetings asked for with one statement.
const MEETINGS_PER_LOOK_MAX: usize = 1000;
/// Meetings that are read at once.
const READS_AT_ONCE_MAX: usize = 8;
/// How long to wait after the bus refused to listen.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// All that is listened to. Cheap to clone.
#[derive(Clone)]
pub(super) struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    rings: RingLimits,
    coalesce_frames_min: usize,
    pace: PaceLimits,
    channels: Mutex<BTreeMap<MeetingId, Arc<Channel>>>,
    listener_last: AtomicU64,
    /// Not the process's tracker: these tasks live as long as somebody listens.
    tasks: TaskTracker,
}

impl Hub {
    pub(super) fn new(
        store: Arc<dyn Store>,
        bus: Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
        rings: RingLimits,
        limits: &TranscriptLimits,
    ) -> Self {
        Hub {
            inner: Arc::new(Inner {
                store,
                bus,
                clock,
                metrics,
                rings,
                coalesce_frames_min: limits.coalesce_frames_min,
                pace: PaceLimits::per_sec(limits.behind_frames_per_sec_max),
                channels: Mutex::default(),
                listener_last: AtomicU64::new(0),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// A number for a listener.
    pub(super) fn enter(&self) -> u64 {
        self.inner.metrics.listener_added();
        self.inner.listener_last.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn exit(&self) {
        self.inner.metrics.listener_removed();
    }

    /// Somebody listens to a meeting from this moment on.
    pub(super) fn join(
        &self,
        meeting: MeetingId,
        listener: u64,
        woken: &Arc<Notify>,
    ) -> Arc<Channel> {
        let mut channels = self.channels();
        let channel = channels.entry(meeting).or_insert_with(|| {
            let channel = Arc::new(Channel::new(meeting, &self.inner.rings));
            self.inner.tasks.spawn(self.clone().attend(channel.clone()));
            channel
        });
        channel.add(listener, woken.clone());
        channel.clone()
    }

    pub(super) fn leave(&self, meeting: MeetingId, listener: u64) {
        let mut channels = self.channels();
        let Some(channel) = channels.get(&meeting) else { return };
        if !channel.remove(listener) {
            channel.closed.cancel();
            channels.remove(&meeting);
        }
    }

    /// Frames of a meeting were stored on this node.
    pub(super) fn offer(&self, meeting: MeetingId, frames: &[RingFrame]) {
        if let Some(channel) = self.channel(meeting) {
            channel.offer(frames);
        }
    }

    /// What was told of a meeting before this place is no longer to be read.
    pub(super) fn forget_before(&self, meeting: MeetingId, place: Option<i64>) {
        if let Some(channel) = self.channel(meeting)
            && let Some(place) = place.or(channel.end())
        {
            channel.forget_before(place);
        }
    }

    /// Finds what the bus has lost: asks the database where the streams end.
    pub(super) async fn tick(&self) -> Result<(), StoreError> {
        let channels: Vec<Arc<Channel>> = self.channels().values().cloned().collect();
        for step in channels.chunks(MEETINGS_PER_LOOK_MAX) {
            let meetings = step.iter().map(|channel| channel.meeting).collect();
            let ends = self.store().stream_ends(meetings).await?;
            for channel in step {
                channel.forget_history();
            }
            let behind = step.iter().zip(ends);
            let behind = behind.filter(|(channel, end)| channel.end().is_some_and(|at| at < *end));
            stream::iter(behind.map(Ok))
                .try_for_each_concurrent(READS_AT_ONCE_MAX, |(channel, end)| async move {
                    channel.catch_up(self.store(), Some(end)).await
                })
                .await?;
        }
        Ok(())
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.inner.store.as_ref()
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.inner.clock.as_ref()
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// For listeners that are behind.
    pub(super) fn pace(&self) -> &PaceLimits {
        &self.inner.pace
    }

    /// The same in fewer frames, if these are more than a listener gets at once.
    pub(super) fn few(
        &self,
        channel: &Channel,
        frames: Vec<RingFrame>,
        frames_max: usize,
    ) -> Vec<RingFrame> {
        let count = frames.len();
        if count <= frames_max.min(self.inner.coalesce_frames_min) {
            return frames;
        }
        let frames = channel.joined(frames);
        self.metrics().listener_coalesced(count - frames.len());
        frames
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.inner.tasks.spawn(work)
    }

    /// Meetings that are listened to.
    pub(super) fn meeting_count(&self) -> usize {
        self.channels().len()
    }

    /// Hears the bus and reads the database for one meeting, until nobody listens.
    async fn attend(self, channel: Arc<Channel>) {
        let hear = channel.closed.run_until_cancelled(self.hear(&channel));
        tokio::join!(hear, self.look(&channel));
    }

    async fn look(&self, channel: &Channel) {
        // A look that has begun is not given up: that would cost a connection to the database.
        while channel.closed.run_until_cancelled(channel.look.notified()).await.is_some() {
            if let Err(error) = channel.catch_up(self.store(), None).await {
                tracing::debug!(%error, "frames could not be read; the next round tries again");
            }
        }
    }

    async fn hear(&self, channel: &Channel) {
        let topics = [transcript_topic(channel.meeting), status_topic(channel.meeting)];
        loop {
            let bus = &self.inner.bus;
            match tokio::try_join!(bus.subscribe(&topics[0]), bus.subscribe(&topics[1])) {
                Ok((said, status)) => {
                    // What was told before this is in the database.
                    channel.look.notify_one();
                    return hear_all(channel, said, status).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot listen; the database is asked now and then");
                    if !rest(RETRY_AFTER, &channel.closed).await {
                        return;
                    }
                }
            }
        }
    }

    fn channel(&self, meeting: MeetingId) -> Option<Arc<Channel>> {
        self.channels().get(&meeting).cloned()
    }

    fn channels(&self) -> MutexGuard<'_, BTreeMap<MeetingId, Arc<Channel>>> {
        self.inner.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until the bus is shut down.
async fn hear_all(
    channel: &Channel,
    mut said: Box<dyn BusSubscription>,
    mut status: Box<dyn BusSubscription>,
) {
    loop {
        let message = tokio::select! {
            message = said.next() => message,
            message = status.next() => message,
        };
        match message {
            BusMessage::Closed => return,
            BusMessage::Gap => channel.look.notify_one(),
            BusMessage::Body(text) => match read(text) {
                Some(frame) => channel.offer(&[frame]),
                None => channel.look.notify_one(),
            },
        }
    }
}

/// A frame as we publish them; `None` for what only says that there is one, and for what others
/// publish there.
fn read(text: Bytes) -> Option<RingFrame> {
    let whole = std::str::from_utf8(&text).ok()?;
    let (seq, _members) = whole.strip_prefix("{\"seq\":")?.split_once(',')?;
    let seq = seq.parse().ok()?;
    Some(RingFrame { seq, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_frames_of_ours_are_read() {
        let seq = |text: &'static str| read(Bytes::from_static(text.as_bytes())).map(|f| f.seq);
        assert_eq!(seq(r#"{"seq":7,"type":"transcript.mutable"}"#), Some(7));
        for text in [r#"{"seq":7}"#, r#"{"type":"x","seq":7}"#, r#"{"seq":"7","a":1}"#, "", "7"] {
            assert_eq!(seq(text), None, "{text}");
        }
        assert!(read(Bytes::from_static(b"{\"seq\":7,\"a\":\"\xff\"}")).is_none());
    }
}
