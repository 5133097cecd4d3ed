//! Real PostgreSQL for tests: private clusters that may be killed, and fresh databases on the
//! shared server.

mod cluster;
mod database;

pub use cluster::{Durability, PostgresServer, StopMode};
pub use database::TestDatabase;
