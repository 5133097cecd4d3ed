//! Looks and hints in the orders that really happen.

use super::*;
use crate::presence::samples::{at, meeting, person, session};
use crate::presence::{Closed, HintKind};

fn hint(what: HintKind, id: &str, joined: u64, left: Option<u64>, heard: u64) -> Hint {
    Hint {
        what,
        session: Some(id.to_owned()),
        joined_at: Some(at(joined)),
        left_at: left.map(at),
        ..Hint::look(&format!("{what:?}-{id}"), at(heard))
    }
}

/// A meeting with sessions, looked at again and again.
struct Room {
    meeting: PresenceMeeting,
    sessions: BTreeMap<String, PresenceSession>,
    hints: Vec<Hint>,
    no: i64,
}

impl Room {
    fn with(people: &[(&str, u64)]) -> Self {
        let sessions: BTreeMap<_, _> =
            people.iter().map(|(id, joined)| ((*id).to_owned(), session(id, *joined))).collect();
        let mut meeting = meeting();
        meeting.num_clients = u32::try_from(sessions.len()).unwrap();
        Room { meeting, sessions, hints: Vec::new(), no: 0 }
    }

    fn look(&mut self, look: Look, hints: &[Hint], began: u64) -> LookPlan {
        self.no += 1;
        let mut all = std::mem::take(&mut self.hints);
        all.extend_from_slice(hints);
        let report = LookReport { no: self.no, began_at: at(began), look, hints: all };
        let known = self.sessions.values().cloned().collect();
        let plan =
            reconcile(&self.meeting, known, report, &PresenceRules::default(), at(began)).unwrap();
        self.meeting = plan.meeting.clone();
        self.hints = plan.hints.clone();
        for session in &plan.sessions {
            self.sessions.insert(session.session_id.clone(), session.clone());
        }
        assert_eq!(self.meeting.num_clients as usize, self.open().len());
        plan
    }

    fn sees(&mut self, people: &[(&str, u64)], hints: &[Hint], began: u64) -> LookPlan {
        let people = people.iter().map(|(id, joined)| person(id, *joined)).collect();
        self.look(Look::Seen(people), hints, began)
    }

    fn open(&self) -> Vec<&str> {
        let open = self.sessions.values().filter(|session| session.is_open());
        open.map(|session| session.session_id.as_str()).collect()
    }

    /// How a session that is over ended.
    fn closed(&self, id: &str) -> Closed {
        self.sessions[id].closed.unwrap()
    }
}

fn closed(secs: u64, by: ClosedBy) -> Closed {
    Closed { at: at(secs), by }
}

#[test]
fn joins_and_leaves_are_taken_in_one_look() {
    let mut room = Room::with(&[("a", 0), ("b", 0)]);
    let plan = room.sees(&[("a", 0), ("c", 90)], &[], 100);
    assert_eq!(room.open(), ["a", "c"]);
    assert_eq!(room.closed("b"), closed(100, ClosedBy::Poll));
    assert_eq!(plan.sessions.len(), 2, "what is as it was is not written");
    assert_eq!((plan.tally.joined, plan.tally.left, plan.tally.vanished), (1, 1, 1));
    assert_eq!((plan.again_at, plan.effects.frames.len()), (None, 1));
    let again = room.sees(&[("a", 0), ("c", 90)], &[], 130);
    assert_eq!((again.sessions, again.effects), (vec![], Effects::default()));
}

#[test]
fn an_event_is_looked_at_at_once_and_after_the_lag() {
    let mut room = Room::with(&[("a", 0)]);
    let joins =
        [hint(HintKind::Joined, "b", 100, None, 100), hint(HintKind::Joined, "c", 101, None, 101)];
    let plan = room.sees(&[("a", 0), ("b", 100), ("c", 101)], &joins, 102);
    assert_eq!((plan.again_at, plan.tally.joined), (Some(at(116)), 2));
    assert_eq!(plan.hints, [Hint::look("Joined-c", at(101))], "all is known, but not for sure");
    let plan = room.sees(&[("a", 0), ("b", 100), ("c", 101)], &[], 116);
    assert_eq!((plan.again_at, plan.hints), (None, vec![]));
}

#[test]
fn a_leave_has_the_time_of_its_event_once_a_look_agrees() {
    let mut room = Room::with(&[("a", 0), ("b", 10)]);
    let left = [hint(HintKind::Left, "b", 10, Some(95), 100)];
    let plan = room.sees(&[("a", 0), ("b", 10)], &left, 101);
    assert_eq!(room.open(), ["a", "b"], "the provider still shows them");
    assert_eq!((plan.again_at, &plan.hints[..]), (Some(at(115)), &left[..]));
    room.sees(&[("a", 0)], &[], 115);
    assert_eq!(room.closed("b"), closed(95, ClosedBy::Event));
    room.sees(&[("a", 0), ("b", 10)], &[], 116);
    assert_eq!(room.open(), ["a"], "confirmed, so it stays closed");
}

#[test]
fn an_event_corrects_the_time_that_a_look_had_guessed() {
    let mut room = Room::with(&[("a", 0), ("b", 10)]);
    room.sees(&[("a", 0)], &[], 100);
    assert_eq!(room.closed("b"), closed(100, ClosedBy::Poll));
    room.sees(&[("a", 0)], &[hint(HintKind::Left, "b", 10, Some(71), 101)], 102);
    assert_eq!(room.closed("b"), closed(71, ClosedBy::Event));
    assert_eq!(room.meeting.last_left_at, Some(at(100)), "never goes back");
}

#[test]
fn a_session_that_reappears_is_opened_again() {
    let mut room = Room::with(&[("a", 0), ("b", 10)]);
    room.sees(&[("a", 0)], &[], 100);
    let plan = room.sees(&[("a", 0), ("b", 10), ("c", 120)], &[], 130);
    assert_eq!(room.open(), ["a", "b", "c"], "and does not keep others from being stored");
    assert_eq!(plan.tally.reopened, 1);
    assert_eq!(plan.effects.transitions[0].cause, "session_reopened");
}

#[test]
fn nothing_but_an_answer_closes_anything() {
    let mut room = Room::with(&[("a", 0), ("b", 10)]);
    for (began, failures) in [(100, 1), (130, 2), (160, 3)] {
        let plan = room.look(Look::Failed { reason: "503".to_owned() }, &[], began);
        assert_eq!((plan.sessions, room.meeting.looks.failures), (vec![], failures));
        assert_eq!(room.meeting.looks.failing_since, Some(at(100)));
    }
    room.sees(&[("a", 0), ("b", 10)], &[], 190);
    let looks = &room.meeting.looks;
    assert_eq!((looks.failures, looks.failing_since, &looks.failure), (0, None, &None));
}

#[test]
fn an_empty_answer_for_a_full_room_needs_a_second_look() {
    let mut room = Room::with(&[("a", 0), ("b", 10)]);
    let plan = room.sees(&[], &[], 100);
    assert_eq!((room.open().len(), plan.again_at), (2, Some(at(115))));
    let plan = room.sees(&[], &[], 110);
    assert_eq!((room.open().len(), plan.again_at), (2, Some(at(115))), "not late enough");
    room.sees(&[("a", 0), ("b", 10)], &[], 112);
    assert_eq!(room.meeting.looks.empty_since, None, "it was nothing");
    room.sees(&[], &[], 120);
    let plan = room.sees(&[], &[], 135);
    assert_eq!((room.open().len(), plan.tally.vanished, plan.again_at), (0, 2, None));
}

#[test]
fn an_empty_answer_is_believed_when_events_agree() {
    let mut room = Room::with(&[("a", 0), ("b", 10)]);
    let left =
        [hint(HintKind::Left, "a", 0, Some(98), 99), hint(HintKind::Left, "b", 10, Some(99), 100)];
    room.sees(&[], &left, 101);
    assert_eq!(
        (room.closed("a"), room.closed("b")),
        (closed(98, ClosedBy::Event), closed(99, ClosedBy::Event))
    );
    let mut room = Room::with(&[("a", 0)]);
    let ended = Hint { what: HintKind::MeetingEnded, ..Hint::look("met-end", at(100)) };
    room.sees(&[], &[ended], 101);
    assert_eq!(room.open(), [""; 0]);
}

#[test]
fn who_has_just_come_is_not_closed_by_an_older_answer() {
    let mut room = Room::with(&[("a", 0), ("b", 95)]);
    let plan = room.sees(&[("a", 0)], &[], 100);
    assert_eq!((room.open(), plan.again_at), (vec!["a", "b"], Some(at(110))));
    room.sees(&[("a", 0)], &[], 110);
    assert_eq!(room.open(), ["a"]);
}

#[test]
fn a_look_that_is_not_newer_changes_nothing() {
    let mut room = Room::with(&[("a", 0)]);
    room.sees(&[("a", 0)], &[], 100);
    for no in [0, 1] {
        let report = LookReport { no, began_at: at(200), look: Look::Gone, hints: vec![] };
        let rules = PresenceRules::default();
        assert_eq!(reconcile(&room.meeting, vec![], report, &rules, at(200)), None);
    }
}

#[test]
fn short_visits_are_known_from_their_events() {
    let mut room = Room::with(&[("a", 0)]);
    let both = [
        hint(HintKind::Left, "b", 101, Some(103), 104),
        hint(HintKind::Joined, "b", 101, None, 102),
    ];
    let plan = room.sees(&[("a", 0)], &both, 105);
    assert_eq!((plan.tally.visits, room.closed("b")), (1, closed(103, ClosedBy::Event)));
    assert_eq!(room.sessions["b"].joined_at, at(101));
    room.sees(&[("a", 0)], &both, 120);
    assert_eq!(room.sessions.len(), 2, "once");
    // Of this one nobody hears that it ended.
    let came = hint(HintKind::Joined, "c", 130, None, 130);
    let plan = room.sees(&[("a", 0)], std::slice::from_ref(&came), 131);
    assert_eq!(
        (room.sessions.len(), &plan.hints[..], plan.again_at),
        (2, &[came][..], Some(at(145)))
    );
    room.sees(&[("a", 0)], &[], 145);
    assert_eq!(room.closed("c"), closed(145, ClosedBy::Poll));
    // An event that is an hour late says nothing about now.
    room.sees(&[("a", 0)], &[hint(HintKind::Joined, "d", 145, None, 3800)], 3900);
    assert!(!room.sessions.contains_key("d"));
}

#[test]
fn an_empty_answer_alone_ends_no_visit() {
    let mut room = Room::with(&[]);
    let came = hint(HintKind::Joined, "a", 100, None, 100);
    room.sees(&[], std::slice::from_ref(&came), 101);
    let plan = room.sees(&[], &[], 115);
    assert_eq!((room.sessions.len(), plan.again_at), (0, Some(at(130))), "it may be nothing");
    assert_eq!(plan.hints, [came]);
    room.sees(&[], &[], 130);
    assert_eq!(room.closed("a"), closed(130, ClosedBy::Poll));
    // The same, and they are there after all.
    let mut room = Room::with(&[]);
    room.sees(&[], &[hint(HintKind::Joined, "a", 100, None, 100)], 101);
    room.sees(&[], &[], 115);
    let plan = room.sees(&[("a", 100)], &[], 130);
    assert_eq!((room.open(), plan.tally.visits, plan.again_at), (vec!["a"], 0, None));
    assert_eq!((plan.hints, room.meeting.looks.empty_since), (vec![], None));
}

#[test]
fn a_meeting_that_ended_says_nothing_about_those_who_came_later() {
    let mut room = Room::with(&[("old", 0), ("new", 90)]);
    // It is told an hour later than it happened.
    let ended = Hint {
        what: HintKind::MeetingEnded,
        left_at: Some(at(50)),
        ..Hint::look("met-end", at(3600))
    };
    let plan = room.sees(&[], std::slice::from_ref(&ended), 3601);
    assert_eq!((room.open(), plan.again_at), (vec!["new"], Some(at(3615))));
    assert_eq!(room.closed("old"), closed(3601, ClosedBy::Poll));
    room.sees(&[("new", 90)], &[], 3615);
    assert_eq!((room.open(), room.meeting.looks.empty_since), (vec!["new"], None));
}

#[test]
fn a_room_that_is_gone_ends_its_meeting_after_a_grace() {
    let mut room = Room::with(&[("a", 0)]);
    let plan = room.look(Look::Gone, &[], 100);
    assert_eq!((room.open(), plan.again_at), (vec!["a"], Some(at(160))));
    room.sees(&[("a", 0)], &[], 150);
    assert_eq!(room.meeting.looks.gone_since, None, "it is there again");
    room.look(Look::Gone, &[], 200);
    let plan = room.look(Look::Gone, &[], 260);
    assert_eq!(room.closed("a"), closed(200, ClosedBy::RoomGone));
    assert_eq!(room.meeting.end_reason, Some(EndReason::RoomGone));
    assert_eq!(plan.effects.transitions[0].to_state, "completed");
}

#[test]
fn a_meeting_that_was_ended_by_mistake_is_healed() {
    let mut room = Room::with(&[]);
    let ended = end_meeting(&room.meeting, vec![], EndReason::EveryoneLeft, at(90));
    room.meeting = ended.meeting;
    let plan = room.sees(&[("a", 80)], &[], 100);
    assert!(plan.tally.healed && room.meeting.is_active() && room.meeting.end_reason.is_none());
    let steps = &plan.effects.transitions;
    assert_eq!((steps[0].to_state.as_str(), steps[0].cause.as_str()), ("open", "seen_again"));
}

#[test]
fn what_its_owner_ended_stays_ended() {
    let mut room = Room::with(&[("a", 0)]);
    let open = room.sessions.values().cloned().collect();
    let ended = end_meeting(&room.meeting, open, EndReason::Deactivated, at(90));
    assert_eq!(ended.sessions[0].closed, Some(closed(90, ClosedBy::Deactivated)));
    assert_eq!((ended.meeting.num_clients, ended.effects.frames.len()), (0, 1));
    room.meeting = ended.meeting;
    room.sessions.insert("a".to_owned(), ended.sessions[0].clone());
    let plan = room.sees(&[("a", 0), ("b", 95)], &[], 100);
    assert_eq!((plan.sessions, room.meeting.is_active()), (vec![], false));
}

#[test]
fn odd_answers_are_taken_as_they_are() {
    let mut room = Room::with(&[]);
    let twice = Participant { user_name: None, ..person("a", 500) };
    let plan = room.look(Look::Seen(vec![twice, person("a", 1)]), &[], 100);
    assert_eq!(
        (plan.tally.joined, room.sessions["a"].joined_at),
        (1, at(100)),
        "not from tomorrow"
    );
    assert_eq!(room.sessions["a"].user_name, None);
    room.sees(&[("a", 1)], &[], 130);
    assert_eq!(room.sessions["a"].user_name.as_deref(), Some("A"), "a name may come later");
}
