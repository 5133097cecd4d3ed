//! The ports of transcripts over a real Redis, and over memory.

#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

mod cache;
mod cache_faults;
mod lab;
mod stream;
mod stream_faults;
mod stream_load;
