//! Recordings at run time: the service that callers use, the job that makes a transcript of each
//! recording, the one that finds those whose event was lost, the night's second try of those that
//! have failed, and the one that deletes media of people who do not agree.
//!
//! Invariants: a recording is in the database, with its job, before whoever announced it is answered;
//! however often it is announced it is processed once, because its state says so; a run that ends
//! anywhere is taken up where it ended, by whoever has the lease then; what somebody has denied is
//! tried to be deleted until it is, and said to be deleted only then.

mod erase;
mod folder;
mod gather;
mod hear;
mod poll;
mod process;
mod retry;
mod service;
mod trouble;
mod work;

pub use erase::erase_spec;
pub use poll::{RecordingPoller, poll_spec};
pub use process::process_spec;
pub use retry::{next_night, retry_spec};
pub use service::{AnnounceReply, ConsentWish, Recordings, RetryReply};
pub use work::{
    POLL_EVERY_WITH_EVENTS, POLL_EVERY_WITHOUT_EVENTS, RecordingOptions, RecordingWork,
    recording_specs, recording_wishes,
};
