//! What is said, as it is said: WebSockets and server-sent events.
//!
//! Invariants: nobody hears a meeting that is not theirs, and whether it still is theirs is asked
//! again and again; a listener that is too slow, or silent, costs little and is closed with a code
//! that tells it to come back with its place. A browser's page from anywhere may connect: it needs
//! the key, and no cookie is ever looked at.

mod authorise;
mod call;
mod commands;
mod ending;
mod frames;
mod session;
mod sse;
mod subscriptions;
mod ws;

use utoipa_axum::router::OpenApiRouter;

use crate::problem::{Code, Problem};
use crate::state::Shared;

pub(crate) use authorise::{Missing, Named, find};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    ws::routes()
}

/// Those of Vexa's surface: see [`super::vexa`].
pub(super) fn event_routes() -> OpenApiRouter<Shared> {
    sse::routes()
}

/// There are as many connections as may be.
fn too_many(state: &Shared, limit: &'static str) -> Problem {
    state.metrics.limit_hit(limit);
    let detail = "There are too many live connections; close one, or come back later.";
    Problem::new(Code::TooManyConnections, detail)
}
