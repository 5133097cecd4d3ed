//! Real time: the one place that reads the clock and sleeps.

use std::time::{Duration, Instant};

/// An instant that never goes back.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that sleeps")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
