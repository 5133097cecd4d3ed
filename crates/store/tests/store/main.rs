//! The storage adapters against the suite, against each other, and against a simulated world.

mod backdoor;
mod backlog;
mod broken;
mod equivalence;
mod fairness;
mod next_release;
mod open;
mod postgres;
mod reference;
mod simulation;
mod sqlite;
mod sqlite_inline;
mod suite_of_reference;
mod vexa_database;
mod vexa_presence;
mod vexa_transcripts;
