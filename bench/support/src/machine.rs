//! How much of a processor the machine gives to who asks for all of it: no latency that is measured on
//! it can be better.

use std::fmt;
use std::time::Duration;

use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

const LOOK_FOR: Duration = Duration::from_secs(5);
/// Longer than anything that a thread which only looks at the clock does by itself.
const GAP_MIN: Duration = Duration::from_micros(300);

/// What a thread that does nothing but look at the clock did not get.
#[derive(Debug, Clone, Copy, Default)]
pub struct Withheld {
    all: Duration,
    longest: Duration,
}

impl Withheld {
    /// Takes a few seconds, in which nothing else should be done.
    pub fn measure() -> Withheld {
        let clock = DatabaseClock::start();
        let began = clock.monotonic();
        let (mut last, mut withheld) = (began, Withheld::default());
        while last.saturating_sub(began) < LOOK_FOR {
            let now = clock.monotonic();
            let gap = now.saturating_sub(last);
            if gap > GAP_MIN {
                withheld.all += gap;
                withheld.longest = withheld.longest.max(gap);
            }
            last = now;
        }
        withheld
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.all.as_secs_f64() / LOOK_FOR.as_secs_f64();
        let longest = self.longest.as_secs_f64() * 1e3;
        write!(
            f,
            "a thread alone was withheld the processor {percent:.1} % of the time, up to {longest:.1} ms"
        )
    }
}
