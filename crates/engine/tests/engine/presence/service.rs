//! What users and operators ask of presence.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{
    BotStore, MeetingFilter, MeetingPage, PresenceFilter, PresencePage, RoomsError, Scope,
    SessionFilter,
};
use roundsman_core::presence::{ClosedBy, EndReason};
use roundsman_core::users::UserId;
use roundsman_engine::presence::{MeetingWish, PresenceError, RoomWish, TimelineWhat, TokenWish};

use super::daily::Mishap;
use super::{PresenceWorld, ROOM, new_user};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    a_meeting_is_made_in_a_room_and_looked_at
    a_room_is_made_first_if_that_is_wished
    users_see_their_own_meetings_only
    lists_are_paged
    sessions_and_the_timeline_tell_who_came_and_went
    a_meeting_that_was_ended_stays_ended
    who_says_to_be_there_or_gone_is_looked_for
    a_meeting_is_as_fresh_as_the_last_comparison
    daily_meetings_are_no_bots
}

fn in_room(room: &str) -> MeetingWish {
    MeetingWish { room: Some(room.to_owned()), ..MeetingWish::default() }
}

fn all(active: Option<bool>) -> (PresenceFilter, PresencePage) {
    (PresenceFilter { active, room: None }, PresencePage { before: None, rows_max: 100 })
}

fn any_session() -> SessionFilter {
    SessionFilter { open: None, after: None, rows_max: 100 }
}

async fn a_meeting_is_made_in_a_room_and_looked_at(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    world.daily.joins(ROOM, "early");
    let made = world.presence.create(world.user, in_room(ROOM)).await.unwrap();
    assert!(made.meeting.is_active() && made.fresh_at.is_none());
    world.run_due().await;
    let id = made.meeting.id;
    assert_eq!(world.inside(id).await, ["early"], "who was there before it was made");
    let again = world.presence.create(world.user, in_room(ROOM)).await;
    assert!(matches!(again, Err(PresenceError::RoomTaken { meeting }) if meeting == id));
    let nobody = world.presence.create(UserId::new(9999), in_room("other")).await;
    assert!(matches!(nobody, Err(PresenceError::NoSuchUser)), "{nobody:?}");
    let nameless = world.presence.create(world.user, in_room("a b")).await;
    let Err(PresenceError::Invalid(problems)) = nameless else { panic!("{nameless:?}") };
    assert_eq!(problems[0].field, "room");
    world.check().await;
}

async fn a_room_is_made_first_if_that_is_wished(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let wish = |room: Option<&str>| MeetingWish {
        room: room.map(ToOwned::to_owned),
        create_room: Some(RoomWish::default()),
        ..MeetingWish::default()
    };
    let chosen = world.presence.create(world.user, wish(None)).await.unwrap().meeting;
    assert_eq!(chosen.room.as_str(), "chosen-by-daily");
    assert_eq!(chosen.room_url.as_deref(), Some("https://rooms.daily.co/chosen-by-daily"));
    world.presence.create(world.user, wish(Some("mine"))).await.unwrap();
    // No room is made for a meeting that cannot be.
    let made = world.daily.count("create_room");
    let taken = world.presence.create(world.user, wish(Some("mine"))).await;
    assert!(matches!(taken, Err(PresenceError::RoomTaken { .. })), "{taken:?}");
    assert_eq!(world.daily.count("create_room"), made);
    // No meeting is made without its room.
    world.daily.set("create_room", Mishap::Refused);
    let refused = world.presence.create(world.user, wish(Some("yours"))).await;
    assert!(matches!(refused, Err(PresenceError::Provider(RoomsError::Refused(_)))), "{refused:?}");
    let (filter, page) = all(None);
    assert_eq!(world.presence.meetings(Scope::All, filter, page).await.unwrap().len(), 2);

    let token = |meeting: MeetingId| {
        let wish = TokenWish { user_name: Some("Ada".to_owned()), ..TokenWish::default() };
        world.presence.token(Scope::User(world.user), meeting, wish)
    };
    assert_eq!(token(chosen.id).await.unwrap(), "token for Ada");
    world.presence.deactivate(Scope::All, chosen.id).await.unwrap();
    assert!(matches!(token(chosen.id).await, Err(PresenceError::Over)));
    world.check().await;
}

async fn users_see_their_own_meetings_only(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    let eve = Scope::User(new_user(&world.world, "eve@example.org").await);
    let presence = &world.presence;
    let not_found = |error: PresenceError| matches!(error, PresenceError::NotFound);
    assert!(not_found(presence.meeting(eve, id).await.unwrap_err()));
    assert!(not_found(presence.sessions(eve, id, any_session()).await.unwrap_err()));
    assert!(not_found(presence.timeline(eve, id).await.unwrap_err()));
    assert!(not_found(presence.export(eve, id).await.unwrap_err()));
    assert!(not_found(presence.deactivate(eve, id).await.unwrap_err()));
    assert!(not_found(presence.joining(eve, id, "c").await.unwrap_err()));
    assert!(not_found(presence.joined(eve, id, "c").await.unwrap_err()));
    assert!(not_found(presence.left(eve, id, "c").await.unwrap_err()));
    assert!(not_found(presence.token(eve, id, TokenWish::default()).await.unwrap_err()));
    let (filter, page) = all(None);
    assert_eq!(presence.meetings(eve, filter.clone(), page).await.unwrap(), []);
    assert_eq!(presence.meetings(Scope::All, filter, page).await.unwrap().len(), 1);
    assert!(presence.meeting(Scope::User(world.user), id).await.is_ok());
    world.check().await;
}

async fn lists_are_paged(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    for number in 0..7 {
        world.open_unseen(&format!("room-{number}")).await;
    }
    let scope = Scope::User(world.user);
    let mut rooms = Vec::new();
    let mut before = None;
    loop {
        let page = PresencePage { before, rows_max: 3 };
        let meetings = world.presence.meetings(scope, PresenceFilter::default(), page).await;
        let meetings = meetings.unwrap();
        before = meetings.last().map(|view| view.meeting.id);
        rooms.extend(meetings.iter().map(|view| view.meeting.room.as_str().to_owned()));
        if meetings.len() < 3 {
            break;
        }
    }
    let expected: Vec<String> = (0..7).rev().map(|number| format!("room-{number}")).collect();
    assert_eq!(rooms, expected, "newest first");
    // No page is longer than the limit, whatever is asked for.
    let page = PresencePage { before: None, rows_max: u32::MAX };
    let all = world.presence.meetings(scope, PresenceFilter::default(), page).await.unwrap();
    assert_eq!(all.len(), 7);
    world.check().await;
}

async fn sessions_and_the_timeline_tell_who_came_and_went(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open(ROOM).await;
    let mut times: Vec<(Timestamp, &str, &str)> = Vec::new();
    let steps = [("a", true), ("b", true), ("a", false), ("c", true), ("b", false)];
    for (session, comes) in steps {
        world.pass(secs(20)).await;
        if comes {
            world.comes(ROOM, session);
        } else {
            world.goes(ROOM, session);
        }
        times.push((world.now(), session, if comes { "joined" } else { "left" }));
    }
    world.pass(secs(60)).await;
    let scope = Scope::User(world.user);
    let timeline = world.presence.timeline(scope, id).await.unwrap();
    assert!(timeline.is_whole);
    let told: Vec<_> = timeline
        .entries
        .iter()
        .map(|entry| (entry.at, &*entry.session_id, entry.what.as_str()))
        .collect();
    assert_eq!(told, times);
    assert_eq!(timeline.entries[2].what, TimelineWhat::Left(ClosedBy::Event));
    assert_eq!(timeline.entries[0].user_name.as_deref(), Some("A"));

    let open = SessionFilter { open: Some(true), ..any_session() };
    let open = world.presence.sessions(scope, id, open).await.unwrap();
    assert_eq!(open.len(), 1);
    let first = SessionFilter { rows_max: 2, ..any_session() };
    let first = world.presence.sessions(scope, id, first).await.unwrap();
    let after = first.last().map(|last| (last.joined_at, last.session_id.clone()));
    let rest = SessionFilter { after, ..any_session() };
    let rest = world.presence.sessions(scope, id, rest).await.unwrap();
    assert_eq!((first.len(), rest.len(), &*rest[0].session_id), (2, 1, "c"));

    let export = world.presence.export(scope, id).await.unwrap();
    let lasted: Vec<_> =
        export.sessions.iter().map(|session| export.duration(session).as_secs()).collect();
    assert_eq!((lasted, export.is_whole), (vec![40, 60, 80], true));
    world.check().await;
}

async fn a_meeting_that_was_ended_stays_ended(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    let scope = Scope::User(world.user);
    let ended = world.presence.deactivate(scope, id).await.unwrap().meeting;
    assert_eq!(ended.end_reason, Some(EndReason::Deactivated));
    assert_eq!((ended.num_clients, world.inside(id).await.len()), (0, 0));
    let again = world.presence.deactivate(scope, id).await.unwrap().meeting;
    assert_eq!(again.ended_at, ended.ended_at, "ending it twice is ending it once");
    let late = world.presence.joining(scope, id, "c").await;
    assert!(matches!(late, Err(PresenceError::Over)), "{late:?}");
    let late = world.presence.joined(scope, id, "c").await;
    assert!(matches!(late, Err(PresenceError::Over)), "{late:?}");
    // One that ended by itself does not come back either, once its owner has said so.
    let other = world.open("other").await;
    world.start_timers().await;
    world.pass(secs(2000)).await;
    assert_eq!(world.meeting(other).await.end_reason, Some(EndReason::NeverUsed));
    world.presence.deactivate(scope, other).await.unwrap();
    world.daily.joins("other", "x");
    world.pass(secs(120)).await;
    assert!(!world.meeting(other).await.is_active());
    world.check().await;
}

async fn who_says_to_be_there_or_gone_is_looked_for(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    let scope = Scope::User(world.user);
    let until = world.presence.joining(scope, id, "browser").await.unwrap();
    assert_eq!(until, world.now() + secs(30));
    world.daily.joins(ROOM, "b");
    world.presence.joined(scope, id, "browser").await.unwrap();
    let said_at = world.now();
    world.pass(secs(60)).await;
    assert_eq!(world.daily.look_times(ROOM), [said_at + secs(3), said_at + secs(15)]);
    assert_eq!(world.inside(id).await, ["a", "b"]);

    world.daily.forget_calls();
    world.daily.leaves(ROOM, "b");
    world.presence.left(scope, id, "browser").await.unwrap();
    let said_at = world.now();
    world.pass(secs(60)).await;
    assert_eq!(world.daily.look_times(ROOM), [said_at + secs(5), said_at + secs(15)]);
    assert_eq!(world.inside(id).await, ["a"]);
    assert_eq!(world.closed(id, "b").await.by, ClosedBy::Poll, "their word is no proof");
    let bad = world.presence.joining(scope, id, "").await;
    assert!(matches!(bad, Err(PresenceError::Invalid(_))), "{bad:?}");
    world.check().await;
}

async fn a_meeting_is_as_fresh_as_the_last_comparison(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    let fresh = async |id| world.presence.meeting(Scope::All, id).await.unwrap().fresh_at;
    let looked_at = world.meeting(id).await.looks.looked_at;
    assert_eq!(fresh(id).await, looked_at);
    world.work.reconciler(&world.options).tick().await.unwrap();
    let compared_at = world.now();
    assert_eq!(fresh(id).await, Some(compared_at));
    world.world.clock.advance(secs(5));
    let later = world.open_unseen("later").await;
    assert_eq!(fresh(later).await, None, "nobody has compared it yet");
    let (filter, page) = all(Some(true));
    let listed = world.presence.meetings(Scope::All, filter, page).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|view| view.fresh_at).collect();
    assert_eq!(listed, [None, Some(compared_at)]);
    world.check().await;
}

/// They are rows of the same table, and no rule about bots touches them.
async fn daily_meetings_are_no_bots(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    let store = &world.world.store;
    assert_eq!(store.live_bots(None, 100).await.unwrap(), []);
    assert_eq!(store.adopt_meetings(100, world.now()).await.unwrap(), 0);
    let live = MeetingFilter { live: true, ..MeetingFilter::default() };
    let page = MeetingPage { before: None, skip: 0, rows_max: 100 };
    assert!(store.meetings(world.user, live, page).await.unwrap().is_empty());
    assert!(world.meeting(id).await.is_active());
    world.check().await;
}
