//! The real program as its users have it: started, loaded, killed, paused, cut off and restarted.
//!
//! Every test starts the built binary with real databases, talks to it over HTTP, and at the end
//! compares what it acknowledged with what is stored. Faults are timed by what was acknowledged,
//! never by a clock. The logs of every server that is started here are searched for secrets.
#![cfg(test)]

mod audits;
mod bots;
mod clocks;
mod instrument;
mod kill;
mod load;
mod long_transactions;
mod nodes;
mod orders;
mod pause;
mod pickup;
mod poison;
mod postgres;
mod power_loss;
mod presence;
mod recordings;
mod redis;
mod rooms;
mod shutdown;
mod site;
mod start;
mod storage;
mod tasks;
mod transcripts;
mod upgrade;
mod upkeep;
mod workers;
