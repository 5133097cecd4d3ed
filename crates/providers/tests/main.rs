//! The adapters against real runtimes and, for what those do not do on demand, scripted ones.
#![cfg(test)]

mod docker;
mod egress;
mod nomad;
mod process;
mod stand_in;
mod webhooks;
