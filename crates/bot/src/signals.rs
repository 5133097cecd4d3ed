//! Signals that ask a bot to leave. From the moment they are listened for, they end nothing by
//! themselves: the bot leaves in good order, and whoever cannot wait kills it.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::wishes::{LeaveCause, Wishes};

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Signals { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Turns every signal into the wish to leave.
    pub(crate) async fn run(mut self, wishes: Wishes) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => wishes.leave(LeaveCause::Terminated),
                _ = self.interrupt.recv() => wishes.leave(LeaveCause::Interrupted),
            }
        }
    }
}
