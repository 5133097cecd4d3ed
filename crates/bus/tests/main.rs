//! The adapters of the bus against real servers.

mod conformance;
mod postgres_faults;
mod redis_faults;
mod support;
