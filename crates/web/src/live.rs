//! Who listens live, on this node: how many connections there are, and how many one key may have.
//!
//! Invariant: every live connection has a [`Place`] for as long as it lasts, so the counts are the
//! truth whatever way a connection ends.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roundsman_core::users::{TokenId, UserId};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// What live connections may cost.
#[derive(Debug, Clone, Copy)]
pub struct LiveLimits {
    /// Connections of one key at the same time.
    pub connections_per_key_max: usize,
    /// Connections of all keys, and of those who have shown none yet.
    pub connections_max: usize,
    /// Meetings that one connection listens to.
    pub subscriptions_max: usize,
    /// One message from a client.
    pub message_bytes_max: usize,
    pub commands_per_sec_max: u32,
    /// A client is asked this often whether it is there, and has as long to answer.
    pub ping_every: Duration,
    /// A client that does not take what is sent within this time is closed.
    pub send_max: Duration,
    /// Whether a client may still listen is asked this often.
    pub recheck_every: Duration,
}

impl Default for LiveLimits {
    fn default() -> Self {
        LiveLimits {
            connections_per_key_max: 1000,
            connections_max: 20_000,
            subscriptions_max: 100,
            message_bytes_max: 16 * 1024,
            commands_per_sec_max: 20,
            ping_every: Duration::from_secs(20),
            send_max: Duration::from_secs(20),
            recheck_every: Duration::from_secs(30),
        }
    }
}

/// Counts live connections. Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct Live {
    pub(crate) limits: LiveLimits,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    tasks: TaskTracker,
    counts: Mutex<Counts>,
    /// Where sessions run; `None`: where they begin.
    runtime: Option<Handle>,
}

#[derive(Default)]
struct Counts {
    all: usize,
    by_key: HashMap<KeyName, usize>,
}

/// Which key: keys of an existing Vexa database have no number and count by their user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyName(pub(crate) UserId, pub(crate) TokenId);

/// There are as many connections as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// One connection's place among the others; given back when it is dropped.
pub(crate) struct Place {
    live: Live,
    key: Option<KeyName>,
}

impl Live {
    pub fn new(limits: LiveLimits) -> Self {
        Live { limits, inner: Arc::default() }
    }

    /// The same, with sessions on threads of their own: a frame for thousands of listeners does not
    /// delay those who ask for something, and its listeners are served by few threads that do not
    /// stand in each other's way.
    pub fn on(runtime: Handle, limits: LiveLimits) -> Self {
        Live { limits, inner: Arc::new(Inner { runtime: Some(runtime), ..Inner::default() }) }
    }

    /// A place for a connection that has not yet said whose it is.
    pub(crate) fn enter(&self) -> Result<Place, Full> {
        let mut counts = self.counts();
        if counts.all >= self.limits.connections_max {
            return Err(Full);
        }
        counts.all += 1;
        Ok(Place { live: self.clone(), key: None })
    }

    /// Runs the session of a socket.
    pub(crate) fn spawn(&self, session: impl Future<Output = ()> + Send + 'static) {
        let Inner { tasks, runtime, .. } = self.inner.as_ref();
        match runtime {
            Some(runtime) => tasks.spawn_on(session, runtime),
            None => tasks.spawn(session),
        };
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.inner.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// From now on the place is one of this key's.
    pub(crate) fn belong_to(&mut self, key: KeyName) -> Result<(), Full> {
        let mut counts = self.live.counts();
        let of_key = counts.by_key.entry(key).or_default();
        if *of_key >= self.live.limits.connections_per_key_max {
            return Err(Full);
        }
        *of_key += 1;
        drop(counts);
        self.key = Some(key);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.live.counts();
        counts.all = counts.all.saturating_sub(1);
        let Some(key) = self.key else { return };
        if let Entry::Occupied(mut of_key) = counts.by_key.entry(key) {
            *of_key.get_mut() -= 1;
            if *of_key.get() == 0 {
                of_key.remove();
            }
        }
    }
}

impl Default for Live {
    fn default() -> Self {
        Live::new(LiveLimits::default())
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("limits", &self.limits)
            .field("connections", &self.counts().all)
            .finish_non_exhaustive()
    }
}

/// How many commands a client has sent within the second that runs.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    second: u64,
    commands: u32,
}

impl Pace {
    /// Counts one command; `false` if it is one too many.
    pub(crate) fn count(&mut self, now: Duration, per_sec_max: u32) -> bool {
        if self.second != now.as_secs() {
            *self = Pace { second: now.as_secs(), commands: 0 };
        }
        self.commands = self.commands.saturating_add(1);
        self.commands <= per_sec_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let limits =
            LiveLimits { connections_max: 3, connections_per_key_max: 2, ..LiveLimits::default() };
        let live = Live::new(limits);
        let ada = KeyName(UserId::new(1), TokenId::new(1));
        let bob = KeyName(UserId::new(2), TokenId::new(2));
        let mut places = [live.enter().unwrap(), live.enter().unwrap(), live.enter().unwrap()];
        assert_eq!(live.enter().err(), Some(Full));
        assert_eq!(places[0].belong_to(ada), Ok(()));
        assert_eq!(places[1].belong_to(ada), Ok(()));
        assert_eq!(places[2].belong_to(ada), Err(Full));
        assert_eq!(places[2].belong_to(bob), Ok(()));
        drop(places);
        assert_eq!(live.counts().all, 0);
        assert!(live.counts().by_key.is_empty(), "nothing is kept of keys that have left");
        assert!(live.enter().unwrap().belong_to(ada).is_ok());
    }

    #[test]
    fn commands_have_a_pace() {
        let mut pace = Pace::default();
        let at = Duration::from_millis;
        assert!((0..20).all(|_| pace.count(at(1500), 20)));
        assert!(!pace.count(at(1900), 20));
        assert!(pace.count(at(2000), 20));
    }
}
