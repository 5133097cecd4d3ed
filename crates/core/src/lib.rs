//! The rules of Roundsman: what a job, a lease, a user is and how each may change.
//!
//! Invariant: nothing in this crate does I/O, reads a clock or draws randomness. A rule takes the
//! state, what happened and `now`, and returns the new state; the ports in [`ports`] are how the
//! other crates reach time, storage and messages, and are implemented elsewhere.

pub mod alarms;
pub mod audits;
pub mod bots;
pub mod daily;
pub mod effects;
pub mod failpoint;
pub mod jobs;
pub mod limits;
pub mod ports;
pub mod presence;
pub mod recordings;
pub mod rooms;
pub mod tasks;
pub mod time;
pub mod transcripts;
pub mod users;
pub mod webhooks;

pub use time::Timestamp;
