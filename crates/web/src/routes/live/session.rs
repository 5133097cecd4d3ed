//! One client on `/ws`, from its key to its end.
//!
//! Invariant: there is one task for each connection and nothing is queued for it. It takes the next
//! frames of its meetings when the client has taken the last ones.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use roundsman_core::bots::MeetingId;
use roundsman_core::users::UserId;
use roundsman_engine::transcripts::{Delivery, Listener};
use roundsman_engine::users::Denied;
use roundsman_engine::wake;
use tokio_util::sync::CancellationToken;

use super::authorise::listener_of;
use super::call::Call;
use super::commands::{self, Command};
use super::ending::Ending;
use super::frames::{self, Heard};
use crate::extract::LiveKey;
use crate::live::{KeyName, Pace, Place};
use crate::socket::{Broken, Received, Socket, Taken};
use crate::state::Shared;

/// How long a listener rests when the database could not be asked for what it missed.
const RETRY_REST: Duration = Duration::from_secs(1);
/// After so many deliveries in a row, whatever else there is goes first.
const DELIVERIES_IN_A_ROW_MAX: u32 = 4;

/// Runs from the handshake to the end of the connection.
pub(super) async fn run(state: Shared, socket: Socket, key: LiveKey, mut place: Place) {
    // The beginning and the end are put aside, so that a connection does not keep room for them.
    match Box::pin(admit(&state, key, &mut place)).await {
        Ok((key, user)) => Session::new(state, socket, key, user).run().await,
        Err(ending) => Box::pin(ending.tell(socket, std::iter::empty())).await,
    }
}

async fn admit(
    state: &Shared,
    key: LiveKey,
    place: &mut Place,
) -> Result<(String, UserId), Ending> {
    let key = key.into_text().ok_or(Ending::MissingKey)?;
    let (user, token) = listener_of(state, &key).await.map_err(|denied| match denied {
        Denied::InvalidToken | Denied::AdminNotConfigured => Ending::InvalidKey,
        Denied::Unavailable(_) => Ending::KeyUnknown,
    })?;
    place.belong_to(KeyName(user, token)).map_err(|_| {
        state.metrics.limit_hit("live_connections_per_key");
        Ending::TooMany
    })?;
    Ok((key, user))
}

pub(super) struct Session {
    pub(super) state: Shared,
    pub(super) user: UserId,
    pub(super) listener: Listener,
    pub(super) meetings: BTreeMap<MeetingId, Heard>,
    socket: Socket,
    /// Asked about again and again; never shown.
    key: String,
    pace: Pace,
    /// A ping was sent and nothing came since.
    asked: bool,
}

/// What a session does next.
enum Step {
    Ask,
    Recheck,
    Stop,
    Hear(Received),
    Leave(Broken),
    Deliver(Vec<Delivery>),
}

impl Session {
    fn new(state: Shared, socket: Socket, key: String, user: UserId) -> Self {
        let listener = state.transcripts.listen().of(user);
        let meetings = BTreeMap::new();
        Session {
            state,
            user,
            listener,
            meetings,
            socket,
            key,
            pace: Pace::default(),
            asked: false,
        }
    }

    async fn run(mut self) {
        let ending = self.listen().await;
        if matches!(ending, Ending::Silent | Ending::Client(Broken::TooSlow)) {
            self.state.metrics.limit_hit("live_too_slow");
        }
        Box::pin(ending.tell(self.socket, self.meetings.values())).await;
    }

    async fn listen(&mut self) -> Ending {
        let limits = self.state.live.limits;
        let stopping = self.state.readiness.stopping().clone();
        let mut ask = pin!(wake::rest(limits.ping_every, &stopping));
        let mut recheck = pin!(wake::rest(limits.recheck_every, &stopping));
        let mut deliveries_in_a_row = 0;
        let others_call = Arc::new(Call::default());
        let others_waker = Waker::from(others_call.clone());
        loop {
            let listens = !self.meetings.is_empty();
            let frames_first = deliveries_in_a_row < DELIVERIES_IN_A_ROW_MAX;
            let step = {
                let mut frames = pin!(pull(&mut self.listener, &stopping).map(Step::Deliver));
                let socket = &mut self.socket;
                let mut others = pin!(async {
                    tokio::select! {
                        biased;
                        passed = &mut ask => if passed { Step::Ask } else { Step::Stop },
                        passed = &mut recheck => if passed { Step::Recheck } else { Step::Stop },
                        received = socket.receive() => received.map_or_else(Step::Leave, Step::Hear),
                    }
                });
                poll_fn(|context| {
                    // Nearly always it is frames that wake this up: then nothing else is looked at
                    // before they are sent, nor afterwards, unless it calls.
                    if listens
                        && frames_first
                        && let Poll::Ready(step) = frames.as_mut().poll(context)
                    {
                        return Poll::Ready(step);
                    }
                    if others_call.is_heard(context.waker())
                        && let Poll::Ready(step) =
                            others.as_mut().poll(&mut Context::from_waker(&others_waker))
                    {
                        others_call.repeat();
                        return Poll::Ready(step);
                    }
                    if listens && !frames_first {
                        return frames.as_mut().poll(context);
                    }
                    Poll::Pending
                })
                .await
            };
            deliveries_in_a_row = match step {
                Step::Deliver(_) if frames_first => deliveries_in_a_row + 1,
                _ => 0,
            };
            match step {
                Step::Ask => ask.set(wake::rest(limits.ping_every, &stopping)),
                Step::Recheck => recheck.set(wake::rest(limits.recheck_every, &stopping)),
                _ => {}
            }
            if let Err(ending) = self.step(step).await {
                return ending;
            }
        }
    }

    async fn step(&mut self, step: Step) -> Result<(), Ending> {
        match step {
            Step::Deliver(deliveries) => Ok(self.deliver(deliveries).await?),
            Step::Stop => Err(Ending::Stopping),
            Step::Leave(broken) => Err(broken.into()),
            Step::Ask if self.asked => Err(Ending::Silent),
            Step::Ask => {
                self.asked = true;
                Ok(self.socket.ping().await?)
            }
            // Rare, and larger than everything else: not part of what every connection keeps.
            Step::Recheck => self.recheck().boxed().await,
            Step::Hear(received) => {
                self.asked = false;
                match received {
                    Received::Text(text) => self.command(&text).boxed().await,
                    Received::Binary(_) => self.command("").boxed().await,
                    Received::Alive => Ok(()),
                }
            }
        }
    }

    async fn deliver(&mut self, deliveries: Vec<Delivery>) -> Result<(), Broken> {
        let texts = deliveries.iter().map(|delivery| delivery.text.clone()).collect();
        if self.socket.send(texts).await? == Taken::AtOnce {
            self.listener.kept_up();
        }
        for Delivery { meeting, seq, .. } in deliveries {
            if let Some(heard) = self.meetings.get_mut(&meeting) {
                heard.seq = seq;
            }
        }
        Ok(())
    }

    async fn command(&mut self, text: &str) -> Result<(), Ending> {
        let limits = self.state.live.limits;
        if !self.pace.count(self.state.clock.monotonic(), limits.commands_per_sec_max) {
            self.state.metrics.limit_hit("live_commands");
            return Err(Ending::TooManyCommands);
        }
        let answers = match commands::read(text) {
            Ok(Command::Ping) => vec![frames::pong()],
            Ok(Command::Subscribe(items)) => {
                self.check_key().await?;
                self.subscribe(items).await
            }
            Ok(Command::Unsubscribe(items)) => vec![self.unsubscribe(items)],
            Err(problem) => vec![problem],
        };
        let texts = answers.into_iter().map(Bytes::from).collect();
        self.socket.send(texts).await?;
        Ok(())
    }

    /// A key that was revoked since it was last asked about opens nothing new.
    async fn check_key(&mut self) -> Result<(), Ending> {
        let Err(Denied::InvalidToken) = listener_of(&self.state, &self.key).await else {
            return Ok(());
        };
        let refused = frames::refused(403, "Invalid API token");
        self.socket.send(vec![refused.into()]).await?;
        Err(Ending::InvalidKey)
    }

    /// Whether the key still holds and the meetings are still its user's. A database that cannot
    /// be asked is an outage and takes nothing away from anybody.
    async fn recheck(&mut self) -> Result<(), Ending> {
        match listener_of(&self.state, &self.key).await {
            Ok((user, _)) if user == self.user => {}
            Err(Denied::Unavailable(_)) => return Ok(()),
            Ok(_) | Err(_) => return Err(Ending::InvalidKey),
        }
        let lost = self.lose_meetings().await;
        if lost.is_empty() {
            return Ok(());
        }
        self.socket.send(vec![frames::unsubscribed(&lost).into()]).await?;
        Ok(())
    }
}

/// The next frames. Cancel-safe, as the listener is.
async fn pull(listener: &mut Listener, stopping: &CancellationToken) -> Vec<Delivery> {
    loop {
        match listener.next().await {
            Ok(deliveries) => return deliveries,
            Err(error) => {
                tracing::debug!(%error, "what a listener missed cannot be read yet");
                wake::rest(RETRY_REST, stopping).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a task for this future takes.
    fn bytes_of<F, A, B, C, D>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_connection_keeps_little() {
        let bytes = bytes_of(run);
        assert!(bytes <= 3584, "a session takes {bytes} bytes");
    }
}
