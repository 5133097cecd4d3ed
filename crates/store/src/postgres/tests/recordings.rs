//! Recordings, where PostgreSQL is different: who waits for whom, and damage that somebody did by
//! hand.

use std::collections::HashMap;

use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    AnonymiseAnswer, BeginAnswer, BotStore, BotTarget, EffectStore, FinishAnswer, OpenAnswer,
    PresenceStore, RecordingFilter, RecordingStore, Scope,
};
use roundsman_core::presence::{NewPresenceMeeting, RoomName};
use roundsman_core::recordings::{
    Announcement, Consent, Media, PROCESS_KIND, RecordingId, RecordingKind, RecordingStatus,
    SpokenSegment, Via,
};
use tokio::task::JoinSet;

use super::*;

const USER: &str = "INSERT INTO public.users (email) VALUES ('ada@example.org')";
const DEADLOCKS: &str = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";

fn later(secs: u64) -> Timestamp {
    NOW + Duration::from_secs(secs)
}

fn announcement(id: &str, room: &str) -> Announcement {
    Announcement {
        id: RecordingId::new(id).unwrap(),
        room: RoomName::new(room).unwrap(),
        kind: RecordingKind::Cloud,
        started_at: NOW,
        duration_ms: 5000,
        tracks: vec![],
        via: Via::Event,
    }
}

fn said() -> Vec<SpokenSegment> {
    let spoken = |n: i64| SpokenSegment {
        start_ms: n * 1000,
        end_ms: n * 1000 + 900,
        text: format!("number {n}"),
        speaker: Some("Ann".to_owned()),
        language: None,
    };
    (0..20).map(spoken).collect()
}

/// The leases of the jobs of all recordings.
async fn leases(store: &PostgresStore) -> HashMap<RecordingId, LeaseRef> {
    let lane = Lane::of(UserId::SYSTEM, &KindName::new(PROCESS_KIND).unwrap());
    let lease_ttl = Duration::from_secs(600);
    let request = ClaimRequest {
        worker: WorkerName::new("w"),
        owner: LeaseOwner::Outside,
        demands: vec![LaneDemand { lane, max: 1000, lease_ttl, deadline: None }],
        total_max: 1000,
    };
    let jobs = store.claim(request, NOW).await.unwrap().jobs;
    let id = |key: &str| RecordingId::new(key).unwrap();
    jobs.iter().map(|job| (id(job.facts.key.as_ref().unwrap().as_str()), job.lease_ref())).collect()
}

/// The same recordings in whatever order, by several at once: each is new to one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recordings_that_are_announced_by_several_nodes_are_new_once() {
    let (store, database) = store().await;
    let store = Arc::new(store);
    let mut callers = JoinSet::new();
    for caller in 0..6_usize {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let mut new = 0;
            for round in 0..20 {
                let name = |n: usize| announcement(&format!("rec-{round}-{n}"), "room");
                let mut all: Vec<Announcement> = (0..20).map(name).collect();
                all.rotate_left(caller * 3);
                if caller.is_multiple_of(2) {
                    all.reverse();
                }
                let answers = store.announce_recordings(all, NOW).await.unwrap();
                new += answers.into_iter().filter(|answer| !answer.is_repeated).count();
            }
            new
        });
    }
    let new: usize = callers.join_all().await.into_iter().sum();
    assert_eq!(new, 400);
    let all = store.recordings(Scope::All, RecordingFilter::default(), None, 1000).await.unwrap();
    assert_eq!(all.len(), 400);
    assert!(all.iter().all(|recording| recording.repeats == 5), "each was told six times");
    assert_eq!(leases(&store).await.len(), 400);
    let operator = database.connect().await.unwrap();
    assert_eq!(operator.query_one(DEADLOCKS, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(store.check().await.unwrap(), []);
}

/// Announcements, all steps of their jobs, denials, second tries, looks and whoever anonymises the
/// meetings, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_meets_waits_and_never_deadlocks() {
    const ROOMS: usize = 5;
    let (store, database) = store().await;
    let operator = database.connect().await.unwrap();
    operator.batch_execute(USER).await.unwrap();
    let store = Arc::new(store);
    let mut meetings = Vec::new();
    for n in 0..ROOMS {
        let room = RoomName::new(&format!("room-{n}")).unwrap();
        let wish = NewPresenceMeeting { user_id: ADA, room, room_url: None, schedule: None };
        match store.open_presence(wish, NOW).await.unwrap() {
            OpenAnswer::Opened(meeting) => meetings.push(meeting.id),
            other => panic!("{other:?}"),
        }
    }
    let all = || -> Vec<Announcement> {
        let name = |n: usize| announcement(&format!("rec-{n}"), &format!("room-{}", n % ROOMS));
        (0..ROOMS * 4).map(name).collect()
    };
    store.announce_recordings(all(), NOW).await.unwrap();
    let leases = Arc::new(leases(&store).await);
    let mut callers = JoinSet::new();
    for caller in 0..4_usize {
        let (store, leases) = (Arc::clone(&store), Arc::clone(&leases));
        let (meetings, mut repeated) = (meetings.clone(), all());
        callers.spawn(async move {
            for round in 0..6_u64 {
                repeated.rotate_left(caller * 3);
                store.announce_recordings(repeated.clone(), later(round)).await.unwrap();
                for (id, guard) in leases.iter() {
                    work_on(&store, id, *guard, round).await;
                }
                let meeting = meetings[usize::try_from(round).unwrap() % ROOMS];
                let person = format!("p-{caller}");
                let given = round.is_multiple_of(2);
                let consent = Consent { person, given, at: later(round) };
                store.set_consent(Scope::All, meeting, consent).await.unwrap();
                if round == 4 {
                    anonymise(&store, meetings[caller]).await;
                }
            }
        });
    }
    callers.join_all().await;
    let recordings =
        store.recordings(Scope::All, RecordingFilter::default(), None, 1000).await.unwrap();
    for recording in &recordings {
        assert_eq!(recording.status, RecordingStatus::Completed, "{recording:?}");
        let is_forgotten = recording.meeting_id != meetings.last().copied();
        assert_eq!(recording.is_anonymous(), is_forgotten, "{recording:?}");
    }
    let guard = *leases.values().next().unwrap();
    let id = leases.keys().next().unwrap().clone();
    assert_eq!(store.begin_recording(id, guard, later(99)).await.unwrap(), BeginAnswer::Done);
    assert_eq!(operator.query_one(DEADLOCKS, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(store.check().await.unwrap(), []);
}

/// All that a job does to a recording; in the first rounds it fails.
async fn work_on(store: &PostgresStore, id: &RecordingId, guard: LeaseRef, round: u64) {
    let now = later(round);
    store.begin_recording(id.clone(), guard, now).await.unwrap();
    let media =
        Media { track: round.to_string(), blob: "b".to_owned(), bytes: 1, sha256: "x".to_owned() };
    store.keep_media(id.clone(), vec![media], guard, now).await.unwrap();
    if round < 4 {
        let error = "broken".to_owned();
        store.fail_recording(id.clone(), error, guard, now).await.unwrap();
        store.retry_recordings(Scope::All, None, 7, now).await.unwrap();
    } else {
        let answer = store.finish_recording(id.clone(), said(), guard, now).await.unwrap();
        assert!(matches!(answer, FinishAnswer::Saved { .. } | FinishAnswer::Done), "{answer:?}");
    }
}

async fn anonymise(store: &PostgresStore, meeting: MeetingId) {
    store.end_presence(Scope::All, meeting, later(90)).await.unwrap();
    let target = BotTarget::Meeting(meeting);
    let done = store.anonymise_meeting(ADA, target, later(91)).await.unwrap();
    assert_eq!(done, AnonymiseAnswer::Done);
}

/// Somebody denies at the moment at which a recording is completed: in whatever order it happens,
/// somebody is asked to erase it after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_at_the_last_moment_is_not_missed() {
    let (store, database) = store().await;
    let operator = database.connect().await.unwrap();
    operator.batch_execute(USER).await.unwrap();
    let room = RoomName::new("room").unwrap();
    let wish = NewPresenceMeeting { user_id: ADA, room, room_url: None, schedule: None };
    let OpenAnswer::Opened(meeting) = store.open_presence(wish, NOW).await.unwrap() else {
        panic!("it is free");
    };
    store.announce_recordings(vec![announcement("rec", "room")], NOW).await.unwrap();
    let id = RecordingId::new("rec").unwrap();
    let guard = leases(&store).await[&id];
    store.begin_recording(id.clone(), guard, NOW).await.unwrap();
    // Holds the room as a look does, so that whoever comes waits behind it.
    let holder = database.connect().await.unwrap();
    let hold = format!(
        "BEGIN; SELECT FROM roundsman.presence WHERE meeting_id = {} FOR NO KEY UPDATE",
        meeting.id
    );
    holder.batch_execute(&hold).await.unwrap();
    let store = Arc::new(store);
    let denial = Consent { person: "ann".to_owned(), given: false, at: later(1) };
    let mut callers = JoinSet::new();
    let (denier, finisher) = (Arc::clone(&store), Arc::clone(&store));
    let meeting = meeting.id;
    callers.spawn(async move {
        assert!(denier.set_consent(Scope::All, meeting, denial).await.unwrap());
    });
    wait_for_waiting(&operator, 1).await;
    callers.spawn(async move {
        let finished = finisher.finish_recording(id, said(), guard, later(2)).await.unwrap();
        assert!(matches!(finished, FinishAnswer::Saved { .. }));
    });
    wait_for_waiting(&operator, 2).await;
    // Nobody has written anything yet: the one who finishes has not looked for a denial.
    operator.batch_execute("DELETE FROM roundsman.job_queue").await.unwrap();
    holder.batch_execute("COMMIT").await.unwrap();
    callers.join_all().await;
    let erase = "SELECT count(*) FROM roundsman.job_queue WHERE kind = 'recordings.erase'";
    assert_eq!(operator.query_one(erase, &[]).await.unwrap().get::<_, i64>(0), 1);
    assert_eq!(store.recordings_to_erase(meeting).await.unwrap().len(), 1);
}

/// Waits until so many wait for a lock.
async fn wait_for_waiting(operator: &tokio_postgres::Client, count: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let waits = async || {
        let waiting: i64 = operator.query_one(waiting, &[]).await.unwrap().get(0);
        (waiting >= count).then_some(())
    };
    roundsman_testkit::eventually(Duration::from_secs(5), waits).await.unwrap();
}

/// A meeting that is over, a recording of it in each state and one that is of none: nothing is wrong
/// with them.
const SOUND: &str = "
TRUNCATE public.meetings, roundsman.presence, roundsman.recordings, roundsman.consents,
         roundsman.transitions, roundsman.kept_segments, roundsman.frame_streams CASCADE;
INSERT INTO public.meetings (id, user_id, platform, platform_specific_id, status, end_time)
VALUES (1, 1, 'daily', 'room', 'completed', now());
INSERT INTO roundsman.presence
    (meeting_id, user_id, room, open, created_at, end_reason, num_clients, look_no, failures)
VALUES (1, 1, 'room', false, now(), 'everyone_left', 0, 2, 0);
INSERT INTO roundsman.recordings
    (no, recording_id, meeting_id, user_id, room, kind, started_at, duration_ms, tracks, media,
     status, error, repeats, segments, announced_at, updated_at, completed_at)
       OVERRIDING SYSTEM VALUE
SELECT x.no, x.id, x.meeting_id, x.meeting_id, 'room', 'cloud', now(), 5, '[]', '[]', x.status,
       x.error, 0, x.segments, now(), now(), CASE WHEN x.status = 'completed' THEN now() END
  FROM (VALUES (1, 'a', NULL, 'pending', NULL, 0), (2, 'b', 1, 'processing', NULL, 0),
               (3, 'c', 1, 'completed', NULL, 1), (4, 'd', 1, 'failed', 'broken', 0))
       AS x(no, id, meeting_id, status, error, segments);
INSERT INTO roundsman.frame_streams (stream, last_seq) VALUES ('meeting:1', 1);
INSERT INTO public.transcriptions (id, meeting_id, start_time, end_time, text, session_uid)
VALUES (1, 1, 0, 1, 'hello', 'recording:c');
INSERT INTO roundsman.kept_segments
    (transcription_id, meeting_id, session_uid, field, start_ms, end_ms, speaker_status, version,
     updated_at, seq)
VALUES (1, 1, 'recording:c', '0.000#1', 0, 1000, 'UNKNOWN', 1, now(), 1);
INSERT INTO roundsman.consents (meeting_id, person, given, at) VALUES (1, 'ada', true, now());
INSERT INTO roundsman.transitions (entity, entity_id, from_state, to_state, cause, at)
VALUES ('meeting', 1, NULL, 'open', 'user', now()),
       ('meeting', 1, 'open', 'completed', 'everyone_left', now()),
       ('recording', 1, NULL, 'pending', 'event', now()),
       ('recording', 2, NULL, 'processing', 'event', now()),
       ('recording', 3, NULL, 'completed', 'event', now()),
       ('recording', 4, NULL, 'failed', 'event', now())";

/// What is done to it, and the rule that must be found broken.
const DAMAGES: [(&str, &str); 17] = [
    ("log_matches_state", "UPDATE roundsman.recordings SET status = 'pending' WHERE no = 2"),
    ("log_matches_state", "DELETE FROM roundsman.transitions WHERE entity = 'recording'"),
    ("transcript_once", "UPDATE roundsman.recordings SET segments = 0"),
    ("transcript_once", "UPDATE roundsman.kept_segments SET session_uid = 'recording:b'"),
    ("row_consistent", "UPDATE roundsman.recordings SET status = 'tired' WHERE no = 1"),
    ("row_consistent", "UPDATE roundsman.recordings SET kind = 'film'"),
    ("row_consistent", "UPDATE roundsman.recordings SET tracks = '{'"),
    ("row_consistent", "UPDATE roundsman.recordings SET media = '[1]'"),
    ("row_consistent", "UPDATE roundsman.recordings SET repeats = -1"),
    ("row_consistent", "UPDATE roundsman.recordings SET segments = 1 WHERE no = 2"),
    ("row_consistent", "UPDATE roundsman.recordings SET meeting_id = NULL WHERE no = 2"),
    ("row_consistent", "UPDATE roundsman.recordings SET user_id = 2 WHERE no = 4"),
    ("row_consistent", "UPDATE roundsman.recordings SET room = '' WHERE no = 1"),
    ("row_consistent", "UPDATE roundsman.recordings SET error = NULL WHERE no = 4"),
    ("row_consistent", "UPDATE roundsman.recordings SET completed_at = NULL"),
    ("row_consistent", "UPDATE roundsman.recordings SET erased_at = now(), erase_error = 'x'"),
    ("row_consistent", "UPDATE roundsman.consents SET meeting_id = 2"),
];

#[tokio::test]
async fn damage_to_recordings_is_found() {
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
