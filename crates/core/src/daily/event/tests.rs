//! The documented events, and everything that was ever seen instead of them.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::recordings::{RecordingKind, TrackMedium, Via};

const HEARD: Timestamp = Timestamp::from_micros(1_708_972_300_000_000);
const JOINED_AT: Timestamp = Timestamp::from_micros(1_708_972_279_960_000);
const EVENT_AT: Timestamp = Timestamp::from_micros(1_708_972_291_500_000);
const SESSION: &str = "0c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f10";

fn read_json(delivered: &Value) -> Delivery {
    read_delivery(delivered.to_string().as_bytes(), HEARD)
}

/// The documented event, changed.
fn left(change: impl FnOnce(&mut Value)) -> Delivery {
    let mut event = json!({
        "version": "1.0.0", "type": "participant.left", "id": "ptcpt-left-1", "event_ts": 1_708_972_291.5,
        "payload": {
            "room": "test", "user_id": "6497c79b", "user_name": "testuser", "session_id": SESSION,
            "joined_at": 1_708_972_279.96, "will_eject_at": null, "owner": false,
            "permissions": {"hasPresence": true, "canSend": true, "canReceive": {"base": true}, "canAdmin": false},
            "duration": 11.419_000_148_773_193,
        },
    });
    change(&mut event);
    read_json(&event)
}

fn hint(delivery: Delivery) -> Hint {
    match delivery.event {
        Event::Participant { hint, .. } | Event::MeetingEnded { hint, .. } => hint,
        other => panic!("{other:?} has no hint"),
    }
}

fn recording(change: impl FnOnce(&mut Value)) -> Delivery {
    let mut event = json!({
        "version": "1.0.0", "type": "recording.ready-to-download", "event_ts": 1_692_124_192,
        "id": "rec-rtd-c3df927c-f738-4471-a2b7-066fa7e95a6b-1692124192",
        "payload": {
            "type": "cloud", "recording_id": "08fa0b24", "room_name": "Xcm97xRZ08b2dePKb78g",
            "start_ts": 1_692_124_183, "status": "finished", "max_participants": 1, "duration": 9,
            "share_token": "ntDCL5k98Ulq", "s3_key": "api-test/Xcm97xRZ08b2dePKb78g/1692124183028",
        },
    });
    change(&mut event);
    read_json(&event)
}

fn announced(delivery: Delivery) -> Announcement {
    match delivery.event {
        Event::RecordingReady(announcement) => announcement,
        other => panic!("{other:?} announces nothing"),
    }
}

fn reason(delivery: Delivery) -> String {
    match delivery.event {
        Event::Odd { reason } => reason,
        other => panic!("{other:?} is not odd"),
    }
}

#[test]
fn somebody_left() {
    let delivery = left(|_| ());
    assert_eq!(
        (delivery.id.as_str(), delivery.kind.as_str()),
        ("ptcpt-left-1", "participant.left")
    );
    assert_eq!(delivery.room.as_deref(), Some("test"));
    let expected = Hint {
        event: "ptcpt-left-1".to_owned(),
        what: HintKind::Left,
        session: Some(SESSION.to_owned()),
        user: Some("6497c79b".to_owned()),
        name: Some("testuser".to_owned()),
        joined_at: Some(JOINED_AT),
        left_at: Some(JOINED_AT + Duration::from_nanos(11_419_000_149)),
        heard_at: HEARD,
    };
    assert_eq!(hint(delivery), expected);
}

#[test]
fn somebody_came() {
    let hint = hint(left(|event| event["type"] = json!("participant.joined")));
    assert_eq!(
        (hint.what, hint.joined_at, hint.left_at),
        (HintKind::Joined, Some(JOINED_AT), None)
    );
}

#[test]
fn what_is_odd_about_a_person_is_left_out() {
    let payload = |name: &'static str, value: Value| hint(left(|e| e["payload"][name] = value));
    for nobody in [json!(""), json!(null), json!("  "), json!(["x"]), json!("\u{0}")] {
        assert_eq!(payload("user_name", nobody.clone()).name, None);
        assert_eq!(payload("user_id", nobody).user, None);
    }
    assert_eq!(payload("user_id", json!(7)).user.as_deref(), Some("7"));
    assert_eq!(payload("user_id", json!(SESSION)).user, None, "that is nobody's");
    assert_eq!(payload("permissions", json!({"canSend": ["audio", "video"]})).what, HintKind::Left);
    assert_eq!(payload("networkQualityState", json!("good")).what, HintKind::Left);
    assert_eq!(payload("session_id", json!(null)).what, HintKind::Look);
    let without = |name: &'static str| {
        hint(left(|e| drop(e["payload"].as_object_mut().unwrap().remove(name))))
    };
    assert_eq!(without("user_name").name, None);
    assert_eq!(without("user_id").user, None);
    assert_eq!(without("session_id").what, HintKind::Look);
    assert_eq!(without("joined_at").joined_at, None);
    let long = payload("user_name", json!("🙂".repeat(4000))).name.unwrap();
    assert!(long.len() <= crate::presence::NAME_BYTES_MAX);
}

#[test]
fn a_leave_is_when_it_was_and_else_when_it_was_told() {
    let at = |change: fn(&mut Value)| hint(left(change)).left_at;
    assert_eq!(
        at(|e| e["payload"]["duration"] = json!(5)),
        Some(JOINED_AT + Duration::from_secs(5))
    );
    assert_eq!(at(|e| e["payload"]["duration"] = json!(null)), Some(EVENT_AT));
    assert_eq!(at(|e| e["payload"]["duration"] = json!(-3)), Some(EVENT_AT));
    assert_eq!(at(|e| e["payload"]["duration"] = json!(1e30)), Some(EVENT_AT));
    assert_eq!(at(|e| e["payload"]["joined_at"] = json!("?")), Some(EVENT_AT));
    assert_eq!(
        at(|e| {
            e["payload"]["joined_at"] = json!(null);
            e["event_ts"] = json!(null);
        }),
        None
    );
}

#[test]
fn rooms_are_named_in_two_ways() {
    let renamed = left(|event| {
        let room = event["payload"]["room"].take();
        event["payload"]["room_name"] = room;
    });
    assert_eq!(renamed.room.as_deref(), Some("test"));
    assert!(matches!(renamed.event, Event::Participant { .. }));
    assert_eq!(reason(left(|e| e["payload"]["room"] = json!(null))), "it names no room");
    assert_eq!(reason(left(|e| e["payload"]["room"] = json!(7))), "it names no room");
    let odd = left(|e| e["payload"]["room"] = json!("a room\u{0}"));
    assert_eq!(odd.room.as_deref(), Some("a room"), "it is shown to whoever looks");
    assert!(matches!(odd.event, Event::Odd { .. }));
}

#[test]
fn a_meeting_ended() {
    let ended = json!({"type": "meeting.ended", "id": "m", "event_ts": 1_708_972_291.5, "payload":
        {"start_ts": 1_708_972_000, "end_ts": 1_708_972_290, "meeting_id": "x", "room": "test"}});
    let hint = hint(read_json(&ended));
    assert_eq!((hint.what, hint.session), (HintKind::MeetingEnded, None));
    assert_eq!(hint.left_at, Some(Timestamp::from_micros(1_708_972_290_000_000)));
}

#[test]
fn a_recording_can_be_had() {
    let cloud = announced(recording(|_| ()));
    assert_eq!(
        (cloud.id.as_str(), cloud.kind, cloud.via),
        ("08fa0b24", RecordingKind::Cloud, Via::Event)
    );
    assert_eq!((cloud.room.as_str(), cloud.duration_ms), ("Xcm97xRZ08b2dePKb78g", 9000));
    assert_eq!(cloud.started_at, Timestamp::from_micros(1_692_124_183_000_000));
    let delivery = recording(|_| ());
    assert_eq!(delivery.room.as_deref(), Some("Xcm97xRZ08b2dePKb78g"));
}

#[test]
fn a_recording_may_say_less_than_it_should() {
    let with = |change: fn(&mut Value)| announced(recording(|event| change(&mut event["payload"])));
    let untyped = |payload: &mut Value| drop(payload.as_object_mut().unwrap().remove("type"));
    assert_eq!(with(untyped).kind, RecordingKind::Cloud);
    assert_eq!(with(|p| p["type"] = json!("cloud-audio-only")).kind, RecordingKind::CloudAudioOnly);
    assert_eq!(with(|p| p["duration"] = json!(9.75)).duration_ms, 9750);
    assert_eq!(with(|p| p["duration"] = json!(null)).duration_ms, 0);
    assert_eq!(with(|p| p["tracks"] = json!(null)).tracks, []);
    assert_eq!(with(|p| p["max_participants"] = json!(null)).kind, RecordingKind::Cloud);
    let raw = with(|p| {
        p["type"] = json!(null);
        p["tracks"] =
            json!([{"type": "audio", "s3Key": "a", "size": 1}, {"type": "audio", "s3key": "b"}]);
    });
    assert_eq!(raw.kind, RecordingKind::RawTracks);
    let tracks: Vec<_> =
        raw.tracks.iter().map(|track| (track.medium, track.key.as_str())).collect();
    assert_eq!(tracks, [(TrackMedium::Audio, "a"), (TrackMedium::Audio, "b")]);
    let began = with(|p| p["start_ts"] = json!(null)).started_at;
    assert_eq!(began, Timestamp::from_micros(1_692_124_183_000_000), "told at its end");
    assert_eq!(
        reason(recording(|e| e["payload"]["recording_id"] = json!(""))),
        "it names no recording"
    );
    assert_eq!(reason(recording(|e| e["payload"]["room_name"] = json!(null))), "it names no room");
}

#[test]
fn other_events_are_nothing_to_us_but_known() {
    for (kind, payload) in [
        ("meeting.started", json!({"room": "test", "start_ts": 1, "meeting_id": "m"})),
        ("waiting-participant.joined", json!({"room": "test"})),
        ("recording.started", json!({"recording_id": "r", "instance_id": "i", "start_ts": 1})),
        ("recording.error", json!({"action": "clourd-recording-err", "timestamp": "1693402871"})),
        ("dialin.ready", json!(null)),
        ("something.new", json!("text")),
    ] {
        let delivery = read_json(&json!({"type": kind, "id": "e", "payload": payload}));
        assert_eq!((delivery.event, delivery.kind.as_str()), (Event::Other, kind));
    }
}

#[test]
fn a_ping_is_a_ping() {
    let ping = read_delivery(br#"{"test":"test"}"#, HEARD);
    assert_eq!((ping.event, ping.kind.as_str(), ping.room), (Event::Ping, "test", None));
}

#[test]
fn what_is_no_event_is_odd_and_has_a_name() {
    let bodies: [&[u8]; 12] = [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b"{}",
        b"\xff\xfe",
        b"<html>",
        br#"{"type":7}"#,
        br#"{"type":"participant.left"}"#,
        br#"{"type":"participant.left","payload":[]}"#,
        br#"{"type":"meeting.ended","payload":{}}"#,
    ];
    let mut ids = std::collections::BTreeSet::new();
    for body in bodies {
        let delivery = read_delivery(body, HEARD);
        assert!(delivery.id.starts_with("sha256:") && delivery.id.len() == 71);
        assert_eq!(read_delivery(body, EVENT_AT).id, delivery.id, "the same when it comes again");
        assert!(ids.insert(delivery.id.clone()), "two are not one");
        assert!(!reason(delivery).is_empty());
    }
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    assert!(!reason(read_delivery(&deep, HEARD)).is_empty());
}

#[test]
fn an_id_that_cannot_be_kept_is_replaced() {
    for id in [json!(""), json!("a\nb"), json!("x".repeat(200)), json!(null), json!({"a": 1})] {
        assert!(left(|event| event["id"] = id).id.starts_with("sha256:"));
    }
    assert_eq!(left(|event| event["id"] = json!(42)).id, "42");
}

/// Any JSON, not too deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Whatever stands in the place of a member, the delivery is read, and keeps its id.
    #[test]
    fn any_member_may_be_anything(
        kind in proptest::sample::select(vec![JOINED, LEFT, MEETING_ENDED, RECORDING_READY, "x"]),
        name in proptest::sample::select(vec![
            "room", "room_name", "session_id", "user_id", "user_name", "joined_at", "duration",
            "recording_id", "start_ts", "end_ts", "tracks", "type", "status",
        ]),
        value in any_json(),
        event_ts in any_json(),
    ) {
        let mut payload = json!({"room": "r", "session_id": "s", "recording_id": "rec",
            "start_ts": 1_700_000_000, "joined_at": 1_700_000_000.5, "duration": 3});
        payload[name] = value;
        let event = json!({"type": kind, "id": "e", "event_ts": event_ts, "payload": payload});
        let delivery = read_json(&event);
        prop_assert_eq!(&delivery.id, "e");
        prop_assert_eq!(&delivery.kind, kind);
        if let Event::Participant { hint, .. } = delivery.event {
            prop_assert_eq!(hint.clone().sound(), hint);
        }
    }
}
