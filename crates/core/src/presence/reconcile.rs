//! What a look at a room makes of the record.
//!
//! Invariants: only an answer closes a session, never the lack of one; an empty answer for a room in
//! which we know people is believed only when the provider's event agrees or a second look, later
//! than its lag, does; a look that is not newer than the last one that was written changes nothing;
//! the number of clients is the number of open sessions.

mod effects;
mod seen;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::{
    ClosedBy, EndReason, Hint, Participant, PresenceMeeting, PresenceRules, PresenceSession,
    PresenceStatus,
};
use crate::Timestamp;
use crate::effects::Effects;

/// What a look at a room has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    Seen(Vec<Participant>),
    /// The provider has no such room.
    Gone,
    /// There is no answer that can be believed.
    Failed {
        reason: String,
    },
}

/// A look, and what was heard before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookReport {
    /// The number of the lease under which it was made.
    pub no: i64,
    /// Before the provider was asked: what happened later it cannot show.
    pub began_at: Timestamp,
    pub look: Look,
    pub hints: Vec<Hint>,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookPlan {
    pub meeting: PresenceMeeting,
    /// Sessions that are new or different, whole.
    pub sessions: Vec<PresenceSession>,
    /// What the next look must know.
    pub hints: Vec<Hint>,
    /// When to look again, if that is known now.
    pub again_at: Option<Timestamp>,
    pub tally: LookTally,
    pub effects: Effects,
}

/// What a look came to, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LookTally {
    pub joined: u32,
    pub left: u32,
    /// Closed by an earlier look, and seen again.
    pub reopened: u32,
    /// Came and went between two looks.
    pub visits: u32,
    /// Closed by this look alone.
    pub vanished: u32,
    /// The meeting was taken for over and is not.
    pub healed: bool,
    pub ended: Option<EndReason>,
}

/// What a look changes. `known` has every open session of the meeting and every session that the
/// look or a hint names. `None` if a later look has been written already.
pub fn reconcile(
    meeting: &PresenceMeeting,
    known: Vec<PresenceSession>,
    report: LookReport,
    rules: &PresenceRules,
    now: Timestamp,
) -> Option<LookPlan> {
    if report.no <= meeting.looks.last_no {
        return None;
    }
    let mut draft = Draft::new(meeting.clone(), known, now);
    draft.meeting.looks.last_no = report.no;
    let LookReport { began_at, look, hints, .. } = report;
    match look {
        Look::Failed { reason } => {
            let looks = &mut draft.meeting.looks;
            looks.failures = looks.failures.saturating_add(1);
            looks.failing_since.get_or_insert(began_at);
            looks.failure = Some(reason);
            draft.hints = hints;
        }
        Look::Gone => draft.room_is_gone(began_at, hints, rules),
        Look::Seen(participants) => {
            draft.was_answered(began_at);
            draft.meeting.looks.gone_since = None;
            // What its owner has ended is not opened again by an answer that was on its way.
            if draft.meeting.end_reason.is_none_or(EndReason::may_be_undone) {
                seen::take(&mut draft, participants, began_at, hints, rules);
            }
        }
    }
    Some(draft.plan())
}

/// Ends a meeting and every session that is still open.
pub fn end_meeting(
    meeting: &PresenceMeeting,
    open: Vec<PresenceSession>,
    reason: EndReason,
    now: Timestamp,
) -> LookPlan {
    let mut draft = Draft::new(meeting.clone(), open, now);
    draft.end(reason, now);
    draft.plan()
}

/// A plan in the making.
struct Draft {
    before: PresenceMeeting,
    meeting: PresenceMeeting,
    sessions: BTreeMap<String, Drafted>,
    hints: Vec<Hint>,
    again_at: Option<Timestamp>,
    tally: LookTally,
    now: Timestamp,
}

struct Drafted {
    /// As it is in the database, if it is.
    before: Option<PresenceSession>,
    session: PresenceSession,
}

impl Draft {
    fn new(meeting: PresenceMeeting, known: Vec<PresenceSession>, now: Timestamp) -> Self {
        let drafted = |session: PresenceSession| {
            let id = session.session_id.clone();
            (id, Drafted { before: Some(session.clone()), session })
        };
        Draft {
            before: meeting.clone(),
            meeting,
            sessions: known.into_iter().map(drafted).collect(),
            hints: Vec::new(),
            again_at: None,
            tally: LookTally::default(),
            now,
        }
    }

    fn was_answered(&mut self, began_at: Timestamp) {
        let looks = &mut self.meeting.looks;
        looks.looked_at = Some(began_at);
        (looks.failures, looks.failing_since, looks.failure) = (0, None, None);
    }

    fn room_is_gone(&mut self, began_at: Timestamp, hints: Vec<Hint>, rules: &PresenceRules) {
        self.was_answered(began_at);
        let gone_since = *self.meeting.looks.gone_since.get_or_insert(began_at);
        let over_at = gone_since + rules.gone_grace;
        if began_at < over_at {
            self.look_again(over_at);
            self.hints = hints;
            return;
        }
        seen::close_what_was_said_to_be_left(self, &hints);
        if self.meeting.is_active() {
            self.end(EndReason::RoomGone, gone_since);
        }
    }

    /// Ends the meeting; whoever is still there has left at `at`.
    fn end(&mut self, reason: EndReason, at: Timestamp) {
        let by = match reason {
            EndReason::RoomGone => ClosedBy::RoomGone,
            EndReason::Deactivated => ClosedBy::Deactivated,
            _ => ClosedBy::Poll,
        };
        for drafted in self.sessions.values_mut().filter(|drafted| drafted.session.is_open()) {
            drafted.session.close(at, by);
            self.tally.left += 1;
        }
        self.meeting.status = PresenceStatus::Completed;
        self.meeting.ended_at = Some(self.now);
        self.meeting.end_reason = Some(reason);
        self.tally.ended = Some(reason);
    }

    /// The earliest of the times that were asked for.
    fn look_again(&mut self, at: Timestamp) {
        self.again_at = Some(self.again_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn plan(mut self) -> LookPlan {
        let open = self.sessions.values().filter(|drafted| drafted.session.is_open()).count();
        self.meeting.num_clients = u32::try_from(open).unwrap_or(u32::MAX);
        let all = || self.sessions.values().map(|drafted| &drafted.session);
        let first = all().map(|session| session.joined_at).min();
        self.meeting.started_at = earliest(self.meeting.started_at, first);
        let last = all().filter_map(|session| session.closed).map(|closed| closed.at).max();
        self.meeting.last_left_at = self.meeting.last_left_at.max(last);
        let effects = effects::of(&self);
        let is_different = |drafted: &Drafted| drafted.before.as_ref() != Some(&drafted.session);
        let sessions = self.sessions.into_values().filter(is_different);
        LookPlan {
            meeting: self.meeting,
            sessions: sessions.map(|drafted| drafted.session).collect(),
            hints: self.hints,
            again_at: self.again_at,
            tally: self.tally,
            effects,
        }
    }
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
