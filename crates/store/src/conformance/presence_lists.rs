//! What the loops look at: open rooms with who is in them, empty ones, and which meeting is meant.

use std::collections::BTreeMap;
use std::sync::Arc;

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{OpenPresence, PresenceCounts};
use roundsman_core::presence::RoomName;

use super::attend::{reserve, user};
use super::fixture::{Fixture, at_once};
use super::visit::{
    deactivate, everyone_leaves, failed, look, meeting_of_room, new_meeting, open, room, room_name,
    room_with, sees, try_open,
};
use super::wishes::{MINUTE, SECOND};

pub async fn open_meetings_are_listed_with_who_is_there(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let full = room_with(fx, "full", &["c", "a", "b"]).await;
    let over = room_with(fx, "over", &["d"]).await;
    let empty = open(fx, ada, "empty").await.id;
    reserve(fx, ada, "of-a-bot").await;
    fx.advance(MINUTE);
    sees(fx, full, &["c", "b"]).await;
    deactivate(fx, over).await;
    let expected = [open_presence(full, "full", &["b", "c"]), open_presence(empty, "empty", &[])];
    assert_eq!(open_presences(fx, None, 100).await, expected);
    assert_eq!(open_presences(fx, None, 1).await, expected[..1]);
    assert_eq!(open_presences(fx, Some(full), 100).await, expected[1..]);
    assert_eq!(open_presences(fx, Some(over), 100).await, expected[1..]);
    assert_eq!(open_presences(fx, Some(empty), 100).await, []);
    assert_eq!(open_presences(fx, None, 0).await, []);
}

/// all open rooms, page by page, while others are over.
pub async fn many_open_meetings_are_listed_in_pages(fx: &Arc<Fixture>) {
    const CALLERS: usize = 32;
    const PAGE: u32 = 997;
    let ada = user(fx, "ada").await;
    let rooms = fx.traits.open_rooms;
    let callers = (0..CALLERS).map(|caller| {
        let fx = Arc::clone(fx);
        async move {
            let mut made = BTreeMap::new();
            for number in (caller..rooms).step_by(CALLERS) {
                let name = format!("room-{number}");
                made.insert(open(&fx, ada, &name).await.id, name);
            }
            made
        }
    });
    let made = at_once(callers).await;
    let mut open: BTreeMap<MeetingId, String> = made.into_iter().flatten().collect();
    assert_eq!(open.len(), rooms);
    let full: Vec<MeetingId> = open.keys().copied().step_by(rooms / 50).collect();
    for id in &full {
        sees(fx, *id, &["a"]).await;
    }
    let over: Vec<MeetingId> = open.keys().copied().skip(7).step_by(rooms / 50).collect();
    for id in over {
        deactivate(fx, id).await;
        open.remove(&id);
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = open_presences(fx, after, PAGE).await;
        let Some(last) = page.last() else { break };
        after = Some(last.meeting_id);
        found.extend(page);
    }
    let expected: Vec<OpenPresence> = open
        .iter()
        .map(|(id, name)| open_presence(*id, name, if full.contains(id) { &["a"] } else { &[] }))
        .collect();
    assert_eq!(found.len(), expected.len());
    assert!(found == expected, "by number, each once, with who is there");
    let (mut empty, mut after) = (Vec::new(), None);
    loop {
        let page = empty_presences(fx, after, PAGE).await;
        let Some(last) = page.last() else { break };
        after = Some(*last);
        empty.extend(page);
    }
    let nobody_there = open.keys().copied().filter(|id| !full.contains(id));
    assert!(empty == nobody_there.collect::<Vec<_>>(), "by number, each once");
}

pub async fn empty_meetings_are_listed(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let (one, two) = (room(fx, "one").await, room(fx, "two").await);
    let full = room_with(fx, "full", &["a"]).await;
    let over = room(fx, "over").await;
    deactivate(fx, over).await;
    reserve(fx, ada, "of-a-bot").await;
    assert_eq!(empty_presences(fx, None, 100).await, [one, two]);
    assert_eq!(empty_presences(fx, None, 1).await, [one]);
    assert_eq!(empty_presences(fx, Some(one), 100).await, [two]);
    assert_eq!(empty_presences(fx, Some(two), 100).await, []);
    sees(fx, one, &["a"]).await;
    let ended = everyone_leaves(fx, full).await;
    assert!(!ended.is_active());
    assert_eq!(empty_presences(fx, None, 100).await, [two]);
}

pub async fn a_room_leads_to_its_meeting(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    assert_eq!(meeting_of_room(fx, "weekly").await, None);
    assert_eq!(rooms(fx, &[]).await, vec![]);
    let first = room_with(fx, "weekly", &["a"]).await;
    assert_eq!(meeting_of_room(fx, "weekly").await, Some(first));
    everyone_leaves(fx, first).await;
    assert_eq!(meeting_of_room(fx, "weekly").await, Some(first), "it might be a mistake");
    let second = open(fx, bob, "weekly").await.id;
    assert_eq!(meeting_of_room(fx, "weekly").await, Some(second));
    let other = open(fx, ada, "other").await.id;
    let gone = open(fx, ada, "gone").await.id;
    deactivate(fx, gone).await;
    reserve(fx, ada, "of-a-bot").await;
    let asked = ["gone", "other", "weekly", "nowhere", "WEEKLY", "weekly", "of-a-bot"];
    let expected = vec![None, Some(other), Some(second), None, None, Some(second), None];
    assert_eq!(rooms(fx, &asked).await, expected);
    // The latest decides, also about those before it.
    deactivate(fx, second).await;
    assert_eq!(meeting_of_room(fx, "weekly").await, None);
    // The open one is meant, also if it is not the latest.
    sees(fx, first, &["a"]).await;
    assert_eq!(meeting_of_room(fx, "weekly").await, Some(first));
}

pub async fn many_rooms_lead_to_their_meetings(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let mut expected = Vec::new();
    let mut names = Vec::new();
    for number in 0..300 {
        let name = format!("room-{number}");
        let there = number % 3 != 0;
        expected.push(if there { Some(open(fx, ada, &name).await.id) } else { None });
        names.push(name);
    }
    let asked: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(rooms(fx, &asked).await, expected);
}

pub async fn meetings_are_counted(fx: &Arc<Fixture>) {
    let counts = async || fx.store.presence_counts().await.expect("presence_counts");
    assert_eq!(counts().await, PresenceCounts::default());
    let ada = user(fx, "ada").await;
    let full = room_with(fx, "full", &["a", "b", "c"]).await;
    let two = room_with(fx, "two", &["a", "b"]).await;
    open(fx, ada, "empty").await;
    reserve(fx, ada, "of-a-bot").await;
    assert_eq!(counts().await, PresenceCounts { open: 3, clients: 5, failing: 0 });
    look(fx, full, failed("503"), &[]).await;
    look(fx, two, failed("503"), &[]).await;
    assert_eq!(counts().await, PresenceCounts { open: 3, clients: 5, failing: 2 });
    deactivate(fx, full).await;
    assert_eq!(counts().await, PresenceCounts { open: 2, clients: 2, failing: 1 });
    assert!(matches!(
        try_open(fx, new_meeting(ada, "full")).await,
        roundsman_core::ports::OpenAnswer::Opened(_)
    ));
    assert_eq!(counts().await.open, 3);
}

pub async fn the_latest_look_at_all_rooms_is_known(fx: &Arc<Fixture>) {
    let last = async || fx.store.last_domain_look().await.expect("last_domain_look");
    let note = async |at| fx.store.note_domain_look(at).await.expect("note_domain_look");
    assert_eq!(last().await, None);
    note(fx.now()).await;
    assert_eq!(last().await, Some(fx.now()));
    note(fx.now() - SECOND).await;
    assert_eq!(last().await, Some(fx.now()), "never moves backwards");
    note(fx.now() + SECOND).await;
    assert_eq!(last().await, Some(fx.now() + SECOND));
    let newest = fx.now() + SECOND * 50;
    let callers = (0..50).map(|secs| {
        let (fx, at) = (Arc::clone(fx), newest - SECOND * secs);
        async move { fx.store.note_domain_look(at).await.expect("note_domain_look") }
    });
    at_once(callers).await;
    assert_eq!(last().await, Some(newest));
}

fn open_presence(id: MeetingId, name: &str, open: &[&str]) -> OpenPresence {
    let open = open.iter().map(ToString::to_string).collect();
    OpenPresence { meeting_id: id, room: room_name(name), open }
}

async fn open_presences(
    fx: &Fixture,
    after: Option<MeetingId>,
    rows_max: u32,
) -> Vec<OpenPresence> {
    let mut found = fx.store.open_presences(after, rows_max).await.expect("open_presences");
    // In which order people are told is nobody's business.
    for presence in &mut found {
        presence.open.sort();
    }
    found
}

async fn empty_presences(fx: &Fixture, after: Option<MeetingId>, rows_max: u32) -> Vec<MeetingId> {
    fx.store.empty_presences(after, rows_max).await.expect("empty_presences")
}

async fn rooms(fx: &Fixture, names: &[&str]) -> Vec<Option<MeetingId>> {
    let names: Vec<RoomName> = names.iter().map(|name| room_name(name)).collect();
    fx.store.meetings_of_rooms(names).await.expect("meetings_of_rooms")
}
