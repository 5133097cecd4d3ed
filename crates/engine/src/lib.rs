//! The loops and services of Roundsman: what turns rules and storage into a running system.
//!
//! Invariant: nothing here knows HTTP or SQL. Time, randomness, messages and rows come through the
//! ports of `roundsman_core`; every loop has a `tick` that tests call instead of waiting.

pub mod alarms;
pub mod audits;
pub mod bots;
pub mod clock;
mod error;
pub mod health;
pub mod jobs;
pub mod metrics;
mod outgoing;
pub mod presence;
pub mod random;
pub mod recordings;
pub mod rooms;
pub mod tasks;
pub mod transcripts;
pub mod users;
pub mod wake;
pub mod webhooks;

pub use error::{Error, FieldError};
