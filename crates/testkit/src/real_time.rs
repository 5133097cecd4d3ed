//! The only place of the testkit that reads real time or waits for it to pass.
//!
//! Everything else asks here, so that one look shows why: bounded polling of other processes, and
//! the delays that the fault proxy is there to make.

use std::time::Duration;

pub(crate) use tokio::time::Instant;

#[expect(clippy::disallowed_methods, reason = "limits on other processes are in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the pause between two looks, or a network's delay")]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

#[expect(clippy::disallowed_methods, reason = "a network's delay")]
pub(crate) async fn pause_until(instant: Instant) {
    tokio::time::sleep_until(instant).await;
}

#[expect(clippy::disallowed_methods, reason = "a destructor cannot wait for a future")]
pub(crate) fn pause_thread(duration: Duration) {
    std::thread::sleep(duration);
}
