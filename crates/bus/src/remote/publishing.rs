//! The publishing connection, kept up like any other.

use tokio_util::sync::CancellationToken;

use super::{Publisher, Shared, Transport};
use crate::kept::{Failure, Keeper, Kept};
use crate::limits::BusLimits;

impl<T: Transport> Keeper for Shared<T> {
    const NAME: &'static str = T::NAME;
    type Connection = T::Publisher;

    fn kept(&self) -> &Kept<T::Publisher> {
        &self.publisher
    }

    fn limits(&self) -> &BusLimits {
        &self.limits
    }

    fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    fn connect(&self) -> impl Future<Output = Result<T::Publisher, Failure>> + Send {
        self.transport.connect_publisher()
    }

    fn ping(publisher: &T::Publisher) -> impl Future<Output = Result<(), Failure>> + Send {
        publisher.ping()
    }

    fn changed(&self, up: bool) {
        self.status.send_modify(|status| status.can_publish = up);
    }
}
