//! The limits of a bus, each with its unit in its name.

use std::time::Duration;

/// Limits of one bus. The defaults suit production; tests shorten the times.
#[derive(Debug, Clone)]
pub struct BusLimits {
    /// How many undelivered messages one listener may have before it gets a `Gap` instead.
    pub listener_messages_max: usize,
    /// How many bytes the undelivered messages of one listener may have together.
    pub listener_bytes_max: usize,
    /// How many publishes may wait for the transport at once; further ones queue for their turn.
    pub publishes_in_flight_max: usize,
    /// How long one publish may take before it is reported as failed.
    pub publish_secs_max: u64,
    /// How long one attempt to connect may take.
    pub connect_secs_max: u64,
    /// How long the server may take to answer anything that is not a publish.
    pub answer_secs_max: u64,
    /// How long a connection may be silent before it is asked whether it still lives.
    pub idle_secs_max: u64,
    /// The first pause between two attempts to connect; it doubles from there.
    pub reconnect_ms_min: u64,
    /// The longest pause between two attempts to connect.
    pub reconnect_ms_max: u64,
}

impl Default for BusLimits {
    fn default() -> Self {
        Self {
            listener_messages_max: 1024,
            listener_bytes_max: 4 * 1024 * 1024,
            publishes_in_flight_max: 1024,
            publish_secs_max: 2,
            connect_secs_max: 2,
            answer_secs_max: 2,
            idle_secs_max: 10,
            reconnect_ms_min: 100,
            reconnect_ms_max: 5_000,
        }
    }
}

impl BusLimits {
    pub(crate) fn publish_max(&self) -> Duration {
        Duration::from_secs(self.publish_secs_max)
    }

    pub(crate) fn connect_max(&self) -> Duration {
        Duration::from_secs(self.connect_secs_max)
    }

    pub(crate) fn answer_max(&self) -> Duration {
        Duration::from_secs(self.answer_secs_max)
    }

    pub(crate) fn idle_max(&self) -> Duration {
        Duration::from_secs(self.idle_secs_max)
    }
}
