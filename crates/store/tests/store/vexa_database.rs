//! A database that Vexa made is opened and worked on, and nothing of it is altered.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::{
    BotEvent, BotRecord, BotStatus, BotTimeouts, BotWish, ConnectionId, ExitReport, FINISH_KIND,
    MeetingId, NewBot, Platform, Source, Stage,
};
use roundsman_core::jobs::{JobKey, KindName, Lane, LeaseOwner, LeaseRef, WorkerName};
use roundsman_core::ports::{
    BeatAnswer, BotBeat, BotHappened, BotStore, BotSweep, BotTarget, ClaimRequest, EffectStore,
    EventAnswer, JobStore, LaneDemand, MeetingFilter, MeetingPage, ReserveAnswer, StopAnswer,
    UserStore, WebhookStore,
};
use roundsman_core::users::UserId;
use roundsman_store::conformance::catalog;
use roundsman_store::postgres::{PostgresOptions, PostgresStore};
use roundsman_testkit::TestDatabase;
use roundsman_testkit::postgres::VEXA_SCHEMA;
use tokio_postgres::Client;

const VEXA_ROWS: &str = include_str!("vexa_database.sql");

/// 2026-01-01T00:00:00Z: a few minutes after the last row was made.
pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

pub(crate) const ADA: UserId = UserId::new(1);
pub(crate) const BOB: UserId = UserId::new(2);
const ADAS_KEY: &str = "aTokenOfAdaWithFortyLettersAndDigits0001";

/// Everything that the catalogue says about what is in `public`.
pub(crate) const DESCRIBE: &str = r"
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
    SELECT 'table ' || c.relname || ' ' || c.relkind::text || ' ' || coalesce(c.reloptions::text, '')
           || ' ' || c.relpersistence::text || ' ' || coalesce(c.relacl::text, '') AS line
      FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'column ' || c.relname || ' ' || a.attnum || ' ' || a.attname || ' '
           || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' '
           || a.attidentity::text || ' ' || a.attstorage::text || ' '
           || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0
    UNION ALL
    SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
      FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL
    SELECT 'trigger ' || tgrelid::regclass || ' ' || tgname || ' ' || tgisinternal
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'public'::regnamespace AND NOT tgisinternal
    UNION ALL
    SELECT 'column of ' || table_name || ' ' || ordinal_position || ' ' || column_name || ' '
           || data_type || ' ' || coalesce(character_maximum_length::text, '') || ' ' || is_nullable
           || ' ' || coalesce(column_default, '')
      FROM information_schema.columns WHERE table_schema = 'public') described";

/// Rows that nobody has a reason to touch.
pub(crate) const SETTLED: &str = r"
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
    SELECT 'meeting ' || m::text AS line FROM public.meetings m WHERE id <= 4
    UNION ALL
    SELECT 'session ' || s::text FROM public.meeting_sessions s WHERE id <= 4
    UNION ALL
    SELECT 'said ' || t::text FROM public.transcriptions t
    UNION ALL
    SELECT 'key ' || k::text FROM public.api_tokens k
    UNION ALL
    SELECT 'user ' || u::text FROM public.users u WHERE id <= 2
    UNION ALL
    SELECT 'version ' || v::text FROM public.alembic_version v) settled";

/// The database, somebody who looks at it past the store, and the store.
pub(crate) async fn open() -> (TestDatabase, Client, PostgresStore) {
    let database = TestDatabase::create().await.expect("a database");
    let operator = database.connect().await.expect("a connection");
    // A zone that is not UTC must not move anybody's times.
    let zone = format!("ALTER DATABASE {} SET timezone = 'Asia/Tokyo'", database.name());
    operator.batch_execute(&zone).await.expect("another zone");
    operator.batch_execute(VEXA_SCHEMA).await.expect("Vexa's tables");
    operator.batch_execute(VEXA_ROWS).await.expect("Vexa's rows");
    let store = connect(&database).await;
    (database, operator, store)
}

async fn connect(database: &TestDatabase) -> PostgresStore {
    let options =
        PostgresOptions::new(database.url().parse().expect("the testkit gives valid URLs"));
    PostgresStore::connect(options, catalog()).await.expect("Vexa's tables are good enough")
}

pub(crate) async fn text(operator: &Client, sql: &str) -> String {
    let row = operator.query_one(sql, &[]).await.expect("one row");
    row.get::<_, Option<String>>(0).unwrap_or_default()
}

fn happened(record: &BotRecord, event: BotEvent) -> BotHappened {
    BotHappened {
        workload: record.workload(),
        connection: Some(record.bot.connection_id.clone()),
        event,
        source: Source::Callback,
        beats: false,
    }
}

async fn happen(
    store: &PostgresStore,
    record: &BotRecord,
    event: BotEvent,
    now: Timestamp,
) -> BotRecord {
    match store.bot_event(happened(record, event), None, now).await.expect("bot_event") {
        EventAnswer::Changed(announced) => announced.record,
        other => panic!("{other:?}"),
    }
}

fn exit(code: i32) -> BotEvent {
    BotEvent::Exited(ExitReport { exit_code: Some(code), ..ExitReport::default() })
}

async fn bot(store: &PostgresStore, id: i64) -> BotRecord {
    store.bot(MeetingId::new(id)).await.expect("bot").expect("it has a bot")
}

fn new_bot(user_id: UserId, native_id: &str, connection: &str) -> NewBot {
    NewBot {
        user_id,
        platform: Platform::GoogleMeet,
        native_id: native_id.to_owned(),
        connection_id: ConnectionId::from_stored(connection.to_owned()),
        language: None,
        task: None,
        wish: BotWish::default(),
    }
}

fn patient_sweep() -> BotSweep {
    BotSweep {
        timeouts: BotTimeouts::default(),
        serving_since: Timestamp::EPOCH,
        runtime_answered: true,
        rows_max: 100,
    }
}

#[tokio::test]
async fn a_vexa_database_is_worked_on_and_not_altered() {
    let database = TestDatabase::create().await.expect("a database");
    let operator = database.connect().await.expect("a connection");
    operator.batch_execute(VEXA_SCHEMA).await.expect("Vexa's tables");
    operator.batch_execute(VEXA_ROWS).await.expect("Vexa's rows");
    // Names are described alike whether or not there is a schema with the name of the role.
    operator.batch_execute("SET search_path = public").await.unwrap();
    let (described, settled) = (text(&operator, DESCRIBE).await, text(&operator, SETTLED).await);
    assert!(described.contains("character varying(255)"), "{described}");

    let store = connect(&database).await;
    live_rows_count_before_they_are_adopted(&store).await;
    live_rows_are_adopted_once(&store, &operator).await;
    adopted_bots_live_on(&store, &operator).await;
    new_bots_live_beside_them(&store, &operator).await;
    // A second start finds everything as it should be.
    let again = connect(&database).await;
    assert_eq!(again.adopt_meetings(100, NOW).await.unwrap(), 0);
    assert_eq!(again.check().await.unwrap(), []);

    assert_eq!(text(&operator, DESCRIBE).await, described, "the seed's tables were altered");
    assert_eq!(text(&operator, SETTLED).await, settled, "rows that were settled were touched");
}

async fn live_rows_count_before_they_are_adopted(store: &PostgresStore) {
    let same =
        store.reserve_bot(new_bot(ADA, "klm-nopq-rst", "c-1"), NOW).await.expect("reserve_bot");
    assert_eq!(same, ReserveAnswer::AlreadyLive { meeting: MeetingId::new(5) });
    let other =
        store.reserve_bot(new_bot(ADA, "new-meet-ing", "c-2"), NOW).await.expect("reserve_bot");
    assert_eq!(other, ReserveAnswer::LimitReached { live: 1, max: 1 });
    let counts = store.bot_counts().await.expect("bot_counts");
    let expected = [
        (BotStatus::Reserved, 1),
        (BotStatus::Starting, 1),
        (BotStatus::Active, 1),
        (BotStatus::Stopping, 0),
    ];
    assert_eq!(counts, expected);
}

async fn live_rows_are_adopted_once(store: &PostgresStore, operator: &Client) {
    assert_eq!(store.adopt_meetings(2, NOW).await.expect("adopt_meetings"), 2);
    assert_eq!(store.adopt_meetings(100, NOW).await.expect("adopt_meetings"), 1);
    assert_eq!(store.adopt_meetings(100, NOW).await.expect("adopt_meetings"), 0);
    let (five, six, seven) = (bot(store, 5).await, bot(store, 6).await, bot(store, 7).await);
    assert_eq!(five.bot.connection_id.as_str(), "adopted-5");
    assert_eq!(five.status, BotStatus::Reserved);
    assert_eq!(five.meeting.updated_at, five.meeting.created_at, "it has no other");
    assert_eq!(six.bot.connection_id.as_str(), "session-6-late");
    assert!(six.bot.was_active && !six.bot.beats);
    assert_eq!(
        six.meeting.start_time.expect("it began").to_string(),
        "2025-12-31T23:00:00.000000Z"
    );
    assert_eq!(seven.bot.connection_id.as_str(), "adopted-7", "the name is another bot's");
    assert_eq!(
        (seven.status, seven.bot.stage),
        (BotStatus::Starting, Some(Stage::AwaitingAdmission))
    );
    let statuses =
        "SELECT string_agg(status, ' ' ORDER BY id) FROM public.meetings WHERE id IN (5, 6, 7)";
    assert_eq!(text(operator, statuses).await, "requested active awaiting_admission");
    assert_eq!(store.check().await.expect("check"), []);
}

async fn adopted_bots_live_on(store: &PostgresStore, operator: &Client) {
    let six = bot(store, 6).await;
    let beat = BotBeat {
        workload: six.workload(),
        connection: six.bot.connection_id.clone(),
        media_progress: Some(7),
        config_applied: None,
    };
    let soon = NOW + Duration::from_secs(60);
    let heard = store.bot_heartbeats(vec![beat.clone()], soon).await.expect("bot_heartbeats");
    assert!(matches!(heard[0], BeatAnswer::Heard { status: BotStatus::Active, .. }), "{heard:?}");
    let touched = "SELECT updated_at::text FROM public.meetings WHERE id = 6";
    assert_eq!(text(operator, touched).await, "2026-01-01 00:01:00");

    // One is let in, one leaves, one was never heard of again.
    let seven = bot(store, 7).await;
    happen(store, &seven, BotEvent::Joined, soon).await;
    let six = happen(store, &six, exit(0), soon).await;
    assert_eq!(six.status, BotStatus::Completed);
    let over = store.bot_heartbeats(vec![beat], soon).await.expect("bot_heartbeats");
    assert_eq!(over, [BeatAnswer::Over { status: BotStatus::Completed }]);
    assert!(store.sweep_bots(patient_sweep(), soon).await.expect("sweep_bots").is_empty());
    let late = NOW + Duration::from_secs(301);
    let swept = store.sweep_bots(patient_sweep(), late).await.expect("sweep_bots");
    let ended: Vec<(i64, BotStatus)> =
        swept.iter().map(|one| (one.record.meeting.id.get(), one.record.status)).collect();
    assert_eq!(ended, [(5, BotStatus::Failed), (7, BotStatus::Failed)]);

    let lease = claim(store, FINISH_KIND, six.meeting.id, late).await;
    assert!(store.finish_meeting(six.meeting.id, lease, late).await.expect("finish_meeting"));
    assert!(!store.finish_meeting(six.meeting.id, lease, late).await.expect("finish_meeting"));
    let data = bot(store, 6).await.meeting.data.to_value();
    assert_eq!(data["participants"], serde_json::json!(["Ada", "Bob"]));
    assert_eq!(data["languages"], serde_json::json!(["de", "en"]));
    assert_eq!(data["durations"]["segments"], 3);
    assert_eq!((&data["name"], &data["bot"]["n"]), (&"Night shift".into(), &1.5.into()));
    let ended = "SELECT status || ' ' || end_time FROM public.meetings WHERE id = 6";
    assert_eq!(text(operator, ended).await, "completed 2026-01-01 00:01:00");
}

async fn claim(store: &PostgresStore, kind: &str, meeting: MeetingId, now: Timestamp) -> LeaseRef {
    let demand = LaneDemand {
        lane: Lane::of(UserId::SYSTEM, &KindName::new(kind).expect("a kind")),
        max: 100,
        lease_ttl: Duration::from_secs(300),
        deadline: None,
    };
    let request = ClaimRequest {
        worker: WorkerName::new("w"),
        owner: LeaseOwner::Outside,
        demands: vec![demand],
        total_max: 100,
    };
    let jobs = store.claim(request, now).await.expect("claim").jobs;
    let key = JobKey::new(&meeting.to_string()).expect("a key");
    let job = jobs.iter().find(|job| job.facts.key.as_ref() == Some(&key));
    job.expect("a job for the meeting").lease_ref()
}

async fn new_bots_live_beside_them(store: &PostgresStore, operator: &Client) {
    let now = NOW + Duration::from_secs(600);
    let reserved =
        store.reserve_bot(new_bot(ADA, "abc-defg-hij", "c-new"), now).await.expect("reserve_bot");
    let ReserveAnswer::Reserved(announced) = reserved else { panic!("{reserved:?}") };
    let record = announced.record;
    assert_eq!(record.meeting.id.get(), 8, "numbers go on where they were");
    let record = happen(store, &record, BotEvent::Started, now).await;
    let session = "SELECT session_uid || ' ' || (session_start_time AT TIME ZONE 'UTC')
                     FROM public.meeting_sessions WHERE meeting_id = 8";
    assert_eq!(text(operator, session).await, "c-new 2026-01-01 00:10:00");

    let address =
        BotTarget::Address { platform: Platform::GoogleMeet, native_id: "abc-defg-hij".to_owned() };
    let stop = store.wish_stop(ADA, address, "user", now).await.expect("wish_stop");
    let StopAnswer::Wished(wished) = stop else { panic!("{stop:?}") };
    assert_eq!(wished.len(), 1, "the two that are over already are left alone");
    happen(store, &record, exit(0), now).await;

    let page = MeetingPage { before: None, skip: 0, rows_max: 10 };
    let rows = store.meetings(ADA, MeetingFilter::default(), page).await.expect("meetings");
    let listed: Vec<(i64, Option<BotStatus>, bool)> = rows
        .iter()
        .map(|row| (row.meeting.id.get(), row.meeting.bot_status().ok(), row.bot.is_some()))
        .collect();
    let expected = [
        (8, Some(BotStatus::Completed), true),
        (5, Some(BotStatus::Failed), true),
        (2, Some(BotStatus::Failed), false),
        (1, Some(BotStatus::Completed), false),
    ];
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn users_and_keys_of_a_vexa_database_go_on_working() {
    let (_database, operator, store) = open().await;
    let whose =
        async |key: &str| store.user_of_vexa_key(key.to_owned()).await.expect("user_of_vexa_key");
    assert_eq!(whose(ADAS_KEY).await, Some(ADA));
    assert_eq!(whose("aTokenOfBobWithFortyLettersAndDigits0003").await, Some(BOB));
    for wrong in ["", "nobody", "' OR true --", "a\0b", &ADAS_KEY.to_lowercase(), "%"] {
        assert_eq!(whose(wrong).await, None, "{wrong:?}");
    }
    let endpoint =
        store.endpoint(ADA).await.expect("endpoint").expect("its address is in the user's data");
    assert_eq!((endpoint.url.as_str(), endpoint.secret), ("https://hooks.example.org/ada", None));
    assert_eq!(store.endpoint(BOB).await.expect("endpoint"), None);
    let bob = store
        .user_by_email("bob@example.org".to_owned())
        .await
        .expect("user_by_email")
        .expect("Bob");
    assert_eq!((bob.id, bob.created_at), (BOB, Timestamp::EPOCH));

    // A later release lets keys expire.
    let expire = "ALTER TABLE public.api_tokens ADD COLUMN expires_at timestamp;
                  UPDATE public.api_tokens SET expires_at = '2025-01-01' WHERE user_id = 2;
                  UPDATE public.api_tokens SET expires_at = '9999-01-01' WHERE user_id = 1";
    operator.batch_execute(expire).await.unwrap();
    assert_eq!(whose(ADAS_KEY).await, Some(ADA));
    assert_eq!(whose("aTokenOfBobWithFortyLettersAndDigits0003").await, None);
    operator.batch_execute("DROP TABLE public.api_tokens").await.unwrap();
    assert_eq!(whose(ADAS_KEY).await, None, "there is no such table any more");
}

#[tokio::test]
async fn times_of_a_vexa_database_are_in_utc_whatever_its_zone() {
    let (_database, operator, store) = open().await;
    let page = MeetingPage { before: None, skip: 0, rows_max: 10 };
    let rows = store.meetings(ADA, MeetingFilter::default(), page).await.expect("meetings");
    let first = &rows.last().unwrap().meeting;
    assert_eq!(first.start_time.unwrap().to_string(), "2025-12-01T09:00:00.123456Z");
    store.adopt_meetings(100, NOW).await.expect("adopt_meetings");
    let seven = bot(&store, 7).await;
    happen(&store, &seven, exit(1), NOW).await;
    let ended = "SELECT end_time::text FROM public.meetings WHERE id = 7";
    assert_eq!(text(&operator, ended).await, "2026-01-01 00:00:00");
}
