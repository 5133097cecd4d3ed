//! One producer on `/ingest/ws`.
//!
//! Invariants: messages are taken and answered in the order they came; while too many of them wait
//! to be stored, no more are read, so that the producer waits and nothing piles up here.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use roundsman_engine::wake;

use super::take;
use crate::live::Place;
use crate::problem::Code;
use crate::socket::{Broken, Goodbye, Received, Socket};
use crate::state::Shared;
use crate::views::{AckView, IngestResultView};

/// Messages of one connection that are being stored.
const IN_FLIGHT_MAX: usize = 64;
/// A connection on which no message was taken for this long after it began is nobody's.
const FIRST_MAX: Duration = Duration::from_secs(30);
/// So many messages in a row without a valid token end the connection.
const REFUSED_MAX: u32 = 10;

/// What a message is answered.
struct Answer {
    text: Bytes,
    verdict: Verdict,
}

/// What a message says about its producer.
enum Verdict {
    Taken,
    /// It had no valid token.
    Stranger,
    Neither,
}

pub(super) async fn run(state: Shared, socket: Socket, bearer: Option<String>, _place: Place) {
    let bearer = bearer.map(Arc::from);
    let mut producer = Producer { state, socket, bearer, asked: false, known: false, refused: 0 };
    let ending = producer.listen().await;
    if let Some(goodbye) = ending.goodbye() {
        producer.socket.close(goodbye).await;
    }
}

struct Producer {
    state: Shared,
    socket: Socket,
    bearer: Option<Arc<str>>,
    /// A ping was sent and nothing came since.
    asked: bool,
    /// A message of it was taken.
    known: bool,
    /// Messages in a row without a valid token.
    refused: u32,
}

enum Ending {
    Stranger,
    Silent,
    Stopping,
    Client(Broken),
}

impl From<Broken> for Ending {
    fn from(broken: Broken) -> Self {
        Ending::Client(broken)
    }
}

impl Ending {
    fn goodbye(&self) -> Option<Goodbye> {
        match self {
            Ending::Stranger => Some(Goodbye::new(4401, "no message could be taken")),
            Ending::Silent => Some(Goodbye::new(1013, "no answer to a ping")),
            Ending::Stopping => Some(Goodbye::new(1012, "the server is stopping")),
            Ending::Client(Broken::TooSlow) => Some(Goodbye::new(1013, "too slow")),
            Ending::Client(Broken::TooLarge) => {
                Some(Goodbye::new(1009, "the message is too large"))
            }
            Ending::Client(Broken::NoProtocol) => Some(Goodbye::new(1002, "")),
            Ending::Client(Broken::Gone) => None,
        }
    }
}

impl Producer {
    async fn listen(&mut self) -> Ending {
        let state = self.state.clone();
        let ping_every = state.live.limits.ping_every;
        let stopping = state.readiness.stopping();
        let mut ask = pin!(wake::rest(ping_every, stopping));
        let mut first = pin!(wake::rest(FIRST_MAX, stopping));
        let mut waiting = FuturesOrdered::new();
        let mut count = 0u64;
        loop {
            tokio::select! {
                biased;
                passed = &mut ask => {
                    if !passed {
                        // What was begun is stored and answered.
                        let answers: Vec<Answer> = waiting.collect().await;
                        let _ = self.answer(answers).await;
                        return Ending::Stopping;
                    }
                    if std::mem::replace(&mut self.asked, true) {
                        return Ending::Silent;
                    }
                    if let Err(broken) = self.socket.ping().await {
                        return broken.into();
                    }
                    ask.set(wake::rest(ping_every, stopping));
                }
                passed = &mut first, if !self.known => if passed { return Ending::Stranger },
                Some(answer) = waiting.next(), if !waiting.is_empty() => {
                    let mut answers: Vec<Answer> = vec![answer];
                    // One write for all that are ready.
                    while let Some(Some(answer)) = waiting.next().now_or_never() {
                        answers.push(answer);
                    }
                    if let Err(ending) = self.answer(answers).await {
                        return ending;
                    }
                }
                received = self.socket.receive(), if waiting.len() < IN_FLIGHT_MAX => {
                    self.asked = false;
                    match received {
                        Ok(Received::Alive) => {}
                        Ok(received) => {
                            count += 1;
                            waiting.push_back(store(&state, count, received, self.bearer.clone()));
                        }
                        Err(broken) => return broken.into(),
                    }
                }
            }
        }
    }

    async fn answer(&mut self, answers: Vec<Answer>) -> Result<(), Ending> {
        for Answer { verdict, .. } in &answers {
            match verdict {
                Verdict::Taken => (self.known, self.refused) = (true, 0),
                Verdict::Stranger => self.refused += 1,
                Verdict::Neither => {}
            }
        }
        let texts = answers.into_iter().map(|answer| answer.text).collect();
        self.socket.send(texts).await?;
        if self.refused < REFUSED_MAX { Ok(()) } else { Err(Ending::Stranger) }
    }
}

/// Stores what a message says. It is asked for when this is first polled, so that messages are
/// stored in the order they came.
async fn store(
    state: &Shared,
    number: u64,
    received: Received,
    bearer: Option<Arc<str>>,
) -> Answer {
    let text = match &received {
        Received::Text(text) => text.as_str(),
        Received::Binary(_) | Received::Alive => "",
    };
    let result = take(state, text, bearer.as_deref()).await;
    let verdict = match &result {
        Ok(_) => Verdict::Taken,
        Err(problem) if problem.code == Code::Unauthorized => Verdict::Stranger,
        Err(_) => Verdict::Neither,
    };
    let view = AckView::new(number, IngestResultView::from(result));
    let text = serde_json::to_vec(&view).unwrap_or_default().into();
    Answer { text, verdict }
}
