//! Keeps the publishing connection: connect, watch, replace.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Failure, Publisher, Shared, Transport};
use crate::backoff::Backoff;

/// The publishing connection, if there is one now.
pub(super) struct Slot<P>(Mutex<Option<P>>);

impl<P> Default for Slot<P> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<P: Clone> Slot<P> {
    pub(super) fn get(&self) -> Option<P> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, publisher: Option<P>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = publisher;
    }
}

/// Runs until shutdown. `tried` fires after the first attempt to connect.
pub(super) async fn run<T: Transport>(
    shared: Arc<Shared<T>>,
    mut backoff: Backoff,
    tried: oneshot::Sender<()>,
) {
    let mut tried = Some(tried);
    let shutdown = shared.shutdown.clone();
    loop {
        let mut worked = false;
        let lost = shutdown.run_until_cancelled(serve(&shared, &mut tried, &mut worked)).await;
        shared.publisher.set(None);
        shared.status.send_modify(|status| status.can_publish = false);
        // Dropping the sender releases whoever waits for the first attempt.
        drop(tried.take());
        let Some(failure) = lost else { return };
        tracing::debug!(bus = T::NAME, %failure, "no publishing connection");
        if worked {
            backoff.reset();
        }
        if backoff.pause(&shutdown).await.is_break() {
            return;
        }
    }
}

/// One connection from beginning to end; returns why it ended. `worked` becomes true when the
/// connection answered after it was made, so that a server which accepts and hangs up is not
/// besieged.
async fn serve<T: Transport>(
    shared: &Shared<T>,
    tried: &mut Option<oneshot::Sender<()>>,
    worked: &mut bool,
) -> Failure {
    let publisher = match connect(shared).await {
        Ok(publisher) => publisher,
        Err(failure) => return failure,
    };
    shared.publisher.set(Some(publisher.clone()));
    shared.status.send_modify(|status| status.can_publish = true);
    if let Some(tried) = tried.take() {
        let _ = tried.send(());
    }
    loop {
        // A failed publish, a lost listener or mere silence: all three ask the same question.
        let _ = timeout(shared.limits.idle_max(), shared.publisher_suspected.notified()).await;
        match timeout(shared.limits.answer_max(), publisher.ping()).await {
            Ok(Ok(())) => *worked = true,
            Ok(Err(failure)) => return failure,
            Err(elapsed) => return elapsed.into(),
        }
    }
}

async fn connect<T: Transport>(shared: &Shared<T>) -> Result<T::Publisher, Failure> {
    timeout(shared.limits.connect_max(), shared.transport.connect_publisher()).await?
}
