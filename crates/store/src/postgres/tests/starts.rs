//! Starting: empty databases, databases of others, newer and older ones, several servers at once.

use roundsman_core::ports::{BotStore, Database, EffectStore, StoreError, UserStore};
use roundsman_core::users::NewUser;
use tokio::task::JoinSet;

use super::*;
use crate::migrations::{MIGRATIONS, SCHEMA_KNOWN};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_start_at_once_migrate_once() {
    let database = TestDatabase::create().await.unwrap();
    let mut starts = JoinSet::new();
    for _ in 0..8 {
        let options = options(&database);
        starts.spawn(async move { PostgresStore::connect(options, catalog()).await });
    }
    for store in starts.join_all().await {
        let store = store.unwrap();
        store.ping().await.unwrap();
        assert!(store.describe().starts_with("postgresql 1"), "{}", store.describe());
    }
    let operator = database.connect().await.unwrap();
    let applied = operator.query("SELECT number FROM roundsman.migrations", &[]).await.unwrap();
    assert_eq!(applied.len(), MIGRATIONS.len());
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let (store, database) = store().await;
    let operator = database.connect().await.unwrap();
    let newer = i32::try_from(SCHEMA_KNOWN).unwrap() + 1;
    operator
        .execute("INSERT INTO roundsman.migrations VALUES ($1, 'newer', now())", &[&newer])
        .await
        .unwrap();
    let refused = PostgresStore::connect(options(&database), catalog()).await;
    match refused {
        Err(StoreError::SchemaTooNew { found, known }) => {
            assert_eq!((found, known), (SCHEMA_KNOWN + 1, SCHEMA_KNOWN));
        }
        other => panic!("{other:?}"),
    }
    // A server that runs already goes on: that is how one node after the other is upgraded.
    store.ping().await.unwrap();
}

const VEXA_USERS: &str = "
CREATE TABLE public.users (
    id serial PRIMARY KEY, email varchar(255) NOT NULL, name varchar(100), image_url text,
    created_at timestamp without time zone DEFAULT now(),
    max_concurrent_bots integer NOT NULL DEFAULT 1, data jsonb NOT NULL DEFAULT '{}',
    of_their_own integer DEFAULT 7);
CREATE UNIQUE INDEX users_email_idx ON public.users (email);
INSERT INTO public.users (email, created_at) VALUES ('Ada@Example.org', '2026-01-01 12:00:00')";

const DESCRIBE_USERS: &str = "
SELECT string_agg(attname || ' ' || atttypid || ' ' || attnotnull, ', ' ORDER BY attnum)
       || (SELECT string_agg(indexdef, ', ' ORDER BY indexdef) FROM pg_indexes
            WHERE tablename = 'users')
  FROM pg_attribute WHERE attrelid = 'public.users'::regclass AND attnum > 0";

#[tokio::test]
async fn the_users_of_an_existing_database_are_used_and_not_altered() {
    let database = TestDatabase::create().await.unwrap();
    let operator = database.connect().await.unwrap();
    // A zone that is not UTC must not move their times.
    operator
        .batch_execute(&format!("ALTER DATABASE {} SET timezone = 'Asia/Tokyo'", database.name()))
        .await
        .unwrap();
    operator.batch_execute(VEXA_USERS).await.unwrap();
    let before: String = operator.query_one(DESCRIBE_USERS, &[]).await.unwrap().get(0);
    let store = PostgresStore::connect(options(&database), catalog()).await.unwrap();
    let after: String = operator.query_one(DESCRIBE_USERS, &[]).await.unwrap().get(0);
    assert_eq!(before, after);

    let wish = NewUser {
        email: "ada@example.org".to_owned(),
        name: None,
        image_url: None,
        max_concurrent_bots: 3,
    };
    let (ada, made) = store.find_or_create_user(wish.clone(), NOW).await.unwrap();
    assert!(!made, "the case of an address does not make two users of one");
    assert_eq!(ada.created_at.to_string(), "2026-01-01T12:00:00.000000Z");
    let bob = NewUser { email: "bob@example.org".to_owned(), ..wish };
    let (bob, made) = store.find_or_create_user(bob, NOW).await.unwrap();
    assert!(made);
    assert_eq!(bob.created_at, NOW);
    let stored: String = operator
        .query_one("SELECT created_at::text FROM public.users WHERE email LIKE 'bob%'", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(stored, "2026-01-01 00:00:00");
}

#[tokio::test]
async fn meetings_that_do_not_fit_are_refused_with_the_reason() {
    let cases = [
        (
            "ALTER TABLE public.meetings ALTER end_time TYPE timestamptz",
            "public.meetings.end_time is timestamp with time zone",
        ),
        ("ALTER TABLE public.meetings DROP COLUMN data", "public.meetings has no column data"),
        (
            "ALTER TABLE public.meeting_sessions ALTER id DROP DEFAULT",
            "public.meeting_sessions.id is not filled by a sequence",
        ),
        (
            "ALTER TABLE public.transcriptions ALTER start_time TYPE text",
            "public.transcriptions.start_time is text",
        ),
    ];
    for (change, reason) in cases {
        let (_store, database) = store().await;
        database.connect().await.unwrap().batch_execute(change).await.unwrap();
        let refused = PostgresStore::connect(options(&database), catalog()).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn wider_numbers_of_others_are_good_enough() {
    let (_store, database) = store().await;
    let wider = "ALTER TABLE public.meetings ALTER id TYPE bigint, ALTER user_id TYPE bigint;
                 ALTER TABLE public.meeting_sessions ALTER meeting_id TYPE bigint";
    database.connect().await.unwrap().batch_execute(wider).await.unwrap();
    let store = PostgresStore::connect(options(&database), catalog()).await.unwrap();
    assert_eq!(store.adopt_meetings(10, NOW).await.unwrap(), 0);
    assert_eq!(store.check().await.unwrap(), []);
}

#[tokio::test]
async fn users_that_do_not_fit_are_refused_with_the_reason() {
    let cases = [
        ("ALTER TABLE public.users DROP COLUMN image_url", "has no column image_url"),
        (
            "ALTER TABLE public.users ALTER created_at TYPE timestamptz",
            "created_at is timestamp with time zone",
        ),
        ("DROP INDEX public.users_email_idx", "no unique index on email"),
        ("ALTER TABLE public.users ALTER id DROP DEFAULT", "id is not filled by a sequence"),
    ];
    for (change, reason) in cases {
        let database = TestDatabase::create().await.unwrap();
        let operator = database.connect().await.unwrap();
        operator.batch_execute(VEXA_USERS).await.unwrap();
        operator.batch_execute(change).await.unwrap();
        let refused = PostgresStore::connect(options(&database), catalog()).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
