//! People who come and go, of whom no event tells: which change happens when.

use std::time::Duration;

use bench_support::rooms;
use roundsman_testkit::DailyStandIn;
use roundsman_testkit::daily::Guest;

/// Who comes; everybody else was there before.
const NEWCOMER: u16 = u16::MAX;

/// One change in one meeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) meeting: i64,
    pub(crate) session: String,
    pub(crate) what: What,
    /// When it is to happen, since the beginning.
    pub(crate) due: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Comes,
    /// Others stay: whether a room has become empty is asked twice.
    Goes,
}

/// So many changes over this time, each in another meeting.
pub(crate) fn plan(meetings: usize, changes: usize, within: Duration) -> Vec<Change> {
    let count = changes.clamp(1, meetings);
    let slot = within / u32::try_from(count).unwrap_or(u32::MAX);
    // As far apart as they can be, so that no page of meetings has all of them.
    let step = meetings / count;
    let one = |number: usize| {
        let meeting = i64::try_from(number * step + 1).unwrap_or(i64::MAX);
        // One in each stretch of the time, nowhere at the same place in it: a round lasts as long as
        // some of the stretches.
        let slots = u32::try_from(number).unwrap_or(u32::MAX);
        let due = slot * slots + slot * (slots % 1000 * 618 % 1000) / 1000;
        let (what, person) =
            if number.is_multiple_of(2) { (What::Comes, NEWCOMER) } else { (What::Goes, 0) };
        Change { meeting, session: rooms::session(meeting, person), what, due }
    };
    (0..count).map(one).collect()
}

impl Change {
    /// It happens, at the provider.
    pub(crate) fn happen(&self, daily: &DailyStandIn) -> bool {
        let room = rooms::room(self.meeting);
        match self.what {
            What::Comes => {
                daily.join_as(&room, guest(NEWCOMER), &self.session);
                true
            }
            What::Goes => daily.leave(&room, &self.session),
        }
    }
}

pub(crate) fn guest(person: u16) -> Guest {
    Guest::named(&rooms::person_name(person))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_change_is_in_another_meeting_and_within_the_time() {
        let within = Duration::from_secs(90);
        for (meetings, changes) in [(100, 3), (10_000, 300), (100, 1000), (7, 7)] {
            let plan = plan(meetings, changes, within);
            let distinct: BTreeSet<i64> = plan.iter().map(|change| change.meeting).collect();
            assert_eq!((plan.len(), distinct.len()), (changes.min(meetings), plan.len()));
            assert!(distinct.iter().all(|id| (1..=i64::try_from(meetings).unwrap()).contains(id)));
            assert!(plan.iter().all(|change| change.due < within));
            assert!(plan.is_sorted_by_key(|change| change.due));
        }
    }
}
