//! The lock that shows that this server process lives.
//!
//! A session-level advisory lock ends with its session, and the session with the process, however
//! that ended. It is held on a connection of its own. Invariants: a process has a row in
//! `process_locks` only while it means to hold the lock, and takes the lock before it writes the row;
//! one that cannot hold it says so, and its leases then end by their time alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::ports::StoreError;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::error::Failure;
use super::pool::{Operation, Pool};
use super::session::Session;
use super::types::Time;
use super::{PostgresOptions, ProcessLock};

/// The first part of the lock's name ("rprc" in ASCII); the second is the number of the process.
pub(super) const LOCK_CLASS: i32 = 0x7270_7263;
/// Numbers of processes go round here.
pub(super) const LOCK_NUMBERS: i64 = i32::MAX as i64;
/// A server whose machine or network is gone without a word is noticed by the database after about
/// this long: fourteen seconds. Without meaning for sockets of one machine.
const SETTINGS: &str = "SET application_name = 'roundsman alive'; \
    SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3";
/// How long the database may take to say whether the lock is held.
const ANSWER_MAX: Duration = Duration::from_secs(3);

const TAKE: &str = "-- take_process_lock
SELECT pg_try_advisory_lock($1, $2)";

/// Whose session this is, and whether it is the one that holds the lock.
const LOOK: &str = "-- look_at_process_lock
SELECT pg_backend_pid(),
       EXISTS (SELECT FROM pg_locks
                WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()
                  AND classid::bigint = $1 AND objid::bigint = $2 AND objsubid = 2),
       EXISTS (SELECT FROM roundsman.process_locks
                WHERE process_no = $3 AND free_since IS NULL)";

const NOTE: &str = "-- note_process_lock
INSERT INTO roundsman.process_locks (process_no, locked_at) VALUES ($1, $2)
ON CONFLICT (process_no) DO UPDATE SET free_since = NULL";

const BACKEND: &str = "-- backend
SELECT pg_backend_pid()";

const WITHDRAW: &str = "-- withdraw_process_lock
DELETE FROM roundsman.process_locks WHERE process_no = $1";

/// Holds the lock of one process.
#[derive(Debug)]
pub(super) struct Alive {
    /// For this one connection alone.
    pool: Pool,
    held: Mutex<Option<Held>>,
    off: AtomicBool,
}

#[derive(Debug)]
struct Held {
    process: i64,
    session: Session,
    backend: i32,
}

/// What was found.
enum Look {
    Fine,
    /// The lock is held, but others do not know.
    Unwritten,
    /// The session is another one, or has no lock any more, and nothing has failed.
    NotOurs,
}

impl Alive {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let pool = Pool::new(&PostgresOptions { pool_max: 1, ..options.clone() })?;
        let off = AtomicBool::new(options.process_lock == ProcessLock::Off);
        Ok(Alive { pool, held: Mutex::default(), off })
    }

    /// Sees that the lock of this process is held; that of any other is given up. `others` are the
    /// connections that everything else uses.
    pub(super) async fn keep(
        &self,
        others: &Pool,
        process: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if self.off.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut held = self.held.lock().await;
        if let Some(still) = held.take_if(|held| held.process == process) {
            // Put back only if all is well: whoever drops this call has no lock in doubt.
            match within(still.look()).await {
                Ok((Look::Fine, still)) => {
                    *held = Some(still);
                    return Ok(());
                }
                Ok((Look::Unwritten, still)) => {
                    others.run(&Note { process, now }).await?;
                    *held = Some(still);
                    return Ok(());
                }
                Ok((Look::NotOurs, _)) => return self.give_up(others, process).await,
                Err(error) => tracing::debug!(%error, "the lock of this process was lost"),
            }
        }
        *held = None;
        match within(self.take(others, process)).await {
            Ok(Taken::Held(taken)) => {
                others.run(&Note { process, now }).await?;
                *held = Some(*taken);
                Ok(())
            }
            // Our own earlier session, of which the database does not know yet that it is over.
            Ok(Taken::Busy) => Ok(()),
            Ok(Taken::Pooled) => self.give_up(others, process).await,
            Err(error) => {
                others.run(&Withdraw { process }).await?;
                Err(error)
            }
        }
    }

    /// Ends the session, if there is one.
    pub(super) async fn close(&self) {
        *self.held.lock().await = None;
        self.pool.close();
    }

    async fn take(&self, others: &Pool, process: i64) -> Result<Taken, StoreError> {
        let mut session = self.pool.lend().await?;
        let taken = lock(&mut session, process).await.map_err(Failure::into_store_error)?;
        let Some(backend) = taken else { return Ok(Taken::Busy) };
        let held = Held { process, session, backend };
        if shares_sessions(others, backend).await? {
            return Ok(Taken::Pooled);
        }
        let (look, held) = held.look().await?;
        Ok(if matches!(look, Look::NotOurs) { Taken::Pooled } else { Taken::Held(Box::new(held)) })
    }

    /// A lock that comes and goes says nothing: it is not used from here on.
    async fn give_up(&self, others: &Pool, process: i64) -> Result<(), StoreError> {
        tracing::warn!(
            "sessions of the database are shared, as by a pooler in transaction mode; leases of this \
             server will not end before their time if it is killed (database.process_lock)"
        );
        self.off.store(true, Ordering::Relaxed);
        others.run(&Withdraw { process }).await
    }
}

#[cfg(test)]
impl Alive {
    /// Runs a statement in the session that holds the lock.
    pub(super) async fn run_in_session(&self, sql: &str) {
        let mut held = self.held.lock().await;
        held.as_mut().expect("the lock is held").session.batch(sql).await.expect("it runs");
    }

    /// From now on there is no connection for it.
    pub(super) async fn refuse(&self) {
        self.close().await;
    }
}

enum Taken {
    Held(Box<Held>),
    Busy,
    Pooled,
}

impl Held {
    async fn look(mut self) -> Result<(Look, Held), StoreError> {
        let (class, number) = (i64::from(LOCK_CLASS), i64::from(number_of(self.process)));
        let rows = self.session.query(LOOK, &[&class, &number, &self.process]).await;
        let look = rows.map_err(Failure::from).and_then(|rows| {
            let row = rows.first().ok_or(Failure::Raced)?;
            let (backend, locked): (i32, bool) = (row.try_get(0)?, row.try_get(1)?);
            Ok(match row.try_get(2)? {
                _ if !locked || backend != self.backend => Look::NotOurs,
                true => Look::Fine,
                false => Look::Unwritten,
            })
        });
        Ok((look.map_err(Failure::into_store_error)?, self))
    }
}

/// The backend that holds the lock now, unless somebody else does.
async fn lock(session: &mut Session, process: i64) -> Result<Option<i32>, Failure> {
    session.batch(SETTINGS).await?;
    let row = session.query_opt(TAKE, &[&LOCK_CLASS, &number_of(process)]).await?;
    let taken: bool = row.ok_or(Failure::Raced)?.try_get(0)?;
    if !taken {
        return Ok(None);
    }
    let row = session.query_opt(BACKEND, &[]).await?.ok_or(Failure::Raced)?;
    Ok(Some(row.try_get(0)?))
}

/// Whether a transaction of another connection runs in this session: a pooler gives one that is idle
/// to whoever asks next.
async fn shares_sessions(others: &Pool, backend: i32) -> Result<bool, StoreError> {
    Ok(others.run(&Backend).await? == backend)
}

/// The second part of the lock's name.
fn number_of(process: i64) -> i32 {
    i32::try_from(process % LOCK_NUMBERS).unwrap_or(0)
}

async fn within<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match timeout(ANSWER_MAX, work).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::Unavailable(format!("no answer in {ANSWER_MAX:?}").into())),
    }
}

struct Note {
    process: i64,
    now: Timestamp,
}

impl Operation for Note {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.execute(NOTE, &[&self.process, &Time(self.now)]).await?;
        Ok(())
    }
}

struct Withdraw {
    process: i64,
}

impl Operation for Withdraw {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.execute(WITHDRAW, &[&self.process]).await?;
        Ok(())
    }
}

struct Backend;

impl Operation for Backend {
    type Answer = i32;

    async fn run(&self, session: &mut Session) -> Result<i32, Failure> {
        session.begin();
        let row = session.query_opt(BACKEND, &[]).await?.ok_or(Failure::Raced)?;
        session.commit().await?;
        Ok(row.try_get(0)?)
    }
}
