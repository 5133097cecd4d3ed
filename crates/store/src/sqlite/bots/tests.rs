//! What is particular to this adapter: the look before the write, and rows that somebody else made.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::bots::{BotEvent, BotTimeouts, BotWish, Platform, Source};
use roundsman_core::jobs::{KindCatalog, KindName, KindSpec, MergeRule, RetryPolicy, Role};
use roundsman_core::ports::{EffectStore, UserStore};
use roundsman_core::users::NewUser;

use super::*;

fn catalog() -> Arc<KindCatalog> {
    Arc::new(KindCatalog::new(KindSpec {
        kind: KindName::new("render").unwrap(),
        lease_ttl: Duration::from_mins(1),
        heartbeat_every: Duration::from_secs(15),
        deadline: None,
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(1), cap: Duration::from_mins(1) },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    }))
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_micros(secs * 1_000_000)
}

/// A store with one user.
async fn store() -> (SqliteStore, UserId) {
    let store = SqliteStore::open_in_memory_inline(catalog()).unwrap();
    let ada = NewUser {
        email: "ada@example.org".to_owned(),
        name: None,
        image_url: None,
        max_concurrent_bots: 10,
    };
    let (ada, _) = store.find_or_create_user(ada, at(1)).await.unwrap();
    (store, ada.id)
}

async fn active_bot(store: &SqliteStore, user_id: UserId) -> BotRecord {
    let bot = NewBot {
        user_id,
        platform: Platform::Zoom,
        native_id: "1234567890".to_owned(),
        connection_id: ConnectionId::from_stored("c-1".to_owned()),
        language: None,
        task: None,
        wish: BotWish::default(),
    };
    let ReserveAnswer::Reserved(reserved) = store.reserve_bot(bot, at(1)).await.unwrap() else {
        panic!("there is room");
    };
    let joined = BotHappened {
        workload: reserved.record.workload(),
        connection: None,
        event: BotEvent::Joined,
        source: Source::Callback,
        beats: true,
    };
    match store.bot_event(joined, None, at(1)).await.unwrap() {
        EventAnswer::Changed(joined) => joined.record,
        other => panic!("{other:?}"),
    }
}

async fn write(store: &SqliteStore, statements: &'static str) {
    store.write("store.ping", move |conn, _| Ok(conn.execute_batch(statements)?)).await.unwrap();
}

#[tokio::test]
async fn a_heartbeat_between_the_look_and_the_sweep_wins() {
    let (store, ada) = store().await;
    let record = active_bot(&store, ada).await;
    let request = BotSweep {
        timeouts: BotTimeouts::default(),
        serving_since: Timestamp::EPOCH,
        runtime_answered: true,
        rows_max: 10,
    };
    let late = at(1) + request.timeouts.active + Duration::from_secs(1);
    let suspects = store.read(move |conn| sweep::suspects(conn, request, late)).await.unwrap();
    assert_eq!(suspects, [record.meeting.id]);
    let beat = BotBeat {
        workload: record.workload(),
        connection: record.bot.connection_id.clone(),
        media_progress: None,
        config_applied: None,
    };
    let answers = store.bot_heartbeats(vec![beat], late).await.unwrap();
    assert!(matches!(answers[..], [BeatAnswer::Heard { .. }]), "{answers:?}");
    let look_again = move |conn: &rusqlite::Connection, catalog: &KindCatalog| {
        sweep::sweep(conn, catalog, &suspects, request, late)
    };
    assert_eq!(store.write("store.bot_sweep", look_again).await.unwrap(), []);
    let now = store.bot(record.meeting.id).await.unwrap().unwrap();
    assert_eq!(now.status, BotStatus::Active);
}

#[tokio::test]
async fn a_session_that_names_two_meetings_names_one_bot() {
    let (store, _) = store().await;
    write(
        &store,
        "INSERT INTO meetings (id, user_id, platform, status, created_at, updated_at)
         VALUES (1, 1, 'zoom', 'active', 5, 5), (2, 1, 'zoom', 'active', 5, 5);
         INSERT INTO meeting_sessions (meeting_id, session_uid, session_start_time)
         VALUES (1, 's', 5), (2, 's', 5);",
    )
    .await;
    let orphans = store.read(|conn| adopt::orphans(conn, 10)).await.unwrap();
    assert_eq!(store.adopt_meetings(10, at(9)).await.unwrap(), 2);
    let mut names = Vec::new();
    for id in [1, 2] {
        let bot = store.bot(MeetingId::new(id)).await.unwrap().unwrap().bot;
        names.push(bot.connection_id.as_str().to_owned());
    }
    names.sort_unstable();
    assert!(["adopted-1", "adopted-2"].contains(&names[0].as_str()), "{names:?}");
    assert_eq!(names[1], "s");
    // Another sweep saw the same two and comes too late.
    let again = move |conn: &rusqlite::Connection, catalog: &KindCatalog| {
        adopt::adopt_all(conn, catalog, &orphans, at(10))
    };
    assert_eq!(store.write("store.bot_adopt", again).await.unwrap(), 0);
    assert_eq!(store.check().await.unwrap(), []);
}

#[tokio::test]
async fn a_wish_gives_a_bot_to_a_meeting_that_has_none() {
    let (store, ada) = store().await;
    write(
        &store,
        "INSERT INTO meetings (id, user_id, platform, platform_specific_id, status, created_at,
             updated_at)
         VALUES (1, 1, 'zoom', '1234567890', 'awaiting_admission', 5, 5),
                (2, 1, 'zoom', '9876543210', 'active', 5, 5);",
    )
    .await;
    let target = |native_id: &str| BotTarget::Address {
        platform: Platform::Zoom,
        native_id: native_id.to_owned(),
    };
    let answer = store.wish_stop(ada, target("1234567890"), "user", at(9)).await.unwrap();
    let StopAnswer::Wished(records) = answer else { panic!("{answer:?}") };
    assert_eq!(records[0].vexa_status(), "awaiting_admission");
    assert_eq!(store.bot(MeetingId::new(1)).await.unwrap().as_ref(), records.first());
    let change = ConfigChange { language: Some("de".to_owned()), ..ConfigChange::default() };
    let answer = store.wish_config(ada, target("9876543210"), change, at(9)).await.unwrap();
    let ConfigAnswer::Wished(record) = answer else { panic!("{answer:?}") };
    assert_eq!(store.bot(MeetingId::new(2)).await.unwrap(), Some(*record));
    assert_eq!(store.check().await.unwrap(), []);
}
