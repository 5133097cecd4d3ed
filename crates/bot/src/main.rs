//! The reference bot as a program of its own.

use std::process::ExitCode;

use roundsman_bot::{Environment, reference};

fn main() -> ExitCode {
    reference::main(&Environment::of_process())
}
