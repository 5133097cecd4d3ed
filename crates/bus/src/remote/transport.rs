//! What a wire has to offer to carry the bus.
//!
//! Implementations do not bound their own waits and do not reconnect: `remote` does both, the same
//! way for every transport, and drops a connection whose call it has given up on.

use bytes::Bytes;
use futures_util::Stream;
use roundsman_core::ports::{BusError, BusMessage};

use crate::kept::Failure;
use crate::registry::Channel;

/// A server that carries messages between processes.
pub(crate) trait Transport: Send + Sync + 'static {
    /// The name shown to operators.
    const NAME: &'static str;
    /// A body in the form the wire takes.
    type Payload: Send;
    type Publisher: Publisher<Payload = Self::Payload>;
    type Control: Control;
    /// Ends when the connection is lost.
    type Arrivals: Stream<Item = Arrival> + Send + Unpin;

    /// The name of a topic on the wire.
    fn channel(topic: &str) -> String;

    /// Refuses what is over the limit of the wire.
    fn encode(body: Bytes) -> Result<Self::Payload, BusError>;

    fn connect_publisher(&self) -> impl Future<Output = Result<Self::Publisher, Failure>> + Send;

    /// A connection that listens on nothing yet: the handle that commands it and what arrives.
    fn connect_listener(
        &self,
    ) -> impl Future<Output = Result<(Self::Control, Self::Arrivals), Failure>> + Send;
}

/// A cheap handle on the publishing connection. Dropping the last clone closes the connection.
pub(crate) trait Publisher: Clone + Send + Sync + 'static {
    type Payload: Send;

    fn publish(
        &self,
        channel: &str,
        payload: Self::Payload,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Succeeds if the server answers on this connection.
    fn ping(&self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Commands of the listening connection. They make progress only while the arrivals are polled.
pub(crate) trait Control: Send {
    /// Returns once the server confirmed that it delivers these channels.
    fn listen(&mut self, channels: &[Channel]) -> impl Future<Output = Result<(), Failure>> + Send;

    fn unlisten(
        &mut self,
        channels: &[Channel],
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Succeeds if the server answers on this connection.
    fn ping(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// One message as it came in.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) channel: String,
    pub(crate) message: BusMessage,
}
