use proptest::collection::vec;
use proptest::prelude::*;

use super::SpeakerEventKind::{End, Start};
use super::*;

fn event(kind: SpeakerEventKind, participant: &str, at_ms: i64) -> SpeakerEvent {
    SpeakerEvent {
        session_uid: "session".to_owned(),
        kind,
        participant: participant.to_owned(),
        name: participant.to_uppercase(),
        at_ms,
    }
}

/// Maps the segment from 10 s to 20 s.
fn mapped(events: &[(SpeakerEventKind, &str, i64)]) -> (Option<String>, SpeakerStatus) {
    let events: Vec<SpeakerEvent> =
        events.iter().map(|(kind, who, at_ms)| event(*kind, who, *at_ms)).collect();
    map_speaker(10_000, 20_000, &events)
}

fn somebody(name: &str, status: SpeakerStatus) -> (Option<String>, SpeakerStatus) {
    (Some(name.to_owned()), status)
}

#[test]
fn without_events_nothing_is_known() {
    assert_eq!(mapped(&[]), (None, SpeakerStatus::NoSpeakerEvents));
}

#[test]
fn events_count_until_half_a_second_after_the_segment() {
    assert_eq!(mapped(&[(Start, "a", 20_501)]), (None, SpeakerStatus::NoSpeakerEvents));
    assert_eq!(mapped(&[(Start, "a", 20_500)]), (None, SpeakerStatus::Unknown));
}

#[test]
fn when_nobody_spoke_the_speaker_is_unknown() {
    assert_eq!(mapped(&[(Start, "a", 0), (End, "a", 9_999)]), (None, SpeakerStatus::Unknown));
    assert_eq!(mapped(&[(End, "a", 15_000)]), (None, SpeakerStatus::Unknown));
}

#[test]
fn a_turn_that_only_touches_the_segment_is_none_of_it() {
    assert_eq!(mapped(&[(Start, "a", 0), (End, "a", 10_000)]), (None, SpeakerStatus::Unknown));
    assert_eq!(mapped(&[(Start, "a", 20_000)]), (None, SpeakerStatus::Unknown));
    let a = somebody("A", SpeakerStatus::Mapped);
    assert_eq!(mapped(&[(Start, "a", 0), (End, "a", 10_001)]), a);
    assert_eq!(mapped(&[(Start, "a", 19_999)]), a);
}

#[test]
fn whoever_spoke_alone_is_the_speaker() {
    let a = somebody("A", SpeakerStatus::Mapped);
    assert_eq!(mapped(&[(Start, "a", 9_900), (End, "a", 20_100)]), a);
    assert_eq!(mapped(&[(Start, "a", 12_000), (End, "a", 13_000)]), a);
}

#[test]
fn a_speaker_who_started_long_ago_and_did_not_end_counts() {
    assert_eq!(mapped(&[(Start, "a", 0)]), somebody("A", SpeakerStatus::Mapped));
}

#[test]
fn of_several_the_longest_is_the_speaker() {
    let several = SpeakerStatus::MultipleConcurrentSpeakers;
    let events = [(Start, "a", 0), (End, "a", 13_000), (Start, "b", 13_000)];
    assert_eq!(mapped(&events), somebody("B", several));
    let events = [(Start, "a", 0), (End, "a", 16_000), (Start, "b", 15_000)];
    assert_eq!(mapped(&events), somebody("A", several));
}

#[test]
fn the_turns_of_a_participant_are_added() {
    let events = [
        (Start, "a", 10_000),
        (End, "a", 13_000),
        (Start, "b", 13_000),
        (End, "b", 17_000),
        (Start, "a", 17_000),
        (End, "a", 19_000),
    ];
    assert_eq!(mapped(&events), somebody("A", SpeakerStatus::MultipleConcurrentSpeakers));
}

#[test]
fn an_earlier_turn_does_not_hide_that_somebody_has_ended() {
    // The first end after a start is its end; a later start does not revive the first.
    let events = [(Start, "a", 0), (End, "a", 5_000), (Start, "b", 12_000), (Start, "a", 30_000)];
    assert_eq!(mapped(&events), somebody("B", SpeakerStatus::Mapped));
}

#[test]
fn a_start_while_speaking_takes_nothing_away() {
    let events = [
        (Start, "a", 10_000),
        (Start, "a", 18_000),
        (End, "a", 20_000),
        (Start, "b", 12_000),
        (End, "b", 16_000),
    ];
    assert_eq!(mapped(&events), somebody("A", SpeakerStatus::MultipleConcurrentSpeakers));
}

#[test]
fn an_end_and_a_start_at_the_same_instant_go_on() {
    let events = [(Start, "a", 0), (Start, "a", 11_000), (End, "a", 11_000), (Start, "b", 15_000)];
    assert_eq!(mapped(&events), somebody("A", SpeakerStatus::MultipleConcurrentSpeakers));
}

#[test]
fn ties_go_to_who_started_first_and_then_by_participant() {
    let several = SpeakerStatus::MultipleConcurrentSpeakers;
    assert_eq!(mapped(&[(Start, "a", 9_000), (Start, "b", 8_000)]), somebody("B", several));
    assert_eq!(mapped(&[(Start, "b", 9_000), (Start, "a", 9_000)]), somebody("A", several));
}

#[test]
fn participants_of_the_same_name_are_told_apart() {
    let named = |kind, participant: &str, at_ms| SpeakerEvent {
        name: "Kim".to_owned(),
        ..event(kind, participant, at_ms)
    };
    let events = [named(Start, "1", 0), named(Start, "2", 0), named(End, "2", 11_000)];
    let kim = somebody("Kim", SpeakerStatus::MultipleConcurrentSpeakers);
    assert_eq!(map_speaker(10_000, 20_000, &events), kim);
    assert_eq!(map_speaker(12_000, 20_000, &events), somebody("Kim", SpeakerStatus::Mapped));
}

/// The fields of an event that is accepted, with one changed or taken away.
fn read(field: &str, value: Option<&str>) -> Result<SpeakerEvent, InvalidSpeakerEvent> {
    SpeakerEvent::from_fields(|wanted| match wanted {
        _ if wanted == field => value,
        UID => Some("session"),
        TIME => Some("1500"),
        TYPE => Some("SPEAKER_START"),
        NAME => Some("Kim"),
        _ => None,
    })
}

#[test]
fn fields_are_read() {
    let kim = SpeakerEvent {
        session_uid: "session".to_owned(),
        kind: Start,
        participant: "Kim".to_owned(),
        name: "Kim".to_owned(),
        at_ms: 1_500,
    };
    assert_eq!(read(ID, None).as_ref(), Ok(&kim));
    assert_eq!(read(ID, Some(" ")).as_ref(), Ok(&kim));
    assert_eq!(read(NAME, Some("  Kim\n")).as_ref(), Ok(&kim));
    assert_eq!(read(ID, Some("spaces/1")).unwrap().participant, "spaces/1");
    assert_eq!(read(TYPE, Some("SPEAKER_END")).unwrap().kind, End);
    let times =
        [("0", 0), ("1500.4", 1_500), ("1500.5", 1_501), ("-0.0", 0), ("86400000.0", TIME_MS_MAX)];
    for (text, ms) in times {
        assert_eq!(read(TIME, Some(text)).unwrap().at_ms, ms, "{text}");
    }
}

#[test]
fn what_breaks_a_rule_is_refused_by_the_name_of_its_field() {
    let (longest, too_long) = ("é".repeat(127) + "e", "é".repeat(128));
    for field in [UID, NAME, ID] {
        assert!(read(field, Some(&longest)).is_ok(), "{field}");
        assert_eq!(read(field, Some(&too_long)).unwrap_err().field, field);
        assert_eq!(read(field, Some("a\0b")).unwrap_err().field, field);
    }
    for field in [UID, TIME, TYPE, NAME] {
        assert_eq!(read(field, None).unwrap_err().to_string(), format!("{field} is missing"));
        assert_eq!(read(field, Some("")).unwrap_err().field, field);
    }
    assert_eq!(read(UID, Some("a\nb")).unwrap_err().field, UID);
    assert_eq!(read(NAME, Some(" \t ")).unwrap_err().field, NAME);
    assert_eq!(read(TYPE, Some("speaker_start")).unwrap_err().field, TYPE);
    for text in ["NaN", "inf", "-1", "-0.001", "86400000.1", "1e308", "soon", "1 2", "0x10"] {
        assert_eq!(read(TIME, Some(text)).unwrap_err().field, TIME, "{text}");
    }
}

#[test]
fn a_member_holds_the_fields_and_nothing_else() {
    let id = SpeakerEvent { name: "Kim".to_owned(), ..event(Start, "spaces/1", 1_500) };
    assert_eq!(
        id.to_json(),
        r#"{"uid":"session","relative_client_timestamp_ms":1500,"event_type":"SPEAKER_START","participant_name":"Kim","participant_id_meet":"spaces/1"}"#
    );
    let nameless = SpeakerEvent { participant: "Kim".to_owned(), ..id };
    assert!(!nameless.to_json().contains(ID));
}

#[test]
fn objects_may_hold_the_time_as_a_number_or_as_text() {
    for time in ["1500", "1500.2", "\"1500\""] {
        let text = format!(
            r#"{{"uid":"s","{TIME}":{time},"event_type":"SPEAKER_END","participant_name":"Kim",
                "participant_id_meet":null,"token":"secret"}}"#
        );
        let event = SpeakerEvent::from_object(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!((event.at_ms, event.kind, &*event.participant), (1_500, End, "Kim"));
        assert!(!event.to_json().contains("secret"));
    }
    assert_eq!(SpeakerEvent::from_object(&Map::new()).unwrap_err().field, UID);
}

const PARTICIPANTS: [&str; 3] = ["a", "b", "c"];

fn any_event() -> impl Strategy<Value = SpeakerEvent> {
    let kind = prop_oneof![Just(Start), Just(End)];
    (kind, 0..PARTICIPANTS.len(), 0i64..40)
        .prop_map(|(kind, who, at_ms)| event(kind, PARTICIPANTS[who], at_ms))
}

/// Counts the milliseconds before each of which the participant's last event was a start.
fn spoken_ms(events: &[SpeakerEvent], who: &str, start_ms: i64, end_ms: i64) -> usize {
    let last_kind = |now: i64| {
        let told = events.iter().filter(|event| event.participant == who && event.at_ms <= now);
        told.max_by_key(|event| (event.at_ms, event.kind)).map(|event| event.kind)
    };
    (start_ms..end_ms).filter(|ms| last_kind(*ms) == Some(Start)).count()
}

proptest! {
    #[test]
    fn the_speaker_spoke_as_long_as_anybody(
        events in vec(any_event(), 1..24), start_ms in 0i64..40, length in 0i64..20,
    ) {
        let end_ms = start_ms + length;
        let spoken = PARTICIPANTS.map(|who| spoken_ms(&events, who, start_ms, end_ms));
        let (speaker, status) = map_speaker(start_ms, end_ms, &events);
        let expected = match spoken.iter().filter(|ms| **ms > 0).count() {
            0 => SpeakerStatus::Unknown,
            1 => SpeakerStatus::Mapped,
            _ => SpeakerStatus::MultipleConcurrentSpeakers,
        };
        prop_assert_eq!(status, expected);
        let longest = speaker.map(|name| spoken_ms(&events, &name.to_lowercase(), start_ms, end_ms));
        let most = spoken.into_iter().max().filter(|ms| *ms > 0);
        prop_assert_eq!(longest, most);
    }

    #[test]
    fn neither_order_nor_repeats_matter(
        (events, shuffled) in vec((any_event(), 1usize..4), 0..16).prop_flat_map(|told| {
            let once: Vec<SpeakerEvent> = told.iter().map(|(event, _)| event.clone()).collect();
            let repeated: Vec<SpeakerEvent> =
                told.into_iter().flat_map(|(event, n)| std::iter::repeat_n(event, n)).collect();
            (Just(once), Just(repeated).prop_shuffle())
        }),
        start_ms in 0i64..40, length in 0i64..20,
    ) {
        let end_ms = start_ms + length;
        prop_assert_eq!(
            map_speaker(start_ms, end_ms, &events),
            map_speaker(start_ms, end_ms, &shuffled)
        );
    }

    #[test]
    fn no_times_are_too_strange(
        start_ms: i64, end_ms: i64, times in vec((any::<i64>(), any::<bool>()), 0..8),
    ) {
        let events: Vec<SpeakerEvent> = times
            .into_iter()
            .map(|(at_ms, starts)| event(if starts { Start } else { End }, "a", at_ms))
            .collect();
        map_speaker(start_ms, end_ms, &events);
    }

    #[test]
    fn whatever_is_accepted_is_read_again_as_it_was_written(
        uid: String, time in -1.0f64..1e8, starts: bool, name: String, id: Option<String>,
    ) {
        let time = time.to_string();
        let read = SpeakerEvent::from_fields(|field| match field {
            UID => Some(&uid),
            TIME => Some(&time),
            TYPE => Some(if starts { "SPEAKER_START" } else { "SPEAKER_END" }),
            NAME => Some(&name),
            _ => id.as_deref(),
        });
        if let Ok(event) = read {
            let object = serde_json::from_str(&event.to_json()).unwrap();
            prop_assert_eq!(SpeakerEvent::from_object(&object), Ok(event));
        }
    }
}
