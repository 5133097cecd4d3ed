//! Keeps the cache that others read as the database is.
//!
//! Invariants: what goes into the cache was committed before; a cache that fails costs nobody
//! anything but itself, and is repaired from the database: what is known to be wrong at once, the
//! rest in turn.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{CacheError, Clock, Store, StoreError, TranscriptCache};
use roundsman_core::transcripts::{Line, SegmentKey, SpeakerEvent};

use crate::metrics::Metrics;

/// After a failure nobody waits for the cache for so long: at first, and at most while it goes on.
const AWAY_FOR_MIN: Duration = Duration::from_secs(1);
const AWAY_FOR_MAX: Duration = Duration::from_secs(16);
/// Meetings that are written at once.
const WRITES_AT_ONCE_MAX: usize = 16;
/// Meetings that are repaired in one round.
const REPAIRS_PER_ROUND_MAX: usize = 64;
/// Meetings that are known to be wrong; with more, they wait for their turn.
const SUSPECTS_MAX: usize = 10_000;
/// Starts of sessions that are known to be in the cache, and for how long.
const STARTS_KNOWN_MAX: usize = 10_000;
const STARTS_KNOWN_FOR: Duration = Duration::from_secs(600);
/// Meetings that the cache may call active and that are looked at in one round.
const ACTIVE_ROWS_MAX: u32 = 10_000;

/// Writes to the cache, if there is one. Cheap to clone.
#[derive(Clone)]
pub(super) struct Mirror {
    cache: Option<Arc<dyn TranscriptCache>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    away: Option<Away>,
    suspects: BTreeSet<MeetingId>,
    /// When each was written or seen.
    starts: HashMap<String, (Timestamp, Duration)>,
    /// The last meeting that had its turn.
    turn: Option<MeetingId>,
}

/// The cache has failed.
#[derive(Clone, Copy)]
struct Away {
    /// By the monotonic clock.
    until: Duration,
    /// How long it was left alone the last time.
    lasted: Duration,
}

/// What a message has changed, as far as the cache is concerned.
pub(super) struct Mirrored<'a> {
    pub(super) meeting: MeetingId,
    pub(super) session: Option<&'a str>,
    pub(super) session_start: Option<Timestamp>,
    pub(super) session_ended: bool,
    pub(super) lines: &'a [Line],
}

impl Mirror {
    pub(super) fn new(
        cache: Option<Arc<dyn TranscriptCache>>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        Mirror { cache, store, clock, metrics, state: Arc::default() }
    }

    pub(super) fn exists(&self) -> bool {
        self.cache.is_some()
    }

    /// The starts of sessions, as far as the cache knows them.
    pub(super) async fn starts(&self, sessions: &[String]) -> HashMap<String, Timestamp> {
        let Some(cache) = self.reachable() else { return HashMap::new() };
        match cache.starts(sessions).await {
            Ok(starts) => {
                let now = self.clock.monotonic();
                let mut state = self.state();
                let mut known = HashMap::new();
                for (session, start) in sessions.iter().zip(starts) {
                    match start {
                        Some(start) => {
                            state.knows(session, start, now);
                            known.insert(session.clone(), start);
                        }
                        // It may have been there, and be lost.
                        None => drop(state.starts.remove(session)),
                    }
                }
                known
            }
            Err(error) => {
                self.failed(&error, None);
                HashMap::new()
            }
        }
    }

    /// Messages were committed, in this order.
    pub(super) async fn taken(&self, changes: &[Mirrored<'_>]) {
        let Some(cache) = self.cache.as_deref() else { return };
        let writes: Vec<_> = latest_lines(changes)
            .into_iter()
            .map(|(meeting, lines)| async move { self.put(cache, meeting, &lines).await })
            .collect();
        stream::iter(writes).buffer_unordered(WRITES_AT_ONCE_MAX).for_each(|()| async {}).await;
        for change in changes {
            let Some(session) = change.session else { continue };
            if change.session_ended {
                self.end_session(session).await;
            } else if let Some(start) = change.session_start {
                self.put_start(session, start).await;
            }
        }
    }

    /// Live segments of a meeting are different.
    pub(super) async fn changed(&self, meeting: MeetingId, lines: &[Line]) {
        if let Some(cache) = self.cache.as_deref()
            && !lines.is_empty()
        {
            self.put(cache, meeting, lines).await;
        }
    }

    /// Live segments of a meeting are different, and whoever knows how cannot wait for the cache: it
    /// is repaired a moment later.
    pub(super) fn moved(&self, meeting: MeetingId) {
        if self.cache.is_some() {
            self.suspect(meeting);
        }
    }

    pub(super) async fn heard(&self, events: &[SpeakerEvent]) {
        if let Some(cache) = self.reachable()
            && let Err(error) = cache.put_speaker_events(events).await
        {
            self.failed(&error, None);
        }
    }

    /// Segments are no longer live.
    pub(super) async fn gone(&self, meeting: MeetingId, gone: &[SegmentKey]) {
        if gone.is_empty() || self.cache.is_none() {
            return;
        }
        let Some(cache) = self.reachable() else { return self.suspect(meeting) };
        if let Err(error) = cache.remove(meeting, gone).await {
            self.failed(&error, Some(meeting));
        }
    }

    /// Nothing about a meeting and its sessions is to be left.
    pub(super) async fn forget(&self, meeting: MeetingId, sessions: &[String]) {
        let Some(cache) = self.cache.as_deref() else { return };
        self.state().forget_starts(sessions);
        if let Err(error) = cache.forget(meeting, sessions).await {
            self.failed(&error, Some(meeting));
        }
    }

    /// Repairs what is known to be wrong.
    pub(super) async fn repair_suspects(&self) -> Result<(), StoreError> {
        let Some(cache) = self.reachable() else { return Ok(()) };
        let suspects: Vec<MeetingId> =
            self.state().suspects.iter().copied().take(REPAIRS_PER_ROUND_MAX).collect();
        self.repair(cache, &suspects).await
    }

    /// Repairs some of these meetings, which are all that are live, each in its turn, and clears away
    /// those that are not among them.
    pub(super) async fn repair_some(&self, live: &BTreeSet<MeetingId>) -> Result<(), StoreError> {
        let Some(cache) = self.reachable() else { return Ok(()) };
        let due: Vec<MeetingId> = {
            let mut state = self.state();
            let turn = state.turn.unwrap_or(MeetingId::new(i64::MIN));
            let later = live.iter().filter(|meeting| **meeting > turn);
            let earlier = live.iter().filter(|meeting| **meeting <= turn);
            let due: Vec<_> = later.chain(earlier).copied().take(REPAIRS_PER_ROUND_MAX).collect();
            state.turn = due.last().copied().or(state.turn);
            due
        };
        self.repair(cache, &due).await?;
        match cache.active(ACTIVE_ROWS_MAX).await {
            Ok(active) => {
                let left = active.into_iter().filter(|meeting| !live.contains(meeting));
                self.repair(cache, &left.take(REPAIRS_PER_ROUND_MAX).collect::<Vec<_>>()).await
            }
            Err(error) => {
                self.failed(&error, None);
                Ok(())
            }
        }
    }

    async fn repair(
        &self,
        cache: &dyn TranscriptCache,
        meetings: &[MeetingId],
    ) -> Result<(), StoreError> {
        for meeting in meetings {
            let lines = self.store.live_lines(*meeting).await?;
            match cache.repair(*meeting, &lines).await {
                Ok(0) => {
                    self.answered();
                    self.state().suspects.remove(meeting);
                }
                Ok(values) => {
                    self.answered();
                    self.metrics.cache_repaired(values);
                    // Somebody may have written between the two looks: once more.
                    self.suspect(*meeting);
                }
                Err(error) => {
                    self.failed(&error, Some(*meeting));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn put(&self, cache: &dyn TranscriptCache, meeting: MeetingId, lines: &[Line]) {
        if self.reachable().is_none() {
            return self.suspect(meeting);
        }
        match cache.put_lines(meeting, lines).await {
            Ok(()) => self.answered(),
            Err(error) => self.failed(&error, Some(meeting)),
        }
    }

    async fn put_start(&self, session: &str, start: Timestamp) {
        let now = self.clock.monotonic();
        let known = self.state().starts.get(session).copied();
        let is_there = known
            .is_some_and(|(known, at)| known == start && now.saturating_sub(at) < STARTS_KNOWN_FOR);
        if is_there {
            return;
        }
        let Some(cache) = self.reachable() else { return };
        match cache.put_start(session, start).await {
            Ok(()) => self.state().knows(session, start, now),
            Err(error) => self.failed(&error, None),
        }
    }

    async fn end_session(&self, session: &str) {
        self.state().starts.remove(session);
        if let Some(cache) = self.reachable()
            && let Err(error) = cache.end_session(session).await
        {
            self.failed(&error, None);
        }
    }

    /// The cache, unless it was away a moment ago.
    fn reachable(&self) -> Option<&dyn TranscriptCache> {
        let cache = self.cache.as_deref()?;
        let now = self.clock.monotonic();
        let is_away = self.state().away.is_some_and(|away| now < away.until);
        (!is_away).then_some(cache)
    }

    fn answered(&self) {
        self.state().away = None;
    }

    fn failed(&self, error: &CacheError, meeting: Option<MeetingId>) {
        self.metrics.cache_failed();
        tracing::debug!(%error, "the cache is repaired later");
        self.state().fail(self.clock.monotonic());
        if let Some(meeting) = meeting {
            self.suspect(meeting);
        }
    }

    fn suspect(&self, meeting: MeetingId) {
        let mut state = self.state();
        if state.suspects.len() < SUSPECTS_MAX {
            state.suspects.insert(meeting);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// By meeting; of two tellings of a segment the later one is true.
fn latest_lines(changes: &[Mirrored<'_>]) -> Vec<(MeetingId, Vec<Line>)> {
    let mut by_meeting: BTreeMap<MeetingId, BTreeMap<&SegmentKey, &Line>> = BTreeMap::new();
    for change in changes.iter().filter(|change| !change.lines.is_empty()) {
        let lines = by_meeting.entry(change.meeting).or_default();
        lines.extend(change.lines.iter().map(|line| (&line.segment.key, line)));
    }
    let owned = |lines: BTreeMap<_, &Line>| lines.into_values().cloned().collect();
    by_meeting.into_iter().map(|(meeting, lines)| (meeting, owned(lines))).collect()
}

impl State {
    fn fail(&mut self, now: Duration) {
        let lasted = match self.away {
            // Others were waiting for it as well: that is the same failure.
            Some(away) if now < away.until => return,
            Some(away) => (away.lasted * 2).min(AWAY_FOR_MAX),
            None => AWAY_FOR_MIN,
        };
        self.away = Some(Away { until: now + lasted, lasted });
    }

    fn forget_starts(&mut self, sessions: &[String]) {
        for session in sessions {
            self.starts.remove(session);
        }
    }

    fn knows(&mut self, session: &str, start: Timestamp, now: Duration) {
        if self.starts.len() >= STARTS_KNOWN_MAX {
            self.starts.clear();
        }
        self.starts.insert(session.to_owned(), (start, now));
    }
}
