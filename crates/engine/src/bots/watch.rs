//! Since when bots could be heard: silence of our own must not be held against them.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::ports::Clock;

/// The database's clock is taken to have been set when it moves this much against our own.
const CLOCK_STEP_MAX: Duration = Duration::from_secs(5);
/// A round that comes later than this many intervals is the first after a break.
const ROUNDS_MISSED_MAX: u32 = 3;

/// What the sweep remembers from round to round.
#[derive(Debug)]
pub(super) struct Watch {
    serving_since: Option<Timestamp>,
    /// Both clocks at the last round of this node.
    last_round: Option<(Timestamp, Duration)>,
}

/// The round before, if another node may have run it: the job carries it from node to node.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundBefore {
    pub(super) at: Timestamp,
    /// A longer break than this may have kept bots from being heard.
    pub(super) break_max: Duration,
}

impl Watch {
    /// A node starts now.
    pub(super) fn starting(now: Timestamp) -> Self {
        Watch { serving_since: Some(now), last_round: None }
    }

    /// A round begins. Returns since when bots could be heard without a break: our own start, the
    /// end of an outage, a clock that was set or a long pause begin it anew.
    pub(super) fn begin_round(
        &mut self,
        clock: &dyn Clock,
        every: Duration,
        before: Option<RoundBefore>,
    ) -> Timestamp {
        let (wall, own) = (clock.now(), clock.monotonic());
        if before.is_some_and(|round| wall.since(round.at) > round.break_max) {
            tracing::info!("nobody swept for a while: bots get a full timeout to report again");
            self.serving_since = None;
        }
        if let Some((wall_then, own_then)) = self.last_round {
            let passed = own.saturating_sub(own_then);
            let gained = wall.since(wall_then + passed);
            let lost = (wall_then + passed).since(wall);
            let stepped = gained.max(lost) > CLOCK_STEP_MAX;
            let paused = before.is_none() && passed > every.saturating_mul(ROUNDS_MISSED_MAX);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that stands where it was put; both of its times agree.
    struct Standing(u64);

    impl Clock for Standing {
        fn now(&self) -> Timestamp {
            at(self.0)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0)
        }
    }

    fn at(secs: u64) -> Timestamp {
        Timestamp::EPOCH + Duration::from_secs(secs)
    }

    fn before(secs: u64) -> RoundBefore {
        RoundBefore { at: at(secs), break_max: Duration::from_secs(90) }
    }

    #[test]
    fn rounds_of_other_nodes_are_no_break() {
        let every = Duration::from_secs(60);
        let mut watch = Watch::starting(at(0));
        assert_eq!(watch.begin_round(&Standing(60), every, Some(before(0))), at(0));
        // For an hour others have swept.
        assert_eq!(watch.begin_round(&Standing(3660), every, Some(before(3600))), at(0));
        assert_eq!(
            watch.begin_round(&Standing(3800), every, Some(before(3709))),
            at(3800),
            "nobody did"
        );
    }
}
