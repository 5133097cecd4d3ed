//! The reference bot as a real process, against a server that stands in for Roundsman, a real Redis
//! and a real Chromium.
#![cfg(test)]

mod browser;
mod faults;
mod hearing;
mod process;
mod scenarios;
mod server;
