//! Presence that is kept: it outlives those it is about, and the process.

use std::sync::Arc;

use bytes::Bytes;
use roundsman_core::ports::{KeepPresenceAnswer, RoomStore};
use roundsman_engine::rooms::{JoinError, Mail, Membership, RoomLimits, Rooms, WriteError};
use tokio::sync::Notify;

use super::{Client, RoomWorld, SilentBus, local_bus, project, rooms_of};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{secs, until};

on_every_database! {
    it_is_there_when_everybody_has_gone
    other_nodes_are_told_and_find_what_the_bus_has_lost
    of_what_two_nodes_keep_at_once_nothing_is_lost
    what_could_not_be_kept_is_said_again
    what_cannot_be_kept_changes_nothing
}

/// What a client says of itself at a time, in the encoding of Loro's ephemeral store.
fn said(key: &str, word: &str, at: i64) -> Bytes {
    // Later than the clock of the machine, which Loro asks, and so never too old.
    let mut time = (4_000_000_000_000 + at).cast_unsigned() << 1;
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    let mut bytes = vec![1, length(key)];
    bytes.extend(key.as_bytes());
    // There is a value, and it is a text.
    bytes.extend([1, 4, length(word)]);
    bytes.extend(word.as_bytes());
    while time >= 0x80 {
        bytes.push(u8::try_from(time & 0x7f).unwrap() | 0x80);
        time >>= 7;
    }
    bytes.push(u8::try_from(time).unwrap());
    bytes.into()
}

fn says(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|part| part == word.as_bytes())
}

/// Somebody follows, and knows what there is.
async fn follow(rooms: &Rooms) -> (Membership, Bytes) {
    let joined = rooms.join_kept_presence(&project(), &Arc::<Notify>::default()).await;
    let (membership, all) = joined.unwrap();
    (membership, all.unwrap_or_default())
}

async fn keep(rooms: &Rooms, who: &Membership, said: Bytes) -> Result<(), WriteError> {
    rooms.store_pending(rooms.keep_presence(who, vec![said])).await
}

/// Waits until the member is told a word.
async fn hears(who: &Membership, word: &str) {
    until(
        word,
        || matches!(who.mailbox().take(), Some(Mail::Update(update)) if says(&update, word)),
    )
    .await;
}

async fn it_is_there_when_everybody_has_gone(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let ((ada, none), (bob, _)) = (follow(&world.rooms).await, follow(&world.rooms).await);
    assert!(none.is_empty());
    let first = said("ada", "here", 1);
    keep(&world.rooms, &ada, first.clone()).await.unwrap();
    assert_eq!(bob.mailbox().take(), Some(Mail::Update(first.clone())));
    assert_eq!(ada.mailbox().take(), None, "who said it is not told");
    let stored = world.world.store.kept_presence(project()).await.unwrap().expect("it is durable");
    assert!(says(&stored.bytes, "here"));
    // What is known already is no change, and neither is what is older.
    keep(&world.rooms, &bob, first).await.unwrap();
    keep(&world.rooms, &bob, said("ada", "was", 0)).await.unwrap();
    keep(&world.rooms, &bob, Bytes::from_static(&[0])).await.unwrap();
    assert_eq!(world.world.store.kept_presence(project()).await.unwrap(), Some(stored));
    drop((ada, bob));
    world.world.clock.advance(secs(60));
    world.rooms.look().await.unwrap();
    assert_eq!(format!("{:?}", world.rooms), "Rooms { loaded: 0, .. }");
    let (_, all) = follow(&world.rooms).await;
    assert!(says(&all, "here"), "the room was out of memory");
    let restarted = rooms_of(&world.world, Arc::new(local_bus()), RoomLimits::default());
    assert!(says(&follow(&restarted).await.1, "here"), "another process");
    assert_eq!(world.room().await.head_seq, 0, "the document knows nothing of it");
}

async fn other_nodes_are_told_and_find_what_the_bus_has_lost(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let bus = Arc::new(local_bus());
    let here = rooms_of(&world.world, bus.clone(), RoomLimits::default());
    let there = rooms_of(&world.world, bus, RoomLimits::default());
    let deaf = rooms_of(&world.world, Arc::new(SilentBus(local_bus())), RoomLimits::default());
    let ((ada, _), (bob, _), (eve, _)) =
        (follow(&here).await, follow(&there).await, follow(&deaf).await);
    for (at, word) in (1..).zip(["one", "two"]) {
        keep(&here, &ada, said("ada", word, at)).await.unwrap();
        hears(&bob, word).await;
    }
    assert_eq!(eve.mailbox().take(), None, "nothing was told");
    deaf.look().await.unwrap();
    hears(&eve, "two").await;
    deaf.look().await.unwrap();
    assert_eq!(eve.mailbox().take(), None, "and told once");
}

async fn of_what_two_nodes_keep_at_once_nothing_is_lost(backend: Backend) {
    const WORDS: i64 = 20;
    let world = RoomWorld::new(backend).await;
    let lost = || Arc::new(SilentBus(local_bus()));
    let here = rooms_of(&world.world, lost(), RoomLimits::default());
    let there = rooms_of(&world.world, lost(), RoomLimits::default());
    let ((ada, _), (bob, _)) = (follow(&here).await, follow(&there).await);
    for at in 0..WORDS {
        let (mine, theirs) = (said(&format!("a{at}"), "a", at), said(&format!("b{at}"), "b", at));
        let (mine, theirs) = tokio::join!(keep(&here, &ada, mine), keep(&there, &bob, theirs));
        mine.and(theirs).unwrap();
    }
    let (_, all) = follow(&world.rooms).await;
    for at in 0..WORDS {
        assert!(says(&all, &format!("a{at}")) && says(&all, &format!("b{at}")), "{at} of {WORDS}");
    }
}

async fn what_could_not_be_kept_is_said_again(backend: Backend) {
    for fault in [Fault::Down, Fault::AnswerLost] {
        let world = RoomWorld::new(backend).await;
        let ((ada, _), (bob, _)) = (follow(&world.rooms).await, follow(&world.rooms).await);
        let document = Client::join(&world.rooms, 1).await;
        world.world.store.set("keep_presence", fault);
        let kept = keep(&world.rooms, &ada, said("ada", "here", 1)).await;
        assert!(matches!(kept, Err(WriteError::Store(_))), "{kept:?}");
        assert!(matches!(ada.mailbox().take(), Some(Mail::Rejoin(_))));
        assert_eq!((bob.mailbox().take(), document.membership.mailbox().take()), (None, None));
        world.world.store.mend();
        let (ada, _) = follow(&world.rooms).await;
        keep(&world.rooms, &ada, said("ada", "here", 1)).await.unwrap();
        hears(&bob, "here").await;
        assert!(says(&follow(&world.rooms).await.1, "here"));
    }
}

async fn what_cannot_be_kept_changes_nothing(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let (ada, _) = follow(&world.rooms).await;
    let kept = keep(&world.rooms, &ada, "garbage that says nothing".into()).await;
    assert!(matches!(kept, Err(WriteError::Invalid(_))), "{kept:?}");
    let kept = keep(&world.rooms, &ada, vec![0; 300 * 1024].into()).await;
    assert!(matches!(kept, Err(WriteError::TooLarge)), "{kept:?}");
    assert_eq!(world.world.store.kept_presence(project()).await.unwrap(), None);
    // Whatever cannot be read is left as it is, and nobody begins anew.
    let garbage = Bytes::from_static(b"\xff\xff\xff");
    let answer = world.world.store.keep_presence(project(), 0, garbage.clone()).await.unwrap();
    assert_eq!(answer, KeepPresenceAnswer::Kept { version: 1 });
    let restarted = rooms_of(&world.world, Arc::new(local_bus()), RoomLimits::default());
    let joined = restarted.join_kept_presence(&project(), &Arc::<Notify>::default()).await;
    assert!(matches!(joined, Err(JoinError::Document(_))), "{joined:?}");
    let kept = keep(&world.rooms, &ada, said("ada", "here", 1)).await;
    assert!(matches!(kept, Err(WriteError::Store(_))), "{kept:?}");
    let stored = world.world.store.kept_presence(project()).await.unwrap().unwrap();
    assert_eq!((stored.version, stored.bytes), (1, garbage));
}
