//! Keeps the listening connection and makes it listen on what the registry wishes.
//!
//! The task compares and corrects instead of obeying commands: a subscription that came and went
//! while the server was away leaves nothing to undo, and a reconnect is the ordinary comparison
//! with a connection that listens on nothing.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Arrival, Control, Shared, Transport};
use crate::backoff::Backoff;
use crate::kept::Failure;
use crate::registry::Channel;

/// Channels per command: keeps one command well below any limit of a server, and its answer
/// within the time limit, however many topics are taken up again after a reconnect.
const CHANNELS_PER_COMMAND_MAX: usize = 256;

/// Runs until shutdown. `tried` fires after the first attempt to connect.
pub(super) async fn run<T: Transport>(
    shared: Arc<Shared<T>>,
    mut backoff: Backoff,
    tried: oneshot::Sender<()>,
) {
    let mut tried = Some(tried);
    let mut outage_reported = false;
    loop {
        let mut worked = false;
        let connection = connect_and_listen(&shared, &mut tried, &mut worked);
        let lost = shared.shutdown.run_until_cancelled(connection).await;
        shared.registry.disconnected();
        let was_up = shared.status.borrow().can_listen;
        shared.status.send_modify(|status| {
            status.can_listen = false;
            status.topics = 0;
        });
        // Dropping the sender releases whoever waits for the first attempt.
        drop(tried.take());
        let Some(failure) = lost else { return };
        // One warning per outage; an outage of an hour is no reason for a thousand of them.
        if was_up || !outage_reported {
            tracing::warn!(bus = T::NAME, %failure, "bus connection lost; reconnecting");
            outage_reported = true;
        } else {
            tracing::debug!(bus = T::NAME, %failure, "bus still not connected");
        }
        // A server that hung up on the listener has most likely hung up on the publisher, which
        // would notice only at its next publish.
        shared.publisher.suspect();
        if worked {
            backoff.reset();
        }
        if backoff.pause(&shared.shutdown).await.is_break() {
            return;
        }
    }
}

/// One connection from beginning to end; returns why it ended. `worked` becomes true when the
/// connection brought a message or answered a ping.
async fn connect_and_listen<T: Transport>(
    shared: &Shared<T>,
    tried: &mut Option<oneshot::Sender<()>>,
    worked: &mut bool,
) -> Failure {
    let connect = timeout(shared.limits.connect_max(), shared.transport.connect_listener());
    let (control, arrivals) = match connect.await {
        Ok(Ok(halves)) => halves,
        Ok(Err(failure)) => return failure,
        Err(elapsed) => return elapsed.into(),
    };
    shared.registry.connected();
    let mut connection = Connection { shared, control, arrivals, listening: BTreeSet::new() };
    if let Err(failure) = connection.correct().await {
        return failure;
    }
    shared.status.send_modify(|status| status.can_listen = true);
    tracing::info!(bus = T::NAME, topics = connection.listening.len(), "bus connected");
    if let Some(tried) = tried.take() {
        let _ = tried.send(());
    }
    loop {
        if let Err(failure) = connection.step(worked).await {
            return failure;
        }
    }
}

struct Connection<'a, T: Transport> {
    shared: &'a Shared<T>,
    control: T::Control,
    arrivals: T::Arrivals,
    /// What the server confirmed that it delivers.
    listening: BTreeSet<Channel>,
}

enum Event {
    Changed,
    Arrived(Option<Arrival>),
}

impl<T: Transport> Connection<'_, T> {
    /// Handles the next thing that happens, or asks a silent server whether it is still there.
    async fn step(&mut self, worked: &mut bool) -> Result<(), Failure> {
        let shared = self.shared;
        let event = async {
            tokio::select! {
                // Changes are rare and somebody waits for them, so a flood of messages must not
                // come first.
                biased;
                () = shared.registry.changed() => Event::Changed,
                arrival = self.arrivals.next() => Event::Arrived(arrival),
            }
        };
        match timeout(shared.limits.idle_max(), event).await {
            Ok(Event::Changed) => self.correct().await,
            Ok(Event::Arrived(Some(arrival))) => {
                *worked = true;
                shared.registry.deliver(&arrival.channel, &arrival.message);
                Ok(())
            }
            Ok(Event::Arrived(None)) => Err("the server closed the connection".into()),
            Err(_) => {
                let Self { control, arrivals, .. } = self;
                while_delivering(shared, arrivals, control.ping()).await?;
                *worked = true;
                Ok(())
            }
        }
    }

    /// Makes the server deliver what is wished and nothing else.
    async fn correct(&mut self) -> Result<(), Failure> {
        let Self { shared, control, arrivals, listening } = self;
        let changes = shared.registry.take_changes(listening);
        for channels in changes.unlisten.chunks(CHANNELS_PER_COMMAND_MAX) {
            while_delivering(shared, arrivals, control.unlisten(channels)).await?;
            for channel in channels {
                listening.remove(channel);
            }
        }
        for channels in changes.listen.chunks(CHANNELS_PER_COMMAND_MAX) {
            while_delivering(shared, arrivals, control.listen(channels)).await?;
            listening.extend(channels.iter().cloned());
            shared.registry.confirm(channels);
        }
        shared.status.send_modify(|status| status.topics = listening.len());
        Ok(())
    }
}

/// Waits, within the time limit, for a command to be answered, and delivers what arrives meanwhile:
/// messages keep flowing, and some transports answer only while their arrivals are polled.
async fn while_delivering<T: Transport>(
    shared: &Shared<T>,
    arrivals: &mut T::Arrivals,
    command: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let mut command = pin!(timeout(shared.limits.answer_max(), command));
    loop {
        tokio::select! {
            biased;
            answer = &mut command => return answer?,
            arrival = arrivals.next() => match arrival {
                Some(arrival) => shared.registry.deliver(&arrival.channel, &arrival.message),
                None => return Err("the server closed the connection".into()),
            },
        }
    }
}
