//! A stream and its groups, in plain maps.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::ports::{Clock, IngestStream, StreamEntry, StreamError, StreamState};
use tokio::sync::Notify;
use tokio::time::timeout;

/// A stream that a test writes and looks into.
pub struct MemoryStream {
    name: String,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    added: Notify,
}

/// One consumer of it.
pub struct MemoryIngestStream {
    stream: Arc<MemoryStream>,
    group: String,
    consumer: String,
    /// How long a read waits in real time. Nothing by default: a loop that is ticked by a test
    /// must not wait for what the test does next.
    pub block_ms: u64,
    /// The last entry that a claim has looked at.
    cursor: Mutex<Id>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Id {
    ms: u64,
    number: u64,
}

#[derive(Default)]
struct State {
    away: bool,
    entries: BTreeMap<Id, Vec<(String, String)>>,
    last_id: Id,
    groups: BTreeMap<String, Group>,
}

#[derive(Default)]
struct Group {
    last_delivered: Id,
    pending: BTreeMap<Id, Pending>,
    /// When each was last seen.
    consumers: BTreeMap<String, Duration>,
}

struct Pending {
    consumer: String,
    given_at: Duration,
    deliveries: u32,
}

impl MemoryStream {
    pub fn new(name: &str, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            clock,
            state: Mutex::default(),
            added: Notify::new(),
        })
    }

    pub fn consumer(self: &Arc<Self>, group: &str, consumer: &str) -> MemoryIngestStream {
        MemoryIngestStream {
            stream: Arc::clone(self),
            group: group.to_owned(),
            consumer: consumer.to_owned(),
            block_ms: 0,
            cursor: Mutex::default(),
        }
    }

    /// Appends an entry with the clock's id; returns it.
    pub fn add(&self, fields: &[(&str, &str)]) -> String {
        let now_ms = u64::try_from(self.clock.now().as_micros() / 1000).unwrap_or(0);
        let state = self.lock();
        let last = state.last_id;
        let id = if now_ms > last.ms { Id { ms: now_ms, number: 0 } } else { last.next() };
        self.append(state, id, fields)
    }

    /// Appends an entry with this id, which must be higher than every earlier one.
    pub fn add_as(&self, id: &str, fields: &[(&str, &str)]) -> String {
        let id = Id::parse(id).expect("a test writes ids like 1-0");
        self.append(self.lock(), id, fields)
    }

    /// Removes an entry whatever its groups think of it.
    pub fn delete(&self, id: &str) {
        let id = Id::parse(id).expect("a test writes ids like 1-0");
        self.lock().entries.remove(&id);
    }

    /// The stream and its groups are gone.
    pub fn wipe(&self) {
        let mut state = self.lock();
        *state = State { away: state.away, ..State::default() };
    }

    /// Every call of a consumer fails until it is available again.
    pub fn set_available(&self, available: bool) {
        self.lock().away = !available;
    }

    pub fn ids(&self) -> Vec<String> {
        self.lock().entries.keys().map(Id::to_string).collect()
    }

    /// Ids that were given out and not acknowledged.
    pub fn pending(&self, group: &str) -> Vec<String> {
        let state = self.lock();
        let ids = state.groups.get(group).map(|group| group.pending.keys().map(Id::to_string));
        ids.map(Iterator::collect).unwrap_or_default()
    }

    pub fn consumers(&self, group: &str) -> Vec<String> {
        let state = self.lock();
        state.groups.get(group).map(|it| it.consumers.keys().cloned().collect()).unwrap_or_default()
    }

    fn append(&self, mut state: MutexGuard<'_, State>, id: Id, fields: &[(&str, &str)]) -> String {
        assert!(id > state.last_id, "{id} is not after {}", state.last_id);
        let fields = fields.iter().map(|(name, value)| (String::from(*name), String::from(*value)));
        state.entries.insert(id, fields.collect());
        state.last_id = id;
        drop(state);
        self.added.notify_waiters();
        id.to_string()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, StreamError> {
        let state = self.lock();
        if state.away {
            return Err(StreamError("switched off by the test".to_owned()));
        }
        Ok(state)
    }
}

impl MemoryIngestStream {
    fn read_now(&self, entries_max: usize) -> Result<Vec<StreamEntry>, StreamError> {
        let now = self.stream.clock.monotonic();
        let mut state = self.stream.open()?;
        let State { entries, groups, .. } = &mut *state;
        let group = groups.entry(self.group.clone()).or_default();
        group.consumers.insert(self.consumer.clone(), now);
        let mut given = Vec::new();
        for (id, fields) in entries.range(group.last_delivered.next()..).take(entries_max) {
            let consumer = self.consumer.clone();
            group.pending.insert(*id, Pending { consumer, given_at: now, deliveries: 1 });
            given.push(StreamEntry { id: id.to_string(), fields: fields.clone(), deliveries: 1 });
            group.last_delivered = *id;
        }
        Ok(given)
    }
}

#[async_trait]
impl IngestStream for MemoryIngestStream {
    fn name(&self) -> &str {
        &self.stream.name
    }

    async fn read(&self, entries_max: usize) -> Result<Vec<StreamEntry>, StreamError> {
        // Armed before the look, so that nothing is added in between unnoticed.
        let mut added = std::pin::pin!(self.stream.added.notified());
        added.as_mut().enable();
        let entries = self.read_now(entries_max)?;
        if !entries.is_empty() || self.block_ms == 0 {
            return Ok(entries);
        }
        let _ = timeout(Duration::from_millis(self.block_ms), added).await;
        self.read_now(entries_max)
    }

    async fn claim(
        &self,
        idle_ms_min: u64,
        entries_max: usize,
    ) -> Result<Vec<StreamEntry>, StreamError> {
        let now = self.stream.clock.monotonic();
        let idle_min = Duration::from_millis(idle_ms_min);
        let mut state = self.stream.open()?;
        let State { entries, groups, .. } = &mut *state;
        let group = groups.entry(self.group.clone()).or_default();
        group.consumers.insert(self.consumer.clone(), now);
        group.pending.retain(|id, _| entries.contains_key(id));
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = group.pending.range_mut(cursor.next()..);
        let idle = idle.filter(|(_, pending)| now.saturating_sub(pending.given_at) >= idle_min);
        let mut claimed = Vec::new();
        for (id, pending) in idle.take(entries_max) {
            pending.consumer.clone_from(&self.consumer);
            pending.given_at = now;
            pending.deliveries += 1;
            let fields = entries.get(id).cloned().unwrap_or_default();
            claimed.push((*id, fields, pending.deliveries));
        }
        *cursor = match claimed.last() {
            Some((id, ..)) if claimed.len() == entries_max => *id,
            _ => Id::default(),
        };
        let claimed = claimed.into_iter();
        Ok(claimed
            .map(|(id, fields, deliveries)| StreamEntry { id: id.to_string(), fields, deliveries })
            .collect())
    }

    async fn acknowledge(&self, ids: &[String]) -> Result<(), StreamError> {
        let mut state = self.stream.open()?;
        if let Some(group) = state.groups.get_mut(&self.group) {
            for id in ids.iter().filter_map(|id| Id::parse(id)) {
                group.pending.remove(&id);
            }
        }
        Ok(())
    }

    async fn trim(
        &self,
        older_than_ms: u64,
        consumers_idle_ms: u64,
    ) -> Result<StreamState, StreamError> {
        let now = self.stream.clock.monotonic();
        let now_ms = u64::try_from(self.stream.clock.now().as_micros() / 1000).unwrap_or(0);
        let mut state = self.stream.open()?;
        let State { entries, groups, .. } = &mut *state;
        let before = entries.len() as u64;
        let mut keep_from = Id { ms: now_ms.saturating_sub(older_than_ms), number: 0 };
        for group in groups.values() {
            let first_pending = group.pending.keys().next().copied();
            let first = group.last_delivered.next();
            keep_from = keep_from.min(first).min(first_pending.unwrap_or(first));
        }
        let Some(group) = groups.get_mut(&self.group) else {
            return Ok(StreamState { entries: before, lag: before, ..StreamState::default() });
        };
        entries.retain(|id, _| *id >= keep_from);
        let idle_min = Duration::from_millis(consumers_idle_ms);
        let Group { consumers, pending, last_delivered } = group;
        consumers.retain(|name, seen_at| {
            let is_busy = pending.values().any(|pending| pending.consumer == *name);
            *name == self.consumer || is_busy || now.saturating_sub(*seen_at) < idle_min
        });
        Ok(StreamState {
            entries: entries.len() as u64,
            pending: pending.len() as u64,
            lag: entries.range(last_delivered.next()..).count() as u64,
            trimmed: before - entries.len() as u64,
        })
    }
}

impl Id {
    fn parse(text: &str) -> Option<Self> {
        let (ms, number) = text.split_once('-')?;
        Some(Id { ms: ms.parse().ok()?, number: number.parse().ok()? })
    }

    fn next(self) -> Self {
        Id { number: self.number + 1, ..self }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)
    }
}
