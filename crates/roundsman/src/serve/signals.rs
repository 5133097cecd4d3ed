//! The signals that end a server.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;

/// SIGTERM and SIGINT, from when this was made on.
pub(super) struct Signals {
    both: Mutex<(Signal, Signal)>,
}

impl Signals {
    pub(super) fn listen() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        Ok(Signals { both: Mutex::new((terminate, interrupt)) })
    }

    /// Waits for a signal: the wish to end in order.
    pub(super) async fn first(&self) {
        self.next().await;
    }

    /// Waits for one more: the wish to end now.
    pub(super) async fn second(&self) {
        self.next().await;
    }

    async fn next(&self) {
        let mut both = self.both.lock().await;
        let (terminate, interrupt) = &mut *both;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
