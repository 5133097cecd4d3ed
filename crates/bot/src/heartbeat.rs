//! The heartbeat: that the bot lives, how far it has heard, and what it is wanted to do.
//!
//! A heartbeat that fails is not retried as such: the next one says the same and more, and comes
//! sooner. It goes out whatever else is waiting to be reported.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::callback::Callback;
use crate::post::{Delivered, Post};

/// After the first failure; a server that is restarted is back in about that time.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The part of the interval that is drawn, so that bots started together do not beat together.
const JITTER_DIVISOR: u32 = 10;

/// What the bot says of itself with every beat. Both only grow.
#[derive(Debug, Default)]
pub(crate) struct Vitals(Mutex<(Option<u64>, Option<u32>)>);

pub(crate) struct Heartbeat {
    post: Arc<Post>,
    vitals: Arc<Vitals>,
    every: Duration,
    backoff: Backoff,
}

impl Vitals {
    pub(crate) fn media_progress(&self, total: u64) {
        let mut vitals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        vitals.0 = vitals.0.max(Some(total));
    }

    pub(crate) fn applied(&self, version: u32) {
        let mut vitals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        vitals.1 = vitals.1.max(Some(version));
    }

    fn callback(&self) -> Callback {
        let (media_progress, config_version) =
            *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Callback::Heartbeat { media_progress, config_version }
    }
}

impl Heartbeat {
    pub(crate) fn new(post: Arc<Post>, vitals: Arc<Vitals>, every: Duration) -> Self {
        Heartbeat { post, vitals, every, backoff: Backoff::new(RETRY_FIRST, every) }
    }

    /// One beat. Says after what time to beat again, or that nobody listens.
    pub(crate) async fn tick(&mut self) -> Option<Duration> {
        let random = self.post.random.as_ref();
        match self.post.attempt(&self.vitals.callback()).await {
            Ok(Delivered::Gone(_)) => None,
            Ok(_) => {
                self.backoff.reset();
                let part = self.every / JITTER_DIVISOR;
                let part_ms = u64::try_from(part.as_millis()).unwrap_or(u64::MAX);
                Some(self.every.saturating_sub(Duration::from_millis(random.below(part_ms))))
            }
            Err(failure) => {
                tracing::debug!(reason = failure.reason, "a heartbeat did not arrive");
                let own = self.backoff.next(random);
                Some(own.max(failure.retry_after.unwrap_or_default()).min(self.every))
            }
        }
    }

    /// Beats until it is stopped; `hurry` makes the next beat come now.
    pub(crate) async fn run(mut self, stop: CancellationToken, hurry: Arc<Notify>) {
        let clock = self.post.clock.clone();
        let beating = async {
            while let Some(rest) = self.tick().await {
                tokio::select! {
                    () = clock.pause(rest) => {}
                    () = hurry.notified() => {}
                }
            }
        };
        stop.run_until_cancelled(beating).await;
    }
}
