//! A world for unit tests: time that jumps to the next thing that happens, and a server that
//! answers as it is told.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::bot::{Bot, Parts};
use crate::config::BotConfig;
use crate::random::Random;
use crate::time::Clock;
use crate::transport::{Request, Response, Transport, Unreachable};

/// How often everybody else gets a turn before time moves. Nothing here waits for the network.
const TURNS: usize = 200;

/// Time that moves only in [`SimulatedClock::drive`].
#[derive(Debug, Default)]
pub(crate) struct SimulatedClock {
    now: watch::Sender<Duration>,
    waiting: Mutex<Vec<Duration>>,
}

/// What the server does with a report.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    Answer(u16, Value),
    /// The bot cannot tell whether the report or the answer to it was lost.
    NoAnswer,
}

/// A server that notes every report it sees, with the time.
pub(crate) struct SimulatedServer {
    clock: Arc<SimulatedClock>,
    react: Box<dyn Fn(&Seen) -> Reaction + Send + Sync>,
    seen: Mutex<Vec<Seen>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    /// The last part of the path, or the status.
    pub(crate) what: String,
    pub(crate) body: Value,
    /// How many reports of this name came before.
    pub(crate) earlier: usize,
}

struct NoJitter;

impl Random for NoJitter {
    fn next_u64(&self) -> u64 {
        0
    }
}

impl SimulatedClock {
    /// Runs `work` to its end; whenever everybody waits, time jumps to whoever waits least.
    pub(crate) async fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            for _ in 0..TURNS {
                tokio::select! {
                    biased;
                    output = &mut work => return output,
                    () = tokio::task::yield_now() => {}
                }
            }
            let next = self.waiting.lock().unwrap().iter().min().copied();
            self.now.send_replace(next.expect("everybody waits for ever"));
        }
    }
}

#[async_trait]
impl Clock for SimulatedClock {
    fn monotonic(&self) -> Duration {
        *self.now.borrow()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.monotonic()
    }

    async fn pause(&self, time: Duration) {
        struct Waiting<'a>(&'a SimulatedClock, Duration);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                let mut waiting = self.0.waiting.lock().unwrap();
                let place = waiting.iter().position(|until| *until == self.1).unwrap();
                waiting.swap_remove(place);
            }
        }
        let until = self.monotonic() + time;
        self.waiting.lock().unwrap().push(until);
        let _waiting = Waiting(self, until);
        let mut now = self.now.subscribe();
        now.wait_for(|now| *now >= until).await.expect("the clock outlives its pauses");
    }
}

impl SimulatedServer {
    /// A bot that beats every 30 seconds, and its server.
    pub(crate) fn with_bot(
        react: impl Fn(&Seen) -> Reaction + Send + Sync + 'static,
    ) -> (Arc<SimulatedClock>, Arc<SimulatedServer>, Bot) {
        let clock = Arc::new(SimulatedClock::default());
        let server = Arc::new(SimulatedServer {
            clock: clock.clone(),
            react: Box::new(react),
            seen: Mutex::default(),
        });
        let config = json!({
            "meeting_id": 7, "connectionId": "c-1",
            "roundsman": {"callbackUrl": "http://127.0.0.1:1", "callbackToken": "t"},
        });
        let config = BotConfig::from_json(&config.to_string()).unwrap();
        let parts =
            Parts { transport: server.clone(), clock: clock.clone(), random: Arc::new(NoJitter) };
        let bot = Bot::without_signals(config, parts).unwrap();
        (clock, server, bot)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The names of the reports, in order.
    pub(crate) fn order(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.what).collect()
    }

    /// When reports of this name came, in milliseconds.
    pub(crate) fn times(&self, what: &str) -> Vec<u128> {
        let seen = self.seen();
        seen.iter().filter(|seen| seen.what == what).map(|seen| seen.at.as_millis()).collect()
    }
}

#[async_trait]
impl Transport for SimulatedServer {
    async fn send(&self, request: &Request) -> Result<Response, Unreachable> {
        let name = request.path.rsplit('/').next().unwrap_or_default();
        let what = request.body["status"].as_str().unwrap_or(name).to_owned();
        let earlier = self.order().iter().filter(|other| **other == what).count();
        let at = self.clock.monotonic();
        let seen = Seen { at, what, body: request.body.clone(), earlier };
        let reaction = (self.react)(&seen);
        self.seen.lock().unwrap().push(seen);
        match reaction {
            Reaction::Answer(status, body) => Ok(Response::new(status, &body.to_string())),
            Reaction::NoAnswer => Err(Unreachable("lost".to_owned())),
        }
    }
}

/// The answer to a report that is accepted.
pub(crate) fn run() -> Reaction {
    Reaction::Answer(200, json!({"status": "processed", "wanted": "run"}))
}
