//! What everybody says at once while the database is away: at most one line a second.
//!
//! A database whose disk is full fails every request and every round of every loop. A line for each
//! would fill the next disk and hide what else is wrong; how many there were is in the metrics.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use roundsman_core::ports::{Clock, StoreError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

const ONE_LINE_PER: Duration = Duration::from_secs(1);

/// Passes everything on but complaints about a database that is away, of which it passes on the first
/// of every second. A layer around the one that writes, because a filter beside it that looks into
/// events is refused by the registry's own checks.
pub(super) struct Outage<L> {
    writes: L,
    clock: Arc<dyn Clock>,
    quiet_until: Mutex<Duration>,
}

impl<L> Outage<L> {
    pub(super) fn around(writes: L, clock: Arc<dyn Clock>) -> Self {
        Outage { writes, clock, quiet_until: Mutex::new(Duration::ZERO) }
    }

    fn may_be_said(&self, event: &Event<'_>) -> bool {
        if *event.metadata().level() > Level::WARN {
            return true;
        }
        let mut cause = Cause::default();
        event.record(&mut cause);
        !cause.database_is_away || self.is_first_of_its_second()
    }

    fn is_first_of_its_second(&self) -> bool {
        let now = self.clock.monotonic();
        let mut quiet_until = self.quiet_until.lock().unwrap_or_else(PoisonError::into_inner);
        if now < *quiet_until {
            return false;
        }
        *quiet_until = now + ONE_LINE_PER;
        true
    }
}

impl<S: Subscriber, L: Layer<S>> Layer<S> for Outage<L> {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if self.may_be_said(event) {
            self.writes.on_event(event, context);
        }
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.writes.on_new_span(attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.writes.on_record(id, values, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.writes.on_enter(id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.writes.on_exit(id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.writes.on_close(id, context);
    }
}

/// Finds out why something is said.
#[derive(Default)]
struct Cause {
    database_is_away: bool,
}

impl Visit for Cause {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if ["error", "cause"].contains(&field.name()) {
            let text = format!("{value:?}");
            let found = |words: &&str| text.contains(words);
            self.database_is_away |= StoreError::TRANSIENT_WORDS.iter().any(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use roundsman_testkit::ManualClock;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Counts what comes through.
    #[derive(Clone, Default)]
    struct Count(Arc<Mutex<usize>>);

    impl<S: Subscriber> Layer<S> for Count {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            *self.0.lock().unwrap() += 1;
        }
    }

    /// How many lines come through if `act` is done on that clock.
    fn lines(clock: &Arc<ManualClock>, act: impl FnOnce()) -> usize {
        let count = Count::default();
        let outage = Outage::around(count.clone(), clock.clone());
        let subscriber = tracing_subscriber::registry().with(outage);
        tracing::subscriber::with_default(subscriber, act);
        *count.0.lock().unwrap()
    }

    fn complain() {
        let full = StoreError::StorageFull("disk is full".into());
        let away = StoreError::Unavailable("no answer".into());
        tracing::error!(code = "storage_unavailable", cause = full.to_string(), "request failed");
        tracing::warn!(error = %full, "a round failed");
        tracing::warn!(error = &away as &dyn std::error::Error, "the database ping failed");
    }

    #[test]
    fn complaints_about_the_database_come_once_a_second() {
        let clock = Arc::new(ManualClock::default());
        let seen = lines(&clock, || {
            for _ in 0..100 {
                complain();
            }
            clock.advance(ONE_LINE_PER);
            complain();
            clock.advance(ONE_LINE_PER / 2);
            complain();
        });
        assert_eq!(seen, 2);
    }

    #[test]
    fn everything_else_is_said_every_time() {
        let clock = Arc::new(ManualClock::default());
        let seen = lines(&clock, || {
            complain();
            for _ in 0..10 {
                tracing::error!(cause = "a handler panicked", "request failed");
                tracing::warn!(error = %StoreError::Failed("a bug".into()), "a round failed");
                tracing::info!(error = %StoreError::Unavailable("x".into()), "told on the way");
            }
        });
        assert_eq!(seen, 1 + 30);
    }
}
