//! Updates: stored, told, refused; and what happens when they cannot be stored.

use roundsman_core::rooms::{AppendRules, Permission};
use roundsman_engine::rooms::{AccessDenied, Mail, Naming, RoomLimits, Standing, WriteError};
use serde_json::json;

use super::{Client, RoomWorld, project};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    updates_are_stored_and_reach_the_others
    an_update_that_is_none_changes_nothing
    what_could_not_be_stored_is_sent_again
    a_document_has_a_limit
    whoever_joins_while_others_write_misses_nothing
    a_document_leaves_memory_and_comes_back
    tokens_open_a_room_until_they_end
    patches_and_versions_are_changes_like_any_other
}

async fn updates_are_stored_and_reach_the_others(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let mut one = Client::join(&world.rooms, 1).await;
    let mut two = Client::join(&world.rooms, 2).await;
    one.write("a", json!(1)).await.unwrap();
    assert_eq!(world.said().await["nodes"], json!({"a": 1}), "it is stored when it is answered");
    assert_eq!((two.hear(), two.nodes()), (None, json!({"a": 1})));
    assert_eq!(one.membership.mailbox().take(), None, "who wrote it is not told");
    two.write("b", json!(2)).await.unwrap();
    one.hear();
    assert_eq!(one.nodes(), json!({"a": 1, "b": 2}));
    assert_eq!(world.room().await.head_seq, 2);
    world.world.check().await;
}

async fn an_update_that_is_none_changes_nothing(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let mut one = Client::join(&world.rooms, 1).await;
    let two = Client::join(&world.rooms, 2).await;
    let refused = one.send("garbage".into()).await;
    assert!(matches!(refused, Err(WriteError::Invalid(_))), "{refused:?}");
    assert_eq!((world.room().await.head_seq, two.membership.mailbox().take()), (0, None));
    one.write("a", json!(1)).await.unwrap();
}

/// The copy in memory then has what the log has not: it is dropped, and the client, which compares
/// versions when it joins again, sends it once more.
async fn what_could_not_be_stored_is_sent_again(backend: Backend) {
    for fault in [Fault::Down, Fault::AnswerLost] {
        let world = RoomWorld::new(backend).await;
        let mut one = Client::join(&world.rooms, 1).await;
        let mut two = Client::join(&world.rooms, 2).await;
        one.write("a", json!(1)).await.unwrap();
        world.world.store.set("append_updates", fault);
        assert!(matches!(one.write("b", json!(2)).await, Err(WriteError::Store(_))));
        assert!(matches!(one.hear(), Some(Mail::Rejoin(_))));
        assert!(matches!(two.hear(), Some(Mail::Rejoin(_))));
        world.world.store.mend();
        let Client { document, .. } = one;
        let one = Client::rejoin(&world.rooms, document).await;
        let mut two = Client::rejoin(&world.rooms, two.document).await;
        two.sees(&json!({"a": 1, "b": 2})).await;
        assert_eq!(one.nodes(), two.nodes());
        assert_eq!(world.said().await["nodes"], json!({"a": 1, "b": 2}));
        world.world.check().await;
    }
}

async fn a_document_has_a_limit(backend: Backend) {
    let rules = AppendRules { document_bytes_max: 2000, ..AppendRules::default() };
    let world = RoomWorld::with(backend, RoomLimits { rules, ..RoomLimits::default() }).await;
    let mut one = Client::join(&world.rooms, 1).await;
    one.write("a", json!(1)).await.unwrap();
    let large = json!("x".repeat(4000));
    assert!(matches!(one.write("b", large).await, Err(WriteError::TooLarge)));
    assert_eq!(world.said().await["nodes"], json!({"a": 1}));
    let refused = world.rooms.patch(&project(), json!({"nodes": {"b": "x".repeat(4000)}})).await;
    assert!(matches!(refused, Err(roundsman_engine::Error::TooLarge { .. })), "{refused:?}");
}

/// L-9, for documents: what is written while somebody joins is in what they get, or is told to them.
async fn whoever_joins_while_others_write_misses_nothing(backend: Backend) {
    const ROUNDS: u64 = 60;
    let world = RoomWorld::new(backend).await;
    let mut writer = Client::join(&world.rooms, 1).await;
    for round in 0..ROUNDS {
        let key = format!("k{}", round % 7);
        let (written, mut late) =
            tokio::join!(writer.write(&key, json!(round)), Client::join(&world.rooms, 100 + round));
        written.unwrap();
        assert_eq!(late.hear(), None);
        assert_eq!(late.nodes(), writer.nodes(), "round {round}");
    }
}

async fn a_document_leaves_memory_and_comes_back(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let mut one = Client::join(&world.rooms, 1).await;
    one.write("a", json!(1)).await.unwrap();
    let loads = || world.world.store.calls("load_room");
    let before = loads();
    drop(one);
    world.world.clock.advance(secs(29));
    world.rooms.look().await.unwrap();
    let again = Client::join(&world.rooms, 2).await;
    assert_eq!(loads(), before, "it was still in memory");
    drop(again);
    world.world.clock.advance(secs(30));
    world.rooms.look().await.unwrap();
    let again = Client::join(&world.rooms, 3).await;
    assert_eq!((loads(), again.nodes()), (before + 1, json!({"a": 1})));
}

async fn tokens_open_a_room_until_they_end(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let rooms = &world.rooms;
    let read = rooms.issue_token(&project(), Permission::Read, None, secs(60)).await.unwrap();
    let write = rooms.issue_token(&project(), Permission::Write, None, secs(120)).await.unwrap();
    let access = rooms.authorise(&project(), &read.text, Naming::Opens).await.unwrap();
    assert_eq!((access.permission, access.until), (Permission::Read, Some(read.token.expires_at)));
    let other = roundsman_core::rooms::ProjectId::new("other").unwrap();
    rooms.open(world.user, &other).await.unwrap();
    let denied = rooms.authorise(&other, &read.text, Naming::Opens).await;
    assert!(matches!(denied, Err(AccessDenied::InvalidToken)), "{denied:?}");
    let joined = Client::join(rooms, 1).await;
    world.world.clock.advance(secs(60));
    let denied = rooms.authorise(&project(), &read.text, Naming::Opens).await;
    assert!(matches!(denied, Err(AccessDenied::Expired)), "{denied:?}");
    let standing = rooms.standing(&project(), access, &read.text).await.unwrap();
    assert_eq!(standing, Standing::Expired);
    let longer = rooms.refresh_token(&project(), read.token.id, secs(60)).await.unwrap();
    let standing = rooms.standing(&project(), access, &read.text).await.unwrap();
    assert!(matches!(standing, Standing::Holds(held) if held.until == Some(longer.expires_at)));
    assert_eq!(joined.membership.mailbox().take(), Some(Mail::Recheck), "members are looked at");
    rooms.revoke_token(&project(), write.token.id).await.unwrap();
    let denied = rooms.authorise(&project(), &write.text, Naming::Opens).await;
    assert!(matches!(denied, Err(AccessDenied::InvalidToken)), "{denied:?}");
    assert_eq!(joined.membership.mailbox().take(), Some(Mail::Recheck));
    assert!(rooms.revoke_token(&project(), write.token.id).await.is_err(), "once");
}

async fn patches_and_versions_are_changes_like_any_other(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let rooms = &world.rooms;
    let mut one = Client::join(rooms, 1).await;
    one.write("a", json!({"x": 1})).await.unwrap();
    let kept = rooms.keep_version(&project(), Some("before".to_owned())).await.unwrap();
    let patch = json!({"nodes": {"a": {"x": 2}, "b": 1}});
    assert!(rooms.patch(&project(), patch.clone()).await.unwrap().is_some());
    assert_eq!(rooms.patch(&project(), patch).await.unwrap(), None, "it is so already");
    one.sees(&json!({"a": {"x": 2}, "b": 1})).await;
    let then = rooms.read_version(&project(), kept.seq).await.unwrap();
    assert_eq!(then["nodes"], json!({"a": {"x": 1}}));
    let diff = rooms.diff_versions(&project(), kept.seq, None).await.unwrap();
    assert_eq!(diff.patch, Some(json!({"nodes": {"a": {"x": 2}, "b": 1}})));
    rooms.restore_version(&project(), kept.seq).await.unwrap().expect("a change");
    one.sees(&json!({"a": {"x": 1}})).await;
    let exported = rooms.export(&project()).await.unwrap();
    let other = roundsman_core::rooms::ProjectId::new("copy").unwrap();
    rooms.open(world.user, &other).await.unwrap();
    rooms.import(&other, exported).await.unwrap();
    assert_eq!(rooms.read(&other).await.unwrap().1["nodes"], json!({"a": {"x": 1}}));
    assert!(rooms.import(&other, "garbage".into()).await.is_err());
    assert!(rooms.read_version(&project(), 999).await.is_err());
}
