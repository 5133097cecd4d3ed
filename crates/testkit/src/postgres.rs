//! Real PostgreSQL for tests: private clusters that may be killed, and fresh databases on the
//! shared server.

mod cluster;
mod database;

pub use cluster::{Durability, PostgresServer, StopMode};
pub use database::TestDatabase;

/// The tables of a Vexa 0.6 database, for tests that open one as it is.
pub const VEXA_SCHEMA: &str = include_str!("postgres/vexa_schema.sql");
