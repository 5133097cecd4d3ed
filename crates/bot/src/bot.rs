//! A bot's life, as the server is told of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::browser::Event;
use crate::callback::{Callback, Stage};
use crate::config::{BotConfig, ConfigError};
use crate::ending::Ending;
use crate::heartbeat::{Heartbeat, Vitals};
use crate::post::{Delivered, Outbox, Post, Receipt};
use crate::random::{OsRandom, Random};
use crate::redis_commands::RedisCommands;
use crate::signals::Signals;
use crate::telling::{Teller, TellingParts};
use crate::time::{Clock, SystemClock};
use crate::transport::{HttpTransport, Transport};
use crate::wishes::{Commands, Gone, Wishes};

/// How long a bot that has ended tries to say so. Afterwards the server finds out by itself.
const FAREWELL_LIMIT: Duration = Duration::from_secs(60);

/// What a bot needs of the world.
#[derive(Clone)]
pub struct Parts {
    pub transport: Arc<dyn Transport>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

/// A running bot. Dropping it stops everything without a word, as a crash would.
pub struct Bot {
    config: BotConfig,
    parts: Parts,
    post: Arc<Post>,
    outbox: Outbox,
    teller: Option<Teller>,
    wishes: Wishes,
    vitals: Arc<Vitals>,
    hurry: Arc<Notify>,
    heartbeats: CancellationToken,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Why a bot cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("signals cannot be listened for: {0}")]
    Signals(#[from] std::io::Error),
}

/// Whether the server knows of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    Told,
    Untold,
    Gone(Gone),
}

impl Parts {
    /// HTTP, real time, real randomness.
    pub fn real(config: &BotConfig) -> Result<Self, ConfigError> {
        Ok(Parts {
            transport: Arc::new(HttpTransport::new(config)?),
            clock: Arc::new(SystemClock::start()),
            random: Arc::new(OsRandom),
        })
    }
}

impl Bot {
    /// Begins to listen for commands and signals, within a Tokio runtime. Nothing is reported yet.
    pub fn new(config: BotConfig, parts: Parts) -> Result<Self, StartError> {
        let bot = Bot::without_signals(config, parts)?;
        bot.spawn(Signals::listen()?.run(bot.wishes.clone()));
        Ok(bot)
    }

    /// For a program that has other plans for its signals.
    pub fn without_signals(config: BotConfig, parts: Parts) -> Result<Self, StartError> {
        let wishes = Wishes::default();
        let post = Arc::new(Post {
            transport: parts.transport.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            wishes: wishes.clone(),
            connection_id: config.connection_id.clone(),
            meeting_id: config.meeting_id,
        });
        let (outbox, delivering) = Outbox::new(post.clone());
        let (teller, telling) = teller(&config, &parts).unzip();
        let stop = CancellationToken::new();
        let bot = Bot {
            config,
            parts,
            post,
            outbox,
            teller,
            wishes,
            vitals: Arc::default(),
            hurry: Arc::default(),
            heartbeats: stop.child_token(),
            stop,
            tasks: TaskTracker::new(),
        };
        bot.spawn(delivering);
        if let Some(telling) = telling {
            bot.spawn(telling);
        }
        if let Some(listener) = bot.redis_commands()? {
            bot.spawn(listener.run());
        }
        Ok(bot)
    }

    pub fn config(&self) -> &BotConfig {
        &self.config
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.parts.clock
    }

    /// What the server wants, from every way it may be heard on, from the beginning.
    pub fn commands(&self) -> Commands {
        self.wishes.commands()
    }

    /// Says that the bot runs; returns once the server knows, and the heartbeat has begun. May be
    /// dropped, to act on a command meanwhile.
    pub async fn started(&self) -> Result<(), Gone> {
        match self.outbox.send(Callback::Started).delivered().await {
            Delivered::Gone(gone) => return Err(gone),
            Delivered::Accepted | Delivered::Rejected(_) | Delivered::Undelivered => {}
        }
        let every = self.config.roundsman.heartbeat_every();
        let heartbeat = Heartbeat::new(self.post.clone(), self.vitals.clone(), every);
        self.spawn(heartbeat.run(self.heartbeats.clone(), self.hurry.clone()));
        Ok(())
    }

    /// Says that the bot is on its way into the meeting.
    pub fn joining(&self) -> Receipt {
        self.outbox.send(Callback::Status(Stage::Joining))
    }

    /// Says that the bot waits to be let in.
    pub fn awaiting_admission(&self) -> Receipt {
        self.outbox.send(Callback::Status(Stage::AwaitingAdmission))
    }

    /// Says that the bot is in the meeting.
    pub fn joined(&self) -> Receipt {
        self.outbox.send(Callback::Joined)
    }

    /// Says that the bot is about to leave.
    pub fn leaving(&self) -> Receipt {
        self.outbox.send(Callback::Status(Stage::Stopping))
    }

    /// Tells the server what is said in the meeting, in the order in which it is told here.
    pub fn tell(&self, event: &Event) {
        if let Some(teller) = &self.teller {
            teller.tell(event);
        }
    }

    /// How far the bot has heard, in milliseconds or whatever else only grows while media flows.
    pub fn media_progress(&self, total: u64) {
        self.vitals.media_progress(total);
    }

    /// The configuration of this version is in effect. The server knows with the next heartbeat,
    /// which comes now.
    pub fn applied(&self, version: u32) {
        self.vitals.applied(version);
        self.hurry.notify_one();
    }

    /// Sends no more heartbeats: what a bot that hangs looks like from outside.
    pub fn fall_silent(&self) {
        self.heartbeats.cancel();
    }

    /// Says how the bot ended, after everything that is still waiting to be said.
    pub async fn exited(mut self, ending: Ending) -> Farewell {
        if let Some(teller) = self.teller.take() {
            teller.finish(self.parts.clock.as_ref()).await;
        }
        self.heartbeats.cancel();
        let receipt = self.outbox.send(Callback::Exited(ending));
        let delivered = tokio::select! {
            biased;
            delivered = receipt.delivered() => delivered,
            () = self.parts.clock.pause(FAREWELL_LIMIT) => Delivered::Undelivered,
        };
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        match delivered {
            Delivered::Accepted => Farewell::Told,
            Delivered::Gone(gone) => Farewell::Gone(gone),
            Delivered::Rejected(_) | Delivered::Undelivered => Farewell::Untold,
        }
    }

    fn redis_commands(&self) -> Result<Option<RedisCommands>, ConfigError> {
        let Some(url) = &self.config.redis_url else { return Ok(None) };
        // The error would show the URL, and with it a password.
        let client = redis::Client::open(url.expose()).map_err(|_| ConfigError::Invalid {
            name: "redisUrl",
            expected: "the URL of a Redis server",
        })?;
        Ok(Some(RedisCommands {
            client,
            connection_id: self.config.connection_id.clone(),
            meeting_id: self.config.meeting_id,
            wishes: self.wishes.clone(),
            clock: self.parts.clock.clone(),
            random: self.parts.random.clone(),
            hurry: self.hurry.clone(),
        }))
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(work).await;
        });
    }
}

/// Only a bot that can sign what it tells tells anything.
fn teller(
    config: &BotConfig,
    parts: &Parts,
) -> Option<(Teller, impl Future<Output = ()> + Send + use<>)> {
    let Parts { transport, clock, random } = parts.clone();
    let token = config.token.clone()?;
    Some(Teller::new(TellingParts { transport, clock, random }, token))
}

impl Drop for Bot {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl std::fmt::Debug for Bot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bot").field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
