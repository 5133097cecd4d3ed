//! Meetings in rooms and meetings of bots share a table and nothing else.

use std::sync::Arc;

use roundsman_core::bots::{
    BotEvent, BotStatus, ConnectionId, MeetingId, Platform, Source, WorkloadId,
};
use roundsman_core::ports::{
    AnonymiseAnswer, BeatAnswer, BotBeat, BotHappened, BotTarget, ConfigAnswer, ConfigChange,
    EventAnswer, InboxFilter, InboxOutcome, MeetingFilter, MeetingPage, NewInboxEvent,
    PresenceFilter, ReserveAnswer, RuntimeNote, Scope, Seen, StopAnswer,
};
use roundsman_core::presence::{DAILY, EndReason, Look, NewPresenceMeeting, Participant};
use roundsman_core::users::UserId;
use serde_json::{Map, json};

use super::attend::{
    bot_in, by_number, everything, frames_of, log_of, meetings_of, new_bot, plain_row, reserve,
    states_of, sweep, try_reserve, user, user_with_limit,
};
use super::fixture::Fixture;
use super::visit::{
    Snapshot, deactivate, everyone_leaves, failed, lease, look, meeting, meeting_of_room, meetings,
    new_meeting, note_joining, open, person, room_name, room_with, sees, sessions, try_open,
};
use super::wishes::{MINUTE, SECOND};

const PAGE: MeetingPage = MeetingPage { before: None, skip: 0, rows_max: 1000 };

pub async fn a_room_takes_no_slot(fx: &Arc<Fixture>) {
    let ada = user_with_limit(fx, "ada", 1).await;
    for number in 0..3 {
        open(fx, ada, &format!("room-{number}")).await;
    }
    // The same words elsewhere are another meeting, in both directions.
    let bot = reserve(fx, ada, "room-0").await;
    let full = try_reserve(fx, new_bot(ada, "room-1")).await;
    assert_eq!(full, ReserveAnswer::LimitReached { live: 1, max: 1 });
    open(fx, ada, "room-3").await;
    let again = try_reserve(fx, new_bot(ada, "room-0")).await;
    assert_eq!(again, ReserveAnswer::AlreadyLive { meeting: bot.meeting.id });
}

/// No rule about bots is for rooms: nobody adopts them, counts them or gives them up.
pub async fn rooms_are_neither_adopted_nor_swept(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let full = room_with(fx, "full", &["a"]).await;
    let over = room_with(fx, "over", &["a"]).await;
    deactivate(fx, over).await;
    let ours = bot_in(fx, ada, "ours", BotStatus::Active).await;
    let before = (Snapshot::of(fx, full).await, Snapshot::of(fx, over).await);
    assert_eq!(fx.store.adopt_meetings(100, fx.now()).await.expect("adopt_meetings"), 0);
    let counts = fx.store.bot_counts().await.expect("bot_counts");
    assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 1);
    let live = fx.store.live_bots(None, 100).await.expect("live_bots");
    assert_eq!(live.iter().map(|record| record.meeting.id).collect::<Vec<_>>(), [ours.meeting.id]);
    fx.advance(MINUTE * 60 * 24 * 30);
    let swept: Vec<MeetingId> = sweep(fx).await.iter().map(|record| record.meeting.id).collect();
    assert_eq!(swept, [ours.meeting.id]);
    assert_eq!((Snapshot::of(fx, full).await, Snapshot::of(fx, over).await), before);
}

pub async fn rooms_are_listed_among_meetings(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let full = room_with(fx, "full", &["a"]).await;
    let bot = bot_in(fx, ada, "abc-defg-hij", BotStatus::Active).await;
    let over = room_with(fx, "over", &["a"]).await;
    deactivate(fx, over).await;
    open(fx, bob, "of-bob").await;
    let all = meetings_of(fx, ada).await;
    let ids: Vec<MeetingId> = all.iter().map(|row| row.meeting.id).collect();
    assert_eq!(ids, [over, bot.meeting.id, full]);
    let words: Vec<&str> = all.iter().map(|row| row.meeting.status.as_str()).collect();
    assert_eq!(words, ["completed", "active", "open"]);
    assert!(all[0].bot.is_none() && all[2].bot.is_none());
    assert_eq!(all[2].meeting.bot_status().ok(), None, "it has no bot");
    for (filter, expected) in [
        (MeetingFilter { live: true, ..MeetingFilter::default() }, vec![bot.meeting.id]),
        (filter_status(BotStatus::Active), vec![bot.meeting.id]),
        (filter_status(BotStatus::Reserved), vec![]),
        (filter_status(BotStatus::Completed), vec![over]),
        (filter_platform(Platform::GoogleMeet), vec![bot.meeting.id]),
        (filter_platform(Platform::Zoom), vec![]),
        (filter_platform(Platform::Daily), vec![over, full]),
    ] {
        let rows = fx.store.meetings(ada, filter.clone(), PAGE).await.expect("meetings");
        let ids: Vec<MeetingId> = rows.iter().map(|row| row.meeting.id).collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
    for row in all {
        let found = fx.store.meeting(ada, by_number(row.meeting.id)).await.expect("meeting");
        assert_eq!(found.map(plain_row), Some(row));
    }
    assert_eq!(fx.store.meeting(bob, by_number(full)).await.expect("meeting"), None);
    let found = fx.store.meeting(ada, in_room("full")).await.expect("meeting");
    assert_eq!(found.map(|row| row.meeting.id), Some(full), "the room is its address");
    assert_eq!(fx.store.meeting(bob, in_room("full")).await.expect("meeting"), None);
    // And a bot's meeting is in no room.
    let in_rooms = meetings(fx, Scope::All, PresenceFilter::default()).await;
    assert!(in_rooms.iter().all(|meeting| meeting.id != bot.meeting.id));
    let found = fx.store.presence_meeting(Scope::All, bot.meeting.id).await;
    assert_eq!(found.expect("presence_meeting"), None);
    assert!(!note_joining(fx, bot.meeting.id, "c-1", MINUTE).await);
}

/// What is meant for bots finds none in a room, and leaves it as it is.
pub async fn a_room_is_deaf_to_what_bots_are_told(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let full = room_with(fx, "full", &["a"]).await;
    let over = room_with(fx, "over", &["a"]).await;
    deactivate(fx, over).await;
    let guard = lease(fx).await;
    let before = everything(fx, &[ada]).await;
    fx.advance(SECOND);
    for (id, room) in [(full, "full"), (over, "over")] {
        for target in [by_number(id), in_room(room)] {
            let stopped = fx.store.wish_stop(ada, target, "user", fx.now()).await;
            let stopped = stopped.expect("wish_stop");
            assert!(matches!(stopped, StopAnswer::Over(row) if row.meeting.id == id));
        }
        let change = ConfigChange { language: None, task: None, only_active: false };
        let wished = fx.store.wish_config(ada, by_number(id), change, fx.now()).await;
        assert!(matches!(wished.expect("wish_config"), ConfigAnswer::WrongState(_)));
        let workload = WorkloadId { meeting_id: id, attempt: 1 };
        let connection = ConnectionId::from_stored("connection".to_owned());
        let happened = BotHappened {
            workload,
            connection: None,
            event: BotEvent::Joined,
            source: Source::Callback,
            beats: true,
        };
        let answer = fx.store.bot_event(happened, None, fx.now()).await;
        assert_eq!(answer.expect("bot_event"), EventAnswer::NoSuchBot);
        let beat = BotBeat { workload, connection, media_progress: None, config_applied: None };
        let heard = fx.store.bot_heartbeats(vec![beat], fx.now()).await;
        assert_eq!(heard.expect("bot_heartbeats"), [BeatAnswer::NoSuchBot]);
        let gone = RuntimeNote { workload, seen: Seen::Absent };
        let ended = fx.store.note_runtime(vec![gone], 1, fx.now()).await;
        assert_eq!(ended.expect("note_runtime"), vec![]);
        let launched = fx.store.bot_launched(workload, "c".to_owned(), guard).await;
        assert!(!launched.expect("bot_launched"));
        assert_eq!(fx.store.next_attempt(workload, guard).await.expect("next_attempt"), None);
        let finished = fx.store.finish_meeting(id, guard, fx.now()).await;
        assert!(!finished.expect("finish_meeting"));
        let live = fx.store.live_workloads(vec![workload]).await;
        assert_eq!(live.expect("live_workloads"), vec![]);
    }
    assert_eq!(everything(fx, &[ada]).await, before);
}

/// The data of a meeting is its user's, wherever it takes place.
pub async fn what_a_user_notes_stays_through_looks(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let id = open(fx, ada, "weekly").await.id;
    let note: Map<String, _> = json!({"name": "Weekly 😀"}).as_object().expect("members").clone();
    let merged = fx.store.merge_meeting_data(ada, by_number(id), note, fx.now()).await;
    assert!(merged.expect("merge_meeting_data").is_some());
    sees(fx, id, &["a"]).await;
    everyone_leaves(fx, id).await;
    sees(fx, id, &["a"]).await;
    deactivate(fx, id).await;
    let row = meetings_of(fx, ada).await.remove(0).meeting;
    assert_eq!(row.data.to_value(), json!({"name": "Weekly 😀"}));
    assert_eq!((row.status.as_str(), row.native_id.as_deref()), ("completed", Some("weekly")));
}

/// Whoever forgets a meeting forgets who was there, and it stays over.
pub async fn an_anonymised_meeting_names_nobody(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let (id, other) = (gathering(fx, ada, "zanzibar").await, gathering(fx, bob, "other").await);
    let anonymise = async |who: UserId, id: MeetingId| {
        let answer = fx.store.anonymise_meeting(who, by_number(id), fx.now()).await;
        answer.expect("anonymise_meeting")
    };
    assert!(matches!(anonymise(ada, id).await, AnonymiseAnswer::NotOver(_)), "it goes on");
    everyone_leaves(fx, id).await;
    let (was, untouched) = (meeting(fx, id).await, Snapshot::of(fx, other).await);
    fx.advance(SECOND);
    assert_eq!(anonymise(bob, id).await, AnonymiseAnswer::NotFound);
    let done = fx.store.anonymise_meeting(ada, in_room("zanzibar"), fx.now()).await;
    assert_eq!(done.expect("anonymise_meeting"), AnonymiseAnswer::Done);
    assert_eq!(anonymise(ada, id).await, AnonymiseAnswer::Already);
    let now = meeting(fx, id).await;
    assert_eq!((now.room.as_str(), &now.room_url, &now.looks.failure), ("", &None, &None));
    assert_eq!(now.end_reason, Some(EndReason::Deactivated));
    assert_eq!((now.started_at, now.ended_at), (was.started_at, was.ended_at));
    for session in sessions(fx, id).await.values() {
        assert_eq!((&session.user_id, &session.user_name), (&None, &None));
    }
    assert_eq!(frames_of(fx, id).await, vec![]);
    assert_eq!(states_of(fx, id).await, ["open", "completed"]);
    if let Some(door) = &fx.backdoor {
        for word in ["zanzibar", "xanthippe"] {
            assert_eq!(door.traces(word).await, Vec::<String>::new(), "{word}");
        }
    }
    // A look that was on its way opens nothing.
    assert!(!sees(fx, id, &["a"]).await.meeting.is_active());
    assert_eq!(meeting_of_room(fx, "zanzibar").await, None);
    assert_eq!(Snapshot::of(fx, other).await, untouched, "nobody else is forgotten");
    let kept = InboxFilter { room: Some("other".to_owned()), outcome: None };
    assert_eq!(fx.store.inbox(kept, None, 10).await.expect("inbox").len(), 1);
    let log = log_of(fx, id).await.len();
    let next = try_open(fx, new_meeting(bob, "zanzibar")).await;
    assert!(matches!(next, roundsman_core::ports::OpenAnswer::Opened(_)), "the room is free");
    assert_eq!(log_of(fx, id).await.len(), log);
}

/// A meeting with names in all places that have one.
async fn gathering(fx: &Fixture, owner: UserId, name: &str) -> MeetingId {
    let word = if name == "zanzibar" { "Xanthippe" } else { "Bo" };
    let wish = NewPresenceMeeting {
        user_id: owner,
        room: room_name(name),
        room_url: Some(format!("https://example.org/{name}")),
        schedule: None,
    };
    let roundsman_core::ports::OpenAnswer::Opened(made) = try_open(fx, wish).await else {
        panic!("it is free");
    };
    let named = Participant {
        user_id: Some(word.to_owned()),
        user_name: Some(word.to_owned()),
        ..person(fx, "a")
    };
    look(fx, made.id, Look::Seen(vec![named]), &[]).await;
    look(fx, made.id, failed(&format!("no {name}")), &[]).await;
    assert!(note_joining(fx, made.id, word, MINUTE).await);
    let event = NewInboxEvent {
        service: DAILY,
        event: format!("joined-{word}"),
        kind: "participant.joined".to_owned(),
        room: Some(name.to_owned()),
        outcome: InboxOutcome::Taken,
        reason: None,
        payload: format!(r#"{{"user_name":"{word}"}}"#),
    };
    fx.store.keep_inbox(vec![event], fx.now()).await.expect("keep_inbox");
    fx.advance(MINUTE);
    made.id
}

fn in_room(room: &str) -> BotTarget {
    BotTarget::Address { platform: Platform::Daily, native_id: room.to_owned() }
}

fn filter_status(status: BotStatus) -> MeetingFilter {
    MeetingFilter { status: Some(status), ..MeetingFilter::default() }
}

fn filter_platform(platform: Platform) -> MeetingFilter {
    MeetingFilter { platform: Some(platform), ..MeetingFilter::default() }
}
