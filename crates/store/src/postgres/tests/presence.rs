//! Meetings in rooms, where PostgreSQL is different: what a look touches, who waits for whom, and
//! damage that somebody did by hand.

use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    CommitAnswer, EffectStore, EndAnswer, InboxFilter, InboxOutcome, NewInboxEvent, OpenAnswer,
    PresenceStore, Scope,
};
use roundsman_core::presence::{
    DAILY, EndReason, Look, LookReport, NewPresenceMeeting, POLL_KIND, Participant, PresenceRules,
    RoomName, poll_wish,
};
use tokio::task::JoinSet;

use super::*;

const USER: &str = "INSERT INTO public.users (email) VALUES ('ada@example.org')";

fn room(name: &str) -> RoomName {
    RoomName::new(name).unwrap()
}

fn wish(name: &str) -> NewPresenceMeeting {
    NewPresenceMeeting { user_id: ADA, room: room(name), room_url: None, schedule: None }
}

fn later(secs: u64) -> Timestamp {
    NOW + Duration::from_secs(secs)
}

async fn open(store: &PostgresStore, name: &str) -> MeetingId {
    match store.open_presence(wish(name), NOW).await.unwrap() {
        OpenAnswer::Opened(meeting) => meeting.id,
        other => panic!("{other:?}"),
    }
}

/// Jobs that look at these meetings, each with its lease.
async fn leases(store: &PostgresStore, meetings: &[MeetingId]) -> Vec<(MeetingId, LeaseRef)> {
    let jobs = meetings.iter().map(|meeting| poll_wish(*meeting, &[], NOW)).collect();
    store.enqueue(EnqueueRequest { jobs, idempotency: None }, NOW).await.unwrap();
    let lane = Lane::of(UserId::SYSTEM, &KindName::new(POLL_KIND).unwrap());
    let lease_ttl = Duration::from_secs(120);
    let request = ClaimRequest {
        worker: WorkerName::new("w"),
        owner: LeaseOwner::Outside,
        demands: vec![LaneDemand { lane, max: 1000, lease_ttl, deadline: None }],
        total_max: 1000,
    };
    let jobs = store.claim(request, NOW).await.unwrap().jobs;
    let meeting = |key: &str| MeetingId::new(key.parse().unwrap());
    let leased =
        jobs.iter().map(|job| (meeting(job.facts.key.as_ref().unwrap().as_str()), job.lease_ref()));
    leased.filter(|(meeting, _)| meetings.contains(meeting)).collect()
}

async fn sees(
    store: &PostgresStore,
    (meeting, guard): (MeetingId, LeaseRef),
    no: i64,
    people: &[&str],
) -> CommitAnswer {
    let person = |id: &&str| Participant {
        session_id: (*id).to_owned(),
        user_id: None,
        user_name: Some("a\0b".to_owned()),
        joined_at: NOW,
    };
    let look = Look::Seen(people.iter().map(person).collect());
    let now = later(60 + no.unsigned_abs());
    let report = LookReport { no, began_at: now, look, hints: Vec::new() };
    store.commit_look(meeting, report, PresenceRules::default(), guard, now).await.unwrap()
}

/// Only then does a look that shows nothing new rewrite a row in its page and nothing else.
#[tokio::test]
async fn what_a_quiet_look_changes_is_in_no_index() {
    let (_store, database) = store().await;
    let operator = database.connect().await.unwrap();
    let count = async |table: &str, columns: &[&str]| -> i64 {
        operator.query_one(INDEXED, &[&table, &columns]).await.unwrap().get(0)
    };
    let of_look = [
        "look_no",
        "looked_at",
        "failures",
        "failing_since",
        "failure",
        "empty_since",
        "gone_since",
        "last_left_at",
    ];
    assert_eq!(count("roundsman.presence", &of_look).await, 0);
    assert_eq!(count("roundsman.presence_sessions", &["user_id", "user_name"]).await, 0);
    assert!(count("roundsman.presence", &["room"]).await > 0, "the question is wrong");
}

/// Looks, decisions and owners at the same meetings, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_that_meet_wait_and_never_deadlock() {
    let (store, database) = store().await;
    let operator = database.connect().await.unwrap();
    operator.batch_execute(USER).await.unwrap();
    let mut meetings = Vec::new();
    for n in 0..10 {
        meetings.push(open(&store, &format!("room-{n}")).await);
    }
    let leases = Arc::new(leases(&store, &meetings).await);
    assert_eq!(leases.len(), meetings.len());
    let store = Arc::new(store);
    let mut callers = JoinSet::new();
    for caller in 0..6_i64 {
        let (store, leases) = (Arc::clone(&store), Arc::clone(&leases));
        callers.spawn(async move {
            let mut written = 0;
            for round in 0..10 {
                for lease in leases.iter() {
                    let people = ["a", "b", "c", "d"].map(|id| format!("{id}{}", round % 3));
                    let people: Vec<&str> = people.iter().map(String::as_str).collect();
                    let shown = &people[usize::try_from(caller % 4).unwrap()..];
                    let answer = sees(&store, *lease, round * 6 + caller, shown).await;
                    written += usize::from(matches!(answer, CommitAnswer::Written(_)));
                    let until = later(10);
                    store.note_joining(lease.0, format!("c{caller}"), until).await.unwrap();
                    let rules = PresenceRules::default();
                    store.judge_presence(lease.0, rules, lease.1, later(5)).await.unwrap();
                }
            }
            written
        });
    }
    let written: usize = callers.join_all().await.into_iter().sum();
    assert!(written > 100, "{written}");
    for meeting in &meetings {
        let ended = store.end_presence(Scope::User(ADA), *meeting, later(500)).await.unwrap();
        let EndAnswer::Ended(ended) = ended else { panic!("{ended:?}") };
        assert_eq!(ended.meeting.end_reason, Some(EndReason::Deactivated));
    }
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(operator.query_one(deadlocks, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(store.check().await.unwrap(), []);
}

/// The same events in whatever order, by several at once: each is new to one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_come_to_several_nodes_are_new_once() {
    let (store, database) = store().await;
    let store = Arc::new(store);
    let mut callers = JoinSet::new();
    for caller in 0..6_usize {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let mut new = 0;
            for round in 0..20 {
                let event = |n: usize| NewInboxEvent {
                    service: DAILY,
                    event: format!("e-{round}-{n}"),
                    kind: "participant.joined".to_owned(),
                    room: None,
                    outcome: InboxOutcome::Taken,
                    reason: None,
                    payload: "{}".to_owned(),
                };
                let mut events: Vec<NewInboxEvent> = (0..20).map(event).collect();
                events.rotate_left(caller * 3);
                if caller.is_multiple_of(2) {
                    events.reverse();
                }
                let answers = store.keep_inbox(events, NOW).await.unwrap();
                new += answers.into_iter().filter(|is_new| *is_new).count();
            }
            new
        });
    }
    let new: usize = callers.join_all().await.into_iter().sum();
    assert_eq!(new, 400);
    let kept = store.inbox(InboxFilter::default(), None, 1000).await.unwrap();
    assert_eq!(kept.len(), 400);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let operator = database.connect().await.unwrap();
    assert_eq!(operator.query_one(deadlocks, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// An open meeting with somebody in it, and one that is over: nothing is wrong with them.
const SOUND: &str = "
TRUNCATE public.meetings, roundsman.presence, roundsman.presence_sessions, roundsman.transitions
 CASCADE;
INSERT INTO public.meetings (id, user_id, platform, platform_specific_id, status, end_time)
VALUES (1, 1, 'daily', 'room', 'open', NULL), (2, 1, 'daily', 'room', 'completed', now());
INSERT INTO roundsman.presence
    (meeting_id, user_id, room, open, created_at, end_reason, num_clients, look_no, failures)
VALUES (1, 1, 'room', true, now(), NULL, 1, 3, 0),
       (2, 1, 'room', false, now(), 'everyone_left', 0, 2, 0);
INSERT INTO roundsman.presence_sessions (meeting_id, session_id, joined_at, left_at, closed_by)
VALUES (1, 'a', now(), NULL, NULL), (1, 'b', now(), now(), 'event'), (2, 'c', now(), now(), 'poll');
INSERT INTO roundsman.transitions (entity, entity_id, from_state, to_state, cause, at)
VALUES ('meeting', 1, NULL, 'open', 'user', now()), ('meeting', 2, NULL, 'open', 'user', now()),
       ('meeting', 2, 'open', 'completed', 'everyone_left', now())";

/// What is done to it, and the rule that must be found broken. The last one cannot be undone.
const DAMAGES: [(&str, &str); 18] = [
    ("clients_counted", "UPDATE roundsman.presence SET num_clients = 2"),
    ("clients_counted", "DELETE FROM roundsman.presence_sessions"),
    ("clients_counted", "UPDATE roundsman.presence_sessions SET left_at = NULL, closed_by = NULL"),
    ("row_consistent", "UPDATE roundsman.presence SET open = false"),
    ("row_consistent", "UPDATE public.meetings SET status = 'completed'"),
    ("row_consistent", "UPDATE public.meetings SET status = 'active' WHERE id = 1"),
    ("row_consistent", "UPDATE public.meetings SET end_time = now()"),
    ("row_consistent", "UPDATE public.meetings SET platform = 'zoom'"),
    ("row_consistent", "UPDATE public.meetings SET platform_specific_id = 'other'"),
    ("row_consistent", "DELETE FROM public.meetings WHERE id = 2"),
    ("row_consistent", "UPDATE roundsman.presence SET end_reason = NULL"),
    ("row_consistent", "UPDATE roundsman.presence SET end_reason = 'tired'"),
    ("row_consistent", "UPDATE roundsman.presence SET failures = -1"),
    ("row_consistent", "UPDATE roundsman.presence SET starts_at = now()"),
    ("row_consistent", "DELETE FROM roundsman.presence WHERE meeting_id = 2"),
    ("log_matches_state", "DELETE FROM roundsman.transitions WHERE entity_id = 1"),
    ("log_matches_state", "DELETE FROM roundsman.transitions WHERE to_state = 'completed'"),
    (
        "room_once",
        "DROP INDEX roundsman.presence_open_room; UPDATE roundsman.presence SET open = true",
    ),
];

#[tokio::test]
async fn damage_to_meetings_in_rooms_is_found() {
    let (store, database) = store().await;
    let operator = database.connect().await.unwrap();
    operator.batch_execute(USER).await.unwrap();
    for (rule, damage) in DAMAGES {
        operator.batch_execute(SOUND).await.unwrap();
        assert_eq!(store.check().await.unwrap(), []);
        operator.batch_execute(damage).await.unwrap();
        let found = store.check().await.unwrap();
        assert!(found.iter().any(|violation| violation.rule == rule), "{damage}: {found:?}");
    }
}
