use roundsman_core::jobs::Json;

use super::*;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_micros(secs * 1_000_000)
}

fn foreign(start_time: f64, end_time: f64, speaker: Option<&str>) -> Segment {
    let columns = FinalColumns {
        session_uid: Some(String::new()),
        start_time,
        end_time,
        text: "text".to_owned(),
        speaker: speaker.map(ToOwned::to_owned),
        language: None,
        created_at: at(9),
    };
    columns.into_segment(MeetingId::new(1), None).unwrap()
}

#[test]
fn rows_of_somebody_else_are_read_whatever_they_say() {
    let segment = foreign(1.5, 2.25, Some("Ann"));
    assert_eq!((segment.start_ms, segment.content.end_ms), (1500, 2250));
    assert_eq!(segment.key, SegmentKey { session_uid: None, field: "1.500".to_owned() });
    assert_eq!(segment.speaker_status, SpeakerStatus::Mapped);
    assert_eq!((segment.seq, segment.version, segment.updated_at), (0, 0, at(9)));
    for (start, end) in [(-5.0, f64::NAN), (f64::NEG_INFINITY, 0.0)] {
        let segment = foreign(start, end, None);
        assert_eq!((segment.start_ms, segment.content.end_ms), (0, 0));
        assert_eq!(segment.speaker_status, SpeakerStatus::Unknown);
    }
    assert_eq!(foreign(1e9, f64::INFINITY, None).start_ms, TIME_MS_MAX);
}

#[test]
fn a_status_nobody_knows_is_inconsistent() {
    let facts = SegmentFacts {
        field: "0.000".to_owned(),
        segment_id: None,
        start_ms: 0,
        end_ms: 1,
        speaker_status: "mapped".to_owned(),
        completed: None,
        version: 1,
        updated_at: at(1),
        seq: 1,
    };
    let content = (String::new(), None, None);
    let error = facts.into_segment(LIVE, MeetingId::new(7), None, content, at(1)).unwrap_err();
    assert!(error.to_string().contains("speaker_status"), "{error}");
}

#[test]
fn a_session_is_found_by_its_name_then_without_its_platform() {
    let rows = [("google_meet_a", 1), ("b", 2), ("zoom_b", 3), ("teams_c", 5), ("zoom_c", 4)];
    let starts = SessionStarts::new(rows.map(|(uid, second)| (uid.to_owned(), at(second))));
    let of = |uid: &str| starts.of(Some(uid)).map(|start| start.as_micros() / 1_000_000);
    assert_eq!(of("a"), Some(1));
    assert_eq!(of("zoom_a"), Some(1));
    assert_eq!((of("b"), of("zoom_b"), of("teams_b")), (Some(2), Some(3), Some(2)));
    assert_eq!(of("c"), Some(5), "the first by name");
    assert_eq!((of("d"), starts.of(None)), (None, None));
    assert_eq!(starts.with("a", at(7)).of(Some("zoom_a")), Some(at(7)));
}

#[test]
fn the_latest_events_of_both_sorts_are_kept() {
    let event = |at_ms: i64, participant: &str| SpeakerEvent {
        session_uid: "s".to_owned(),
        kind: SpeakerEventKind::Start,
        participant: participant.to_owned(),
        name: participant.to_owned(),
        at_ms,
    };
    let max = i64::from(SPEAKER_EVENTS_READ_MAX);
    let events = (0..max).flat_map(|ms| [event(ms, "a"), event(ms, "b")]).collect();
    let latest = latest_events(events);
    assert_eq!(latest.len(), SPEAKER_EVENTS_READ_MAX as usize);
    assert!(latest.iter().all(|event| event.at_ms >= max / 2), "{latest:?}");
}

#[test]
fn a_name_leads_to_the_last_one_given() {
    let rename = |names, from: &str, to: &str| {
        renamed(names, &Rename { from: from.to_owned(), to: to.to_owned() })
    };
    let names = rename(BTreeMap::new(), "a", "b");
    let names = rename(names, "b", "c");
    let shown = |names: &BTreeMap<String, String>| {
        names.iter().map(|(name, shown)| format!("{name}>{shown}")).collect::<Vec<_>>()
    };
    assert_eq!(shown(&names), ["a>c", "b>c"]);
    let names = rename(names, "c", "a");
    assert_eq!(shown(&names), ["b>a", "c>a"], "nobody is renamed to what they are called");
}

#[test]
fn frames_go_up_to_the_last_that_tells_of_what_was_said() {
    let frame = |seq: i64, kind: &str| Frame {
        stream: "meeting:1".to_owned(),
        seq,
        body: Json::from_stored(format!(r#"{{"type":"{kind}"}}"#)),
        at: at(1),
    };
    let said = |seq| frame(seq, "transcript.mutable");
    let status = |seq| frame(seq, "meeting.status");
    assert_eq!(last_said([status(4), said(3), status(2), said(1)]), Some(3));
    assert_eq!(last_said([frame(2, "transcript.retracted"), said(1)]), Some(2));
    assert_eq!(last_said([status(1)]), None);
}
