//! Who listens on what: the wished state, which the transport's task makes true.
//!
//! A channel is a topic under its name on the wire. For every channel the registry knows its
//! listeners and whether the transport confirmed that it delivers the channel (`live`).
//!
//! Invariants:
//! - A channel without listeners is not in the map, and nothing else remembers it for longer than
//!   the transport needs to stop listening on it.
//! - A listener which was handed out before its channel was live gets a `Gap` when it becomes
//!   live, because messages may have passed before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use roundsman_core::ports::{BusMessage, BusSubscription};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::limits::BusLimits;
use crate::queue::Queue;

pub(crate) type Channel = Arc<str>;

pub(crate) struct Registry {
    listener_messages_max: usize,
    listener_bytes_max: usize,
    shutdown: CancellationToken,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    listener_id_last: u64,
    channels: BTreeMap<Channel, Listeners>,
    /// Channels whose listeners came or went since the transport last looked. Collected only
    /// while somebody looks: without a connection it would grow and tell nothing.
    touched: Option<BTreeSet<Channel>>,
    /// A process-local bus has no transport to wait for.
    born_live: bool,
}

struct Listeners {
    live: bool,
    list: Vec<Listener>,
}

struct Listener {
    id: u64,
    queue: Arc<Queue>,
    /// The `subscribe` call that is still waiting for the channel to become live.
    waiting: Option<oneshot::Sender<()>>,
}

/// What the transport has to do so that it listens on what is wished.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) listen: Vec<Channel>,
    pub(crate) unlisten: Vec<Channel>,
}

impl Registry {
    /// A registry whose channels become live when a transport confirms them.
    pub(crate) fn for_transport(limits: &BusLimits, shutdown: CancellationToken) -> Arc<Self> {
        Self::new(limits, shutdown, false)
    }

    /// A registry without a transport: its channels are live at once.
    pub(crate) fn for_process(limits: &BusLimits, shutdown: CancellationToken) -> Arc<Self> {
        Self::new(limits, shutdown, true)
    }

    fn new(limits: &BusLimits, shutdown: CancellationToken, born_live: bool) -> Arc<Self> {
        Arc::new(Self {
            listener_messages_max: limits.listener_messages_max,
            listener_bytes_max: limits.listener_bytes_max,
            shutdown,
            state: Mutex::new(State { born_live, ..State::default() }),
            changed: Notify::new(),
        })
    }

    /// Adds a listener. The receiver is there if the channel is not live yet and fires once it is;
    /// whoever drops the receiver before gets a `Gap` in the subscription instead.
    pub(crate) fn add(
        self: &Arc<Self>,
        channel: &str,
    ) -> (Subscription, Option<oneshot::Receiver<()>>) {
        let channel: Channel = channel.into();
        let queue = Arc::new(Queue::new(self.listener_messages_max, self.listener_bytes_max));
        let mut state = self.lock();
        state.listener_id_last += 1;
        let id = state.listener_id_last;
        let live = state.born_live;
        let listeners = state
            .channels
            .entry(channel.clone())
            .or_insert_with(|| Listeners { live, list: Vec::new() });
        let (waiting, receiver) = if listeners.live {
            (None, None)
        } else {
            let (sender, receiver) = oneshot::channel();
            (Some(sender), Some(receiver))
        };
        listeners.list.push(Listener { id, queue: Arc::clone(&queue), waiting });
        // Nobody needs to look for a channel that is live: a stream of such calls must not keep
        // the transport from noticing that its connection is silent.
        if receiver.is_some() {
            state.touch(&channel);
            self.changed.notify_one();
        }
        drop(state);
        let subscription = Subscription { registry: Arc::clone(self), channel, id, queue };
        (subscription, receiver)
    }

    /// Hands a message to every listener of its channel.
    pub(crate) fn deliver(&self, channel: &str, message: &BusMessage) {
        let state = self.lock();
        for listener in state.channels.get(channel).map_or(&[][..], |found| &found.list) {
            listener.queue.push(message.clone());
        }
    }

    /// The number of channels that have a listener.
    pub(crate) fn channel_count(&self) -> usize {
        self.lock().channels.len()
    }

    /// Waits until listeners came or went. One caller at a time.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A connection was made which listens on nothing yet: everything wished is to be done.
    pub(crate) fn connected(&self) {
        let mut state = self.lock();
        state.touched = Some(state.channels.keys().cloned().collect());
    }

    /// The connection is gone, so no channel is live and nobody needs to wait for it.
    pub(crate) fn disconnected(&self) {
        let mut state = self.lock();
        state.touched = None;
        for listeners in state.channels.values_mut() {
            listeners.live = false;
            for listener in &mut listeners.list {
                listener.waiting = None;
            }
        }
    }

    /// Compares what is wished with what the transport listens on. Channels which are both wished
    /// and listened to (dropped and taken again between two looks) become live here.
    pub(crate) fn take_changes(&self, listening: &BTreeSet<Channel>) -> Changes {
        let mut state = self.lock();
        let touched = state.touched.as_mut().map(std::mem::take).unwrap_or_default();
        let mut changes = Changes::default();
        for channel in touched {
            match (state.channels.get_mut(&channel), listening.contains(&channel)) {
                (Some(listeners), true) => listeners.confirm(),
                (Some(_), false) => changes.listen.push(channel),
                (None, true) => changes.unlisten.push(channel),
                (None, false) => {}
            }
        }
        changes
    }

    /// The transport delivers these channels from now on.
    pub(crate) fn confirm(&self, channels: &[Channel]) {
        let mut state = self.lock();
        for channel in channels {
            if let Some(listeners) = state.channels.get_mut(channel) {
                listeners.confirm();
            }
        }
    }

    fn remove(&self, channel: &Channel, id: u64) {
        let mut state = self.lock();
        let Some(listeners) = state.channels.get_mut(channel) else {
            return;
        };
        listeners.list.retain(|listener| listener.id != id);
        if listeners.list.is_empty() {
            state.channels.remove(channel);
            state.touch(channel);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// A panic while the lock was held cannot leave the map half-changed: every change under it
    /// is complete before the next call that could panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn touch(&mut self, channel: &Channel) {
        if let Some(touched) = &mut self.touched {
            touched.insert(Arc::clone(channel));
        }
    }
}

impl Listeners {
    fn confirm(&mut self) {
        if self.live {
            return;
        }
        self.live = true;
        for listener in &mut self.list {
            // Sending succeeds only while the `subscribe` call has not returned, so that nobody
            // can expect a message from before this moment.
            let in_time = listener.waiting.take().is_some_and(|waiting| waiting.send(()).is_ok());
            if !in_time {
                listener.queue.push(BusMessage::Gap);
            }
        }
    }
}

/// One listener on one channel; dropping it removes it.
pub(crate) struct Subscription {
    registry: Arc<Registry>,
    channel: Channel,
    id: u64,
    queue: Arc<Queue>,
}

#[async_trait]
impl BusSubscription for Subscription {
    async fn next(&mut self) -> BusMessage {
        let shutdown = &self.registry.shutdown;
        shutdown.run_until_cancelled(self.queue.pop()).await.unwrap_or(BusMessage::Closed)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.registry.remove(&self.channel, self.id);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt;

    use super::*;

    const HELLO: BusMessage = BusMessage::Body(Bytes::from_static(b"hello"));

    fn registry() -> Arc<Registry> {
        Registry::for_transport(&BusLimits::default(), CancellationToken::new())
    }

    fn channels(names: &[&str]) -> Vec<Channel> {
        names.iter().map(|name| Channel::from(*name)).collect()
    }

    fn received(subscription: &mut Subscription) -> Option<BusMessage> {
        subscription.next().now_or_never()
    }

    #[test]
    fn who_waits_for_the_confirmation_gets_no_gap() {
        let registry = registry();
        registry.connected();
        let (mut subscription, live) = registry.add("a");
        let changes = registry.take_changes(&BTreeSet::new());
        assert_eq!(changes.listen, channels(&["a"]));
        registry.confirm(&changes.listen);
        assert_eq!(live.expect("not live yet").now_or_never(), Some(Ok(())));
        registry.deliver("a", &HELLO);
        assert_eq!(received(&mut subscription), Some(HELLO));
    }

    #[test]
    fn who_did_not_wait_gets_a_gap_first() {
        let registry = registry();
        registry.connected();
        let (mut subscription, live) = registry.add("a");
        drop(live);
        registry.confirm(&channels(&["a"]));
        registry.deliver("a", &HELLO);
        assert_eq!(received(&mut subscription), Some(BusMessage::Gap));
        assert_eq!(received(&mut subscription), Some(HELLO));
    }

    #[test]
    fn a_lost_connection_releases_who_waits_and_is_a_gap_later() {
        let registry = registry();
        registry.connected();
        let (mut waiting, live) = registry.add("a");
        registry.disconnected();
        assert!(matches!(live.expect("not live yet").now_or_never(), Some(Err(_))));
        assert_eq!(received(&mut waiting), None);
        registry.connected();
        let changes = registry.take_changes(&BTreeSet::new());
        registry.confirm(&changes.listen);
        assert_eq!(received(&mut waiting), Some(BusMessage::Gap));
        // The second listener of a live channel waits for nothing and has missed nothing.
        let (mut second, live) = registry.add("a");
        assert!(live.is_none());
        assert_eq!(received(&mut second), None);
    }

    #[test]
    fn a_channel_taken_again_before_it_was_given_up_is_live_at_once() {
        let registry = registry();
        registry.connected();
        let listening = BTreeSet::from([Channel::from("a")]);
        let (first, _) = registry.add("a");
        registry.confirm(&channels(&["a"]));
        drop(first);
        let (mut second, live) = registry.add("a");
        assert_eq!(registry.take_changes(&listening), Changes::default());
        assert_eq!(live.expect("not live yet").now_or_never(), Some(Ok(())));
        assert_eq!(received(&mut second), None);
        drop(second);
        assert_eq!(registry.take_changes(&listening).unlisten, channels(&["a"]));
    }

    #[test]
    fn an_outage_remembers_nothing_that_came_and_went() {
        let registry = registry();
        registry.connected();
        registry.disconnected();
        for number in 0..1000 {
            drop(registry.add(&number.to_string()));
        }
        assert_eq!(registry.channel_count(), 0);
        assert!(registry.lock().touched.is_none());
        registry.connected();
        assert_eq!(registry.take_changes(&BTreeSet::new()), Changes::default());
    }
}
