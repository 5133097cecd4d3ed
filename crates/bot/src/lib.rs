//! What a meeting bot needs to live under Roundsman, and a reference bot made of it.
//!
//! A bot is started with its instructions in `BOT_CONFIG` ([`BotConfig`]). It owns its state and
//! reports every change; the server answers each report with what it wants of the bot. [`Bot`] does
//! the talking:
//!
//! ```no_run
//! use roundsman_bot::{Bot, BotConfig, Command, Ending, Environment, Parts};
//!
//! # async fn attend() -> Result<(), Box<dyn std::error::Error>> {
//! let config = BotConfig::from_environment(&Environment::of_process())?;
//! let parts = Parts::real(&config)?;
//! let bot = Bot::new(config, parts)?;
//! let mut commands = bot.commands();
//! bot.started().await?;
//! // … join the meeting …
//! bot.joined();
//! loop {
//!     match commands.next().await {
//!         Command::Reconfigure(new) => bot.applied(new.version),
//!         Command::Leave(cause) => {
//!             bot.leaving();
//!             // … leave the meeting …
//!             bot.exited(Ending::left(cause)).await;
//!             return Ok(());
//!         }
//!         Command::Gone(_) => return Ok(()),
//!     }
//! }
//! # }
//! ```
//!
//! Invariants: reports go out in the order in which they were made, each until it is accepted; a
//! wish heard twice, or on two ways, is one wish; after the server said that the bot is no longer
//! wanted, nothing is sent any more. Nothing here depends on the server's own code.
//!
//! Callbacks go over plain HTTP, which is right on loopback and on a private network. For `https`
//! give [`Parts`] a [`Transport`] of your own that speaks TLS.

mod backoff;
mod bot;
mod browser;
mod callback;
mod config;
mod ending;
mod environment;
mod heartbeat;
mod post;
mod random;
mod redis_commands;
pub mod reference;
mod signals;
#[cfg(test)]
mod simulated;
mod telling;
mod time;
mod transport;
mod wishes;

pub use bot::{Bot, Farewell, Parts, StartError};
pub use browser::{
    BrowserSettings, Event, Events, PageProfile, ProfileError, Segment, SpeakerEvent, What,
};
pub use callback::{Answer, Callback, Stage, WantedConfig};
pub use config::{AutomaticLeave, BOT_CONFIG, BotConfig, CallbackConfig, ConfigError, Secret};
pub use ending::Ending;
pub use environment::Environment;
pub use post::{Delivered, Receipt};
pub use random::{OsRandom, Random};
pub use time::{Clock, SystemClock};
pub use transport::{HttpTransport, Method, Request, Response, Transport, Unreachable};
pub use wishes::{Command, Commands, Gone, LeaveCause, Reconfigure};
