//! The `roundsman` command.

mod audit;
mod bot;
mod cli;
mod commands;
mod config;
mod logging;
mod migrate;
mod node;
mod openapi;
mod output;
mod serve;
mod state_machines;
mod token;
mod upkeep;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

/// Most of what a request takes is freed by another thread than the one that took it, which the
/// system's allocator does under a lock.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => return output::usage(&usage),
    };
    match commands::run(cli) {
        Ok(code) => code,
        Err(error) => output::failure(&error),
    }
}
