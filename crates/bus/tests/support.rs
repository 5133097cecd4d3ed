//! Waiting for what follows a fault, with a limit on every wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use roundsman_bus::{BusLimits, BusStatus};
use roundsman_core::ports::{BusMessage, BusSubscription, Random};
use roundsman_testkit::SeededRandom;
use tokio::sync::watch;
use tokio::time::timeout;

/// Longer than any reconnect of these tests takes on a busy machine.
const WAIT_SECS_MAX: u64 = 30;

pub(crate) async fn bounded<T>(waits: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(WAIT_SECS_MAX), waits).await.expect("within the time limit")
}

/// The time in which every call of the bus must return, whatever the server does: its limit of
/// two seconds and one for a busy machine.
pub(crate) async fn promptly<T>(call: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(3), call).await.expect("no caller hangs")
}

/// Limits with which the tests need not wait long for a silent connection to be asked.
pub(crate) fn quick_limits() -> BusLimits {
    BusLimits { idle_secs_max: 1, reconnect_ms_max: 500, ..BusLimits::default() }
}

pub(crate) fn test_random() -> Arc<dyn Random> {
    Arc::new(SeededRandom::new(1))
}

/// A name that no other test of this run and no other run on the same server uses.
pub(crate) fn unique_name() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn until_connected(status: &mut watch::Receiver<BusStatus>) {
    let connected = status.wait_for(|status| status.can_publish && status.can_listen);
    bounded(connected).await.expect("the bus lives");
}

pub(crate) async fn until_disconnected(status: &mut watch::Receiver<BusStatus>) {
    let disconnected = status.wait_for(|status| !status.can_publish && !status.can_listen);
    bounded(disconnected).await.expect("the bus lives");
}

pub(crate) async fn expect_gap(listener: &mut Box<dyn BusSubscription>) {
    assert_eq!(bounded(listener.next()).await, BusMessage::Gap);
}

pub(crate) async fn expect_body(listener: &mut Box<dyn BusSubscription>, body: &'static str) {
    let message = bounded(listener.next()).await;
    assert_eq!(message, BusMessage::Body(Bytes::from_static(body.as_bytes())));
}

/// Reads until `body` comes; says whether a gap came before it.
pub(crate) async fn gap_before(
    listener: &mut Box<dyn BusSubscription>,
    body: &'static str,
) -> bool {
    let mut gap = false;
    loop {
        match bounded(listener.next()).await {
            BusMessage::Gap => gap = true,
            BusMessage::Body(found) if found == body => return gap,
            BusMessage::Body(_) => {}
            BusMessage::Closed => panic!("closed without a shutdown"),
        }
    }
}
