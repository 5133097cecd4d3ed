//! The HTTP edge: who is asking, what they ask for, and how they are answered.
//!
//! Invariants: a handler extracts, makes one call to the engine and shows what came back; nothing
//! here decides about a job, and nothing here speaks to the database except to ask whether it is
//! there. Every error a client sees is a [`problem::Problem`], and what went wrong inside is in the
//! log and not in the answer.

mod extract;
mod layers;
mod live;
mod openapi;
pub mod problem;
mod readiness;
mod routes;
mod serve;
mod socket;
mod state;
mod views;

pub use live::{Live, LiveLimits};
pub use openapi::{openapi, openapi_json};
pub use readiness::Readiness;
pub use routes::{RoomSocketLimits, router};
pub use serve::{ServeOptions, listen, serve};
pub use state::{AppState, DailyEvents, WebLimits};
