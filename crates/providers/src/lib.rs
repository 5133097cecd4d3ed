//! The adapters of the outside: where bots run, and whom the server calls.
//!
//! - [`daily`] asks Daily who is in its rooms, and for what was recorded there.
//! - [`launchers`] starts, finds and ends bots as processes, containers or jobs of a cluster.
//! - [`egress`] decides which addresses that users name may be connected to.
//! - [`executors`] has outside generators make what tasks ask for.
//! - [`webhooks`] posts to such addresses.
//! - [`media`] gets the files of recordings and keeps them.
//! - [`transcriber`] hears what is said in them.
//! - [`pages`] looks at websites.
//!
//! Invariants:
//! - Every call is bounded in time and reads a bounded answer.
//! - An answer that is late, unexpected or malformed is no answer: it is never taken for "gone".
//! - What a bot is started with is secret and appears in no log and no error.

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod daily;
pub mod egress;
pub mod executors;
mod http;
pub mod launchers;
pub mod media;
pub mod pages;
pub mod transcriber;
pub mod unconfigured;
mod wait;
pub mod webhooks;
