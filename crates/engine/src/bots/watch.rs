//! Since when bots could be heard: silence of our own must not be held against them.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::ports::Clock;

/// The database's clock is taken to have been set when it moves this much against our own.
const CLOCK_STEP_MAX: Duration = Duration::from_secs(5);
/// A round that comes later than this many intervals is the first after a break.
const ROUNDS_MISSED_MAX: u32 = 3;

/// What the sweep remembers from round to round.
#[derive(Debug, Default)]
pub(super) struct Watch {
    serving_since: Option<Timestamp>,
    /// Both clocks at the last round.
    last_round: Option<(Timestamp, Duration)>,
}

impl Watch {
    /// A round begins. Returns since when bots could be heard without a break: our own start, the
    /// end of an outage, a clock that was set or a long pause begin it anew.
    pub(super) fn begin_round(&mut self, clock: &dyn Clock, every: Duration) -> Timestamp {
        let (wall, own) = (clock.now(), clock.monotonic());
        if let Some((wall_then, own_then)) = self.last_round {
            let passed = own.saturating_sub(own_then);
            let gained = wall.since(wall_then + passed);
            let lost = (wall_then + passed).since(wall);
            let stepped = gained.max(lost) > CLOCK_STEP_MAX;
            let paused = passed > every.saturating_mul(ROUNDS_MISSED_MAX);
            if stepped || paused {
                tracing::info!(stepped, paused, "bots get a full timeout to report again");
                self.serving_since = None;
            }
        }
        self.last_round = Some((wall, own));
        *self.serving_since.get_or_insert(wall)
    }

    /// The database did not answer, so it did not take heartbeats either.
    pub(super) fn lost_database(&mut self) {
        self.serving_since = None;
    }
}
