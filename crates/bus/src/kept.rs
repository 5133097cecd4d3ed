//! Keeps one connection up: connect, watch, replace.
//!
//! Invariant: whoever wants the connection gets the one that worked last, or nothing at once. It is
//! the task that waits for a server that is away, never a caller.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::limits::BusLimits;

/// Why a connection could not be made or used; only for people to read.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Somebody whose connection is kept up by [`run`].
pub(crate) trait Keeper: Send + Sync + 'static {
    /// The name shown to operators.
    const NAME: &'static str;
    /// A cheap handle. Dropping the last clone closes the connection.
    type Connection: Clone + Send + Sync + 'static;

    fn kept(&self) -> &Kept<Self::Connection>;

    fn limits(&self) -> &BusLimits;

    fn shutdown(&self) -> &CancellationToken;

    fn connect(&self) -> impl Future<Output = Result<Self::Connection, Failure>> + Send;

    /// Succeeds if the server answers on this connection.
    fn ping(connection: &Self::Connection) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Is told when the connection came up or went down.
    fn changed(&self, up: bool);
}

/// The connection, if there is one now.
pub(crate) struct Kept<C> {
    connection: Mutex<Option<C>>,
    suspected: Notify,
    given_up: AtomicBool,
}

impl<C> Default for Kept<C> {
    fn default() -> Self {
        Self {
            connection: Mutex::new(None),
            suspected: Notify::new(),
            given_up: AtomicBool::new(false),
        }
    }
}

impl<C: Clone> Kept<C> {
    pub(crate) fn get(&self) -> Option<C> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the task to look whether the connection still answers.
    pub(crate) fn suspect(&self) {
        self.suspected.notify_one();
    }

    /// Asks the task for another connection: this one answers, but not as it should.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        self.suspected.notify_one();
    }

    fn set(&self, connection: Option<C>) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = connection;
    }
}

/// Runs until shutdown. `tried` fires after the first attempt to connect.
pub(crate) async fn run<K: Keeper>(
    keeper: Arc<K>,
    mut backoff: Backoff,
    tried: oneshot::Sender<()>,
) {
    let mut tried = Some(tried);
    let shutdown = keeper.shutdown().clone();
    loop {
        let mut worked = false;
        let serve = serve(&*keeper, &mut tried, &mut worked);
        let lost = shutdown.run_until_cancelled(serve).await;
        keeper.kept().set(None);
        keeper.changed(false);
        // Dropping the sender releases whoever waits for the first attempt.
        drop(tried.take());
        let Some(failure) = lost else { return };
        tracing::debug!(server = K::NAME, %failure, "not connected");
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
async fn serve<K: Keeper>(
    keeper: &K,
    tried: &mut Option<oneshot::Sender<()>>,
    worked: &mut bool,
) -> Failure {
    let (kept, limits) = (keeper.kept(), keeper.limits());
    let connection = match timeout(limits.connect_max(), keeper.connect()).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(failure)) => return failure,
        Err(elapsed) => return elapsed.into(),
    };
    kept.given_up.store(false, Ordering::Relaxed);
    kept.set(Some(connection.clone()));
    keeper.changed(true);
    if let Some(tried) = tried.take() {
        let _ = tried.send(());
    }
    loop {
        // A failed call or mere silence: both ask the same question.
        let _ = timeout(limits.idle_max(), kept.suspected.notified()).await;
        if kept.given_up.load(Ordering::Relaxed) {
            return "it did not answer as it should".into();
        }
        match timeout(limits.answer_max(), K::ping(&connection)).await {
            Ok(Ok(())) => *worked = true,
            Ok(Err(failure)) => return failure,
            Err(elapsed) => return elapsed.into(),
        }
    }
}
