//! A meeting in a room is made with all it brings, once in each room, and found by whom it concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::bots::{Meeting, MeetingId};
use roundsman_core::jobs::{JobState, Json};
use roundsman_core::ports::{OpenAnswer, PresenceFilter, PresencePage, Scope};
use roundsman_core::presence::{
    DAILY, NewPresenceMeeting, POLL_KIND, PresenceMeeting, ROOM_NAME_BYTES_MAX, Schedule, poll_wish,
};
use roundsman_core::users::UserId;

use super::attend::{everything, frames_of, jobs_of, log_of, meetings_of, user};
use super::fixture::{Fixture, at_once};
use super::visit::{
    ALL_MEETINGS, deactivate, end, find, meeting, meetings, new_meeting, open, room, room_name,
    room_with, try_open,
};
use super::wishes::{MINUTE, SECOND};

pub async fn a_meeting_is_made_with_all_it_brings(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let wish = new_meeting(ada, "stand-up_1");
    let OpenAnswer::Opened(made) = try_open(fx, wish.clone()).await else {
        panic!("nobody else is there");
    };
    let expected = wish.meeting(made.id, fx.now());
    assert_eq!(*made, expected);
    assert_eq!(meeting(fx, made.id).await, expected);
    let log = log_of(fx, made.id).await;
    assert_eq!(log.len(), 1);
    assert_eq!((log[0].from_state.as_deref(), log[0].to_state.as_str()), (None, "open"));
    assert_eq!((log[0].cause.as_str(), log[0].at), ("user", fx.now()));
    assert_eq!(frames_of(fx, made.id).await, vec![], "nobody has come");
    let jobs = jobs_of(fx, POLL_KIND, made.id).await;
    assert_eq!(jobs.len(), 1);
    let (facts, wish) = (jobs[0].facts(), poll_wish(made.id, &[], fx.now()));
    assert_eq!(jobs[0].state(fx.now()), JobState::Pending);
    assert_eq!((facts.user_id, &facts.payload), (UserId::SYSTEM, &wish.payload));
    let rows = meetings_of(fx, ada).await;
    let row = Meeting {
        id: made.id,
        user_id: ada,
        platform: DAILY.to_owned(),
        native_id: Some("stand-up_1".to_owned()),
        status: "open".to_owned(),
        container_id: None,
        start_time: None,
        end_time: None,
        data: Json::from_stored("{}".to_owned()),
        created_at: fx.now(),
        updated_at: fx.now(),
    };
    assert_eq!((rows.len(), &rows[0].meeting, &rows[0].bot), (1, &row, &None));
}

pub async fn what_is_wished_comes_back_as_it_was_given(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let odd = "https://example.org/?q=Ada's 😀 \"room\" \\ \u{202e}ü; -- %s $1 ?1";
    let schedule = Schedule { starts_at: fx.now() + MINUTE, ends_at: fx.now() + MINUTE * 30 };
    let wishes = [
        new_meeting(ada, "a"),
        NewPresenceMeeting { schedule: Some(schedule), ..new_meeting(ada, "b") },
        NewPresenceMeeting { room_url: Some(odd.to_owned()), ..new_meeting(ada, "c") },
        NewPresenceMeeting { room_url: Some(String::new()), ..new_meeting(ada, "d") },
        new_meeting(ada, &"r".repeat(ROOM_NAME_BYTES_MAX)),
        new_meeting(ada, "-"),
    ];
    for wish in wishes {
        let OpenAnswer::Opened(made) = try_open(fx, wish.clone()).await else {
            panic!("{wish:?}");
        };
        let expected = wish.meeting(made.id, fx.now());
        assert_eq!((&*made, meeting(fx, made.id).await), (&expected, expected.clone()));
    }
}

pub async fn a_room_has_one_open_meeting(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let first = open(fx, ada, "weekly").await;
    let before = everything(fx, &[ada, bob]).await;
    fx.advance(SECOND);
    for owner in [ada, bob] {
        let answer = try_open(fx, new_meeting(owner, "weekly")).await;
        assert_eq!(answer, OpenAnswer::RoomTaken { meeting: first.id });
    }
    assert_eq!(everything(fx, &[ada, bob]).await, before, "a refusal writes nothing");
    // Names differ by every letter.
    for other in ["Weekly", "weekly-", "weekl"] {
        open(fx, bob, other).await;
    }
    deactivate(fx, first.id).await;
    let second = open(fx, bob, "weekly").await;
    assert!(second.id > first.id, "a meeting of its own");
    let answer = try_open(fx, new_meeting(ada, "weekly")).await;
    assert_eq!(answer, OpenAnswer::RoomTaken { meeting: second.id });
    assert!(!meeting(fx, first.id).await.is_active());
}

pub async fn nobody_makes_no_meeting(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    open(fx, ada, "taken").await;
    let before = everything(fx, &[ada]).await;
    for id in [UserId::SYSTEM, UserId::new(1_000_000), UserId::new(i64::MAX)] {
        for room in ["free", "taken"] {
            let answer = try_open(fx, new_meeting(id, room)).await;
            assert_eq!(answer, OpenAnswer::NoSuchUser, "{id:?}");
        }
    }
    assert_eq!(everything(fx, &[ada]).await, before);
}

pub async fn of_many_who_open_a_room_at_once_one_does(fx: &Arc<Fixture>) {
    const CALLERS: usize = 10;
    let users = [user(fx, "ada").await, user(fx, "bob").await];
    for round in 0..fx.traits.start_rounds {
        let name = format!("room-{round}");
        let callers = (0..CALLERS).map(|caller| {
            let (fx, wish) = (Arc::clone(fx), new_meeting(users[caller % 2], &name));
            async move { try_open(&fx, wish).await }
        });
        let (mut made, mut refused) = (Vec::new(), Vec::new());
        for answer in at_once(callers).await {
            match answer {
                OpenAnswer::Opened(meeting) => made.push(meeting.id),
                OpenAnswer::RoomTaken { meeting } => refused.push(meeting),
                OpenAnswer::NoSuchUser => panic!("they are there"),
            }
        }
        assert_eq!(made.len(), 1, "round {round}");
        assert_eq!(refused, vec![made[0]; CALLERS - 1], "all are told which");
    }
    let all = meetings(fx, Scope::All, PresenceFilter::default()).await;
    assert_eq!(all.len(), fx.traits.start_rounds, "a refusal leaves nothing");
}

pub async fn meetings_are_listed_in_pages(fx: &Arc<Fixture>) {
    let users = [user(fx, "ada").await, user(fx, "bob").await];
    let mut all = Vec::new();
    for round in 0..4 {
        for (number, owner) in users.into_iter().enumerate() {
            let name = format!("room-{}", (round + number) % 3);
            let id = open(fx, owner, &name).await.id;
            // The latest in each room may stay.
            if round < 2 {
                deactivate(fx, id).await;
            }
            all.insert(0, id);
            fx.advance(SECOND);
        }
        for id in &all {
            if round == 2 && meeting(fx, *id).await.is_active() {
                deactivate(fx, *id).await;
            }
        }
    }
    let mut rows = Vec::new();
    for id in all {
        rows.push(meeting(fx, id).await);
    }
    assert_eq!(rows.iter().filter(|meeting| meeting.is_active()).count(), 2);
    let scopes = [Scope::All, Scope::User(users[0]), Scope::User(users[1]), nobody()];
    let rooms = [None, Some("room-0"), Some("room-1"), Some("room-2"), Some("elsewhere")];
    for scope in scopes {
        for (active, name) in [None, Some(true), Some(false)]
            .into_iter()
            .flat_map(|active| rooms.map(|name| (active, name)))
        {
            let filter = PresenceFilter { active, room: name.map(room_name) };
            let expected: Vec<_> =
                rows.iter().filter(|row| is_wanted(row, scope, &filter)).cloned().collect();
            assert_eq!(meetings(fx, scope, filter.clone()).await, expected, "{scope:?} {filter:?}");
            assert_pages(fx, scope, &filter, &expected).await;
        }
    }
}

pub async fn nobody_sees_the_meetings_of_others(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let id = room_with(fx, "weekly", &["a"]).await;
    let expected = meeting(fx, id).await;
    for (scope, seen) in [
        (Scope::All, true),
        (Scope::User(ada), true),
        (Scope::User(bob), false),
        (Scope::User(UserId::SYSTEM), false),
    ] {
        let found = fx.store.presence_meeting(scope, id).await.expect("presence_meeting");
        assert_eq!(found, seen.then(|| expected.clone()), "{scope:?}");
    }
    let none = end(fx, Scope::User(bob), id).await;
    assert_eq!(none, roundsman_core::ports::EndAnswer::NotFound);
    assert_eq!(meeting(fx, id).await, expected, "nor do they end them");
    for id in [0, -1, 1_000_000, i64::MAX, i64::MIN] {
        assert_eq!(find(fx, MeetingId::new(id)).await, None);
    }
}

/// Numbers are given to all meetings alike, whatever takes place in them.
pub async fn meetings_have_numbers_of_their_own(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let mut ids = BTreeSet::new();
    for number in 0..5 {
        assert!(ids.insert(open(fx, ada, &format!("room-{number}")).await.id));
        let bot = super::attend::reserve(fx, ada, &format!("room-{number}")).await;
        assert!(ids.insert(bot.meeting.id));
    }
    assert_eq!(meetings_of(fx, ada).await.len(), 10);
    assert!(room(fx, "last").await > *ids.last().expect("ten"));
}

fn is_wanted(meeting: &PresenceMeeting, scope: Scope, filter: &PresenceFilter) -> bool {
    let sees = match scope {
        Scope::All => true,
        Scope::User(user) => meeting.user_id == user,
    };
    sees && filter.active.is_none_or(|active| meeting.is_active() == active)
        && filter.room.as_ref().is_none_or(|room| meeting.room == *room)
}

async fn assert_pages(
    fx: &Fixture,
    scope: Scope,
    filter: &PresenceFilter,
    expected: &[PresenceMeeting],
) {
    let mut found: Vec<PresenceMeeting> = Vec::new();
    loop {
        let before = found.last().map(|meeting| meeting.id);
        let page = PresencePage { before, rows_max: 2 };
        let rows = fx.store.presence_meetings(scope, filter.clone(), page).await;
        let rows = rows.expect("presence_meetings");
        assert!(rows.len() <= 2);
        if rows.is_empty() {
            break;
        }
        found.extend(rows);
    }
    assert_eq!(found, expected, "{scope:?} {filter:?}");
    let none = PresencePage { rows_max: 0, ..ALL_MEETINGS };
    let none = fx.store.presence_meetings(scope, filter.clone(), none).await;
    assert_eq!(none.expect("presence_meetings"), vec![]);
}

fn nobody() -> Scope {
    Scope::User(UserId::new(1_000_000))
}
