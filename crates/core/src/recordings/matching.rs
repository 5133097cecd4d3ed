//! Which meeting a recording belongs to: rooms have names, and names are used again.

use std::time::Duration;

use crate::Timestamp;
use crate::bots::MeetingId;

/// A meeting that began further from a recording than this is another one.
pub const MATCH_WITHIN: Duration = Duration::from_secs(168 * 3600);

/// The meeting of a room that began nearest to a recording; of two the one with the lower number.
pub fn nearest(
    started_at: Timestamp,
    meetings: impl IntoIterator<Item = (MeetingId, Timestamp)>,
) -> Option<MeetingId> {
    let distance = |at: Timestamp| at.as_micros().abs_diff(started_at.as_micros());
    let within = u64::try_from(MATCH_WITHIN.as_micros()).unwrap_or(u64::MAX);
    meetings
        .into_iter()
        .map(|(meeting, at)| (distance(at), meeting))
        .filter(|(distance, _)| *distance <= within)
        .min()
        .map(|(_, meeting)| meeting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_meeting_within_a_week_is_meant() {
        let week = 168 * 3600;
        let at = |secs: i64| Timestamp::from_micros((2 * week + secs) * 1_000_000);
        let near = |meetings: &[(i64, i64)]| {
            let meetings = meetings.iter().map(|(id, secs)| (MeetingId::new(*id), at(*secs)));
            nearest(at(0), meetings).map(MeetingId::get)
        };
        assert_eq!(near(&[(1, 0)]), Some(1));
        assert_eq!(near(&[(1, 120)]), Some(1), "it may begin before its meeting");
        assert_eq!(near(&[(1, -7200), (2, -60), (3, 3600)]), Some(2));
        assert_eq!(near(&[(5, -60), (4, 60)]), Some(4), "of two the lower number");
        assert_eq!(near(&[(1, week)]), Some(1));
        assert_eq!(near(&[(1, -week)]), Some(1));
        assert_eq!(near(&[(1, week + 1), (2, -week - 1)]), None);
        assert_eq!(near(&[(1, week + 1), (2, week)]), Some(2));
        assert_eq!(near(&[]), None);
    }
}
