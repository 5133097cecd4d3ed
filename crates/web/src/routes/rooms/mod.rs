//! Rooms: documents over WebSockets and over HTTP, their history, and the tokens that open them.
//!
//! Invariants: whoever is let into a room has shown a room token or owns the project, and is asked about
//! again and again; an update is acknowledged when it is durable; a connection that ends for a reason
//! of ours is told to come back, and only one that is not wanted is told to stay away.

mod caller;
mod document;
mod frames;
mod member;
mod session;
mod sync;
mod tokens;
mod versions;
mod ws;

use std::time::Duration;

use utoipa_axum::router::OpenApiRouter;

use crate::problem::{Code, Problem};
use crate::state::Shared;

/// What the connections of rooms may cost, beside what every live connection may.
#[derive(Debug, Clone, Copy)]
pub struct RoomSocketLimits {
    /// One batch of updates, in however many pieces.
    pub batch_bytes_max: usize,
    pub fragments_max: u64,
    /// Batches of one connection that are not whole yet.
    pub batches_max: usize,
    /// A batch that is not whole by then is given up.
    pub batch_max: Duration,
    /// Updates of one connection.
    pub updates_per_sec_max: u32,
    /// Rooms that one connection is in.
    pub rooms_max: usize,
}

impl Default for RoomSocketLimits {
    fn default() -> Self {
        RoomSocketLimits {
            batch_bytes_max: 8 * 1024 * 1024,
            fragments_max: 4096,
            batches_max: 8,
            batch_max: Duration::from_secs(roundsman_documents::protocol::FRAGMENT_TIMEOUT_SECS),
            updates_per_sec_max: 50,
            rooms_max: 100,
        }
    }
}

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(ws::routes())
        .merge(document::routes())
        .merge(versions::routes())
        .merge(tokens::routes())
}

/// There are as many connections as may be.
fn too_many(state: &Shared) -> Problem {
    state.metrics.limit_hit("live_connections");
    let detail = "There are too many live connections; close one, or come back later.";
    Problem::new(Code::TooManyConnections, detail)
}
