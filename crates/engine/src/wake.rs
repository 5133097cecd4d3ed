//! Waking those who wait for work, here and on other nodes, and the only place that sleeps.
//!
//! Invariant: a wake-up is a hint. Whoever waits also looks at the database now and then, so a lost
//! one costs at most that interval. A listener exists before its owner looks at the database, and
//! keeps a wake-up that arrives meanwhile: nothing falls between looking and waiting.

mod hub;
mod remote;

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{JobId, Lane};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use hub::Hub;
pub use hub::WakeListener;
pub use remote::{RemoteWakes, WAKE_TOPIC};

/// Cancel requests that a slow reader may fall behind; one that does learns with its heartbeat.
const CANCELS_QUEUED_MAX: usize = 1024;

/// Signals that there is work. Cheap to clone; all clones share the same listeners.
#[derive(Clone)]
pub struct Wakes {
    hub: Arc<Hub>,
    cancels: broadcast::Sender<JobId>,
    remote: Option<RemoteWakes>,
}

impl Wakes {
    /// Wakes this process alone.
    pub fn local() -> Self {
        Wakes {
            hub: Arc::default(),
            cancels: broadcast::channel(CANCELS_QUEUED_MAX).0,
            remote: None,
        }
    }

    /// Wakes this process and, through `remote`, the others.
    pub fn with_remote(remote: RemoteWakes) -> Self {
        Wakes { remote: Some(remote), ..Wakes::local() }
    }

    /// Listens on lanes from this moment on.
    pub fn listen(&self, lanes: &[Lane]) -> WakeListener {
        WakeListener::new(self.hub.clone(), lanes)
    }

    /// There is this much new work in these lanes.
    pub fn signal(&self, lanes: impl IntoIterator<Item = (Lane, usize)>) {
        let lanes: Vec<(Lane, usize)> = lanes.into_iter().collect();
        for (lane, jobs) in &lanes {
            self.hub.wake(lane, *jobs);
        }
        if let Some(remote) = &self.remote {
            remote.queue_lanes(lanes);
        }
    }

    /// A running job should stop.
    pub fn signal_cancel(&self, id: JobId) {
        // Nobody listening is fine: the holder learns it with its heartbeat.
        let _ = self.cancels.send(id);
        if let Some(remote) = &self.remote {
            remote.queue_cancel(id);
        }
    }

    /// Something may have been missed: everybody should look.
    pub fn signal_all(&self) {
        self.hub.wake_all();
    }

    /// Jobs that should stop, from now on.
    pub fn cancels(&self) -> broadcast::Receiver<JobId> {
        self.cancels.subscribe()
    }

    /// Nobody needs to wait any longer: the process is going down.
    pub fn close(&self) {
        self.hub.close();
    }

    pub fn is_closed(&self) -> bool {
        self.hub.is_closed()
    }

    fn cancel_here(&self, id: JobId) {
        let _ = self.cancels.send(id);
    }

    fn wake_here(&self, lane: &Lane, jobs: usize) {
        self.hub.wake(lane, jobs);
    }
}

impl std::fmt::Debug for Wakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wakes").field("remote", &self.remote.is_some()).finish_non_exhaustive()
    }
}

/// Waits, but not past a cancellation. Returns whether the time passed.
#[expect(clippy::disallowed_methods, reason = "this is the one place that sleeps")]
pub async fn rest(time: Duration, until: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = until.cancelled() => false,
        () = tokio::time::sleep(time) => true,
    }
}

/// Waits. Dropping the future ends it.
#[expect(clippy::disallowed_methods, reason = "this is the one place that sleeps")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
