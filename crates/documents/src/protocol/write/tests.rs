use proptest::prelude::*;
use roundsman_core::rooms::Permission;

use super::super::{AckStatus, DecodeError, JoinErrorCode, RoomErrorCode};
use super::*;

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from)
}

fn batch() -> impl Strategy<Value = BatchId> {
    any::<[u8; 8]>().prop_map(BatchId)
}

fn refusal() -> impl Strategy<Value = JoinRefusal> {
    let plain =
        |code| move |message: String| JoinRefusal { code, message, version: None, app_code: None };
    prop_oneof![
        ".{0,20}".prop_map(plain(JoinErrorCode::Unknown)),
        ".{0,20}".prop_map(plain(JoinErrorCode::AuthFailed)),
        (".{0,20}", bytes()).prop_map(|(message, version)| JoinRefusal {
            code: JoinErrorCode::VersionUnknown,
            message,
            version: Some(version),
            app_code: None,
        }),
        (".{0,20}", "[a-z_]{1,20}").prop_map(|(message, app_code)| JoinRefusal {
            code: JoinErrorCode::App,
            message,
            version: None,
            app_code: Some(app_code),
        }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let permission = prop_oneof![Just(Permission::Read), Just(Permission::Write)];
    let status = prop::sample::select(vec![
        AckStatus::Ok,
        AckStatus::Unknown,
        AckStatus::PermissionDenied,
        AckStatus::InvalidUpdate,
        AckStatus::PayloadTooLarge,
        AckStatus::RateLimited,
        AckStatus::FragmentTimeout,
        AckStatus::App,
    ]);
    let code = prop::sample::select(vec![
        RoomErrorCode::RejoinSuggested,
        RoomErrorCode::Evicted,
        RoomErrorCode::Unknown,
    ]);
    prop_oneof![
        (bytes(), bytes()).prop_map(|(auth, version)| Message::JoinRequest { auth, version }),
        (permission, bytes(), bytes()).prop_map(|(permission, version, extra)| Message::JoinOk {
            permission,
            version,
            extra
        }),
        refusal().prop_map(Message::JoinError),
        (prop::collection::vec(bytes(), 0..5), batch())
            .prop_map(|(updates, batch)| Message::Update { updates, batch }),
        (batch(), any::<u64>(), any::<u64>()).prop_map(|(batch, fragments, bytes)| {
            Message::FragmentHeader { batch, fragments, bytes }
        }),
        (batch(), any::<u64>(), bytes()).prop_map(|(batch, index, bytes)| Message::Fragment {
            batch,
            index,
            bytes
        }),
        (code, ".{0,20}").prop_map(|(code, message)| Message::RoomError { code, message }),
        Just(Message::Leave),
        (batch(), status).prop_map(|(batch, status)| Message::Ack { batch, status }),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    let crdt = prop::sample::select(Crdt::ALL.to_vec());
    (crdt, "[a-zé/ ]{0,40}", message()).prop_map(|(crdt, room, message)| Frame {
        crdt,
        room,
        message,
    })
}

proptest! {
    #[test]
    fn a_frame_is_read_back(frame in frame()) {
        prop_assert_eq!(Frame::decode(frame.encode()), Ok(frame));
    }

    #[test]
    fn a_frame_that_is_cut_off_or_goes_on_is_none(frame in frame(), cut in any::<prop::sample::Index>()) {
        let whole = frame.encode();
        let part = whole.slice(..cut.index(whole.len()));
        let read = Frame::decode(part.clone());
        // What an error of joining says beside its text may be missing.
        prop_assert!(read.is_err() || matches!(frame.message, Message::JoinError(_)), "{read:?}");
        let mut longer = whole.to_vec();
        longer.push(0);
        let read = Frame::decode(longer.into());
        prop_assert!(read.is_err() || read != Ok(frame));
    }

    #[test]
    fn any_bytes_are_a_frame_or_an_error(mut noise in prop::collection::vec(any::<u8>(), 0..400), magic in any::<bool>()) {
        if magic && noise.len() >= 4 {
            noise[..4].copy_from_slice(b"%LOR");
        }
        if let Ok(frame) = Frame::decode(noise.into()) {
            prop_assert_eq!(Frame::decode(frame.encode()), Ok(frame));
        }
    }
}

/// What the published encoder (loro-protocol 0.3.0 of npm) makes of the same messages.
#[test]
fn the_bytes_are_those_of_the_published_encoder() {
    let frame = |message| Frame { crdt: Crdt::Loro, room: "p1".to_owned(), message };
    let batch = BatchId([1, 2, 3, 4, 5, 6, 7, 8]);
    let cases: Vec<(Message, &[u8])> = vec![
        (
            Message::JoinRequest { auth: Bytes::from_static(b"tok"), version: Bytes::new() },
            b"%LOR\x02p1\x00\x03tok\x00",
        ),
        (
            Message::JoinOk {
                permission: Permission::Write,
                version: Bytes::from_static(b"\x00"),
                extra: Bytes::new(),
            },
            b"%LOR\x02p1\x01\x05write\x01\x00\x00",
        ),
        (
            Message::Update { updates: vec![Bytes::from_static(b"ab")], batch },
            b"%LOR\x02p1\x03\x01\x02ab\x01\x02\x03\x04\x05\x06\x07\x08",
        ),
        (
            Message::FragmentHeader { batch, fragments: 3, bytes: 300 },
            b"%LOR\x02p1\x04\x01\x02\x03\x04\x05\x06\x07\x08\x03\xac\x02",
        ),
        (
            Message::Ack { batch, status: AckStatus::PermissionDenied },
            b"%LOR\x02p1\x08\x01\x02\x03\x04\x05\x06\x07\x08\x03",
        ),
        (
            Message::RoomError { code: RoomErrorCode::RejoinSuggested, message: "x".to_owned() },
            b"%LOR\x02p1\x06\x01\x01x",
        ),
    ];
    for (message, wire) in cases {
        let frame = frame(message);
        assert_eq!(frame.encode(), wire, "{frame:?}");
        assert_eq!(Frame::decode(Bytes::copy_from_slice(wire)), Ok(frame));
    }
}

#[test]
fn limits_are_kept() {
    let long_room = Frame { crdt: Crdt::Loro, room: "r".repeat(129), message: Message::Leave };
    assert_eq!(Frame::decode(long_room.encode()), Err(DecodeError::BadRoom));
    let huge = Bytes::from(vec![b'%'; FRAME_BYTES_MAX + 1]);
    assert_eq!(Frame::decode(huge), Err(DecodeError::TooLarge));
    let many = Bytes::from_static(b"%LOR\x01p\x03\xff\xff\xff\x7f");
    assert_eq!(Frame::decode(many), Err(DecodeError::TooManyUpdates));
    let number = Bytes::from_static(b"%LOR\x01p\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
    assert_eq!(Frame::decode(number), Err(DecodeError::BadNumber));
}

#[test]
fn a_large_update_is_cut_into_frames_that_fit() {
    let batch = BatchId([9; 8]);
    let room = "r".repeat(ROOM_BYTES_MAX);
    for (length, frames_expected) in [
        (0, 1),
        (FRAGMENT_BYTES, 1),
        (FRAME_BYTES_MAX - OVERHEAD_BYTES_MAX, 1),
        (FRAME_BYTES_MAX - OVERHEAD_BYTES_MAX + 1, 3),
        (700_000, 4),
    ] {
        let update = Bytes::from(vec![7u8; length]);
        let frames = update_frames(Crdt::Loro, &room, &update, batch);
        assert_eq!(frames.len(), frames_expected, "{length}");
        assert!(frames.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX));
    }
}
