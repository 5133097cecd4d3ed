//! Storage: one adapter per database, each implementing every port of `roundsman_core::ports` that
//! stores anything, and the conformance suites that hold them to the same behaviour.
//!
//! Invariant: SQL lives in this crate and nowhere else. Where the two dialects differ, the reason
//! stands beside the statement. What is a rule rather than storage (how triggers join, what follows
//! from a failed attempt) is called from `roundsman_core` inside the transaction, so that it cannot
//! differ.

pub mod advice;
#[cfg(feature = "conformance")]
pub mod conformance;
mod migrations;
pub mod postgres;
mod rows;
pub mod sqlite;

pub use migrations::SCHEMA_KNOWN;
