//! Messages on their way to the bus.
//!
//! Invariants: nobody waits for the bus, so that whoever has something to tell goes on while it
//! hangs; messages of one lane are handed over one after the other; a message that is not sent is
//! counted and forgotten, because the database has what it said.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::join_all;
use roundsman_core::ports::{Bus, BusError};
use tokio_util::task::TaskTracker;

use crate::metrics::Metrics;

/// Messages that wait for the bus; further ones are dropped and counted.
const MESSAGES_QUEUED_MAX: usize = 4096;
/// Their bodies together.
const BYTES_QUEUED_MAX: usize = 64 * 1024 * 1024;
/// Messages that are taken from the queue at once, and sent before the next are.
const MESSAGES_PER_ROUND_MAX: usize = 64;

/// What its sender wants to know of a message.
pub(crate) trait Cargo: Send + Sync + 'static {
    /// Messages of one lane stay in order; those of others may overtake them.
    fn lane(&self) -> i64;

    /// What is sent if the bus cannot carry the body.
    fn stand_in(&self) -> Option<Bytes>;

    /// It was handed to the bus, or it never will be.
    fn ended(self, sent: bool);
}

/// Nothing: all stay in order.
impl Cargo for () {
    fn lane(&self) -> i64 {
        0
    }

    fn stand_in(&self) -> Option<Bytes> {
        None
    }

    fn ended(self, _sent: bool) {}
}

/// One message.
pub(crate) struct Message<C> {
    pub(crate) topic: String,
    pub(crate) body: Bytes,
    pub(crate) cargo: C,
}

/// A queue in front of the bus. Cheap to clone.
pub(crate) struct Outgoing<C> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    bus: Arc<dyn Bus>,
    metrics: Metrics,
    tasks: TaskTracker,
    queue: Mutex<Queue<C>>,
}

struct Queue<C> {
    messages: VecDeque<Message<C>>,
    bytes: usize,
    /// A task is sending them.
    sending: bool,
}

impl<C> Clone for Outgoing<C> {
    fn clone(&self) -> Self {
        Outgoing { inner: self.inner.clone() }
    }
}

impl<C: Cargo> Outgoing<C> {
    /// Sends on tasks of `tasks`, each of which ends when nothing waits, so that a shutdown can wait
    /// for them.
    pub(crate) fn new(bus: Arc<dyn Bus>, metrics: Metrics, tasks: TaskTracker) -> Self {
        let queue = Mutex::new(Queue { messages: VecDeque::new(), bytes: 0, sending: false });
        Outgoing { inner: Arc::new(Inner { bus, metrics, tasks, queue }) }
    }

    pub(crate) fn send(&self, message: Message<C>) {
        let mut queue = self.queue();
        let bytes = queue.bytes + message.body.len();
        if queue.messages.len() >= MESSAGES_QUEUED_MAX || bytes > BYTES_QUEUED_MAX {
            drop(queue);
            self.inner.metrics.bus_failed();
            return message.cargo.ended(false);
        }
        queue.bytes = bytes;
        queue.messages.push_back(message);
        if !std::mem::replace(&mut queue.sending, true) {
            drop(queue);
            self.inner.tasks.spawn(self.clone().send_all());
        }
    }

    /// Sends what waits, lanes beside each other: a round trip for every message would be slower than
    /// what is told.
    async fn send_all(self) {
        let Inner { bus, metrics, .. } = self.inner.as_ref();
        loop {
            let messages = self.next();
            if messages.is_empty() {
                return;
            }
            let mut lanes: BTreeMap<i64, Vec<Message<C>>> = BTreeMap::new();
            for message in messages {
                lanes.entry(message.cargo.lane()).or_default().push(message);
            }
            join_all(lanes.into_values().map(|lane| send_in_turn(bus, metrics, lane))).await;
        }
    }

    /// Takes some messages; if there are none, nobody is sending any more.
    fn next(&self) -> Vec<Message<C>> {
        let mut queue = self.queue();
        let count = queue.messages.len().min(MESSAGES_PER_ROUND_MAX);
        let next: Vec<Message<C>> = queue.messages.drain(..count).collect();
        queue.bytes -= next.iter().map(|message| message.body.len()).sum::<usize>();
        queue.sending = !next.is_empty();
        next
    }

    fn queue(&self) -> MutexGuard<'_, Queue<C>> {
        self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn send_in_turn<C: Cargo>(bus: &Arc<dyn Bus>, metrics: &Metrics, messages: Vec<Message<C>>) {
    for Message { topic, body, cargo } in messages {
        let handed = hand_over(bus.as_ref(), &topic, body, &cargo).await;
        if let Err(error) = &handed {
            metrics.bus_failed();
            tracing::debug!(%error, "a message was not sent; the database has what it said");
        }
        cargo.ended(handed.is_ok());
    }
}

/// Hands one message to the bus, or what stands for it if it is too large.
pub(crate) async fn hand_over<C: Cargo>(
    bus: &dyn Bus,
    topic: &str,
    body: Bytes,
    cargo: &C,
) -> Result<(), BusError> {
    match bus.publish(topic, body).await {
        Err(error @ BusError::TooLarge { .. }) => match cargo.stand_in() {
            Some(small) => bus.publish(topic, small).await,
            None => Err(error),
        },
        handed => handed,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use async_trait::async_trait;
    use roundsman_core::ports::BusSubscription;

    use super::*;

    /// Takes nothing until it is opened, and nothing that is longer than four bytes.
    struct Gated {
        gate: tokio::sync::Semaphore,
        published: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Bus for Gated {
        async fn publish(&self, topic: &str, body: Bytes) -> Result<(), BusError> {
            let _open = self.gate.acquire().await;
            if body.len() > 4 {
                return Err(BusError::TooLarge { bytes: body.len(), bytes_max: 4 });
            }
            let body = String::from_utf8_lossy(&body).into_owned();
            self.published.lock().unwrap().push(format!("{topic}={body}"));
            Ok(())
        }

        async fn subscribe(&self, _: &str) -> Result<Box<dyn BusSubscription>, BusError> {
            Err(BusError::Unavailable("nobody listens".to_owned()))
        }

        fn connected(&self) -> bool {
            true
        }

        fn name(&self) -> &'static str {
            "gated"
        }
    }

    struct Told(usize, mpsc::Sender<(usize, bool)>, bool);

    const LANES: usize = 7;

    impl Cargo for Told {
        fn lane(&self) -> i64 {
            i64::try_from(self.0 % LANES).unwrap()
        }

        fn stand_in(&self) -> Option<Bytes> {
            self.2.then(|| Bytes::from_static(b"!"))
        }

        fn ended(self, sent: bool) {
            self.1.send((self.0, sent)).unwrap();
        }
    }

    fn gated() -> (Arc<Gated>, Outgoing<Told>, TaskTracker) {
        let bus =
            Arc::new(Gated { gate: tokio::sync::Semaphore::new(0), published: Mutex::default() });
        let tasks = TaskTracker::new();
        let outgoing = Outgoing::new(bus.clone(), Metrics::default(), tasks.clone());
        (bus, outgoing, tasks)
    }

    fn message(topic: usize, body: &'static str, cargo: Told) -> Message<Told> {
        Message { topic: topic.to_string(), body: Bytes::from_static(body.as_bytes()), cargo }
    }

    #[tokio::test]
    async fn a_bus_that_hangs_holds_nobody_up_and_gets_each_lane_in_order() {
        let (bus, outgoing, tasks) = gated();
        let (ends, ended) = mpsc::channel();
        for number in 0..MESSAGES_QUEUED_MAX {
            outgoing.send(message(number, "x", Told(number, ends.clone(), false)));
        }
        outgoing.send(message(0, "x", Told(usize::MAX, ends.clone(), false)));
        assert_eq!(ended.try_recv(), Ok((usize::MAX, false)), "there is no room for it");
        bus.gate.add_permits(1000);
        tasks.close();
        tasks.wait().await;
        let ends: Vec<(usize, bool)> = ended.try_iter().collect();
        let published = bus.published.lock().unwrap().clone();
        for lane in 0..LANES {
            let ours: Vec<usize> = (lane..MESSAGES_QUEUED_MAX).step_by(LANES).collect();
            let ended: Vec<_> = ends.iter().filter(|(n, _)| n % LANES == lane).collect();
            assert!(ended.iter().all(|(_, sent)| *sent));
            assert_eq!(ended.iter().map(|(n, _)| *n).collect::<Vec<_>>(), ours);
            let of_lane = |text: &&String| {
                text.trim_end_matches("=x").parse::<usize>().unwrap() % LANES == lane
            };
            let published: Vec<&String> = published.iter().filter(of_lane).collect();
            let expected: Vec<String> = ours.iter().map(|n| format!("{n}=x")).collect();
            assert_eq!(published, expected.iter().collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn what_is_too_large_is_stood_in_for() {
        let (bus, outgoing, tasks) = gated();
        bus.gate.add_permits(10);
        let (ends, ended) = mpsc::channel();
        outgoing.send(message(1, "much too long", Told(1, ends.clone(), true)));
        outgoing.send(message(2, "much too long", Told(2, ends, false)));
        tasks.close();
        tasks.wait().await;
        assert_eq!(ended.try_iter().collect::<Vec<_>>(), [(1, true), (2, false)]);
        assert_eq!(*bus.published.lock().unwrap(), ["1=!"]);
    }
}
