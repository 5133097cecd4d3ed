//! One connection to Redis for commands, shared by everything here that keeps keys or streams.
//!
//! Invariants: a command is answered or has failed within the limits; while the server is away it
//! fails at once. Nothing here sends a command twice: what is safe to repeat, its caller repeats.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError};
use roundsman_core::ports::Random;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::backoff::Backoff;
use crate::kept::{self, Failure, Keeper, Kept};
use crate::limits::BusLimits;

/// A connection that is replaced when it is lost, for as long as a clone of this lives. Caches and
/// streams of one process share it.
#[derive(Clone)]
pub struct RedisLink {
    shared: Arc<Shared>,
    random: Arc<dyn Random>,
    _stops_task: Arc<DropGuard>,
}

/// The address of the Redis server cannot be used; waiting will not mend it.
#[derive(Debug, thiserror::Error)]
#[error("the Redis URL is not valid: {0}")]
pub struct RedisUrlError(#[source] pub(crate) RedisError);

/// A command was not answered, or with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("Redis is not connected")]
    NotConnected,
    #[error("Redis did not answer within {secs} s")]
    NoAnswer { secs: u64 },
    #[error("what Redis answered to {0} cannot be read")]
    Unreadable(&'static str),
    #[error(transparent)]
    Redis(#[from] RedisError),
}

struct Shared {
    client: Client,
    limits: BusLimits,
    kept: Kept<MultiplexedConnection>,
    connected: watch::Sender<bool>,
    shutdown: CancellationToken,
}

impl RedisLink {
    /// Starts the task that keeps the connection; it ends when `shutdown` is cancelled or the last
    /// clone is dropped. A server that is away is no error.
    pub async fn start(
        url: &str,
        limits: BusLimits,
        random: &Arc<dyn Random>,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> Result<Self, RedisUrlError> {
        let shutdown = shutdown.child_token();
        let shared = Arc::new(Shared {
            client: Client::open(url).map_err(RedisUrlError)?,
            limits,
            kept: Kept::default(),
            connected: watch::Sender::new(false),
            shutdown: shutdown.clone(),
        });
        let backoff = Backoff::new(&shared.limits, Arc::clone(random));
        let (tried, first) = oneshot::channel();
        tasks.spawn(kept::run(Arc::clone(&shared), backoff, tried));
        // An error means that the task ended before its first attempt did: a shutdown.
        let _ = first.await;
        let stops_task = Arc::new(shutdown.drop_guard());
        Ok(Self { shared, random: Arc::clone(random), _stops_task: stops_task })
    }

    /// Whether the connection is up, now and whenever it changes.
    pub fn connected(&self) -> watch::Receiver<bool> {
        self.shared.connected.subscribe()
    }

    /// Sends one command.
    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LinkError> {
        let mut connection = self.connection()?;
        self.judge(self.bounded(0, command.query_async(&mut connection)).await)
    }

    /// Sends several commands at once.
    pub(crate) async fn query_all<T: FromRedisValue>(
        &self,
        commands: &Pipeline,
    ) -> Result<T, LinkError> {
        let mut connection = self.connection()?;
        self.judge(self.bounded(0, commands.query_async(&mut connection)).await)
    }

    /// A connection of the caller's own, for commands that make others wait.
    pub(crate) async fn connect(&self) -> Result<MultiplexedConnection, LinkError> {
        let secs = self.shared.limits.connect_secs_max;
        let connecting = timeout(self.shared.limits.connect_max(), connect(&self.shared.client));
        Ok(connecting.await.map_err(|_| LinkError::NoAnswer { secs })??)
    }

    /// Waits for an answer that the server itself may hold back for `block_ms`.
    pub(crate) async fn bounded<T>(
        &self,
        block_ms: u64,
        answer: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, LinkError> {
        let limit = self.shared.limits.answer_max() + Duration::from_millis(block_ms);
        let no_answer = |_| LinkError::NoAnswer { secs: limit.as_secs() };
        Ok(timeout(limit, answer).await.map_err(no_answer)??)
    }

    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(&self.shared.limits, Arc::clone(&self.random))
    }

    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.shared.shutdown
    }

    fn connection(&self) -> Result<MultiplexedConnection, LinkError> {
        self.shared.kept.get().ok_or(LinkError::NotConnected)
    }

    /// A failure that is not the command's own puts the connection in doubt.
    fn judge<T>(&self, answer: Result<T, LinkError>) -> Result<T, LinkError> {
        match &answer {
            // A server that became a replica goes on answering; its successor has the same name.
            Err(error) if error.has_code("READONLY") => self.shared.kept.give_up(),
            Err(error) if !error.is_answer() => self.shared.kept.suspect(),
            _ => {}
        }
        answer
    }
}

impl std::fmt::Debug for RedisLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let connected = *self.shared.connected.borrow();
        f.debug_struct("RedisLink").field("connected", &connected).finish_non_exhaustive()
    }
}

impl LinkError {
    /// The server answered: the connection works.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, LinkError::Redis(error) if error.clone().into_server_errors().is_some())
    }

    /// The server answered so, to the command or to one of several.
    pub(crate) fn has_code(&self, code: &str) -> bool {
        let LinkError::Redis(error) = self else { return false };
        let errors = error.clone().into_server_errors();
        errors.is_some_and(|errors| errors.iter().any(|(_, error)| error.code() == code))
    }
}

impl Keeper for Shared {
    const NAME: &'static str = "redis";
    type Connection = MultiplexedConnection;

    fn kept(&self) -> &Kept<MultiplexedConnection> {
        &self.kept
    }

    fn limits(&self) -> &BusLimits {
        &self.limits
    }

    fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    async fn connect(&self) -> Result<MultiplexedConnection, Failure> {
        Ok(connect(&self.client).await?)
    }

    async fn ping(connection: &MultiplexedConnection) -> Result<(), Failure> {
        Ok(redis::cmd("PING").query_async(&mut connection.clone()).await?)
    }

    fn changed(&self, up: bool) {
        let before = self.connected.send_replace(up);
        if before && !up && !self.shutdown.is_cancelled() {
            tracing::warn!("connection to Redis lost; reconnecting");
        }
    }
}

/// The limits of this crate hold; the library's own, shorter ones would only blur them.
pub(crate) async fn connect(client: &Client) -> Result<MultiplexedConnection, RedisError> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}
