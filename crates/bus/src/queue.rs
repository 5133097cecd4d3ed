//! What one listener has not received yet, bounded in messages and in bytes.
//!
//! A queue per listener instead of one broadcast channel per topic: a broadcast channel allocates
//! its full capacity for every topic and is bounded in messages only, which for messages of a
//! mebibyte is no bound worth having.
//!
//! Invariant: a queue that overflows forgets everything and says `Gap`; what is published
//! afterwards follows that `Gap` in order.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use roundsman_core::ports::BusMessage;
use tokio::sync::Notify;

pub(crate) struct Queue {
    messages_max: usize,
    bytes_max: usize,
    pending: Mutex<Pending>,
    arrived: Notify,
}

#[derive(Default)]
struct Pending {
    messages: VecDeque<BusMessage>,
    bytes: usize,
}

impl Queue {
    pub(crate) fn new(messages_max: usize, bytes_max: usize) -> Self {
        Self { messages_max, bytes_max, pending: Mutex::default(), arrived: Notify::new() }
    }

    /// Appends a message without ever waiting for the listener.
    pub(crate) fn push(&self, message: BusMessage) {
        let bytes = size_of_body(&message);
        {
            let mut pending = self.lock();
            let full = pending.messages.len() >= self.messages_max
                || pending.bytes.saturating_add(bytes) > self.bytes_max;
            if full {
                pending.messages.clear();
                pending.bytes = 0;
                pending.messages.push_back(BusMessage::Gap);
            }
            // Several gaps in a row ask for the same thing, and a message which alone is over the
            // limit has already become a gap.
            let said =
                message == BusMessage::Gap && pending.messages.back() == Some(&BusMessage::Gap);
            if !said && bytes <= self.bytes_max {
                pending.bytes += bytes;
                pending.messages.push_back(message);
            }
        }
        self.arrived.notify_one();
    }

    /// Waits for the next message. Cancel-safe: a message leaves the queue only when it is
    /// returned, and `notify_one` keeps its permit for the next call.
    pub(crate) async fn pop(&self) -> BusMessage {
        loop {
            if let Some(message) = self.take_first() {
                return message;
            }
            self.arrived.notified().await;
        }
    }

    fn take_first(&self) -> Option<BusMessage> {
        let mut pending = self.lock();
        let message = pending.messages.pop_front()?;
        pending.bytes -= size_of_body(&message);
        Some(message)
    }

    /// A panic while the lock was held leaves at worst a message less in a queue of losable ones.
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size_of_body(message: &BusMessage) -> usize {
    match message {
        BusMessage::Body(body) => body.len(),
        BusMessage::Gap | BusMessage::Closed => 0,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt;

    use super::*;

    fn body(length: usize) -> BusMessage {
        BusMessage::Body(Bytes::from(vec![b'x'; length]))
    }

    fn drain(queue: &Queue) -> Vec<BusMessage> {
        std::iter::from_fn(|| queue.pop().now_or_never()).collect()
    }

    #[test]
    fn overflow_in_messages_becomes_one_gap() {
        let queue = Queue::new(3, 1000);
        (1..=4).for_each(|length| queue.push(body(length)));
        assert_eq!(drain(&queue), [BusMessage::Gap, body(4)]);
        queue.push(body(5));
        assert_eq!(drain(&queue), [body(5)]);
    }

    #[test]
    fn overflow_in_bytes_becomes_one_gap() {
        let queue = Queue::new(1000, 10);
        for length in [6, 4, 1] {
            queue.push(body(length));
        }
        assert_eq!(drain(&queue), [BusMessage::Gap, body(1)]);
    }

    #[test]
    fn a_message_over_the_limit_is_a_gap_by_itself() {
        let queue = Queue::new(1000, 10);
        queue.push(body(11));
        queue.push(body(10));
        assert_eq!(drain(&queue), [BusMessage::Gap, body(10)]);
    }

    #[test]
    fn gaps_keep_their_place_and_do_not_pile_up() {
        let queue = Queue::new(1000, 1000);
        queue.push(body(1));
        (0..50).for_each(|_| queue.push(BusMessage::Gap));
        queue.push(body(2));
        assert_eq!(drain(&queue), [body(1), BusMessage::Gap, body(2)]);
    }

    #[test]
    fn reading_frees_room() {
        let queue = Queue::new(2, 8);
        for _ in 0..100 {
            queue.push(body(8));
            assert_eq!(drain(&queue), [body(8)]);
        }
    }
}
