//! Transcripts: reading, exporting, searching, sharing, changing and deleting them.
//!
//! Invariant: what is final and what is live come from one consistent read, and nothing of a
//! meeting is shown to anybody but its user and those who have a link that holds.

mod change;
mod export;
mod internal;
mod read;
mod search;
mod share;

use utoipa_axum::router::OpenApiRouter;

use crate::problem::{Code, Problem};
use crate::state::Shared;

/// Those whose problems are told as Vexa's clients expect.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(read::routes())
        .merge(export::routes())
        .merge(search::routes())
        .merge(share::routes())
        .merge(change::routes())
        .merge(internal::routes())
}

/// Those for whoever has a link.
pub(super) fn public_routes() -> OpenApiRouter<Shared> {
    share::public_routes()
}

pub(super) fn no_such_meeting() -> Problem {
    Problem::new(Code::NotFound, "Meeting not found")
}
