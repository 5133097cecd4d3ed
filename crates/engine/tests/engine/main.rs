//! The engine over a real database: its loops driven tick by tick with a clock that stands still, and
//! started for real where waking is what is tested.
#![cfg(test)]

mod audits;
mod backend;
mod bots;
mod flaky;
mod housekeeping;
mod orders;
mod presence;
mod recordings;
mod rooms;
mod schedules;
mod service;
mod support;
mod sweeper;
mod tasks;
mod transcripts;
mod users;
mod wake;
mod webhooks;
mod worker;
