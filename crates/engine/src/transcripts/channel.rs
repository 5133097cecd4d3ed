//! One meeting that somebody on this node listens to.
//!
//! Invariants: whatever its listeners need from the database is read once for all of them; a frame
//! that the bus has lost is found in the database; no lock that blocks is held while anybody waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::Frame;
use roundsman_core::ports::{Store, StoreError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::coalesce::coalesce;
use super::ring::{Offered, Pull, Ring, RingFrame, RingLimits};

/// Of a channel of which it is not known yet where its stream is.
const UNKNOWN: i64 = i64::MIN;
/// Joined frames that are kept, and how large they may be together.
const JOINED_KEPT_MAX: usize = 8;
const JOINED_BYTES_MAX: usize = 64 * 1024;

/// One meeting.
pub(super) struct Channel {
    pub(super) meeting: MeetingId,
    /// The last place, and that before the first frame held: for a look without the lock.
    end: AtomicI64,
    base: AtomicI64,
    /// Read by everybody who is woken, all at once.
    ring: RwLock<Ring>,
    /// Apart from the ring, so that those who are woken first do not wait until all are.
    listeners: Mutex<BTreeMap<u64, Arc<Notify>>>,
    /// The database has more than the ring.
    pub(super) look: Notify,
    /// Nobody listens any more.
    pub(super) closed: CancellationToken,
    /// Whoever reads the database holds this; the next one finds what was read.
    reading: tokio::sync::Mutex<Read>,
    /// Frames that were joined for a listener: others that are as far behind get the same.
    joined: Mutex<VecDeque<Joined>>,
    frames_max: u32,
    bytes_max: usize,
}

/// What was read for listeners that are further back than the ring.
#[derive(Default)]
struct Read {
    /// Frames without a gap.
    page: Option<Vec<RingFrame>>,
    reset: Option<RingFrame>,
}

/// What became of the frames between two places, both included.
struct Joined {
    between: (i64, i64),
    frames: Vec<RingFrame>,
}

/// What a listener that is far behind reads next.
pub(super) enum History {
    Frames(Vec<RingFrame>),
    /// What it has missed is gone, but for these.
    Gone(Vec<RingFrame>),
}

impl Channel {
    pub(super) fn new(meeting: MeetingId, limits: &RingLimits) -> Self {
        Channel {
            meeting,
            end: AtomicI64::new(UNKNOWN),
            base: AtomicI64::new(UNKNOWN),
            ring: RwLock::new(Ring::new(limits.clone())),
            listeners: Mutex::default(),
            look: Notify::new(),
            closed: CancellationToken::new(),
            reading: tokio::sync::Mutex::default(),
            joined: Mutex::default(),
            frames_max: u32::try_from(limits.frames_max).unwrap_or(u32::MAX),
            bytes_max: limits.bytes_max,
        }
    }

    pub(super) fn add(&self, listener: u64, woken: Arc<Notify>) {
        self.listeners().insert(listener, woken);
    }

    /// Returns whether somebody else still listens.
    pub(super) fn remove(&self, listener: u64) -> bool {
        let mut listeners = self.listeners();
        listeners.remove(&listener);
        !listeners.is_empty()
    }

    /// The last place that is known here.
    pub(super) fn end(&self) -> Option<i64> {
        let end = self.end.load(Ordering::Acquire);
        (end != UNKNOWN).then_some(end)
    }

    /// Frames that were told, in order.
    pub(super) fn offer(&self, frames: &[RingFrame]) {
        let mut ring = self.ring_to_change();
        let offered: Vec<Offered> = frames.iter().map(|frame| ring.offer(frame.clone())).collect();
        if offered.contains(&Offered::News) {
            self.tell(ring);
        } else {
            drop(ring);
        }
        if offered.contains(&Offered::Gap) {
            self.look.notify_one();
        }
    }

    /// Whether what follows a place is no longer held.
    pub(super) fn is_behind(&self, place: i64) -> bool {
        place < self.base.load(Ordering::Acquire)
    }

    pub(super) fn after(&self, place: i64) -> Pull {
        // Most listeners that are woken for another meeting stop here.
        if self.end().is_none_or(|end| place >= end) {
            return Pull::Nothing;
        }
        self.ring().after(place)
    }

    /// What was told before this place is no longer to be read.
    pub(super) fn forget_before(&self, place: i64) {
        self.joined_before().clear();
        let mut ring = self.ring_to_change();
        if ring.last().is_some() {
            ring.restart(place);
            self.tell(ring);
        }
    }

    /// Learns where the stream is, with the frames after `after` if there are not too many. Returns
    /// the last place.
    pub(super) async fn open(
        &self,
        store: &dyn Store,
        after: Option<i64>,
    ) -> Result<i64, StoreError> {
        if let Some(end) = self.end() {
            return Ok(end);
        }
        let _reading = self.reading.lock().await;
        if let Some(end) = self.end() {
            return Ok(end);
        }
        let end = self.stream_end(store).await?;
        let from = after.map_or(end, |after| after.max(end - i64::from(self.frames_max)).max(0));
        let frames = if from < end { self.read(store, from).await? } else { Vec::new() };
        let mut ring = self.ring_to_change();
        ring.restart(from.min(end));
        ring.absorb(frames);
        // Numbers stay used when frames are gone.
        if ring.last() < Some(end) {
            ring.restart(end);
        }
        let last = ring.last().unwrap_or(end);
        self.tell(ring);
        Ok(last)
    }

    /// Reads what the database has after the ring. `end` is where the stream was known to end before
    /// this look.
    pub(super) async fn catch_up(
        &self,
        store: &dyn Store,
        end: Option<i64>,
    ) -> Result<(), StoreError> {
        let _reading = self.reading.lock().await;
        loop {
            let Some(last) = self.end() else { return Ok(()) };
            let early = self.ring().early_last();
            let frames = self.read(store, last).await?;
            let more = frames.len() >= self.frames_max as usize;
            let mut ring = self.ring_to_change();
            let mut news = ring.absorb(frames);
            if !more {
                // Frames are committed before they are told: what this look did not find is gone.
                if let Some(early) = early {
                    ring.forget_early(early);
                }
                if ring.last() < end {
                    ring.restart(end.unwrap_or(last));
                    news = true;
                }
            }
            if news {
                self.tell(ring);
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// What follows a place that the ring no longer has.
    pub(super) async fn recover(
        &self,
        store: &dyn Store,
        place: i64,
    ) -> Result<History, StoreError> {
        let mut read = self.reading.lock().await;
        if let Some(frames) = read.page.as_deref().and_then(|page| part_of(page, place)) {
            return Ok(History::Frames(frames.to_vec()));
        }
        let frames = self.read(store, place).await?;
        let page = unbroken(&frames, place, self.bytes_max);
        if page.is_empty() {
            return Ok(History::Gone(frames));
        }
        let page = page.to_vec();
        read.page = Some(page.clone());
        Ok(History::Frames(page))
    }

    /// The whole transcript in one frame. `make` makes one, if none is at hand that goes on in the
    /// ring.
    pub(super) async fn reset(
        &self,
        make: impl Future<Output = Result<(i64, String), StoreError>>,
    ) -> Result<RingFrame, StoreError> {
        let mut read = self.reading.lock().await;
        if let Some(frame) = &read.reset
            && !self.is_behind(frame.seq)
        {
            return Ok(frame.clone());
        }
        let (seq, text) = make.await?;
        let frame = RingFrame { seq, text: Bytes::from(text) };
        read.reset = Some(frame.clone());
        Ok(frame)
    }

    /// Fewer frames that say the same. Made once for all listeners that have the same to read.
    pub(super) fn joined(&self, frames: Vec<RingFrame>) -> Vec<RingFrame> {
        let (Some(first), Some(last)) = (frames.first(), frames.last()) else { return frames };
        let between = (first.seq, last.seq);
        let same = |kept: &&Joined| kept.between == between;
        if let Some(kept) = self.joined_before().iter().find(same) {
            return kept.frames.clone();
        }
        let frames = coalesce(self.meeting, frames);
        if frames.iter().map(|frame| frame.text.len()).sum::<usize>() <= JOINED_BYTES_MAX {
            let mut kept = self.joined_before();
            kept.truncate(JOINED_KEPT_MAX - 1);
            kept.push_front(Joined { between, frames: frames.clone() });
        }
        frames
    }

    /// Frees what was read for listeners that were far behind.
    pub(super) fn forget_history(&self) {
        self.joined_before().clear();
        if let Ok(mut read) = self.reading.try_lock() {
            *read = Read::default();
        }
    }

    async fn read(&self, store: &dyn Store, after: i64) -> Result<Vec<RingFrame>, StoreError> {
        let frames = store.frames(stream_of(self.meeting), after, self.frames_max).await?;
        Ok(frames.iter().map(ring_frame).collect())
    }

    async fn stream_end(&self, store: &dyn Store) -> Result<i64, StoreError> {
        let ends = store.stream_ends(vec![self.meeting]).await?;
        Ok(ends.first().copied().unwrap_or(0))
    }

    /// Listeners have something to read: each is woken once, however many frames that are.
    fn tell(&self, ring: RwLockWriteGuard<'_, Ring>) {
        self.base.store(ring.base().unwrap_or(UNKNOWN), Ordering::Release);
        self.end.store(ring.last().unwrap_or(UNKNOWN), Ordering::Release);
        drop(ring);
        for woken in self.listeners().values() {
            woken.notify_one();
        }
    }

    fn ring(&self) -> RwLockReadGuard<'_, Ring> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring_to_change(&self) -> RwLockWriteGuard<'_, Ring> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn joined_before(&self) -> MutexGuard<'_, VecDeque<Joined>> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listeners(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Notify>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A frame of the database, as listeners get it.
pub(super) fn ring_frame(frame: &Frame) -> RingFrame {
    RingFrame { seq: frame.seq, text: Bytes::from(frame.wire()) }
}

/// The frames that follow a place without a gap: at least one if there is one, and not much more
/// than fits.
fn unbroken(frames: &[RingFrame], place: i64, bytes_max: usize) -> &[RingFrame] {
    let mut bytes = 0;
    let follows = |(frame, seq): &(&RingFrame, i64)| {
        let fits = bytes < bytes_max;
        bytes += frame.text.len();
        fits && frame.seq == *seq
    };
    let count = frames.iter().zip(place + 1..).take_while(follows).count();
    &frames[..count]
}

/// The frames of a page that follow a place, if they do.
fn part_of(page: &[RingFrame], place: i64) -> Option<&[RingFrame]> {
    let first = page.first()?.seq;
    let skipped = usize::try_from(place + 1 - first).ok()?;
    page.get(skipped..).filter(|left| !left.is_empty())
}
