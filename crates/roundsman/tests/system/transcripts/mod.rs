//! Live transcripts as producers and listeners have them: a real server, its databases and Redis,
//! each of which ends or stands still in the middle of what is said.
//!
//! What must be true at every end: whatever was acknowledged is read, once, with its last words, and
//! every listener knows the same.

mod bot;
mod clients;
mod heard;
mod keys;
pub(crate) mod kill;
mod nodes;
mod outages;
mod producer;
mod redis_faults;
mod redis_look;
mod room;
mod scene;
mod secrets;
mod shutdown;
mod stalled;
