//! The paths, statuses, words and shapes that clients and bots of Vexa know, over the same engine.
//!
//! Invariant: whoever speaks to a Vexa server speaks to this one; what is ours is only ever added
//! to an answer. `/bots/status` and `/meetings` are also ours, in this shape.

mod bots;
mod callbacks;
mod meetings;
mod webhook;

use axum::middleware::map_response;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;

use crate::problem::{Problem, Surface};
use crate::state::Shared;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    let shaped_routes = bots::routes().merge(meetings::routes()).merge(webhook::routes());
    shaped(shaped_routes).merge(callbacks::routes())
}

/// Routes whose problems are told as Vexa's clients expect.
pub(super) fn shaped(routes: OpenApiRouter<Shared>) -> OpenApiRouter<Shared> {
    routes.layer(map_response(mark))
}

async fn mark(mut response: Response) -> Response {
    if let Some(problem) = response.extensions_mut().get_mut::<Problem>() {
        problem.surface = Surface::Vexa;
    }
    response
}
