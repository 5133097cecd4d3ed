//! What an answer of the provider says about who is there.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Drafted};
use crate::Timestamp;
use crate::presence::{
    ClosedBy, Hint, HintKind, Participant, PresenceRules, PresenceSession, PresenceStatus,
};

/// Compares the answer with the record.
pub(super) fn take(
    draft: &mut Draft,
    participants: Vec<Participant>,
    began_at: Timestamp,
    hints: Vec<Hint>,
    rules: &PresenceRules,
) {
    let said = Said::read(&hints);
    let mut present = BTreeSet::new();
    for participant in participants {
        // The first of several with one id; an answer may repeat itself.
        if present.insert(participant.session_id.clone()) {
            arrive(draft, participant);
        }
    }
    let believed = empty_is_believed(draft, &present, began_at, rules);
    let mut in_doubt = close_absent(draft, &present, &said, began_at, believed, rules);
    let doubted = record_visits(draft, &present, &said, began_at, believed, rules);
    in_doubt |= !doubted.is_empty();
    if in_doubt {
        let empty_since = *draft.meeting.looks.empty_since.get_or_insert(began_at);
        draft.look_again(empty_since + rules.lag);
    } else {
        draft.meeting.looks.empty_since = None;
    }
    heal(draft);
    keep_hints(draft, hints, &present, &doubted, began_at, rules);
}

/// Closes sessions that the provider's events have said to be over, without a look that shows it.
pub(super) fn close_what_was_said_to_be_left(draft: &mut Draft, hints: &[Hint]) {
    let said = Said::read(hints);
    for (id, drafted) in &mut draft.sessions {
        if drafted.session.is_open()
            && let Some(left_at) = said.left_at(id)
        {
            drafted.session.close(left_at.min(draft.now), ClosedBy::Event);
            draft.tally.left += 1;
        }
    }
}

/// What the events say, by session.
struct Said<'a> {
    left: BTreeMap<&'a str, &'a Hint>,
    joined: BTreeMap<&'a str, &'a Hint>,
    /// When the provider says that everyone had left.
    ended_at: Option<Timestamp>,
}

impl<'a> Said<'a> {
    fn read(hints: &'a [Hint]) -> Self {
        let mut said = Said { left: BTreeMap::new(), joined: BTreeMap::new(), ended_at: None };
        for hint in hints {
            match (hint.what, &hint.session) {
                (HintKind::Left, Some(id)) => said.left.insert(id, hint),
                (HintKind::Joined, Some(id)) => said.joined.insert(id, hint),
                (HintKind::MeetingEnded, _) => {
                    let ended_at = hint.left_at.unwrap_or(hint.heard_at);
                    said.ended_at = said.ended_at.max(Some(ended_at));
                    None
                }
                _ => None,
            };
        }
        said
    }

    /// When somebody left; if the event does not know, when we heard of it.
    fn left_at(&self, id: &str) -> Option<Timestamp> {
        self.left.get(id).map(|hint| hint.left_at.unwrap_or(hint.heard_at))
    }
}

/// Somebody is there.
fn arrive(draft: &mut Draft, participant: Participant) {
    let Some(drafted) = draft.sessions.get_mut(&participant.session_id) else {
        let id = participant.session_id.clone();
        let session = PresenceSession {
            session_id: participant.session_id,
            user_id: participant.user_id,
            user_name: participant.user_name,
            // A clock that is ahead of ours must not make a stay end before it begins.
            joined_at: participant.joined_at.min(draft.now),
            closed: None,
        };
        draft.sessions.insert(id, Drafted { before: None, session });
        draft.tally.joined += 1;
        return;
    };
    let session = &mut drafted.session;
    session.user_name = participant.user_name.or(session.user_name.take());
    session.user_id = participant.user_id.or(session.user_id.take());
    if session.closed.is_some_and(|closed| closed.by.may_be_undone()) {
        session.closed = None;
        draft.tally.reopened += 1;
    }
}

/// Closes whoever is not there any more. Returns whether somebody is left for whom the answer is not
/// enough.
fn close_absent(
    draft: &mut Draft,
    present: &BTreeSet<String>,
    said: &Said<'_>,
    began_at: Timestamp,
    believed: bool,
    rules: &PresenceRules,
) -> bool {
    let mut left_in_doubt = false;
    let mut young = None;
    for (id, drafted) in &mut draft.sessions {
        if present.contains(id) {
            continue;
        }
        let session = &mut drafted.session;
        if let Some(left_at) = said.left_at(id) {
            let left_at = left_at.min(draft.now);
            match session.closed {
                Some(closed) if closed.by == ClosedBy::Event => {}
                // The event knows better than the look that missed them.
                Some(_) => session.close(left_at, ClosedBy::Event),
                None => {
                    session.close(left_at, ClosedBy::Event);
                    draft.tally.left += 1;
                }
            }
        } else if session.is_open() {
            let shown_from = session.joined_at + rules.lag;
            // It says nothing about those who came after it, however late it is told.
            let ended = said.ended_at.is_some_and(|at| session.joined_at <= at);
            if !believed && !ended {
                left_in_doubt = true;
            } else if began_at < shown_from {
                // The answer may be older than the arrival.
                young = Some(young.map_or(shown_from, |at: Timestamp| at.min(shown_from)));
            } else {
                session.close(began_at, ClosedBy::Poll);
                draft.tally.left += 1;
                draft.tally.vanished += 1;
            }
        }
    }
    if let Some(at) = young {
        draft.look_again(at);
    }
    left_in_doubt
}

/// Whether an answer without anybody in it may close sessions that no event has closed.
fn empty_is_believed(
    draft: &Draft,
    present: &BTreeSet<String>,
    began_at: Timestamp,
    rules: &PresenceRules,
) -> bool {
    let seen_twice =
        draft.meeting.looks.empty_since.is_some_and(|since| began_at >= since + rules.lag);
    !present.is_empty() || seen_twice
}

/// Keeps those who came and went between two looks, as their events tell it. Returns those of whom
/// it is not sure that they went: of their end nobody has heard, and the answer shows nobody at all.
fn record_visits(
    draft: &mut Draft,
    present: &BTreeSet<String>,
    said: &Said<'_>,
    began_at: Timestamp,
    believed: bool,
    rules: &PresenceRules,
) -> BTreeSet<String> {
    let mut doubted = BTreeSet::new();
    let ids: BTreeSet<&str> = said.left.keys().chain(said.joined.keys()).copied().collect();
    for id in ids {
        if present.contains(id) || draft.sessions.contains_key(id) {
            continue;
        }
        let (left, joined) = (said.left.get(id), said.joined.get(id));
        let Some(hint) = left.or(joined) else { continue };
        let said_by = |hint: &&Hint| hint.joined_at;
        let heard = joined.map(|hint| hint.heard_at);
        let Some(joined_at) = left.and_then(said_by).or(joined.and_then(said_by)).or(heard) else {
            continue;
        };
        let (left_at, by) = match said.left_at(id) {
            Some(left_at) => (left_at.min(draft.now), ClosedBy::Event),
            // It may still be shown.
            None if began_at < hint.heard_at + rules.lag => continue,
            None if began_at.since(joined_at) > rules.visit_max => continue,
            None if !believed && said.ended_at.is_none_or(|at| joined_at > at) => {
                doubted.insert(id.to_owned());
                continue;
            }
            None => (began_at, ClosedBy::Poll),
        };
        // An earlier meeting in a room of the same name.
        if left_at < draft.meeting.created_at {
            continue;
        }
        let from = |get: fn(&Hint) -> Option<&String>| {
            let told =
                left.and_then(|hint| get(hint)).or_else(|| joined.and_then(|hint| get(hint)));
            told.cloned()
        };
        let mut session = PresenceSession {
            session_id: id.to_owned(),
            user_id: from(|hint| hint.user.as_ref()),
            user_name: from(|hint| hint.name.as_ref()),
            joined_at: joined_at.min(left_at),
            closed: None,
        };
        session.close(left_at, by);
        draft.sessions.insert(id.to_owned(), Drafted { before: None, session });
        draft.tally.visits += 1;
    }
    doubted
}

/// A meeting in which people are seen is not over.
fn heal(draft: &mut Draft) {
    let somebody = draft.sessions.values().any(|drafted| drafted.session.is_open());
    if somebody && !draft.meeting.is_active() {
        draft.meeting.status = PresenceStatus::Open;
        draft.meeting.ended_at = None;
        draft.meeting.end_reason = None;
        draft.tally.healed = true;
    }
}

/// An event that this look may have been too early for is looked at once more, after the lag. One
/// that is in doubt waits for the look that settles it.
fn keep_hints(
    draft: &mut Draft,
    mut hints: Vec<Hint>,
    present: &BTreeSet<String>,
    doubted: &BTreeSet<String>,
    began_at: Timestamp,
    rules: &PresenceRules,
) {
    let is_doubted = |hint: &mut Hint| hint.session.as_ref().is_some_and(|id| doubted.contains(id));
    let in_doubt: Vec<Hint> = hints.extract_if(.., is_doubted).collect();
    let early = hints.into_iter().filter(|hint| began_at < hint.heard_at + rules.lag);
    let (open, mut answered): (Vec<Hint>, Vec<Hint>) = early.partition(|hint| {
        let session = hint.session.as_deref();
        match hint.what {
            HintKind::Left => session.is_some_and(|id| present.contains(id)),
            HintKind::Joined => session.is_some_and(|id| !draft.sessions.contains_key(id)),
            HintKind::MeetingEnded => true,
            HintKind::Look => false,
        }
    });
    draft.hints = open;
    // One of those that are answered is enough to remember until when.
    answered.sort_by_key(|hint| hint.heard_at);
    if let Some(last) = answered.pop() {
        draft.hints.push(Hint::look(&last.event, last.heard_at));
    }
    if let Some(last) = draft.hints.iter().map(|hint| hint.heard_at).max() {
        draft.look_again(last + rules.lag);
    }
    draft.hints.extend(in_doubt);
}
