//! The bus over PostgreSQL's LISTEN and NOTIFY, on two connections of its own.
//!
//! Its connections never come from a pool: a pooled connection may be taken away or sit behind a
//! proxy that does not pass notifications on.
//!
//! Wire names: PostgreSQL cuts channel names at 63 bytes without a word, so a topic becomes
//! `roundsman:{topic}` where that fits and is plain ASCII, else `roundsman#` and a hash of it.
//! Payloads: NOTIFY carries text without NUL of less than 8,000 bytes, so a body that is such text
//! travels behind the letter `t` and any other body as hexadecimal digits behind an `x`. The
//! database must have the encoding UTF8. A notification sent by hand, without such a letter,
//! reaches listeners as a `Gap`: look at the database.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use roundsman_core::ports::{Bus, BusError, BusMessage, BusSubscription, Random};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Notification, Statement};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::kept::Failure;
use crate::limits::BusLimits;
use crate::registry::Channel;
use crate::remote::{Arrival, BusStatus, Control, Publisher, RemoteBus, Transport};

/// PostgreSQL refuses a payload of 8,000 bytes or more.
const PAYLOAD_BYTES_MAX: usize = 7_999;
const TEXT_BYTES_MAX: usize = PAYLOAD_BYTES_MAX - 1;
const BINARY_BYTES_MAX: usize = (PAYLOAD_BYTES_MAX - 1) / 2;

/// PostgreSQL keeps this much of a channel name.
const CHANNEL_BYTES_MAX: usize = 63;
/// 26 bytes of hash: as much as fits, and far more than anybody can make collide.
const HASH_DIGITS: usize = 52;

/// Delivers between all processes that use the same PostgreSQL database.
pub struct PostgresBus(RemoteBus<PostgresTransport>);

impl PostgresBus {
    /// Starts the bus on `tasks`; it ends when `shutdown` is cancelled or the bus is dropped. A
    /// server that is away is no error: the bus connects when it is there.
    pub async fn start(
        config: Config,
        limits: BusLimits,
        random: &Arc<dyn Random>,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> Self {
        let transport = PostgresTransport { config, tasks: tasks.clone() };
        Self(RemoteBus::start(transport, limits, random, tasks, shutdown).await)
    }

    /// The state of its connections, now and whenever it changes.
    pub fn status(&self) -> watch::Receiver<BusStatus> {
        self.0.status()
    }
}

impl std::fmt::Debug for PostgresBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let status = *self.0.status().borrow();
        f.debug_struct("PostgresBus").field("status", &status).finish_non_exhaustive()
    }
}

#[async_trait]
impl Bus for PostgresBus {
    async fn publish(&self, topic: &str, body: Bytes) -> Result<(), BusError> {
        self.0.publish(topic, body).await
    }

    async fn subscribe(&self, topic: &str) -> Result<Box<dyn BusSubscription>, BusError> {
        self.0.subscribe(topic).await
    }

    fn connected(&self) -> bool {
        self.0.connected()
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }
}

struct PostgresTransport {
    config: Config,
    tasks: TaskTracker,
}

impl PostgresTransport {
    /// The settings of one of the two connections, told apart by their application name in
    /// `pg_stat_activity`.
    fn config_for(&self, role: &str) -> Config {
        let program = self.config.get_application_name().unwrap_or("roundsman");
        let mut config = self.config.clone();
        config.application_name(format!("{program} {role}"));
        config
    }
}

impl Transport for PostgresTransport {
    const NAME: &'static str = "postgres";
    type Payload = String;
    type Publisher = Arc<PostgresPublisher>;
    type Control = Client;
    type Arrivals = BoxStream<'static, Arrival>;

    fn channel(topic: &str) -> String {
        let plain = format!("roundsman:{topic}");
        let fits = plain.len() <= CHANNEL_BYTES_MAX;
        if fits && topic.bytes().all(|byte| byte.is_ascii_graphic()) {
            return plain;
        }
        let digits = hex::encode(Sha256::digest(topic.as_bytes()));
        format!("roundsman#{}", &digits[..HASH_DIGITS])
    }

    fn encode(body: Bytes) -> Result<String, BusError> {
        let text = std::str::from_utf8(&body).ok().filter(|text| !text.contains('\0'));
        let bytes_max = if text.is_some() { TEXT_BYTES_MAX } else { BINARY_BYTES_MAX };
        if body.len() > bytes_max {
            return Err(BusError::TooLarge { bytes: body.len(), bytes_max });
        }
        Ok(match text {
            Some(text) => format!("t{text}"),
            None => format!("x{}", hex::encode(&body)),
        })
    }

    async fn connect_publisher(&self) -> Result<Arc<PostgresPublisher>, Failure> {
        let (client, connection) = self.config_for("notify").connect(NoTls).await?;
        let driver = AbortOnDropHandle::new(self.tasks.spawn(async move {
            // Whoever uses the client next learns of the loss from the client.
            let _ = connection.await;
        }));
        // A notification is losable, so its commit need not wait for the disk.
        client.batch_execute("SET synchronous_commit TO off").await?;
        let notify = client.prepare("SELECT pg_notify($1, $2)").await?;
        Ok(Arc::new(PostgresPublisher { client, notify, _driver: driver }))
    }

    async fn connect_listener(&self) -> Result<(Client, Self::Arrivals), Failure> {
        let (client, mut connection) = self.config_for("listen").connect(NoTls).await?;
        let messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        let arrivals = messages
            .inspect(|message| {
                if let Err(failure) = message {
                    tracing::debug!(%failure, "the listening connection failed");
                }
            })
            .take_while(|message| std::future::ready(message.is_ok()))
            .filter_map(|message| std::future::ready(message.ok().and_then(arrival)));
        Ok((client, arrivals.boxed()))
    }
}

fn arrival(message: AsyncMessage) -> Option<Arrival> {
    match message {
        AsyncMessage::Notification(notification) => Some(decode(&notification)),
        _ => None,
    }
}

fn decode(notification: &Notification) -> Arrival {
    let payload = notification.payload();
    let body = match payload.split_at_checked(1) {
        Some(("t", text)) => Some(Bytes::copy_from_slice(text.as_bytes())),
        Some(("x", digits)) => hex::decode(digits).ok().map(Bytes::from),
        _ => None,
    };
    Arrival {
        channel: notification.channel().to_owned(),
        message: body.map_or(BusMessage::Gap, BusMessage::Body),
    }
}

struct PostgresPublisher {
    client: Client,
    notify: Statement,
    _driver: AbortOnDropHandle<()>,
}

impl Publisher for Arc<PostgresPublisher> {
    type Payload = String;

    async fn publish(&self, channel: &str, payload: String) -> Result<(), Failure> {
        self.client.execute(&self.notify, &[&channel, &payload]).await?;
        Ok(())
    }

    async fn ping(&self) -> Result<(), Failure> {
        Ok(self.client.check_connection().await?)
    }
}

impl Control for Client {
    async fn listen(&mut self, channels: &[Channel]) -> Result<(), Failure> {
        Ok(self.batch_execute(&statements("LISTEN", channels)).await?)
    }

    async fn unlisten(&mut self, channels: &[Channel]) -> Result<(), Failure> {
        Ok(self.batch_execute(&statements("UNLISTEN", channels)).await?)
    }

    async fn ping(&mut self) -> Result<(), Failure> {
        Ok(self.check_connection().await?)
    }
}

/// LISTEN takes no parameters, so the names are quoted as identifiers.
fn statements(verb: &str, channels: &[Channel]) -> String {
    let quoted = |channel: &Channel| format!("{verb} \"{}\";", channel.replace('"', "\"\""));
    channels.iter().map(quoted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_names_fit_and_stay_distinct() {
        let long = "x".repeat(100);
        let topics =
            ["wake", "Wake", "roundsman:wake", "a\"; DROP TABLE jobs; --", "ü", "u", "", &long];
        let with_more = format!("{long}y");
        let channels: std::collections::BTreeSet<String> =
            topics.iter().copied().chain([&*with_more]).map(PostgresTransport::channel).collect();
        assert_eq!(channels.len(), topics.len() + 1);
        assert!(channels.iter().all(|channel| channel.len() <= CHANNEL_BYTES_MAX));
        assert_eq!(PostgresTransport::channel("wake"), "roundsman:wake");
    }

    #[test]
    fn names_are_quoted() {
        let channels: [Channel; 2] = ["a\"b".into(), "c".into()];
        assert_eq!(statements("LISTEN", &channels), "LISTEN \"a\"\"b\";LISTEN \"c\";");
    }

    #[test]
    fn payloads_stay_under_the_limit_of_notify() {
        let cases: [(u8, usize); 2] = [(b'a', TEXT_BYTES_MAX), (0xff, BINARY_BYTES_MAX)];
        for (byte, bytes_max) in cases {
            let fits = PostgresTransport::encode(Bytes::from(vec![byte; bytes_max]));
            assert!(fits.expect("at the limit").len() <= PAYLOAD_BYTES_MAX);
            let refused = PostgresTransport::encode(Bytes::from(vec![byte; bytes_max + 1]));
            assert!(matches!(
                refused,
                Err(BusError::TooLarge { bytes_max: max, .. }) if max == bytes_max
            ));
        }
    }
}
