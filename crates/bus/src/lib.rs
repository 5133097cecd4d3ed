//! The adapters of the [`Bus`](roundsman_core::ports::Bus) port, and of the ports that need Redis.
//!
//! [`LocalBus`] serves one process, [`RedisBus`] and [`PostgresBus`] serve several nodes. The two
//! networked ones share everything but their wire (`remote`): a publishing connection and a
//! listening one, each kept up by a task that reconnects for as long as the process lives.
//! [`RedisTranscriptCache`] and [`RedisIngestStream`] share one more connection, a [`RedisLink`];
//! a stream reads on one of its own.
//!
//! Invariants:
//! - No caller ever waits longer than [`BusLimits::publish_secs_max`] for the transport.
//! - A listener that may have missed something is told so with a `Gap`, after the transport
//!   confirmed that it is listened to again and before any later message.
//! - Memory is bounded: a listener's queue has a limit in messages and in bytes, and a topic is
//!   forgotten when its last listener is dropped.

mod backoff;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "conformance")]
pub mod conformance_cache;
#[cfg(feature = "conformance")]
pub mod conformance_stream;
mod inspect;
mod kept;
mod limits;
mod link;
mod local;
#[cfg(feature = "conformance")]
pub mod memory;
mod postgres;
mod queue;
mod redis;
mod registry;
mod remote;
mod transcripts;

pub use inspect::{RedisFacts, inspect_redis};
pub use limits::BusLimits;
pub use link::{RedisLink, RedisUrlError};
pub use local::LocalBus;
pub use postgres::PostgresBus;
pub use redis::RedisBus;
pub use remote::BusStatus;
pub use transcripts::{
    IngestStreamOptions, RedisIngestStream, RedisTranscriptCache, TranscriptCacheOptions,
};
