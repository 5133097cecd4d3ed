//! Who waits for which lane in this process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use roundsman_core::jobs::Lane;
use tokio::sync::Notify;

/// All listeners by lane.
#[derive(Default)]
pub(super) struct Hub {
    state: Mutex<HubState>,
}

#[derive(Default)]
struct HubState {
    lanes: HashMap<Lane, VecDeque<Arc<Notify>>>,
    closed: bool,
}

impl Hub {
    /// Wakes as many listeners as there are jobs, each in its turn: waking a thousand waiting
    /// workers for one job would make 999 of them look for nothing.
    pub(super) fn wake(&self, lane: &Lane, jobs: usize) {
        let mut state = self.lock();
        let Some(listeners) = state.lanes.get_mut(lane) else {
            return;
        };
        for _ in 0..jobs.min(listeners.len()) {
            listeners.rotate_left(1);
            if let Some(notify) = listeners.back() {
                notify.notify_one();
            }
        }
    }

    pub(super) fn wake_all(&self) {
        for notify in self.lock().lanes.values().flatten() {
            notify.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for work in some lanes. Dropping it stops listening.
pub struct WakeListener {
    hub: Arc<Hub>,
    lanes: Vec<Lane>,
    notify: Arc<Notify>,
}

impl WakeListener {
    pub(super) fn new(hub: Arc<Hub>, lanes: &[Lane]) -> Self {
        let notify = Arc::new(Notify::new());
        {
            let mut state = hub.lock();
            for lane in lanes {
                state.lanes.entry(lane.clone()).or_default().push_back(notify.clone());
            }
            if state.closed {
                notify.notify_one();
            }
        }
        WakeListener { hub, lanes: lanes.to_vec(), notify }
    }

    /// Waits until woken, or for `time_max`. A wake-up since the last wait returns at once.
    pub async fn wait(&mut self, time_max: Duration) {
        // Which of the two ended the wait does not matter: the caller looks either way.
        let _ = tokio::time::timeout(time_max, self.notify.notified()).await;
    }

    /// A handle with which others may wake this listener alone.
    pub fn waker(&self) -> Arc<Notify> {
        self.notify.clone()
    }
}

impl Drop for WakeListener {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        for lane in &self.lanes {
            if let Some(listeners) = state.lanes.get_mut(lane) {
                listeners.retain(|other| !Arc::ptr_eq(other, &self.notify));
                if listeners.is_empty() {
                    state.lanes.remove(lane);
                }
            }
        }
        drop(state);
        // A wake-up that nobody acted on is somebody else's. Which lane it was for is not known.
        if self.notify.notified().now_or_never().is_some() {
            self.lanes.iter().for_each(|lane| self.hub.wake(lane, 1));
        }
    }
}

impl std::fmt::Debug for WakeListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WakeListener").field("lanes", &self.lanes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use roundsman_core::jobs::KindName;
    use roundsman_core::users::UserId;

    use super::*;

    fn lane(kind: &str) -> Lane {
        Lane::of(UserId::new(1), &KindName::new(kind).unwrap())
    }

    /// Whether the listener has a wake-up waiting, without waiting for one.
    fn woken(listener: &WakeListener) -> bool {
        listener.notify.notified().now_or_never().is_some()
    }

    #[test]
    fn a_wake_up_between_looking_and_waiting_is_kept() {
        let hub = Arc::new(Hub::default());
        let listener = WakeListener::new(hub.clone(), &[lane("a")]);
        hub.wake(&lane("b"), 1);
        assert!(!woken(&listener));
        hub.wake(&lane("a"), 1);
        assert!(woken(&listener));
    }

    #[test]
    fn one_job_wakes_one_listener_and_the_next_job_the_next() {
        let hub = Arc::new(Hub::default());
        let listeners: Vec<_> =
            (0..3).map(|_| WakeListener::new(hub.clone(), &[lane("a")])).collect();
        let mut count = [0; 3];
        for _ in 0..6 {
            hub.wake(&lane("a"), 1);
            let woken: Vec<usize> = (0..3).filter(|&i| woken(&listeners[i])).collect();
            assert_eq!(woken.len(), 1);
            count[woken[0]] += 1;
        }
        assert_eq!(count, [2, 2, 2]);
    }

    #[test]
    fn a_dropped_listener_leaves_nothing_behind() {
        let hub = Arc::new(Hub::default());
        drop(WakeListener::new(hub.clone(), &[lane("a"), lane("b")]));
        assert!(hub.lock().lanes.is_empty());
    }

    #[test]
    fn closing_wakes_those_who_wait_and_those_who_come_later() {
        let hub = Arc::new(Hub::default());
        let early = WakeListener::new(hub.clone(), &[lane("a")]);
        hub.close();
        let late = WakeListener::new(hub.clone(), &[lane("a")]);
        assert!(woken(&early) && woken(&late));
    }
}
