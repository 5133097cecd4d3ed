//! The jobs a worker holds, from claim to settled outcome.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roundsman_core::jobs::{JobId, Json, KindName, LeaseRef, Settle};
use tokio::sync::{Notify, watch};

/// Why a handler must stop before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// Another worker may have the job: nothing may be written.
    LeaseLost,
    /// Somebody asked for it.
    Cancelled,
    /// It ran longer than its kind allows.
    DeadlineExceeded,
    /// The process goes down; the job is handed back.
    Shutdown,
}

/// One job that this worker holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) kind: KindName,
    pub(super) lease_ttl: Duration,
    pub(super) heartbeat_every: Duration,
    /// In monotonic time: when the lease must be taken for lost, counted from before the claim was
    /// sent, so that this worker stops before the database would let another start.
    pub(super) lease_ends: Duration,
    pub(super) next_beat: Duration,
    pub(super) deadline: Option<Duration>,
    pub(super) stop: watch::Sender<Option<StopReason>>,
    pub(super) progress: watch::Receiver<Option<Json>>,
    /// Whether the handler still runs; after that only the outcome is to be written.
    pub(super) active: bool,
    pub(super) claimed: Duration,
}

/// All jobs that a worker holds.
#[derive(Debug, Default)]
pub(super) struct RunningSet {
    state: Mutex<State>,
    empty: Notify,
}

#[derive(Debug, Default)]
struct State {
    held: BTreeMap<LeaseRef, Held>,
    active: usize,
    active_by_kind: BTreeMap<KindName, usize>,
    ended: VecDeque<Settle>,
}

impl RunningSet {
    pub(super) fn insert(&self, lease: LeaseRef, held: Held) {
        let mut state = self.lock();
        state.active += 1;
        *state.active_by_kind.entry(held.kind.clone()).or_default() += 1;
        state.held.insert(lease, held);
    }

    /// The handler has ended: its slot is free, and its outcome waits to be written. Without an
    /// outcome there is nothing to write and the job is let go.
    pub(super) fn end(&self, lease: LeaseRef, settle: Option<Settle>) {
        let mut state = self.lock();
        let State { held, active, active_by_kind, ended } = &mut *state;
        let Some(job) = held.get_mut(&lease) else {
            return;
        };
        if std::mem::replace(&mut job.active, false) {
            *active -= 1;
            if let Some(count) = active_by_kind.get_mut(&job.kind) {
                *count -= 1;
            }
        }
        match settle {
            Some(settle) => ended.push_back(settle),
            None => {
                held.remove(&lease);
            }
        }
        self.notify_if_empty(&state);
    }

    /// Outcomes to be written, at most so many.
    pub(super) fn take_ended(&self, max: usize) -> Vec<Settle> {
        let mut state = self.lock();
        let count = state.ended.len().min(max);
        state.ended.drain(..count).collect()
    }

    /// Outcomes that could not be written come back, in front.
    pub(super) fn put_back(&self, settles: Vec<Settle>) {
        let mut state = self.lock();
        for settle in settles.into_iter().rev() {
            state.ended.push_front(settle);
        }
    }

    /// The outcomes are written, or will never be. Returns each one's kind and when it was claimed.
    pub(super) fn remove_all(&self, leases: &[LeaseRef]) -> Vec<Option<(KindName, Duration)>> {
        let mut state = self.lock();
        let taken = |lease: &LeaseRef| {
            let held = state.held.remove(lease);
            held.map(|held| (held.kind, held.claimed))
        };
        let removed = leases.iter().map(taken).collect();
        self.notify_if_empty(&state);
        removed
    }

    pub(super) fn for_each(&self, mut change: impl FnMut(LeaseRef, &mut Held)) {
        for (lease, held) in &mut self.lock().held {
            change(*lease, held);
        }
    }

    pub(super) fn with(&self, lease: LeaseRef, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.lock().held.get_mut(&lease) {
            change(held);
        }
    }

    pub(super) fn stop_job(&self, id: JobId, reason: StopReason) {
        self.for_each(|lease, held| {
            if lease.id == id {
                held.stop.send_replace(Some(reason));
            }
        });
    }

    pub(super) fn stop_all(&self, reason: StopReason) {
        self.for_each(|_, held| {
            held.stop.send_replace(Some(reason));
        });
    }

    /// Handlers running now.
    pub(super) fn active(&self) -> usize {
        self.lock().active
    }

    pub(super) fn active_of(&self, kind: &KindName) -> usize {
        self.lock().active_by_kind.get(kind).copied().unwrap_or(0)
    }

    /// Jobs held, including those whose outcome is yet to be written.
    pub(super) fn len(&self) -> usize {
        self.lock().held.len()
    }

    /// Waits until nothing is held.
    pub(super) async fn emptied(&self) {
        loop {
            let empty = self.empty.notified();
            if self.len() == 0 {
                return;
            }
            empty.await;
        }
    }

    fn notify_if_empty(&self, state: &State) {
        if state.held.is_empty() {
            self.empty.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
