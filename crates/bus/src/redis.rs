//! The bus over Redis pub/sub.
//!
//! Wire names: a plain topic belongs to Roundsman and gets its prefix (`wake` is the channel
//! `roundsman:wake`); a topic that contains a colon is a channel other programs know under exactly
//! that name (`bot_commands:{user}`) and is used as it is. Bodies travel unchanged.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use redis::aio::{MultiplexedConnection, PubSubSink};
use redis::{Client, Msg};
use roundsman_core::ports::{
    Bus, BusError, BusMessage, BusSubscription, MESSAGE_BYTES_MAX, Random,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kept::Failure;
use crate::limits::BusLimits;
use crate::link::{self, RedisUrlError};
use crate::registry::Channel;
use crate::remote::{Arrival, BusStatus, Control, Publisher, RemoteBus, Transport};

/// Delivers between all processes that use the same Redis server.
pub struct RedisBus(RemoteBus<RedisTransport>);

impl RedisBus {
    /// Starts the bus on `tasks`; it ends when `shutdown` is cancelled or the bus is dropped. A
    /// server that is away is no error: the bus connects when it is there.
    pub async fn start(
        url: &str,
        limits: BusLimits,
        random: &Arc<dyn Random>,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> Result<Self, RedisUrlError> {
        let client = Client::open(url).map_err(RedisUrlError)?;
        let transport = RedisTransport { client };
        Ok(Self(RemoteBus::start(transport, limits, random, tasks, shutdown).await))
    }

    /// The state of its connections, now and whenever it changes.
    pub fn status(&self) -> watch::Receiver<BusStatus> {
        self.0.status()
    }
}

impl std::fmt::Debug for RedisBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let status = *self.0.status().borrow();
        f.debug_struct("RedisBus").field("status", &status).finish_non_exhaustive()
    }
}

#[async_trait]
impl Bus for RedisBus {
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

struct RedisTransport {
    client: Client,
}

impl Transport for RedisTransport {
    const NAME: &'static str = "redis";
    type Payload = Bytes;
    type Publisher = MultiplexedConnection;
    type Control = PubSubSink;
    type Arrivals = BoxStream<'static, Arrival>;

    fn channel(topic: &str) -> String {
        if topic.contains(':') { topic.to_owned() } else { format!("roundsman:{topic}") }
    }

    fn encode(body: Bytes) -> Result<Bytes, BusError> {
        if body.len() > MESSAGE_BYTES_MAX {
            return Err(BusError::TooLarge { bytes: body.len(), bytes_max: MESSAGE_BYTES_MAX });
        }
        Ok(body)
    }

    async fn connect_publisher(&self) -> Result<MultiplexedConnection, Failure> {
        Ok(link::connect(&self.client).await?)
    }

    async fn connect_listener(&self) -> Result<(PubSubSink, Self::Arrivals), Failure> {
        let (sink, stream) = self.client.get_async_pubsub().await?.split();
        Ok((sink, stream.map(|message| arrival(&message)).boxed()))
    }
}

fn arrival(message: &Msg) -> Arrival {
    let body = Bytes::copy_from_slice(message.get_payload_bytes());
    Arrival { channel: message.get_channel_name().to_owned(), message: BusMessage::Body(body) }
}

impl Publisher for MultiplexedConnection {
    type Payload = Bytes;

    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), Failure> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(channel).arg(payload.as_ref());
        // The answer counts receivers of this server, which says nothing about a cluster.
        let _receivers: i64 = publish.query_async(&mut self.clone()).await?;
        Ok(())
    }

    async fn ping(&self) -> Result<(), Failure> {
        Ok(redis::cmd("PING").query_async(&mut self.clone()).await?)
    }
}

impl Control for PubSubSink {
    async fn listen(&mut self, channels: &[Channel]) -> Result<(), Failure> {
        let names: Vec<&str> = channels.iter().map(AsRef::as_ref).collect();
        Ok(self.subscribe(names).await?)
    }

    async fn unlisten(&mut self, channels: &[Channel]) -> Result<(), Failure> {
        let names: Vec<&str> = channels.iter().map(AsRef::as_ref).collect();
        Ok(self.unsubscribe(names).await?)
    }

    async fn ping(&mut self) -> Result<(), Failure> {
        // The answer has another shape with subscriptions than without; that it came is enough.
        let _pong: redis::Value = PubSubSink::ping(self).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_topics_get_the_prefix_and_foreign_channels_keep_their_name() {
        assert_eq!(RedisTransport::channel("wake"), "roundsman:wake");
        assert_eq!(RedisTransport::channel("bot_commands:42"), "bot_commands:42");
        assert_eq!(RedisTransport::channel("tc:meeting:7:mutable"), "tc:meeting:7:mutable");
    }

    #[tokio::test]
    async fn a_url_that_can_never_work_is_an_error_without_its_password() {
        struct Zero;
        impl Random for Zero {
            fn fill(&self, buffer: &mut [u8]) {
                buffer.fill(0);
            }
        }
        let random: Arc<dyn Random> = Arc::new(Zero);
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        for url in ["", "http://user:hunter2@localhost", "redis://:hunter2@localhost/x"] {
            let limits = BusLimits::default();
            let started = RedisBus::start(url, limits, &random, &tasks, &shutdown).await;
            let error = started.expect_err("the URL is not valid").to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
