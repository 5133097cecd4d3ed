//! Recordings as their users have them: a real server, its databases, a stand-in for Daily that
//! tells of recordings and gives them away, and somebody who hears what is said in them.
//!
//! What must be true at every end: a recording has one transcript, whoever announced it how often
//! and whoever died on the way; its files are kept once and nothing else is left of them.

mod consent;
mod download;
mod host;
mod kill;
mod matching;
mod nodes;
mod place;
mod seed_000;
mod speech;
mod tracks;
mod transcriber;
