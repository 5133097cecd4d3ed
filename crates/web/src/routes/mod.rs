//! The routes, one file per resource.

mod alarms;
mod audits;
mod batches;
mod bots;
mod bulk;
mod callbacks;
mod daily;
mod docs;
mod health;
mod ingest;
mod jobs;
mod kinds;
mod leases;
pub(crate) mod live;
mod metrics;
mod presence;
mod recordings;
mod rooms;
mod schedules;
mod status;
mod tasks;
mod transcripts;
mod users;
mod vexa;
mod worker;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use utoipa_axum::router::OpenApiRouter;

use crate::layers::{
    Crowd, Pace, Refusals, cors, count_refusals, crowd, edge, pace, shown_path, time_limit,
};
use crate::openapi;
use crate::problem::{Code, Problem};
use crate::state::{AppState, Shared};

pub(crate) use daily::{DAILY_WEBHOOK, DAILY_WEBHOOK_AS_KNOWN};
pub use rooms::RoomSocketLimits;
pub(crate) use worker::CLAIM_PATH;

/// The whole edge, ready to be served.
pub fn router(state: AppState) -> Router {
    let body_bytes_max = state.limits.body_bytes_max;
    let crowd_of = Crowd::new(state.limits.requests_at_once_max);
    let pace_of = Pace::new(state.limits.token_requests_per_sec_max);
    let cors = cors(&state.limits.cors_origins);
    let state: Shared = Arc::new(state);
    let (documented, _) = documented().split_for_parts();
    let mut router = documented
        .merge(docs::pages())
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .layer(from_fn_with_state((state.clone(), Arc::new(Refusals::default())), count_refusals))
        .layer(from_fn_with_state(state.clone(), time_limit));
    if let Some(pace_of) = pace_of {
        router = router.layer(from_fn_with_state((state.clone(), pace_of), pace));
    }
    router = router.layer(from_fn_with_state(crowd_of, crowd));
    if let Some(cors) = cors {
        router = router.layer(cors);
    }
    router.layer(from_fn_with_state(state.clone(), edge)).with_state(state)
}

/// Every route that clients are meant to call, with its description.
pub(crate) fn documented() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(openapi::preamble())
        .merge(jobs::routes())
        .merge(worker::routes())
        .merge(batches::routes())
        .merge(bulk::routes())
        .merge(kinds::routes())
        .merge(schedules::routes())
        .merge(leases::routes())
        .merge(bots::routes())
        .merge(callbacks::routes())
        .merge(vexa::routes())
        .merge(ingest::routes())
        .merge(vexa::shaped(transcripts::routes()))
        .merge(transcripts::public_routes())
        .merge(vexa::shaped(live::event_routes()))
        .merge(live::routes())
        .merge(presence::routes())
        .merge(recordings::routes())
        .merge(audits::routes())
        .merge(rooms::routes())
        .merge(tasks::routes())
        .merge(alarms::routes())
        .merge(daily::routes())
        .merge(vexa::shaped(users::routes()))
        .merge(health::routes())
        .merge(status::routes())
        .merge(metrics::routes())
        .merge(docs::routes())
}

async fn no_such_route(uri: Uri) -> Problem {
    let path = shown_path(uri.path());
    Problem::new(Code::NotFound, format!("There is nothing at {path}; see /docs."))
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{method} is not possible at {}; see /docs.", shown_path(uri.path()));
    Problem::new(Code::MethodNotAllowed, detail)
}
