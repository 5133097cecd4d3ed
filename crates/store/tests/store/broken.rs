//! `check()` finds what somebody broke by hand, and a row that makes no sense is named, on both
//! databases alike. The one place that writes SQL past the adapters.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotWish, ConnectionId, NewBot, Platform};
use roundsman_core::effects::{Effects, NewFrame};
use roundsman_core::jobs::{JobError, JobId, Outcome, RunningJob};
use roundsman_core::ports::{
    CommitAnswer, NewMessage, OpenAnswer, ReserveAnswer, Scope, SettleRequest, Store, StoreError,
};
use roundsman_core::presence::{
    Look, LookReport, NewPresenceMeeting, POLL_KIND, Participant, PresenceRules, RoomName,
};
use roundsman_core::transcripts::{FilterConfig, MessageBody, ToldSegment, TranscriptionFilter};
use roundsman_core::users::{NewToken, NewUser, TokenHash, UserId};
use roundsman_store::conformance::{COLLECT, Fixture, RENDER, catalog, json};
use roundsman_testkit::TestDatabase;

use crate::open;

/// What is done to a sound database, and the rule that must be found broken.
struct Damage {
    rule: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

impl Damage {
    /// For statements that mean the same in both dialects.
    const fn alike(rule: &'static str, sql: &'static str) -> Self {
        Damage { rule, sqlite: sql, postgres: sql }
    }
}

const SECOND_WITH_ITS_KEY: &str = "
    DROP INDEX job_queue_key;
    INSERT INTO job_queue (id, user_id, state, priority, attempt, max_attempts, rank, due_at, run_at,
                           triggered_at, created_at, lane, kind, key, payload)
    SELECT id + 1000, user_id, state, priority, attempt, max_attempts, rank, due_at, run_at,
           triggered_at, created_at, lane, kind, key, payload
      FROM job_queue WHERE key IS NOT NULL";

const SECOND_IN_ITS_ROOM: &str = "
    DROP INDEX presence_open_room;
    INSERT INTO presence (meeting_id, user_id, room, open, created_at, num_clients, look_no, failures)
    SELECT meeting_id + 1000, user_id, room, open, created_at, num_clients, look_no, failures
      FROM presence";

const DAMAGES: [Damage; 23] = [
    Damage::alike("log_matches_state", "UPDATE api_tokens SET revoked_at = created_at"),
    Damage::alike("log_matches_state", "DELETE FROM transitions WHERE entity = 'token'"),
    Damage::alike("log_replays", "UPDATE transitions SET from_state = 'gone'"),
    Damage::alike(
        "runs_in_order",
        "UPDATE job_finished SET runs = replace(runs, '\"total\":2', '\"total\":1')",
    ),
    Damage::alike(
        "job_in_one_place",
        "UPDATE job_finished SET id = (SELECT min(id) FROM job_queue) WHERE runs IS NOT NULL",
    ),
    Damage::alike(
        "job_in_one_place",
        "UPDATE job_running SET id = (SELECT min(id) FROM job_queue)",
    ),
    Damage::alike("key_once", SECOND_WITH_ITS_KEY),
    Damage::alike("row_consistent", "UPDATE job_queue SET priority = 5"),
    Damage::alike("row_consistent", "UPDATE job_queue SET lane = 'elsewhere'"),
    Damage {
        rule: "row_consistent",
        sqlite: "UPDATE job_queue SET due_at = due_at + 1",
        postgres: "UPDATE job_queue SET due_at = due_at + interval '1 second'",
    },
    Damage {
        rule: "numbers_from_counter",
        sqlite: "UPDATE counters SET value = 1 WHERE name = 'job_id'",
        postgres: "SELECT setval('job_id_seq', 1)",
    },
    Damage {
        rule: "numbers_from_counter",
        sqlite: "UPDATE counters SET value = 1 WHERE name = 'lease_no'",
        postgres: "SELECT setval('lease_no_seq', 1)",
    },
    Damage::alike("frames_gapless", "DELETE FROM frames WHERE seq = 2"),
    Damage::alike("frames_gapless", "UPDATE frame_streams SET last_seq = 1"),
    Damage::alike(
        "segment_in_one_place",
        "UPDATE kept_segments SET field = (SELECT field FROM live_segments)",
    ),
    Damage::alike("kept_is_final", "UPDATE kept_segments SET transcription_id = 1000"),
    Damage::alike("live_is_active", "DELETE FROM active_transcripts"),
    Damage::alike("segment_was_told", "UPDATE live_segments SET seq = 1000"),
    Damage::alike("clients_counted", "UPDATE presence SET num_clients = 2"),
    Damage::alike("clients_counted", "DELETE FROM presence_sessions"),
    Damage::alike("log_matches_state", "DELETE FROM transitions WHERE to_state = 'open'"),
    Damage::alike("room_once", SECOND_IN_ITS_ROOM),
    Damage {
        rule: "row_consistent",
        sqlite: "UPDATE presence SET open = 0",
        postgres: "UPDATE presence SET open = false",
    },
];

/// A column that nobody who uses the adapters can write such a value to.
const NONSENSE: [(&str, &str, &str); 4] = [
    ("job_queue", "kind", "UPDATE job_queue SET kind = 'No Kind'"),
    ("job_queue", "runs", "UPDATE job_queue SET runs = '{'"),
    ("job_running", "attempt", "UPDATE job_running SET attempt = -1"),
    ("job_finished", "runs", "UPDATE job_finished SET runs = '7'"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_broken_in_sqlite_is_found() {
    for damage in &DAMAGES {
        let (store, folder) = open::sqlite(catalog());
        let store: Arc<dyn Store> = Arc::new(store);
        populate(&store).await;
        break_sqlite(folder.path(), damage.sqlite);
        assert_found(&store, damage.rule, damage.sqlite).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_broken_in_postgres_is_found() {
    for damage in &DAMAGES {
        let (store, database) = open::postgres(catalog()).await;
        let store: Arc<dyn Store> = Arc::new(store);
        populate(&store).await;
        break_postgres(&database, damage.postgres).await;
        assert_found(&store, damage.rule, damage.postgres).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_in_sqlite_is_named() {
    for (table, column, sql) in NONSENSE {
        let (store, folder) = open::sqlite(catalog());
        let store: Arc<dyn Store> = Arc::new(store);
        populate(&store).await;
        break_sqlite(folder.path(), sql);
        assert_named(&store, table, column).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_in_postgres_is_named() {
    for (table, column, sql) in NONSENSE {
        let (store, database) = open::postgres(catalog()).await;
        let store: Arc<dyn Store> = Arc::new(store);
        populate(&store).await;
        break_postgres(&database, sql).await;
        assert_named(&store, table, column).await;
    }
}

/// Leaves something in every table, all of it sound.
async fn populate(store: &Arc<dyn Store>) {
    let fx = Fixture::new(Arc::clone(store), open::traits(false, 0), ());
    let first = fx.put(fx.keyed(RENDER, "finished")).await;
    for outcome in [retry(), Outcome::Fail { error: boom() }] {
        let job: RunningJob = fx.claim_one(RENDER).await;
        assert_eq!(job.facts.id, first);
        fx.land(job.lease_ref(), outcome).await;
    }
    fx.put(fx.wish(COLLECT)).await;
    fx.claim_one(COLLECT).await;
    fx.put(fx.keyed(RENDER, "waiting")).await;

    let frame = NewFrame { stream: "s".to_owned(), body: json("1") };
    let effects = Effects { frames: vec![frame; 3], ..Effects::default() };
    store.commit(None, effects, fx.now()).await.expect("commit");
    let person = NewUser {
        email: "ada@example.org".to_owned(),
        name: None,
        image_url: None,
        max_concurrent_bots: 1,
    };
    let (user, _) = store.find_or_create_user(person, fx.now()).await.expect("a user");
    let token = NewToken {
        user_id: user.id,
        name: None,
        scopes: vec![],
        hash: TokenHash::from_stored([7; 32]),
        expires_at: None,
    };
    store.create_token(token, fx.now()).await.expect("a token");
    speak(store, user.id, fx.now()).await;
    meet(&fx, user.id).await;
    assert_eq!(store.check().await.expect("check"), vec![], "it is sound before");
}

/// Leaves a final and a live segment.
async fn speak(store: &Arc<dyn Store>, user_id: UserId, now: Timestamp) {
    let bot = NewBot {
        user_id,
        platform: Platform::GoogleMeet,
        native_id: "room".to_owned(),
        connection_id: ConnectionId::from_stored("connection".to_owned()),
        language: None,
        task: None,
        wish: BotWish::default(),
    };
    let reserved = store.reserve_bot(bot, now).await.expect("reserve_bot");
    let ReserveAnswer::Reserved(announced) = reserved else { panic!("{reserved:?}") };
    let meeting_id = announced.record.meeting.id;
    let filter = TranscriptionFilter::new(FilterConfig::default()).expect("the defaults are good");
    let all = SettleRequest { stable_before: None, filter: Arc::new(filter), rows_max: 10 };
    for start_ms in [0, 1000] {
        let settled = store.settle_segments(meeting_id, all.clone(), None, now).await;
        assert_eq!(settled.expect("settle_segments").left, 0);
        let segment = ToldSegment {
            start_ms,
            end_ms: start_ms + 900,
            text: "something said".to_owned(),
            language: None,
            speaker: None,
            completed: None,
            segment_id: None,
        };
        let (uid, segments) = (Some("session".to_owned()), vec![segment]);
        let message = NewMessage {
            meeting_id,
            user_id,
            token_issued_at: now,
            version: 1,
            start_hint: None,
            body: MessageBody::Transcription { uid, segments, refused: vec![] },
        };
        store.take_messages(vec![message], now).await.expect("take_messages");
    }
}

/// Leaves a meeting with somebody in it.
async fn meet(fx: &Fixture, user_id: UserId) {
    let wish = NewPresenceMeeting {
        user_id,
        room: RoomName::new("room").expect("a room's name"),
        room_url: None,
        schedule: None,
    };
    let opened = fx.store.open_presence(wish, fx.now()).await.expect("open_presence");
    let OpenAnswer::Opened(meeting) = opened else { panic!("{opened:?}") };
    let job = fx.claim_one(POLL_KIND).await;
    let person = Participant {
        session_id: "a".to_owned(),
        user_id: None,
        user_name: None,
        joined_at: fx.now(),
    };
    let report = LookReport {
        no: job.lease.lease_no.get(),
        began_at: fx.now(),
        look: Look::Seen(vec![person]),
        hints: vec![],
    };
    let (rules, guard) = (PresenceRules::default(), job.lease_ref());
    let written = fx.store.commit_look(meeting.id, report, rules, guard, fx.now()).await;
    assert!(matches!(written.expect("commit_look"), CommitAnswer::Written(_)));
    fx.land(guard, Outcome::Done { result: json("null") }).await;
}

fn boom() -> JobError {
    JobError::new("boom", "it broke")
}

fn retry() -> Outcome {
    Outcome::Retry { error: boom(), after: Some(Duration::ZERO) }
}

async fn assert_found(store: &Arc<dyn Store>, rule: &str, sql: &str) {
    let violations = store.check().await.expect("a broken database can be checked");
    let rules: BTreeSet<&str> = violations.iter().map(|violation| violation.rule).collect();
    assert!(rules.contains(rule), "{rule} was not found after {sql}: {violations:?}");
}

/// Reading the row fails and says where; `check()` says it, too, instead of failing.
async fn assert_named(store: &Arc<dyn Store>, table: &str, column: &str) {
    let mut named = Vec::new();
    for id in 1..=3 {
        let id = JobId::new(id);
        if let Err(StoreError::Inconsistent { table, column, .. }) = store.job(Scope::All, id).await
        {
            named.push((table, column));
        }
    }
    assert_eq!(named, [(table, column)]);
    let violations = store.check().await.expect("nonsense can be checked");
    assert!(!violations.is_empty(), "check() is content with {table}.{column}");
    assert!(store.now().await.expect("now") > Timestamp::EPOCH, "and the rest works on");
}

fn break_sqlite(folder: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(folder.join("test.db")).expect("the file");
    connection.execute_batch(sql).expect(sql);
}

async fn break_postgres(database: &TestDatabase, sql: &str) {
    let client = database.connect().await.expect("a connection");
    let sql = format!("SET search_path = roundsman; {sql}");
    client.batch_execute(&sql).await.expect(&sql);
}
