//! The lock that shows that a process lives: lost connections, sessions that are shared, several stores.

use roundsman_core::jobs::{LeaseOwner, RunningJob};
use roundsman_core::ports::{Database, PROCESS_GONE_AFTER, SweepRequest};

use super::*;
use crate::postgres::ProcessLock;

const LIVING: &str = "SELECT count(*) FROM pg_stat_activity
 WHERE application_name = 'roundsman alive' AND datname = current_database()";
const END_SESSIONS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE application_name = 'roundsman alive' AND datname = current_database()";
const NOTED: &str = "SELECT count(*) FROM roundsman.process_locks";
const UNLOCK: &str = "SELECT pg_advisory_unlock_all()";

/// A server with a job that it runs.
struct Server {
    store: PostgresStore,
    owner: LeaseOwner,
    job: RunningJob,
}

impl Server {
    async fn start(database: &TestDatabase, process_lock: ProcessLock) -> Server {
        let options = PostgresOptions { process_lock, ..options(database) };
        let store = PostgresStore::connect(options, catalog()).await.unwrap();
        let owner = store.begin_process(0, NOW).await.unwrap().owner;
        store.keep_process(owner, NOW).await.unwrap();
        enqueue(&store, 1).await;
        let claimed = store.claim(ClaimRequest { owner, ..claim(1) }, NOW).await.unwrap();
        let job = claimed.jobs.into_iter().next().unwrap();
        Server { store, owner, job }
    }

    async fn keep(&self, now: Timestamp) {
        self.store.keep_process(self.owner, now).await.unwrap();
    }

    /// What is taken at this moment, by whoever sweeps.
    async fn sweep(&self, now: Timestamp) -> usize {
        let request = SweepRequest { rows_max: 100, serving_since: Timestamp::EPOCH, jitter: 0 };
        self.store.sweep(request, now).await.unwrap().rescued.len()
    }

    async fn holds(&self) -> bool {
        let job = self.store.job(roundsman_core::ports::Scope::All, self.job.facts.id).await;
        matches!(job.unwrap(), Some(roundsman_core::jobs::Job::Running(_)))
    }
}

async fn count(database: &TestDatabase, sql: &str) -> i64 {
    database.connect().await.unwrap().query_one(sql, &[]).await.unwrap().get(0)
}

fn after(count: u32) -> Timestamp {
    NOW + PROCESS_GONE_AFTER * count
}

#[tokio::test]
async fn a_server_that_ended_is_known_to_be_gone_and_no_other() {
    let database = TestDatabase::create().await.unwrap();
    let dead = Server::start(&database, ProcessLock::Held).await;
    let alive = Server::start(&database, ProcessLock::Held).await;
    let unlocked = Server::start(&database, ProcessLock::Off).await;
    assert_eq!((count(&database, LIVING).await, count(&database, NOTED).await), (2, 2));
    assert_eq!((alive.sweep(NOW).await, alive.sweep(after(1)).await), (0, 0));

    drop(dead.store);
    unlocked.store.close().await;
    let gone = async || (count(&database, LIVING).await == 1).then_some(());
    roundsman_testkit::eventually(Duration::from_secs(20), gone).await.expect("its session ends");
    assert_eq!((alive.sweep(after(2)).await, alive.sweep(after(3)).await), (0, 1));
    assert!(alive.holds().await, "it is there");
    assert_eq!(count(&database, NOTED).await, 1, "nobody looks for the dead any more");
    assert_eq!(alive.sweep(NOW + Duration::from_secs(299)).await, 0, "one without a lock has time");
    assert_eq!(alive.sweep(NOW + Duration::from_secs(301)).await, 2);
}

#[tokio::test]
async fn a_lock_that_was_lost_with_its_connection_is_taken_again_at_once() {
    let database = TestDatabase::create().await.unwrap();
    let one = Server::start(&database, ProcessLock::Held).await;
    let two = Server::start(&database, ProcessLock::Held).await;
    for round in 0..3 {
        assert_eq!(count(&database, END_SESSIONS).await, 2);
        let gone = async || (count(&database, LIVING).await == 0).then_some(());
        roundsman_testkit::eventually(Duration::from_secs(20), gone).await.expect("they end");
        assert_eq!(two.sweep(after(2 * round)).await, 0);
        one.keep(after(2 * round)).await;
        two.keep(after(2 * round)).await;
        assert_eq!(two.sweep(after(2 * round + 1)).await, 0, "both are back");
    }
    assert!(one.holds().await && two.holds().await);
    assert_eq!((count(&database, LIVING).await, count(&database, NOTED).await), (2, 2));
}

/// As behind a pooler in transaction mode: the lock is taken in a session that others get too.
#[tokio::test]
async fn a_lock_that_comes_and_goes_is_not_used() {
    let database = TestDatabase::create().await.unwrap();
    let server = Server::start(&database, ProcessLock::Held).await;
    let other = Server::start(&database, ProcessLock::Held).await;
    // What a pooler does when it gives the session to somebody else.
    server.store.alive.run_in_session(UNLOCK).await;
    server.keep(NOW).await;
    assert_eq!((count(&database, LIVING).await, count(&database, NOTED).await), (1, 1));
    server.keep(NOW).await;
    assert_eq!(count(&database, NOTED).await, 1, "it is not tried again");
    assert_eq!((other.sweep(after(1)).await, other.sweep(after(2)).await), (0, 0));
    assert!(server.holds().await, "its lease ends by its time");
}

/// Its connections are all in use, so that it has none for the lock.
#[tokio::test]
async fn a_server_that_cannot_hold_its_lock_says_so() {
    let database = TestDatabase::create().await.unwrap();
    let server = Server::start(&database, ProcessLock::Held).await;
    let other = Server::start(&database, ProcessLock::Held).await;
    server.store.alive.refuse().await;
    assert!(server.store.keep_process(server.owner, NOW).await.is_err());
    assert_eq!(count(&database, NOTED).await, 1);
    assert_eq!((other.sweep(after(1)).await, other.sweep(after(2)).await), (0, 0));
    assert!(server.holds().await);
}
