//! `roundsman bot`: the reference bot, as the process launcher starts it by default.

use std::process::ExitCode;

use roundsman_bot::{Environment, reference};

/// Runs the bot that `BOT_CONFIG` describes to its end. It reads no configuration of the server.
pub(crate) fn run() -> ExitCode {
    reference::main(&Environment::of_process())
}
