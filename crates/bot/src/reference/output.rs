//! What the reference bot writes: events on standard output, its log on standard error.

use std::io::{self, Write as _};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::CannotBegin;
use crate::browser::{Event, Events};
use crate::environment::Environment;

const LOG_LEVEL: &str = "LOG_LEVEL";

/// Every event is one line of JSON.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonLines;

impl Events for JsonLines {
    fn emit(&self, event: &Event) {
        let Ok(line) = serde_json::to_string(event) else { return };
        let mut output = io::stdout().lock();
        // A meeting goes on when nobody reads along.
        let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    }
}

/// `LOG_LEVEL` is `info` unless it says otherwise. A program that logs already goes on as it does.
pub(super) fn start_log(environment: &Environment) {
    let level = environment.get(LOG_LEVEL).and_then(|level| level.parse().ok());
    let level = Targets::new().with_default(level.unwrap_or(LevelFilter::INFO));
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    let _ = tracing_subscriber::registry().with(lines).with(level).try_init();
}

pub(super) fn complain(error: &CannotBegin) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr(), "error: {error}");
}
