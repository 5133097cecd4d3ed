//! Bots as their users have them: real workloads of a real server, in every way in which a bot, the
//! server, its database, Redis or the container engine can end in the middle of a life.
//!
//! What must be true at every end: the meeting is over with the right word for why, its log leads
//! there by allowed steps, its slot is free, the work after it was done once, and nothing of it
//! runs any more.

pub(crate) mod books;
mod containers;
mod existing;
mod life;
mod limits;
pub(crate) mod place;
pub(crate) mod processes;
pub(crate) mod python;
mod receiver;
mod redis_away;
pub(crate) mod restart;
mod stock_bot;
pub(crate) mod user;
mod vexa_client;
mod webhooks;
