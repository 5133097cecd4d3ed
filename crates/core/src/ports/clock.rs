//! Time, from outside.

use std::time::Duration;

use crate::Timestamp;

/// Tells the time. One instance per process, shared by every loop.
pub trait Clock: Send + Sync {
    /// The database's wall-clock time, as well as this process knows it. May step when it is
    /// synchronised again; used for what is stored and compared across nodes.
    fn now(&self) -> Timestamp;

    /// Time since this process started. Never steps; used to decide when a lease must be given up.
    fn monotonic(&self) -> Duration;
}
