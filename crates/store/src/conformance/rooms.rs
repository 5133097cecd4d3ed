//! Rooms: who owns a project, the log of its document, snapshots, versions and tokens.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use roundsman_core::jobs::{Job, LeaseNo, LeaseRef};
use roundsman_core::ports::{
    AppendAnswer, CompactAnswer, KeepPresenceAnswer, KeptPresence, NewSnapshot, OpenRoomAnswer,
    RoomCounts, Scope, StoredRoom,
};
use roundsman_core::rooms::{
    AppendRules, DocumentFull, NewUpdate, Permission, ProjectId, Room, RoomTokenId, RoomTokenWish,
    RoomVersion, SNAPSHOT_KIND, TokenState, UpdateOrigin,
};
use roundsman_core::users::{TokenHash, UserId};

use super::attend::user;
use super::fixture::Fixture;
use super::visit::lease;
use super::wishes::{MINUTE, SECOND};

pub async fn a_project_belongs_to_whoever_names_it_first(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let made = Room::new(project("p"), ada, fx.now());
    assert_eq!(open(fx, ada, "p").await, OpenRoomAnswer::Open { room: made.clone(), is_new: true });
    fx.advance(SECOND);
    let again = OpenRoomAnswer::Open { room: made.clone(), is_new: false };
    assert_eq!(open(fx, ada, "p").await, again);
    assert_eq!(open(fx, bob, "p").await, OpenRoomAnswer::Foreign);
    assert_eq!(open(fx, UserId::new(999), "q").await, OpenRoomAnswer::NoSuchUser);
    assert_eq!(fx.store.room(project("p")).await.expect("it works"), Some(made));
    assert_eq!(fx.store.room(project("q")).await.expect("it works"), None);
    assert_eq!(fx.store.load_room(project("q")).await.expect("it works"), None);
    assert_eq!(fx.store.room_updates(project("q"), 0, 10).await.expect("it works"), None);
    for name in ["a", "Z", "é", "p/1"] {
        open(fx, ada, name).await;
    }
    open(fx, bob, "bobs").await;
    let names = async |scope, after: Option<&str>, max| -> Vec<String> {
        let rooms = fx.store.rooms(scope, after.map(project), max).await.expect("it works");
        rooms.iter().map(|room| room.project.to_string()).collect()
    };
    assert_eq!(names(Scope::User(ada), None, 10).await, ["Z", "a", "p", "p/1", "é"]);
    assert_eq!(names(Scope::User(ada), Some("a"), 2).await, ["p", "p/1"]);
    assert_eq!(names(Scope::All, Some("a"), 2).await, ["bobs", "p"]);
}

pub async fn updates_are_numbered_without_a_gap(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    open(fx, ada, "p").await;
    open(fx, ada, "q").await;
    let given = vec![update("q", b"1"), update("p", b"22"), update("none", b"x"), update("q", b"")];
    let answers = fx.store.append_updates(given, fx.now()).await.expect("it works");
    let appended = |seq| AppendAnswer::Appended { seq };
    assert_eq!(answers, [appended(1), appended(1), AppendAnswer::NoSuchRoom, appended(2)]);
    assert_eq!(fx.store.append_updates(vec![], fx.now()).await.expect("it works"), []);
    let StoredRoom { room, snapshot, updates } = load(fx, "q").await;
    assert_eq!((room.head_seq, room.snapshot_seq, room.log_bytes), (2, 0, 1));
    assert_eq!((snapshot, room.dirty_since), (None, Some(fx.now())));
    let seen: Vec<(i64, &[u8])> = updates.iter().map(|u| (u.seq, &u.payload[..])).collect();
    assert_eq!(seen, [(1, &b"1"[..]), (2, b"")]);
    assert!(updates.iter().all(|update| update.origin == UpdateOrigin::Client));
    let tail =
        fx.store.room_updates(project("q"), 1, 10).await.expect("it works").expect("it works");
    assert_eq!((tail.head_seq, tail.snapshot_seq, tail.updates.len()), (2, 0, 1));
    let names = ["q", "none", "p"].map(project).to_vec();
    assert_eq!(fx.store.room_heads(names).await.expect("it works"), [Some(2), None, Some(1)]);
    let counts = fx.store.room_counts().await.expect("it works");
    assert_eq!(counts, RoomCounts { rooms: 2, dirty: 2 });
    // One that is too large for its document is refused; its neighbours are not.
    let rules = AppendRules { document_bytes_max: 3, ..AppendRules::default() };
    let large = NewUpdate { rules, ..update("q", b"abc") };
    let answers =
        fx.store.append_updates(vec![large, update("q", b"z")], fx.now()).await.expect("it works");
    let full = AppendAnswer::Full(DocumentFull { bytes: 4, bytes_max: 3 });
    assert_eq!(answers, [full, appended(3)]);
}

pub async fn the_first_update_sets_the_alarm(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    open(fx, ada, "p").await;
    assert_eq!(alarms(fx).await, []);
    append(fx, "p", b"1").await;
    let due = fx.now() + AppendRules::default().snapshot_after;
    assert_eq!(alarms(fx).await, [("p".to_owned(), due)]);
    fx.advance(SECOND);
    append(fx, "p", b"2").await;
    assert_eq!(alarms(fx).await, [("p".to_owned(), due)], "it stays as it was");
    let rules = AppendRules { snapshot_updates: 3, ..AppendRules::default() };
    let third = NewUpdate { rules, ..update("p", b"3") };
    fx.store.append_updates(vec![third], fx.now()).await.expect("it works");
    assert_eq!(alarms(fx).await, [("p".to_owned(), fx.now())], "a long log is merged now");
}

pub async fn a_snapshot_replaces_what_it_was_made_from(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    open(fx, ada, "p").await;
    for payload in [b"1", b"2", b"3"] {
        append(fx, "p", payload).await;
    }
    let guard = lease(fx).await;
    let lost = LeaseRef { lease_no: LeaseNo::new(guard.lease_no.get() + 1000), ..guard };
    let compact = async |snapshot, guard| {
        fx.store.compact_room(project("p"), snapshot, guard, fx.now()).await.expect("it works")
    };
    fx.advance(MINUTE);
    assert_eq!(compact(snapshot(0, 2), lost).await, CompactAnswer::LeaseLost);
    assert_eq!(compact(snapshot(1, 2), guard).await, CompactAnswer::Superseded);
    assert_eq!(compact(snapshot(0, 4), guard).await, CompactAnswer::Superseded, "nobody has that");
    assert_eq!(load(fx, "p").await.updates.len(), 3, "nothing was written");
    let CompactAnswer::Compacted(room) = compact(snapshot(0, 2), guard).await else { panic!() };
    assert_eq!((room.snapshot_seq, room.log_bytes, room.snapshot_bytes), (2, 1, 4));
    assert_eq!(room.dirty_since, Some(fx.now()), "what is left is as old as the snapshot");
    let stored = load(fx, "p").await;
    assert_eq!(stored.room, *room);
    assert_eq!(stored.snapshot, Some(Bytes::from_static(b"0->2")));
    assert_eq!(stored.updates.iter().map(|update| update.seq).collect::<Vec<_>>(), [3]);
    assert_eq!(compact(snapshot(0, 3), guard).await, CompactAnswer::Superseded, "it is older");
    let CompactAnswer::Compacted(room) = compact(snapshot(2, 3), guard).await else { panic!() };
    assert_eq!((room.is_dirty(), room.dirty_since, room.log_bytes), (false, None, 0));
    assert_eq!(fx.store.room_counts().await.expect("it works"), RoomCounts { rooms: 1, dirty: 0 });
    let tail =
        fx.store.room_updates(project("p"), 1, 10).await.expect("it works").expect("it works");
    assert_eq!((tail.snapshot_seq, tail.updates.len()), (3, 0), "it has to be loaded");
    append(fx, "p", b"4").await;
    assert_eq!(load(fx, "p").await.room.head_seq, 4, "numbers go on");
    let nobody = fx.store.compact_room(project("x"), snapshot(0, 1), guard, fx.now()).await;
    assert_eq!(nobody.expect("it works"), CompactAnswer::NoSuchRoom);
    let versions = fx.store.room_versions(project("p"), None, 10).await.expect("it works");
    assert_eq!(versions.iter().map(|version| version.seq).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(versions[0].frontiers, b"f3");
}

pub async fn rooms_that_stay_dirty_are_found(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for name in ["b", "a", "c"] {
        open(fx, ada, name).await;
        append(fx, name, b"1").await;
    }
    let begun = fx.now();
    fx.advance(MINUTE);
    open(fx, ada, "late").await;
    append(fx, "late", b"1").await;
    let stale = async |before, after: Option<&str>, max| -> Vec<String> {
        let found = fx.store.stale_rooms(before, after.map(project), max).await.expect("it works");
        found.iter().map(ToString::to_string).collect()
    };
    assert_eq!(stale(begun, None, 10).await, Vec::<String>::new());
    assert_eq!(stale(fx.now(), None, 10).await, ["a", "b", "c"]);
    assert_eq!(stale(fx.now(), Some("a"), 1).await, ["b"]);
    fx.store
        .compact_room(project("b"), snapshot(0, 1), lease(fx).await, fx.now())
        .await
        .expect("it works");
    assert_eq!(stale(fx.now(), None, 10).await, ["a", "c"]);
}

pub async fn versions_are_kept_and_named(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    open(fx, ada, "p").await;
    let version = |seq: i64, name: Option<&str>| RoomVersion {
        seq,
        frontiers: vec![7, u8::try_from(seq).expect("it works")],
        name: name.map(ToOwned::to_owned),
        at: fx.now(),
    };
    let keep =
        async |version| fx.store.keep_version(project("p"), version).await.expect("it works");
    assert!(!fx.store.keep_version(project("none"), version(1, None)).await.expect("it works"));
    for seq in 1..=5 {
        assert!(keep(version(seq, None)).await);
    }
    let named = RoomVersion { frontiers: vec![9], ..version(2, Some("two")) };
    assert!(keep(named).await);
    let two = fx.store.room_version(project("p"), 2).await.expect("it works");
    assert_eq!(two, Some(version(2, Some("two"))), "it keeps its place and gets the name");
    keep(version(2, None)).await;
    assert_eq!(
        fx.store.room_version(project("p"), 2).await.expect("it works"),
        two,
        "and keeps that"
    );
    assert_eq!(fx.store.room_version(project("p"), 9).await.expect("it works"), None);
    let seqs = async |before, max| -> Vec<i64> {
        let found = fx.store.room_versions(project("p"), before, max).await.expect("it works");
        found.iter().map(|version| version.seq).collect()
    };
    assert_eq!(seqs(Some(5), 2).await, [4, 3]);
    let pruned = fx.store.prune_rooms(fx.now(), 2, 100).await.expect("it works");
    assert_eq!(pruned, 2, "of those without a name the newest stay");
    assert_eq!(seqs(None, 10).await, [5, 4, 2]);
}

pub async fn a_room_token_holds_until_it_ends(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    open(fx, ada, "p").await;
    open(fx, ada, "q").await;
    let wish = |name: &str, number: u8, lasts| RoomTokenWish {
        project: project(name),
        permission: if number == 1 { Permission::Read } else { Permission::Write },
        name: (number == 1).then(|| "one".to_owned()),
        hash: TokenHash::from_stored([number; 32]),
        expires_at: fx.now() + lasts,
    };
    let create = async |wish| fx.store.create_room_token(wish, fx.now()).await.expect("it works");
    assert_eq!(create(wish("none", 1, MINUTE)).await, None);
    let one = create(wish("p", 1, MINUTE)).await.expect("it works");
    let two = create(wish("p", 2, MINUTE * 2)).await.expect("it works");
    let other = create(wish("q", 3, MINUTE * 2)).await.expect("it works");
    assert_eq!((one.permission, one.name.as_deref()), (Permission::Read, Some("one")));
    assert_eq!((one.created_at, one.expires_at), (fx.now(), fx.now() + MINUTE));
    assert_eq!(fx.store.room_token(one.id).await.expect("it works"), Some(one.clone()));
    assert_eq!(fx.store.room_token(RoomTokenId::new(999)).await.expect("it works"), None);
    let list = async |name: &str, max| -> Vec<RoomTokenId> {
        let found = fx.store.room_tokens(project(name), fx.now(), max).await.expect("it works");
        found.iter().map(|token| token.id).collect()
    };
    assert_eq!(list("p", 10).await, [two.id, one.id]);
    assert_eq!(list("p", 1).await, [two.id]);
    fx.advance(MINUTE);
    assert_eq!(list("p", 10).await, [two.id]);
    let extend = async |name: &str, id| {
        let until = fx.now() + MINUTE;
        fx.store.extend_room_token(project(name), id, until).await.expect("it works")
    };
    assert_eq!(extend("q", one.id).await, None, "it is of another room");
    let longer = extend("p", one.id).await.expect("it works");
    assert_eq!(longer.state(fx.now()), TokenState::Holds);
    let revoke = async |name: &str, id| {
        fx.store.revoke_room_token(project(name), id, fx.now()).await.expect("it works")
    };
    assert!(!revoke("q", two.id).await);
    assert!(revoke("p", two.id).await);
    assert!(!revoke("p", two.id).await, "it was revoked");
    assert_eq!(extend("p", two.id).await, None, "what was revoked stays so");
    let revoked = fx.store.room_token(two.id).await.expect("it works").expect("it works");
    assert_eq!(revoked.state(fx.now()), TokenState::Revoked);
    assert_eq!(list("p", 10).await, [one.id]);
    fx.advance(MINUTE * 5);
    assert_eq!(
        fx.store.prune_rooms(fx.now(), 10, 2).await.expect("it works"),
        2,
        "no more than it may"
    );
    assert_eq!(fx.store.prune_rooms(fx.now(), 10, 2).await.expect("it works"), 1);
    assert_eq!(fx.store.room_token(other.id).await.expect("it works"), None);
}

pub async fn of_many_who_name_a_project_one_owns_it(fx: &Arc<Fixture>) {
    let mut users = Vec::new();
    for number in 0..4 {
        users.push(user(fx, &format!("user{number}")).await);
    }
    let mut naming = tokio::task::JoinSet::new();
    for round in 0..32 {
        let (fx, user) = (Arc::clone(fx), users[round % users.len()]);
        naming.spawn(async move { (user, open(&fx, user, "p").await) });
    }
    let answers = naming.join_all().await;
    let owners: BTreeSet<UserId> = answers
        .iter()
        .filter(|(_, answer)| matches!(answer, OpenRoomAnswer::Open { .. }))
        .map(|(user, _)| *user)
        .collect();
    assert_eq!(owners.len(), 1, "{answers:?}");
    let is_new =
        |answer: &OpenRoomAnswer| matches!(answer, OpenRoomAnswer::Open { is_new: true, .. });
    assert_eq!(answers.iter().filter(|(_, answer)| is_new(answer)).count(), 1);
}

/// Batches that meet in several rooms, with snapshots between them: no number is given twice, none is
/// left out, and nothing that was acknowledged is gone.
pub async fn updates_and_snapshots_at_once_lose_nothing(fx: &Arc<Fixture>) {
    const WRITERS: usize = 8;
    const BATCHES: usize = 12;
    let ada = user(fx, "ada").await;
    for name in ["p", "q"] {
        open(fx, ada, name).await;
    }
    let mut writing = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let fx = Arc::clone(fx);
        writing.spawn(async move {
            let mut seqs = Vec::new();
            for _ in 0..BATCHES {
                let mut names = ["p", "q", "p"];
                if writer % 2 == 0 {
                    names.reverse();
                }
                let updates = names.map(|name| update(name, b"x")).to_vec();
                let answers = fx.store.append_updates(updates, fx.now()).await.expect("it works");
                for (name, answer) in names.iter().zip(answers) {
                    let AppendAnswer::Appended { seq } = answer else { panic!("{answer:?}") };
                    seqs.push((*name, seq));
                }
            }
            seqs
        });
    }
    let guard = lease(fx).await;
    for _ in 0..BATCHES {
        let room = load(fx, "p").await.room;
        let taken = snapshot(room.snapshot_seq, room.head_seq);
        let answer =
            fx.store.compact_room(project("p"), taken, guard, fx.now()).await.expect("it works");
        assert!(matches!(answer, CompactAnswer::Compacted(_)), "{answer:?}");
    }
    let given = writing.join_all().await.concat();
    for (name, count) in [("p", 2 * WRITERS * BATCHES), ("q", WRITERS * BATCHES)] {
        let mut seqs: Vec<i64> =
            given.iter().filter(|(of, _)| *of == name).map(|(_, seq)| *seq).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=i64::try_from(count).expect("it works")).collect::<Vec<_>>());
        let stored = load(fx, name).await;
        let kept: Vec<i64> = stored.updates.iter().map(|update| update.seq).collect();
        let expected: Vec<i64> = (stored.room.snapshot_seq + 1..=stored.room.head_seq).collect();
        assert_eq!(kept, expected);
    }
}

pub async fn presence_that_is_kept_replaces_what_it_was_made_from(fx: &Arc<Fixture>) {
    const WRITERS: usize = 4;
    let ada = user(fx, "ada").await;
    open(fx, ada, "p").await;
    open(fx, ada, "q").await;
    let keep = async |name: &str, from_version, bytes: &'static [u8]| {
        let bytes = Bytes::from_static(bytes);
        fx.store.keep_presence(project(name), from_version, bytes).await.expect("it works")
    };
    let kept = async |name| fx.store.kept_presence(project(name)).await.expect("it works");
    assert_eq!(kept("p").await, None);
    assert_eq!(keep("none", 0, b"x").await, KeepPresenceAnswer::NoSuchRoom);
    assert_eq!(keep("p", 1, b"x").await, KeepPresenceAnswer::Superseded, "there is none yet");
    assert_eq!(keep("p", 0, b"one").await, KeepPresenceAnswer::Kept { version: 1 });
    assert_eq!(keep("p", 0, b"x").await, KeepPresenceAnswer::Superseded);
    assert_eq!(keep("p", 1, b"").await, KeepPresenceAnswer::Kept { version: 2 });
    assert_eq!(kept("p").await, Some(KeptPresence { version: 2, bytes: Bytes::new() }));
    let names = ["q", "none", "p"].map(project).to_vec();
    let versions = fx.store.kept_presence_versions(names).await.expect("it works");
    assert_eq!(versions, [0, 0, 2]);
    // Of many who have seen the same, one is in time.
    let mut writing = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let fx = Arc::clone(fx);
        writing.spawn(async move {
            fx.store.keep_presence(project("q"), 0, Bytes::from_static(b"q")).await
        });
    }
    let answers = writing.join_all().await;
    let in_time = |answer: &&Result<KeepPresenceAnswer, _>| {
        matches!(answer, Ok(KeepPresenceAnswer::Kept { version: 1 }))
    };
    assert_eq!(answers.iter().filter(in_time).count(), 1, "{answers:?}");
}

fn project(name: &str) -> ProjectId {
    ProjectId::new(name).expect("the suite names valid projects")
}

fn update(name: &str, payload: &'static [u8]) -> NewUpdate {
    NewUpdate {
        project: project(name),
        payload: Bytes::from_static(payload),
        origin: UpdateOrigin::Client,
        rules: AppendRules::default(),
    }
}

fn snapshot(from_seq: i64, through_seq: i64) -> NewSnapshot {
    let bytes = Bytes::from(format!("{from_seq}->{through_seq}"));
    let frontiers = format!("f{through_seq}").into_bytes();
    NewSnapshot { from_seq, through_seq, bytes, frontiers }
}

async fn open(fx: &Fixture, user: UserId, name: &str) -> OpenRoomAnswer {
    fx.store.open_room(user, project(name), fx.now()).await.expect("open_room")
}

async fn append(fx: &Fixture, name: &str, payload: &'static [u8]) {
    let answers = fx.store.append_updates(vec![update(name, payload)], fx.now()).await;
    assert!(matches!(answers.expect("append")[..], [AppendAnswer::Appended { .. }]));
}

async fn load(fx: &Fixture, name: &str) -> StoredRoom {
    fx.store.load_room(project(name)).await.expect("load_room").expect("it is there")
}

/// The alarms that are set, with their times.
async fn alarms(fx: &Fixture) -> Vec<(String, roundsman_core::Timestamp)> {
    let jobs = fx.all_jobs().await;
    let is_alarm = |job: &&Job| job.facts().kind.as_str() == SNAPSHOT_KIND;
    let shown = |job: &Job| {
        let key = job.facts().key.as_ref().map(|key| key.as_str().to_owned());
        (key.unwrap_or_default(), job.facts().run_at)
    };
    jobs.iter().filter(is_alarm).map(shown).collect()
}
