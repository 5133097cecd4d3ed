//! The cache of live segments, in plain maps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{CacheError, Clock, TranscriptCache};
use roundsman_core::transcripts::{Line, SegmentKey, SpeakerEvent, cache_value, instant};

use crate::TranscriptCacheOptions;
use crate::conformance_cache::{Stored, StoredKey};

/// A cache that a test can look into, empty, and make unavailable.
pub struct MemoryTranscriptCache {
    clock: Arc<dyn Clock>,
    options: TranscriptCacheOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    away: bool,
    segments: BTreeMap<MeetingId, Mortal<BTreeMap<String, String>>>,
    active: BTreeSet<MeetingId>,
    starts: BTreeMap<String, Mortal<Timestamp>>,
    /// The times of events by their text.
    speakers: BTreeMap<String, Mortal<BTreeMap<String, i64>>>,
}

#[derive(Default)]
struct Mortal<T> {
    value: T,
    /// In monotonic time; `None` for one that somebody made immortal.
    until: Option<Duration>,
}

impl<T> Mortal<T> {
    fn is_alive(&self, now: Duration) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    fn stored(&self, now: Duration, value: impl FnOnce(&T) -> Stored) -> StoredKey {
        let ttl_secs = self.until.map(|until| until.saturating_sub(now).as_secs());
        StoredKey { value: value(&self.value), ttl_secs }
    }
}

impl MemoryTranscriptCache {
    pub fn new(clock: Arc<dyn Clock>, options: TranscriptCacheOptions) -> Self {
        Self { clock, options, state: Mutex::default() }
    }

    /// Every call fails until it is available again; what is in it stays.
    pub fn set_available(&self, available: bool) {
        self.lock().away = !available;
    }

    /// Everything is gone, as after a restart.
    pub fn wipe(&self) {
        let mut state = self.lock();
        *state = State { away: state.away, ..State::default() };
    }

    /// What is in it, under the names that it has in Redis.
    pub fn keys(&self) -> BTreeMap<String, StoredKey> {
        let now = self.clock.monotonic();
        let state = self.lock();
        let mut keys = BTreeMap::new();
        for (meeting, segments) in &state.segments {
            let stored = segments.stored(now, |fields| Stored::Hash(fields.clone()));
            keys.insert(format!("meeting:{meeting}:segments"), stored);
        }
        if !state.active.is_empty() {
            let members = state.active.iter().map(MeetingId::to_string).collect();
            let stored = StoredKey { value: Stored::Set(members), ttl_secs: None };
            keys.insert("active_meetings".to_owned(), stored);
        }
        for (session, start) in &state.starts {
            let stored = start.stored(now, |start| Stored::Text(instant(*start)));
            keys.insert(format!("meeting_session:{session}:start"), stored);
        }
        for (session, events) in &state.speakers {
            let stored = events.stored(now, |events| Stored::Sorted(events.clone()));
            keys.insert(format!("{}:{session}", self.options.speaker_event_prefix), stored);
        }
        keys
    }

    /// Writes a field as somebody else would, without a lifetime or an entry in the index.
    pub fn write_field(&self, meeting: MeetingId, field: &str, value: &str) {
        let mut state = self.lock();
        let segments = state.segments.entry(meeting).or_default();
        segments.value.insert(field.to_owned(), value.to_owned());
        segments.until = None;
    }

    /// Takes everything out of the index.
    pub fn lose_index(&self) {
        self.lock().active.clear();
    }

    /// The state without what has expired.
    fn lock(&self) -> MutexGuard<'_, State> {
        let now = self.clock.monotonic();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.segments.retain(|_, segments| segments.is_alive(now));
        state.starts.retain(|_, start| start.is_alive(now));
        state.speakers.retain(|_, events| events.is_alive(now));
        state
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, CacheError> {
        let state = self.lock();
        if state.away {
            return Err(CacheError("switched off by the test".to_owned()));
        }
        Ok(state)
    }

    fn until(&self, ttl_secs: u64) -> Duration {
        self.clock.monotonic() + Duration::from_secs(ttl_secs)
    }

    fn field(&self, key: &SegmentKey) -> String {
        key.cache_field(self.options.field_style)
    }
}

impl State {
    /// A meeting is in the index while it has segments.
    fn index(&mut self, meeting: MeetingId) {
        self.segments.retain(|_, segments| !segments.value.is_empty());
        if self.segments.contains_key(&meeting) {
            self.active.insert(meeting);
        } else {
            self.active.remove(&meeting);
        }
    }
}

#[async_trait]
impl TranscriptCache for MemoryTranscriptCache {
    async fn put_lines(&self, meeting: MeetingId, lines: &[Line]) -> Result<(), CacheError> {
        let mut state = self.open()?;
        if lines.is_empty() {
            return Ok(());
        }
        let segments = state.segments.entry(meeting).or_default();
        let fields = lines.iter().map(|line| (self.field(&line.segment.key), cache_value(line)));
        segments.value.extend(fields);
        segments.until = Some(self.until(self.options.segment_ttl_secs));
        state.index(meeting);
        Ok(())
    }

    async fn remove(&self, meeting: MeetingId, gone: &[SegmentKey]) -> Result<(), CacheError> {
        let mut state = self.open()?;
        if let Some(segments) = state.segments.get_mut(&meeting) {
            for key in gone {
                segments.value.remove(&self.field(key));
            }
        }
        state.index(meeting);
        Ok(())
    }

    async fn repair(&self, meeting: MeetingId, lines: &[Line]) -> Result<u64, CacheError> {
        let mut state = self.open()?;
        let mut lines: Vec<&Line> = lines.iter().collect();
        lines.sort_by_key(|line| line.segment.updated_at);
        let wanted: BTreeMap<String, String> =
            lines.iter().map(|line| (self.field(&line.segment.key), cache_value(line))).collect();
        let segments = state.segments.entry(meeting).or_default();
        let seen = &segments.value;
        let written = wanted.iter().filter(|(field, value)| seen.get(*field) != Some(*value));
        let removed = seen.keys().filter(|field| !wanted.contains_key(*field));
        let corrected = written.count() + removed.count();
        segments.value = wanted;
        if corrected > 0 || segments.until.is_none() {
            segments.until = Some(self.until(self.options.segment_ttl_secs));
        }
        state.index(meeting);
        Ok(corrected as u64)
    }

    async fn forget(&self, meeting: MeetingId, sessions: &[String]) -> Result<(), CacheError> {
        let mut state = self.open()?;
        state.segments.remove(&meeting);
        state.active.remove(&meeting);
        for session in sessions {
            state.starts.remove(session);
            state.speakers.remove(session);
        }
        Ok(())
    }

    async fn active(&self, rows_max: u32) -> Result<Vec<MeetingId>, CacheError> {
        Ok(self.open()?.active.iter().copied().take(rows_max as usize).collect())
    }

    async fn starts(&self, sessions: &[String]) -> Result<Vec<Option<Timestamp>>, CacheError> {
        let state = self.open()?;
        Ok(sessions.iter().map(|uid| state.starts.get(uid).map(|start| start.value)).collect())
    }

    async fn put_start(&self, session: &str, start: Timestamp) -> Result<(), CacheError> {
        let until = Some(self.until(self.options.session_start_ttl_secs));
        self.open()?.starts.insert(session.to_owned(), Mortal { value: start, until });
        Ok(())
    }

    async fn end_session(&self, session: &str) -> Result<(), CacheError> {
        let mut state = self.open()?;
        state.starts.remove(session);
        state.speakers.remove(session);
        Ok(())
    }

    async fn put_speaker_events(&self, events: &[SpeakerEvent]) -> Result<(), CacheError> {
        let mut state = self.open()?;
        for event in events {
            let known = state.speakers.entry(event.session_uid.clone()).or_default();
            known.value.insert(event.to_json(), event.at_ms);
            known.until = Some(self.until(self.options.speaker_event_ttl_secs));
        }
        Ok(())
    }
}
