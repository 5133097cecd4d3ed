//! The `roundsman` command.

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

use std::process::ExitCode;

use clap::Parser;

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
