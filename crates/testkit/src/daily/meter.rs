//! Counts requests, and refuses those that are too many.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    RoomPresence,
    DomainPresence,
    /// Made, read or listed.
    Rooms,
    RoomDelete,
    MeetingTokens,
    Webhooks,
    /// The list.
    Recordings,
    /// Read or deleted.
    Recording,
    AccessLink,
    /// What a link leads to.
    File,
    Other,
}

impl Route {
    fn is_limited(self) -> bool {
        self != Route::File
    }

    fn is_scarce(self) -> bool {
        matches!(self, Route::Recordings | Route::RoomDelete)
    }
}

/// So many within so long, as documented.
const MOST: [(usize, Duration); 2] = [(20, Duration::from_secs(1)), (100, Duration::from_secs(5))];
const SCARCE: [(usize, Duration); 2] = [(2, Duration::from_secs(1)), (50, Duration::from_secs(30))];

/// Older requests are forgotten.
const LOG_MAX: usize = 200_000;

#[derive(Debug, Default)]
pub(super) struct Meter {
    counts: BTreeMap<Route, u64>,
    refused: u64,
    log: VecDeque<(Duration, Route)>,
}

impl Meter {
    /// Counts a request; `false` if it is one too many.
    pub(super) fn count(&mut self, route: Route, now: Duration, is_limited: bool) -> bool {
        *self.counts.entry(route).or_default() += 1;
        let fits = !is_limited || !route.is_limited() || self.fits(route, now);
        if !fits {
            self.refused += 1;
            return false;
        }
        self.log.push_back((now, route));
        if self.log.len() > LOG_MAX {
            self.log.pop_front();
        }
        true
    }

    fn fits(&self, route: Route, now: Duration) -> bool {
        let within = |counts: fn(Route) -> bool, time: Duration| {
            let recent = self.log.iter().rev().take_while(|(at, _)| now.saturating_sub(*at) < time);
            recent.filter(|(_, route)| counts(*route)).count()
        };
        let most = MOST.iter().all(|(max, time)| within(Route::is_limited, *time) < *max);
        let is_dear = route.is_scarce();
        most && (!is_dear
            || SCARCE.iter().all(|(max, time)| within(Route::is_scarce, *time) < *max))
    }

    pub(super) fn of(&self, route: Route) -> u64 {
        self.counts.get(&route).copied().unwrap_or(0)
    }

    pub(super) fn total(&self) -> u64 {
        let limited = self.counts.iter().filter(|(route, _)| route.is_limited());
        limited.map(|(_, count)| count).sum()
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// The most requests that any stretch of this length had.
    pub(super) fn busiest(&self, within: Duration) -> usize {
        let times: Vec<Duration> =
            self.log.iter().filter(|(_, route)| route.is_limited()).map(|(at, _)| *at).collect();
        let from = |(number, start): (usize, &Duration)| {
            times.partition_point(|at| *at < *start + within) - number
        };
        times.iter().enumerate().map(from).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_limited_as_documented() {
        let mut meter = Meter::default();
        let at = Duration::from_millis;
        let mut send = |route, now| meter.count(route, now, true);
        assert!((0..20).all(|_| send(Route::RoomPresence, at(0))));
        assert!(!send(Route::DomainPresence, at(999)));
        assert!(send(Route::File, at(999)), "files are not limited");
        assert!(send(Route::Recordings, at(1000)) && send(Route::RoomDelete, at(1000)));
        assert!(!send(Route::Recordings, at(1000)));
        assert!(send(Route::Rooms, at(1000)));
        assert_eq!((meter.refused(), meter.of(Route::Recordings)), (2, 2));
        assert_eq!(meter.busiest(Duration::from_secs(1)), 20);
        assert_eq!(meter.busiest(Duration::from_secs(2)), 23);
        let mut steady = Meter::default();
        let sent = (0..3000).filter(|n| steady.count(Route::RoomPresence, at(n * 10), true));
        assert_eq!(sent.count(), 600, "twenty a second for half a minute");
    }
}
