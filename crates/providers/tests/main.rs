//! The adapters against real runtimes and, for what those do not do on demand, scripted ones.
#![cfg(test)]

mod daily;
mod docker;
mod egress;
mod executors;
mod media;
mod nomad;
mod pages;
mod process;
mod stand_in;
mod transcriber;
mod webhooks;
