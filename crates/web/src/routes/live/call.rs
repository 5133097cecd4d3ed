//! Knows whether something that is waited for has called, so that it is not asked in vain: a task that
//! waits for several things is woken by any of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use futures_util::task::AtomicWaker;

/// The waker of one of the things that a task waits for.
pub(super) struct Call {
    called: AtomicBool,
    task: AtomicWaker,
}

impl Default for Call {
    /// What was never asked has never been able to call.
    fn default() -> Self {
        Call { called: AtomicBool::new(true), task: AtomicWaker::new() }
    }
}

impl Call {
    /// Whether there was a call since the last one that was heard. `task` is woken by the next.
    pub(super) fn is_heard(&self, task: &Waker) -> bool {
        self.task.register(task);
        self.called.swap(false, Ordering::AcqRel)
    }

    /// There may be more where the last answer came from.
    pub(super) fn repeat(&self) {
        self.called.store(true, Ordering::Release);
    }
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.called.store(true, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicU32);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_call_is_heard_once_and_wakes_the_task() {
        let (call, task) = (Arc::new(Call::default()), Arc::new(Task::default()));
        let (waker, of_task) = (Waker::from(call.clone()), Waker::from(task.clone()));
        assert!(call.is_heard(&of_task), "what was never asked is asked");
        assert!(!call.is_heard(&of_task));
        waker.wake_by_ref();
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert!(call.is_heard(&of_task) && !call.is_heard(&of_task));
        call.repeat();
        assert!(call.is_heard(&of_task), "the task is running, so nobody wakes it");
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
    }
}
