//! What the command says to whoever started it. Results go to standard output, everything else to
//! standard error, so that a result can be piped.
//!
//! Invariant: nothing else writes to standard output.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;

use crate::config::Problems;

/// The command was used wrongly, or its configuration is; as other commands have it.
const EXIT_USAGE: u8 = 2;

/// Prints a result. A reader that has seen enough and closed the pipe is no failure.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = write!(stdout, "{text}{end}").and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints a result for people, or for a script.
pub(crate) fn tell(is_json: bool, json: &Value, text: &str) -> anyhow::Result<()> {
    if is_json {
        return Ok(print(&serde_json::to_string_pretty(json)?)?);
    }
    Ok(print(text)?)
}

/// Prints something that is not part of the result.
pub(crate) fn note(text: &str) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints help, the version or what is wrong with the arguments.
pub(crate) fn usage(usage: &clap::Error) -> ExitCode {
    let _ = usage.print();
    if usage.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS }
}

/// Prints why the command failed.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    note(&format!("error: {error:#}"));
    if error.is::<Problems>() { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
}
