//! Whether a meeting is over.

use super::{EndReason, PresenceMeeting, PresenceRules};
use crate::Timestamp;

/// What the look at a meeting's state comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Keep,
    End(EndReason),
}

/// Decides about a meeting. `joining_until` is the latest time until which somebody has said to be on
/// their way: whoever leaves and comes back is for a moment in no answer of the provider.
pub fn judge(
    meeting: &PresenceMeeting,
    joining_until: Option<Timestamp>,
    rules: &PresenceRules,
    now: Timestamp,
) -> Verdict {
    let someone = meeting.num_clients > 0 || joining_until.is_some_and(|until| until > now);
    // While the provider does not answer, nobody knows whether a room is empty.
    let unknown = meeting.looks.failing_since.is_some();
    if !meeting.is_active() || someone || unknown {
        return Verdict::Keep;
    }
    if let Some(left_at) = meeting.last_left_at {
        let looked = meeting.looks.looked_at.is_some_and(|at| at >= left_at);
        let over = now >= left_at + rules.empty_grace && looked;
        return if over { Verdict::End(EndReason::EveryoneLeft) } else { Verdict::Keep };
    }
    match meeting.schedule {
        Some(schedule) if now >= schedule.ends_at => Verdict::End(EndReason::ScheduleOver),
        None if now >= meeting.created_at + rules.unused_for => Verdict::End(EndReason::NeverUsed),
        _ => Verdict::Keep,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::presence::samples::{at, meeting};
    use crate::presence::{PresenceStatus, Schedule};

    fn verdict(meeting: &PresenceMeeting, joining: Option<u64>, now: u64) -> Verdict {
        judge(meeting, joining.map(at), &PresenceRules::default(), at(now))
    }

    #[test]
    fn a_meeting_ends_when_everyone_has_been_away_for_the_grace() {
        let mut meeting = meeting();
        meeting.started_at = Some(at(10));
        meeting.last_left_at = Some(at(100));
        meeting.looks.looked_at = Some(at(101));
        assert_eq!(verdict(&meeting, None, 129), Verdict::Keep);
        assert_eq!(verdict(&meeting, None, 130), Verdict::End(EndReason::EveryoneLeft));
        assert_eq!(verdict(&meeting, Some(131), 130), Verdict::Keep, "somebody is coming back");
        assert_eq!(verdict(&meeting, Some(130), 130), Verdict::End(EndReason::EveryoneLeft));
        meeting.num_clients = 1;
        assert_eq!(verdict(&meeting, None, 10_000), Verdict::Keep);
    }

    #[test]
    fn nobody_ends_a_meeting_while_the_provider_is_silent() {
        let mut meeting = meeting();
        meeting.last_left_at = Some(at(100));
        meeting.looks.looked_at = Some(at(101));
        meeting.looks.failing_since = Some(at(110));
        assert_eq!(verdict(&meeting, None, 10_000), Verdict::Keep);
    }

    #[test]
    fn a_meeting_that_nobody_came_to_ends() {
        let mut meeting = meeting();
        assert_eq!(verdict(&meeting, None, 1799), Verdict::Keep);
        assert_eq!(verdict(&meeting, None, 1800), Verdict::End(EndReason::NeverUsed));
        let day = Duration::from_secs(86_400);
        meeting.schedule = Some(Schedule { starts_at: at(0) + day, ends_at: at(100) + day });
        assert_eq!(verdict(&meeting, None, 86_499), Verdict::Keep);
        assert_eq!(verdict(&meeting, None, 86_500), Verdict::End(EndReason::ScheduleOver));
        meeting.status = PresenceStatus::Completed;
        assert_eq!(verdict(&meeting, None, 86_500), Verdict::Keep);
    }
}
