//! What live transcripts keep in Redis: the cache that others read, and the streams producers write.
//!
//! Both are somebody else's protocol: names of keys, fields and groups are used exactly as they are
//! known. Both are losable: what counts is committed elsewhere before it is cached or acknowledged.

mod cache;
mod options;
mod reply;
mod stream;

pub use cache::RedisTranscriptCache;
pub use options::{IngestStreamOptions, TranscriptCacheOptions};
pub use stream::RedisIngestStream;
