//! Structured logs on standard error.
//!
//! Invariant: a secret of the configuration is a `SecretString` from the moment the configuration
//! exists, and its `Debug` prints no more than that it is one: no log line can contain it by
//! mistake. What users store is not logged either, at whatever level.

mod outage;

use std::io::{self, IsTerminal};
use std::sync::Arc;

use anyhow::Context;
use roundsman_engine::clock::DatabaseClock;
use tracing::Subscriber;
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use self::outage::Outage;
use crate::config::{Log, LogFormat};

/// Starts logging; once per process.
pub(crate) fn init(log: &Log) -> anyhow::Result<()> {
    subscriber(log, io::stderr, io::stderr().is_terminal())
        .try_init()
        .context("logging is already started")
}

fn subscriber<W>(log: &Log, writer: W, colours: bool) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match log.format {
        LogFormat::Text => layer.with_ansi(colours).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    // Of this clock only what is monotonic is used, so that it needs no database.
    let layer = Outage::around(layer, Arc::new(DatabaseClock::start()));
    Registry::default().with(layer.with_filter(log.level.clone().and(discreet())))
}

/// The PostgreSQL driver shows every statement's values at the finer levels: payloads, results and
/// the hashes of tokens. WebSockets show every frame: what is said in meetings, and tokens.
fn discreet() -> Targets {
    let talkative = ["tokio_postgres", "tokio_tungstenite", "tungstenite"];
    Targets::new()
        .with_default(LevelFilter::TRACE)
        .with_targets(talkative.map(|target| (target, LevelFilter::INFO)))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use secrecy::SecretString;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What `act` logs.
    fn logged(format: LogFormat, act: impl FnOnce()) -> String {
        logged_at(LevelFilter::INFO, format, act)
    }

    fn logged_at(level: LevelFilter, format: LogFormat, act: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = Log { format, level: Targets::new().with_default(level) };
        let subscriber = subscriber(&log, move || writer.clone(), false);
        tracing::subscriber::with_default(subscriber, act);
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_is_one_object_per_line() {
        let text = logged(LogFormat::Json, || {
            tracing::info!(job = 7, "claimed");
            tracing::debug!("not shown");
            tracing::warn!("slow");
        });
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0]["message"], "claimed");
        assert_eq!(lines[0]["job"], 7);
        assert_eq!(lines[1]["level"], "WARN");
    }

    #[test]
    fn text_is_plain_without_a_terminal() {
        let text = logged(LogFormat::Text, || tracing::info!(job = 7, "claimed"));
        assert!(text.contains("INFO") && text.contains("claimed job=7"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn a_secret_does_not_reach_the_log() {
        let secret = Some(SecretString::from("canary"));
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged(format, || tracing::info!(?secret, "configured"));
            assert!(text.contains("configured") && !text.contains("canary"), "{text}");
        }
    }

    #[test]
    fn what_users_store_does_not_reach_the_log_at_any_level() {
        let text = logged_at(LevelFilter::TRACE, LogFormat::Text, || {
            tracing::debug!(target: "tokio_postgres::query", "with parameters: canary");
            tracing::info!(target: "tokio_postgres::connection", "a notice");
            tracing::trace!("our own");
        });
        assert!(!text.contains("canary"), "{text}");
        assert!(text.contains("a notice") && text.contains("our own"), "{text}");
    }
}
