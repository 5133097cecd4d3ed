//! What the sockets of rooms may cost, and how a client learns that it was too much: in words after
//! which it comes back and brings everything, unless it is not wanted.

use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt;
use roundsman_core::ports::{Clock, RoomStore};
use roundsman_core::rooms::{AppendRules, NewUpdate, ProjectId, UpdateOrigin};
use roundsman_documents::Document;
use roundsman_documents::protocol::{AckStatus, BatchId, Crdt, Frame, Message, RoomErrorCode};
use roundsman_engine::rooms::RoomLimits;
use roundsman_web::RoomSocketLimits;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message as Packet;

use crate::app::{App, Setup};
use crate::rooms::{ROOM, Wire, change};

const DOC: &str = "/rooms/storyboard/doc";

fn app_code(message: &Message) -> Option<&str> {
    match message {
        Message::JoinError(why) => why.app_code.as_deref(),
        other => panic!("{other:?}"),
    }
}

fn is_rejoin(message: &Message) -> bool {
    matches!(message, Message::RoomError { code: RoomErrorCode::RejoinSuggested, .. })
}

/// Joins a room by its name.
async fn join_room(wire: &mut Wire, room: &str, token: &str) -> Message {
    let auth = Bytes::copy_from_slice(token.as_bytes());
    let message = Message::JoinRequest { auth, version: Bytes::new() };
    let frame = Frame { crdt: Crdt::Loro, room: room.to_owned(), message };
    wire.socket.send(Packet::Binary(frame.encode())).await.unwrap();
    wire.next().await
}

#[tokio::test]
async fn a_batch_that_is_never_whole_is_given_up_and_brought_again() {
    let app = App::new();
    let running = app.serve();
    let key = app.token("ada@example.org", &[]).await;
    let mut wire = Wire::connect(&running, "/ws/rooms").await;
    assert!(matches!(wire.join(&key).await, Message::JoinOk { .. }));
    let batch = BatchId([1; 8]);
    wire.send(Crdt::Loro, Message::FragmentHeader { batch, fragments: 2, bytes: 10 }).await;
    let piece = Message::Fragment { batch, index: 0, bytes: Bytes::from_static(b"12345") };
    wire.send(Crdt::Loro, piece).await;
    // Whoever is answered has been read.
    assert_eq!(wire.update(change("a", 1), 2).await, AckStatus::Ok);
    app.clock.advance(Duration::from_secs(11));
    let given_up = Message::Ack { batch, status: AckStatus::FragmentTimeout };
    assert_eq!(wire.next().await, given_up);
    let again = wire.next().await;
    assert!(is_rejoin(&again), "{again:?}");
    assert!(matches!(wire.join(&key).await, Message::JoinOk { .. }));
}

#[tokio::test]
async fn rooms_of_a_connection_connections_of_a_room_and_documents_have_limits() {
    let rules = AppendRules { document_bytes_max: 3000, ..AppendRules::default() };
    let app = App::with(Setup {
        room_limits: RoomLimits { members_max: 2, rules, ..RoomLimits::default() },
        room_sockets: RoomSocketLimits { rooms_max: 2, ..RoomSocketLimits::default() },
        ..Setup::default()
    });
    let running = app.serve();
    let key = app.token("ada@example.org", &[]).await;
    let mut one = Wire::connect(&running, "/ws/rooms").await;
    assert!(matches!(one.join(&key).await, Message::JoinOk { .. }));
    assert!(matches!(join_room(&mut one, "second", &key).await, Message::JoinOk { .. }));
    let refused = join_room(&mut one, "third", &key).await;
    assert_eq!(app_code(&refused), Some("too_many_rooms"));
    let refused = join_room(&mut one, "second\n", &key).await;
    assert_eq!(app_code(&refused), Some("too_many_rooms"), "nothing else is looked at");

    let mut two = Wire::connect(&running, "/ws/rooms").await;
    assert!(matches!(two.join(&key).await, Message::JoinOk { .. }));
    let refused = join_room(&mut two, "line\nbreak", &key).await;
    assert_eq!(app_code(&refused), Some("invalid_room"));
    let mut three = Wire::connect(&running, "/ws/rooms").await;
    assert_eq!(app_code(&three.join(&key).await), Some("room_full"));
    drop(two);
    // Whoever goes makes room.
    let room = async || matches!(three.join(&key).await, Message::JoinOk { .. }).then_some(());
    roundsman_testkit::eventually(crate::app_live::SOON, room).await.expect("a place");

    let large = change("large", "x".repeat(4000));
    assert_eq!(one.update(large, 1).await, AckStatus::PayloadTooLarge, "the document is full");
    assert_eq!(one.update(change("small", 1), 2).await, AckStatus::Ok);
}

/// What is stored is no document: nobody gets another one in its place.
#[tokio::test]
async fn a_document_that_cannot_be_read_is_an_error_in_every_mode() {
    let app = App::new();
    let running = app.serve();
    let ada = app.user("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    // The room exists, and its document was never in memory.
    ada.post("/rooms/storyboard/alarms", json!({"name": "wake", "after_secs": 60}))
        .await
        .expect(200);
    let project = ProjectId::new(ROOM).unwrap();
    let damage = NewUpdate {
        project: project.clone(),
        payload: Bytes::from_static(b"no update"),
        origin: UpdateOrigin::Client,
        rules: AppendRules::default(),
    };
    app.store.append_updates(vec![damage], app.clock.now()).await.unwrap();
    let before = app.store.load_room(project.clone()).await.unwrap();
    let mut wire = Wire::connect(&running, "/ws/rooms").await;
    assert_eq!(app_code(&wire.join(&key).await), Some("storage_error"));
    assert_eq!(wire.update(change("a", 1), 1).await, AckStatus::PermissionDenied);
    let mut raw = Wire::connect(&running, &format!("/sync/{ROOM}?token={key}")).await;
    assert_eq!(raw.closed().await, 1013);
    assert_eq!(ada.get(DOC).await.status, 500);
    assert_eq!(ada.patch(DOC, json!({"nodes": {"a": 1}})).await.status, 500);
    assert_eq!(app.store.load_room(project).await.unwrap(), before, "it is left as it is");
}

#[tokio::test]
async fn whoever_does_not_read_joins_again_and_misses_nothing() {
    const UPDATES: u8 = 120;
    let app = App::with(Setup {
        room_limits: RoomLimits { mailbox_bytes_max: 64 * 1024, ..RoomLimits::default() },
        room_sockets: RoomSocketLimits {
            updates_per_sec_max: 10_000,
            ..RoomSocketLimits::default()
        },
        ..Setup::default()
    });
    let running = app.serve();
    let key = app.token("ada@example.org", &[]).await;
    let mut slow = Wire::connect(&running, "/ws/rooms").await;
    assert!(matches!(slow.join(&key).await, Message::JoinOk { .. }));
    let mut fast = Wire::connect(&running, "/ws/rooms").await;
    assert!(matches!(fast.join(&key).await, Message::JoinOk { .. }));
    let mut document = Document::new(5);
    for number in 0..UPDATES {
        let text = format!("{number}{}", "x".repeat(100_000));
        let update = document.patch(&json!({"nodes": {"a": text}})).unwrap().unwrap();
        assert_eq!(
            fast.update(update, number).await,
            AckStatus::Ok,
            "nobody waits for the slow one"
        );
    }
    // More than networks hold was written meanwhile: it is told to join again, and then has it all.
    let mut told = 0;
    while !is_rejoin(&slow.next().await) {
        told += 1;
    }
    assert!(told < UPDATES, "{told} of {UPDATES} came");
    assert!(matches!(slow.join(&key).await, Message::JoinOk { .. }));
    let Message::Update { updates, .. } = slow.next().await else { panic!("what it lacks") };
    let mut late = Document::new(6);
    late.import(&updates[0]).unwrap();
    assert_eq!(late.to_json(), document.to_json());
}

#[tokio::test]
async fn a_server_that_stops_tells_its_clients_to_come_back() {
    let app = App::new();
    let running = app.serve();
    let key = app.token("ada@example.org", &[]).await;
    let mut wire = Wire::connect(&running, "/ws/rooms").await;
    assert!(matches!(wire.join(&key).await, Message::JoinOk { .. }));
    let mut raw = Wire::connect(&running, &format!("/sync/{ROOM}?token={key}")).await;
    assert!(matches!(raw.packet().await, Packet::Binary(_)));
    app.stopping.cancel();
    running.shutdown.cancel();
    assert_eq!((wire.closed().await, raw.closed().await), (1012, 1012));
    running.ended().await;
}
