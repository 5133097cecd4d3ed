//! The pool of connections, what is set on each, and how operations are run on them.

use std::fmt::Write as _;
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, PoolError, RecyclingMethod, Runtime,
};
use roundsman_core::ports::StoreError;
use tokio::time::timeout;
use tokio_postgres::NoTls;
use tokio_postgres::config::TargetSessionAttrs;

use super::error::{Failure, store_error};
use super::session::Session;
use super::{Durability, PostgresOptions};

/// An operation is tried this often when it lost against others each time.
const TRIES_MAX: u32 = 4;

/// An idle connection is tried after this long, then at these intervals, this often.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// One operation of a port. It is a value that can be run again, because a transaction that lost
/// against another one has to be.
pub(super) trait Operation: Sync {
    type Answer: Send;

    /// Runs it once. Must commit what it began, and must report a failure of whatever commits as
    /// [`Failure::Commit`]: only then is it known whether repeating is safe.
    fn run(
        &self,
        session: &mut Session,
    ) -> impl Future<Output = Result<Self::Answer, Failure>> + Send;
}

/// The connections to one database.
#[derive(Debug)]
pub(super) struct Pool {
    pool: deadpool_postgres::Pool,
    call_timeout: Duration,
}

impl Pool {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let mut config = options.config.clone();
        config.application_name("roundsman").connect_timeout(options.connect_timeout);
        // A server that vanished without a word is noticed before anybody's patience ends.
        config
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES)
            .tcp_user_timeout(options.call_timeout);
        if config.get_hosts().len() > 1 {
            // After a failover the old primary may be back as a replica.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let settings = session_settings(options);
        let set_up = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
            let settings = settings.clone();
            Box::pin(
                async move { client.batch_execute(&settings).await.map_err(HookError::Backend) },
            )
        });
        let pool =
            deadpool_postgres::Pool::builder(Manager::from_config(config, NoTls, manager_config))
                .max_size(options.pool_max)
                .wait_timeout(Some(options.wait_timeout))
                .create_timeout(Some(options.connect_timeout))
                .recycle_timeout(Some(options.connect_timeout))
                .runtime(Runtime::Tokio1)
                .post_create(set_up)
                .build()
                .map_err(|error| StoreError::Failed(Box::new(error)))?;
        Ok(Pool { pool, call_timeout: options.call_timeout })
    }

    /// Runs an operation, again if it lost against others or its connection was dead already.
    pub(super) async fn run<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        self.run_within(operation, self.call_timeout).await
    }

    /// As [`Pool::run`], with a limit of its own for every try.
    pub(super) async fn run_within<O: Operation>(
        &self,
        operation: &O,
        limit: Duration,
    ) -> Result<O::Answer, StoreError> {
        let mut tries = 1;
        loop {
            let mut session = self.lend().await?;
            let failure = match timeout(limit, operation.run(&mut session)).await {
                Ok(Ok(answer)) => {
                    session.give_back();
                    return Ok(answer);
                }
                Ok(Err(failure)) => failure,
                // Dropping the session closes the connection, which ends the statement's
                // transaction; whether it had committed is unknown.
                Err(_) => {
                    return Err(StoreError::Unavailable(format!("no answer in {limit:?}").into()));
                }
            };
            if failure.leaves_connection_usable() {
                // A server that does not answer even this is given up like any other.
                let _ = timeout(limit, session.roll_back()).await;
            } else {
                drop(session);
            }
            if tries == TRIES_MAX || !failure.may_be_repeated() {
                return Err(failure.into_store_error());
            }
            tries += 1;
        }
    }

    pub(super) async fn lend(&self) -> Result<Session, StoreError> {
        match self.pool.get().await {
            Ok(object) => Ok(Session::new(object)),
            Err(
                PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)),
            ) => Err(store_error(error)),
            Err(error) => Err(StoreError::Unavailable(Box::new(error))),
        }
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// What is set on every new connection.
///
/// The planner is told to use indexes and nested loops. Every statement here is a look-up by an
/// index that was made for it, and the statistics are wrong exactly when it matters: a queue that
/// was empty when it was last analysed looks as if reading all of it were cheapest, and is when a
/// million jobs arrive at once. For the same reason plans are made once per connection, without
/// looking at the values; planning the claim anew would take longer than running it.
fn session_settings(options: &PostgresOptions) -> String {
    let mut sql = String::from(
        "SET TIME ZONE 'UTC'; \
         SET default_transaction_isolation = 'read committed'; \
         SET idle_in_transaction_session_timeout = '30s'; \
         SET client_min_messages = 'warning'; \
         SET jit = off; \
         SET plan_cache_mode = force_generic_plan; \
         SET enable_seqscan = off; \
         SET enable_bitmapscan = off; \
         SET enable_hashjoin = off; \
         SET enable_mergejoin = off; \
         SET enable_memoize = off; ",
    );
    // Numbers only: nothing here comes from outside as text.
    let _ = write!(
        sql,
        "SET statement_timeout = {}; SET lock_timeout = {}; ",
        options.statement_timeout.as_millis(),
        options.lock_timeout.as_millis()
    );
    if options.durability == Durability::Full {
        // Only "off" answers before a commit is on disk. Stricter settings stay as they are.
        sql.push_str(
            "SELECT set_config('synchronous_commit', 'on', false) \
              WHERE current_setting('synchronous_commit') = 'off'; ",
        );
    }
    sql
}
