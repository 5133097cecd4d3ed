//! The ports of transcripts within a test, under a clock that the test moves.
//!
//! They pass the same suites as the ones over Redis. Nothing is kept in memory in production:
//! without Redis there is neither a cache nor a stream.

mod cache;
mod stream;

pub use cache::MemoryTranscriptCache;
pub use stream::{MemoryIngestStream, MemoryStream};
