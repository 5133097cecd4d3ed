use std::time::Duration;

use roundsman_core::presence::{
    Hint, HintKind, NewPresenceMeeting, Participant, PresenceRules, end_meeting, reconcile,
};

use super::*;

fn at(secs: u64) -> Timestamp {
    Timestamp::EPOCH + Duration::from_secs(secs)
}

fn meeting() -> PresenceMeeting {
    let wish = NewPresenceMeeting {
        user_id: UserId::new(1),
        room: RoomName::new("room").unwrap(),
        room_url: None,
        schedule: None,
    };
    wish.meeting(MeetingId::new(7), at(1))
}

fn columns() -> PresenceColumns {
    PresenceColumns {
        meeting_id: 7,
        user_id: 1,
        room: "room".to_owned(),
        room_url: None,
        status: "open".to_owned(),
        starts_at: None,
        ends_at: None,
        created_at: at(1),
        started_at: None,
        ended_at: None,
        end_reason: None,
        num_clients: 0,
        last_left_at: None,
        look_no: 0,
        looked_at: None,
        failures: 0,
        failing_since: None,
        failure: None,
        empty_since: None,
        gone_since: None,
    }
}

fn named(error: StoreError) -> (&'static str, &'static str) {
    match error {
        StoreError::Inconsistent { table, column, .. } => (table, column),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_row_that_makes_no_sense_is_named() {
    assert_eq!(columns().into_meeting().unwrap(), meeting());
    let wrong = [
        (PresenceColumns { status: "active".to_owned(), ..columns() }, (MEETINGS, "status")),
        (PresenceColumns { starts_at: Some(at(1)), ..columns() }, (PRESENCE, "ends_at")),
        (
            PresenceColumns { end_reason: Some("tired".to_owned()), ..columns() },
            (PRESENCE, "end_reason"),
        ),
        (PresenceColumns { num_clients: -1, ..columns() }, (PRESENCE, "num_clients")),
        (PresenceColumns { failures: i64::MAX, ..columns() }, (PRESENCE, "failures")),
    ];
    for (columns, place) in wrong {
        assert_eq!(named(columns.into_meeting().unwrap_err()), place);
    }
}

#[test]
fn a_session_is_closed_by_somebody_or_open() {
    let session = |left_at: Option<u64>, closed_by: Option<&str>| {
        let columns = SessionColumns {
            meeting_id: 7,
            session_id: "s".to_owned(),
            user_id: None,
            user_name: None,
            joined_at: at(1),
            left_at: left_at.map(at),
            closed_by: closed_by.map(ToOwned::to_owned),
        };
        columns.into_session().map(|session| session.closed)
    };
    assert_eq!(session(None, None).unwrap(), None);
    let closed = Closed { at: at(2), by: ClosedBy::Poll };
    assert_eq!(session(Some(2), Some("poll")).unwrap(), Some(closed));
    for (left_at, by) in [(Some(2), None), (None, Some("poll")), (Some(2), Some("cat"))] {
        assert_eq!(named(session(left_at, by).unwrap_err()), (SESSIONS, "closed_by"));
    }
}

#[test]
fn the_row_of_meetings_is_written_only_when_it_shows_something_else() {
    let before = meeting();
    let look = |look: Look| {
        let report = LookReport { no: 1, began_at: at(5), look, hints: vec![] };
        reconcile(&before, vec![], report, &PresenceRules::default(), at(5)).unwrap().meeting
    };
    assert!(!meeting_row_differs(&before, &look(Look::Seen(vec![]))));
    assert!(!meeting_row_differs(&before, &look(Look::Failed { reason: "503".to_owned() })));
    let person = Participant {
        session_id: "a".to_owned(),
        user_id: None,
        user_name: None,
        joined_at: at(4),
    };
    assert!(meeting_row_differs(&before, &look(Look::Seen(vec![person]))));
    let ended = end_meeting(&before, vec![], EndReason::NeverUsed, at(9)).meeting;
    assert!(meeting_row_differs(&before, &ended));
}

#[test]
fn whoever_is_named_is_known() {
    let person = |id: &str| Participant {
        session_id: id.to_owned(),
        user_id: None,
        user_name: None,
        joined_at: at(1),
    };
    let left = Hint {
        what: HintKind::Left,
        session: Some("c".to_owned()),
        ..Hint::look("ptcpt-left-1", at(1))
    };
    let report = |look: Look| LookReport {
        no: 1,
        began_at: at(2),
        look,
        hints: vec![left.clone(), Hint::look("x", at(1))],
    };
    let seen = report(Look::Seen(vec![person("b"), person("a"), person("b")]));
    assert_eq!(named_sessions(&seen).into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(named_sessions(&report(Look::Gone)).into_iter().collect::<Vec<_>>(), ["c"]);
}

#[test]
fn an_owner_has_the_last_word() {
    let over = end_meeting(&meeting(), vec![], EndReason::EveryoneLeft, at(9)).meeting;
    let (ended, effects) = ended_by_owner_too(&over).unwrap();
    let expected = PresenceMeeting { end_reason: Some(EndReason::Deactivated), ..over };
    assert_eq!(ended, expected);
    let step = &effects.transitions[0];
    let states = (step.from_state.as_deref(), step.to_state.as_str(), step.cause.as_str());
    assert_eq!(states, (Some("completed"), "completed", "deactivated"));
    assert_eq!(ended_by_owner_too(&ended), None);
}

#[test]
fn events_are_cut_between_characters() {
    let event = |payload: String| NewInboxEvent {
        service: DAILY,
        event: "e\0".to_owned(),
        kind: "k".to_owned(),
        room: Some("r\0".to_owned()),
        outcome: InboxOutcome::Odd,
        reason: None,
        payload,
    };
    let kept = kept_event(event(format!("a\0{}", "ü".repeat(INBOX_PAYLOAD_BYTES_MAX))));
    assert_eq!((kept.event.as_str(), kept.room.as_deref()), ("e", Some("r")));
    assert_eq!(kept.payload.len(), INBOX_PAYLOAD_BYTES_MAX - 1);
    assert!(kept.payload.starts_with("aü"));
    let whole = "x".repeat(INBOX_PAYLOAD_BYTES_MAX);
    assert_eq!(kept_event(event(whole.clone())).payload, whole);
}

#[test]
fn a_meeting_that_contradicts_itself_is_found() {
    let facts = |id: i64| PresenceFacts {
        meeting_id: id,
        status: Some("open".to_owned()),
        open: true,
        ended: false,
        end_reason: None,
        num_clients: 2,
        counted: 2,
    };
    let over = |id: i64| PresenceFacts {
        status: Some("completed".to_owned()),
        open: false,
        ended: true,
        end_reason: Some("room_gone".to_owned()),
        num_clients: 0,
        counted: 0,
        ..facts(id)
    };
    let logged = |id: i64, state: &str| ((MEETING_ENTITY.to_owned(), id), state.to_owned());
    let log: BTreeMap<_, _> =
        (1..20).map(|id| logged(id, if id < 10 { "open" } else { "completed" })).collect();
    let meetings = [
        facts(1),
        PresenceFacts { num_clients: 1, ..facts(2) },
        PresenceFacts { open: false, ..facts(3) },
        PresenceFacts { ended: true, ..facts(4) },
        PresenceFacts { end_reason: Some("room_gone".to_owned()), ..facts(5) },
        PresenceFacts { status: Some("active".to_owned()), ..facts(6) },
        PresenceFacts { status: None, ..facts(7) },
        over(10),
        PresenceFacts { open: true, ..over(11) },
        PresenceFacts { ended: false, ..over(12) },
        PresenceFacts { end_reason: None, ..over(13) },
        PresenceFacts { end_reason: Some("tired".to_owned()), ..over(14) },
        PresenceFacts { num_clients: 1, counted: 1, ..over(15) },
        facts(16),
        over(20),
    ];
    let found = check_presence(&meetings, &log);
    let rules: Vec<_> = found.iter().map(|one| (one.rule, one.subject.as_str())).collect();
    let mut expected = vec![(CLIENTS_COUNTED, "meeting 2")];
    let odd = ["3", "4", "5", "6", "7", "11", "12", "13", "14", "15"];
    let odd: Vec<String> = odd.iter().map(|id| format!("meeting {id}")).collect();
    expected.extend(odd.iter().map(|subject| (ROW_CONSISTENT, subject.as_str())));
    expected.extend([(LOG_MATCHES_STATE, "meeting 16"), (LOG_MATCHES_STATE, "meeting 20")]);
    assert_eq!(rules, expected);
}
