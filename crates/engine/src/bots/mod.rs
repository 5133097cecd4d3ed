//! Bots at run time: the service that callers and the bots themselves use, the job that launches,
//! stops and clears away each of them, and the sweep that ends those that nobody hears any more.
//!
//! Invariants: nothing here writes a status but through the store's [`bot_event`], [`note_runtime`]
//! and [`sweep_bots`]; an unclear answer of the launcher ends no bot; whatever is published may be
//! lost, because the wish behind it is in the database.
//!
//! [`bot_event`]: roundsman_core::ports::BotStore::bot_event
//! [`note_runtime`]: roundsman_core::ports::BotStore::note_runtime
//! [`sweep_bots`]: roundsman_core::ports::BotStore::sweep_bots

mod announce;
mod callback;
mod finish;
mod launch;
mod service;
mod supervise;
mod sweep;
mod watch;
mod wish;
mod work;

pub use callback::{CallbackError, Heard};
pub use finish::finish_spec;
pub use launch::{LaunchOptions, launch_spec};
pub(crate) use service::nameable;
pub use service::{Bots, BotsDeps};
pub use supervise::{SuperviseOptions, supervisor_spec};
pub use sweep::{BotRound, BotSweepOptions, BotSweeper, SWEEP_KIND, sweep_spec};
pub use wish::{StartError, StartWish};
pub use work::{BotWork, bot_specs, bot_wishes};
