//! Servers that end sessions, refuse writes, forget statements; callers that give up.

use roundsman_core::effects::Effects;
use roundsman_core::jobs::{JobId, JobState, NewBatch, Outcome, Settle, Settled};
use roundsman_core::ports::{BatchStore, Database, Scope, StoreError};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_sessions_are_replaced() {
    let (store, database) = store().await;
    enqueue(&store, 1).await;
    for _ in 0..3 {
        store.ping().await.unwrap();
        assert!(database.terminate_backends().await.unwrap() > 0);
        let found = store.job(Scope::All, JobId::new(1)).await.unwrap();
        assert!(found.is_some(), "a look is repeated on another connection");
    }
}

#[tokio::test]
async fn a_server_that_became_read_only_is_told_apart_and_left() {
    let (store, database) = store().await;
    let operator = database.connect().await.unwrap();
    let set = |value: &str| {
        format!("ALTER DATABASE {} SET default_transaction_read_only = {value}", database.name())
    };
    operator.batch_execute(&set("on")).await.unwrap();
    database.terminate_backends().await.unwrap();
    for _ in 0..3 {
        match store.ping().await {
            Err(error @ StoreError::StorageFull(_)) => assert!(error.is_transient()),
            other => panic!("{other:?}"),
        }
    }
    let operator = database.connect().await.unwrap();
    operator.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    operator.batch_execute(&set("off")).await.unwrap();
    store.ping().await.expect("on a new connection, to what is the primary now");
}

#[tokio::test]
async fn statements_that_the_server_forgot_are_prepared_again() {
    let (store, _database) = store().await;
    enqueue(&store, 2).await;
    assert_eq!(store.claim(claim(1), NOW).await.unwrap().jobs.len(), 1);
    // As after a failover behind a proxy that keeps the client's side of the connection.
    let mut session = store.pool.lend().await.unwrap();
    session.batch("DEALLOCATE ALL").await.unwrap();
    session.give_back();
    assert_eq!(store.claim(claim(1), NOW).await.unwrap().jobs.len(), 1);
}

#[tokio::test]
async fn a_row_that_stays_locked_is_unavailable_and_nothing_happened() {
    let (_, database) = store().await;
    let mut options = options(&database);
    options.lock_timeout = Duration::from_millis(50);
    let store = PostgresStore::connect(options, catalog()).await.unwrap();
    enqueue(&store, 1).await;
    let job = store.claim(claim(1), NOW).await.unwrap().jobs.remove(0);
    let operator = database.connect().await.unwrap();
    operator.batch_execute("BEGIN; SELECT FROM roundsman.job_running FOR UPDATE").await.unwrap();
    let settle = Settle {
        lease: job.lease_ref(),
        outcome: Outcome::Done { result: Json::null() },
        effects: Effects::default(),
    };
    match store.settle(vec![settle.clone()], 0, NOW).await {
        Err(StoreError::Unavailable(_)) => {}
        other => panic!("{other:?}"),
    }
    operator.batch_execute("ROLLBACK").await.unwrap();
    let settled = store.settle(vec![settle], 0, NOW).await.unwrap();
    assert!(matches!(settled[..], [roundsman_core::jobs::Settled::Landed { .. }]));
}

#[tokio::test]
async fn a_caller_who_gives_up_leaves_no_connection_in_the_middle_of_something() {
    let (_, database) = store().await;
    let mut options = options(&database);
    options.pool_max = 1;
    let store = PostgresStore::connect(options, catalog()).await.unwrap();
    enqueue(&store, 1).await;
    let operator = database.connect().await.unwrap();
    operator.batch_execute("BEGIN; SELECT FROM roundsman.job_queue FOR UPDATE").await.unwrap();
    let cancel = store.cancel(Scope::All, JobId::new(1), NOW);
    let given_up = tokio::time::timeout(Duration::from_millis(200), cancel).await;
    assert!(given_up.is_err(), "it waits for the lock");
    store.ping().await.expect("the only connection was replaced");
    operator.batch_execute("COMMIT").await.unwrap();
    let job = store.job(Scope::All, JobId::new(1)).await.unwrap().unwrap();
    assert!(matches!(job, roundsman_core::jobs::Job::Waiting(_)), "{job:?}");
}

/// Ends that nobody waits for are committed before those that somebody does. Losing a race over the
/// others must not make the first look lost.
#[tokio::test]
async fn ends_that_are_written_stay_written_when_those_beside_them_are_repeated() {
    const FAIL_ONCE: &str = "
CREATE SEQUENCE public.failures;
CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('public.failures') = 1 THEN RAISE EXCEPTION USING ERRCODE = '40001'; END IF;
    RETURN new;
END $$;
CREATE TRIGGER fail_once BEFORE UPDATE OF remaining ON roundsman.job_batches
    FOR EACH ROW EXECUTE FUNCTION fail_once()";
    let (store, database) = store().await;
    enqueue(&store, 2).await;
    let wish = NewJob {
        user_id: ADA,
        kind: kind(),
        key: None,
        payload: Json::null(),
        priority: 0,
        run_at: NOW,
        max_attempts: None,
        tenant: None,
    };
    let batch = NewBatch { user_id: ADA, name: String::new(), jobs: vec![wish; 2], callback: None };
    store.create_batch(batch, None, NOW).await.unwrap();
    let operator = database.connect().await.unwrap();
    operator.batch_execute(FAIL_ONCE).await.unwrap();
    let jobs = store.claim(claim(4), NOW).await.unwrap().jobs;
    let settles = jobs.iter().map(|job| Settle {
        lease: job.lease_ref(),
        outcome: Outcome::Done { result: Json::null() },
        effects: Effects::default(),
    });
    let settled = store.settle(settles.collect(), 0, NOW).await.unwrap();
    let landed = Settled::Landed { state: JobState::Completed };
    assert_eq!(settled, [landed; 4]);
    let tries: i64 =
        operator.query_one("SELECT last_value FROM public.failures", &[]).await.unwrap().get(0);
    assert_eq!(tries, 2, "it has failed once");
}

#[tokio::test]
async fn an_absent_server_is_unavailable_at_once() {
    let config = "postgres://nobody@127.0.0.1:1/none".parse().unwrap();
    match PostgresStore::connect(PostgresOptions::new(config), catalog()).await {
        Err(StoreError::Unavailable(error)) => {
            assert!(error.to_string().contains("refused"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}
