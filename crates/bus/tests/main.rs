//! The adapters of this crate against real servers.

mod conformance;
mod postgres_faults;
mod redis_faults;
mod support;
mod transcripts;
