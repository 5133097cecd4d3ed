//! What waits for one member of a room.
//!
//! Invariant: it is bounded. Whoever does not take their updates loses all of them and is told to join
//! again, which brings what they lack at once; of presence the oldest goes first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// Something for a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mail {
    Update(Bytes),
    Presence(Bytes),
    /// What the member has and what we have may differ by more than we know: join again.
    Rejoin(&'static str),
    /// Look whether the member may still be here.
    Recheck,
}

/// What waits. Whoever owns it is woken through a bell that it may share with others.
#[derive(Debug)]
pub struct Mailbox {
    queue: Mutex<Queue>,
    bell: Arc<Notify>,
    bytes_max: usize,
    /// What was taken in up to here was in the document when its owner came.
    begins_after: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    mail: VecDeque<Mail>,
    bytes: usize,
    recheck: bool,
    /// Nothing more is put in: the member must join again.
    rejoin: Option<&'static str>,
}

impl Mailbox {
    pub(super) fn new(bell: Arc<Notify>, bytes_max: usize) -> Self {
        Mailbox { queue: Mutex::default(), bell, bytes_max, begins_after: AtomicU64::new(0) }
    }

    pub(super) fn begin_after(&self, import: u64) {
        self.begins_after.store(import, Ordering::Relaxed);
    }

    /// Whether its owner came before this was taken in.
    pub(super) fn lacks(&self, import: u64) -> bool {
        import > self.begins_after.load(Ordering::Relaxed)
    }

    pub(super) fn update(&self, update: &Bytes) {
        let mut queue = self.queue();
        if queue.rejoin.is_some() {
            return;
        }
        // One that is larger than all that may wait is let through when nothing waits.
        if queue.bytes > 0 && queue.bytes + update.len() > self.bytes_max {
            queue.give_up("too slow");
        } else {
            queue.bytes += update.len();
            queue.mail.push_back(Mail::Update(update.clone()));
        }
        drop(queue);
        self.bell.notify_one();
    }

    pub(super) fn presence(&self, update: &Bytes) {
        let mut queue = self.queue();
        if queue.rejoin.is_some() {
            return;
        }
        queue.bytes += update.len();
        queue.mail.push_back(Mail::Presence(update.clone()));
        while queue.bytes > self.bytes_max {
            let Some(Mail::Presence(oldest)) = queue.mail.front() else { break };
            let weight = oldest.len();
            queue.bytes -= weight;
            queue.mail.pop_front();
        }
        drop(queue);
        self.bell.notify_one();
    }

    pub(super) fn recheck(&self) {
        self.queue().recheck = true;
        self.bell.notify_one();
    }

    pub(super) fn rejoin(&self, why: &'static str) {
        self.queue().give_up(why);
        self.bell.notify_one();
    }

    /// The next piece of mail.
    pub fn take(&self) -> Option<Mail> {
        let mut queue = self.queue();
        if let Some(why) = queue.rejoin {
            return Some(Mail::Rejoin(why));
        }
        if std::mem::take(&mut queue.recheck) {
            return Some(Mail::Recheck);
        }
        let mail = queue.mail.pop_front()?;
        if let Mail::Update(bytes) | Mail::Presence(bytes) = &mail {
            queue.bytes -= bytes.len();
        }
        Some(mail)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn give_up(&mut self, why: &'static str) {
        self.mail.clear();
        self.bytes = 0;
        self.rejoin.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox() -> Mailbox {
        Mailbox::new(Arc::default(), 10)
    }

    fn bytes(count: usize) -> Bytes {
        vec![7; count].into()
    }

    #[test]
    fn whoever_is_too_slow_joins_again() {
        let mailbox = mailbox();
        mailbox.update(&bytes(50));
        assert_eq!(mailbox.take(), Some(Mail::Update(bytes(50))), "however large, if it is alone");
        mailbox.update(&bytes(6));
        mailbox.update(&bytes(6));
        assert_eq!(mailbox.take(), Some(Mail::Rejoin("too slow")));
        mailbox.update(&bytes(1));
        assert_eq!(mailbox.take(), Some(Mail::Rejoin("too slow")));
    }

    #[test]
    fn of_presence_the_oldest_goes_first() {
        let mailbox = mailbox();
        for count in [4, 5, 6] {
            mailbox.presence(&bytes(count));
        }
        assert_eq!(mailbox.take(), Some(Mail::Presence(bytes(6))));
        assert_eq!(mailbox.take(), None);
        mailbox.recheck();
        mailbox.presence(&bytes(1));
        assert_eq!(mailbox.take(), Some(Mail::Recheck));
        assert_eq!(mailbox.take(), Some(Mail::Presence(bytes(1))));
    }
}
