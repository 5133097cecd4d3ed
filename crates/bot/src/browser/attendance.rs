//! What a bot does about what the page shows: pure rules, with the time as an argument.

use std::time::Duration;

use serde::Deserialize;

use crate::config::AutomaticLeave;
use crate::ending::Ending;

/// A page that does not let the bot even ask is given up after this.
const ARRIVE_LIMIT: Duration = Duration::from_secs(60);
/// Between two tries to join: a page may not be ready when its button is.
const JOIN_EVERY: Duration = Duration::from_secs(3);
/// A page that shows no meeting any more, and no reason, is given up after this.
const LOST_LIMIT: Duration = Duration::from_secs(60);

/// What the page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    Loading,
    Prejoin,
    Lobby,
    Admitted,
    Rejected,
    Removed,
    Ended,
    Left,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    Join,
    AwaitAdmission,
    BeIn,
    End(Ending),
}

/// Where the bot is, and since when.
#[derive(Debug)]
pub(super) struct Attendance {
    limits: AutomaticLeave,
    stage: Stage,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Arriving { since: Duration, tried: Option<Duration> },
    InLobby { since: Duration },
    In { others_seen: bool, alone_since: Option<Duration>, lost_since: Option<Duration> },
}

impl Attendance {
    pub(super) fn new(limits: AutomaticLeave, now: Duration) -> Self {
        let phase = Phase::Arriving { since: now, tried: None };
        Attendance { limits, stage: Stage::Loading, phase }
    }

    pub(super) fn is_in_meeting(&self) -> bool {
        matches!(self.phase, Phase::In { .. })
    }

    /// The page shows something else.
    pub(super) fn on_stage(&mut self, stage: Stage, now: Duration) -> Option<Turn> {
        self.stage = stage;
        let end = |ending| Some(Turn::End(ending));
        match (stage, &mut self.phase) {
            (Stage::Rejected, _) => end(Ending::completed("admission_rejected_by_admin")
                .because("awaiting_admission_rejected")),
            (Stage::Removed, _) => end(Ending::completed("removed_by_admin").because("evicted")),
            (Stage::Ended, _) => end(Ending::completed("normal_completion")),
            (Stage::Left, _) => end(Ending::completed("self_initiated_leave_from_browser")),
            (Stage::Admitted, Phase::In { lost_since, .. }) => {
                *lost_since = None;
                None
            }
            (Stage::Admitted, _) => {
                self.phase = Phase::In { others_seen: false, alone_since: None, lost_since: None };
                Some(Turn::BeIn)
            }
            (Stage::Lobby, Phase::Arriving { .. }) => {
                self.phase = Phase::InLobby { since: now };
                Some(Turn::AwaitAdmission)
            }
            (Stage::Loading | Stage::Prejoin | Stage::Lobby, Phase::In { lost_since, .. }) => {
                lost_since.get_or_insert(now);
                None
            }
            (Stage::Prejoin, Phase::Arriving { .. }) => self.on_time(now),
            (Stage::Loading | Stage::Prejoin | Stage::Lobby, _) => None,
        }
    }

    /// How many others are in the meeting.
    pub(super) fn on_others(&mut self, count: usize, now: Duration) {
        if let Phase::In { others_seen, alone_since, .. } = &mut self.phase {
            *others_seen |= count > 0;
            *alone_since = (count == 0).then(|| alone_since.unwrap_or(now));
        }
    }

    /// Time has passed.
    pub(super) fn on_time(&mut self, now: Duration) -> Option<Turn> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        let ending = match &mut self.phase {
            Phase::Arriving { since, .. } if now >= *since + ARRIVE_LIMIT => {
                Ending::failed(1, "join_meeting_error").details("the page does not let anybody in")
            }
            Phase::Arriving { tried, .. } => {
                *tried = Some(now);
                return Some(Turn::Join);
            }
            Phase::InLobby { .. } => {
                Ending::completed("admission_timeout").because("awaiting_admission_timeout")
            }
            Phase::In { lost_since: Some(lost), .. } if now >= *lost + LOST_LIMIT => {
                Ending::failed(1, "meeting_lost").details("the page shows no meeting any more")
            }
            Phase::In { others_seen: true, .. } => {
                Ending::completed("left_alone_timeout").because("left_alone")
            }
            Phase::In { others_seen: false, .. } => {
                Ending::completed("startup_alone_timeout").because("startup_alone")
            }
        };
        Some(Turn::End(ending))
    }

    /// When [`Attendance::on_time`] has something to say, unless the page changes before.
    pub(super) fn due(&self) -> Option<Duration> {
        match self.phase {
            Phase::Arriving { since, tried } => {
                let can_join = self.stage == Stage::Prejoin;
                let next = can_join.then(|| tried.map_or(since, |tried| tried + JOIN_EVERY));
                Some(next.unwrap_or(Duration::MAX).min(since + ARRIVE_LIMIT))
            }
            Phase::InLobby { since } => Some(since + self.limits.waiting_room()),
            Phase::In { others_seen, alone_since, lost_since } => {
                let limit = if others_seen {
                    self.limits.everyone_left()
                } else {
                    self.limits.no_one_joined()
                };
                let alone = alone_since.map(|since| since + limit);
                let lost = lost_since.map(|since| since + LOST_LIMIT);
                [alone, lost].into_iter().flatten().min()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// With a lobby of 300 s, alone at first for 120 s, left alone for 60 s.
    fn arrived() -> Attendance {
        let mut attendance = Attendance::new(AutomaticLeave::default(), secs(0));
        assert_eq!(attendance.on_stage(Stage::Prejoin, secs(0)), Some(Turn::Join));
        attendance
    }

    fn admitted() -> Attendance {
        let mut attendance = arrived();
        assert_eq!(attendance.on_stage(Stage::Admitted, secs(1)), Some(Turn::BeIn));
        assert!(attendance.is_in_meeting());
        attendance
    }

    fn reason(turn: Option<Turn>) -> String {
        match turn {
            Some(Turn::End(ending)) => ending.reason.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn joining_is_tried_until_the_page_moves_on() {
        let mut attendance = arrived();
        assert_eq!(attendance.due(), Some(secs(3)));
        assert_eq!(attendance.on_time(secs(2)), None);
        assert_eq!(attendance.on_time(secs(3)), Some(Turn::Join));
        assert_eq!(attendance.on_stage(Stage::Loading, secs(4)), None);
        assert_eq!(attendance.due(), Some(secs(60)));
        assert_eq!(reason(attendance.on_time(secs(60))), "join_meeting_error");
    }

    #[test]
    fn the_lobby_ends_in_one_of_four_ways() {
        let in_lobby = || {
            let mut attendance = arrived();
            let told = attendance.on_stage(Stage::Lobby, secs(1));
            assert_eq!(told, Some(Turn::AwaitAdmission));
            assert_eq!(attendance.on_stage(Stage::Lobby, secs(2)), None);
            attendance
        };
        assert_eq!(in_lobby().due(), Some(secs(301)));
        assert_eq!(reason(in_lobby().on_time(secs(301))), "admission_timeout");
        let rejected = in_lobby().on_stage(Stage::Rejected, secs(9));
        assert_eq!(reason(rejected), "admission_rejected_by_admin");
        assert_eq!(reason(in_lobby().on_stage(Stage::Ended, secs(9))), "normal_completion");
        assert_eq!(in_lobby().on_stage(Stage::Admitted, secs(9)), Some(Turn::BeIn));
    }

    #[test]
    fn a_bot_alone_leaves_after_a_while() {
        let mut attendance = admitted();
        assert_eq!(attendance.due(), None, "nobody has been counted yet");
        attendance.on_others(0, secs(1));
        attendance.on_others(0, secs(50));
        assert_eq!(attendance.due(), Some(secs(121)));
        assert_eq!(reason(attendance.on_time(secs(121))), "startup_alone_timeout");

        let mut attendance = admitted();
        attendance.on_others(2, secs(2));
        assert_eq!(attendance.due(), None);
        attendance.on_others(0, secs(10));
        attendance.on_others(1, secs(20));
        attendance.on_others(0, secs(30));
        assert_eq!(attendance.on_time(secs(89)), None);
        assert_eq!(reason(attendance.on_time(secs(90))), "left_alone_timeout");
    }

    #[test]
    fn a_meeting_that_vanishes_is_given_up_unless_it_comes_back() {
        let mut attendance = admitted();
        attendance.on_others(1, secs(1));
        assert_eq!(attendance.on_stage(Stage::Loading, secs(10)), None);
        assert_eq!(attendance.on_stage(Stage::Admitted, secs(20)), None);
        assert_eq!(attendance.due(), None);
        assert_eq!(attendance.on_stage(Stage::Prejoin, secs(30)), None);
        assert_eq!(attendance.on_stage(Stage::Loading, secs(40)), None);
        assert_eq!(reason(attendance.on_time(secs(90))), "meeting_lost");
    }

    #[test]
    fn the_end_of_a_meeting_says_why() {
        for (stage, expected) in [
            (Stage::Removed, "removed_by_admin"),
            (Stage::Ended, "normal_completion"),
            (Stage::Left, "self_initiated_leave_from_browser"),
        ] {
            assert_eq!(reason(admitted().on_stage(stage, secs(5))), expected);
        }
    }
}
