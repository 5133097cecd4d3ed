//! Transcripts at run time: taking what producers tell, telling it to whoever listens, making it
//! final.
//!
//! Invariants: a message is acknowledged only after what it changes is committed, together with the
//! frames that tell of it; the bus and the cache may lose anything, and what they have lost is found
//! in the database; a listener costs a place in a stream and no more.

mod cache;
mod channel;
mod coalesce;
mod collector;
mod consume;
mod consume_segments;
mod consume_speakers;
mod hub;
mod ingest;
mod letters;
mod limits;
mod listener;
mod notes;
mod pace;
mod persist;
mod publish;
mod recovery;
mod ring;
mod service;
mod shares;

pub use consume::{ConsumeError, ConsumeOptions, Consumed, StreamConsumer};
pub use ingest::{IngestError, Ingested};
pub use letters::DeadLetterPage;
pub use limits::TranscriptLimits;
pub use listener::{Delivery, Listener};
pub use persist::{
    PERSIST_KIND, PersistOptions, PersistRound, Persister, persist_spec, transcript_specs,
    transcript_wishes,
};
pub use service::{Transcripts, TranscriptsDeps};
pub use shares::{IssuedShare, SHARE_SECS_MAX, SHARE_SECS_MIN};
