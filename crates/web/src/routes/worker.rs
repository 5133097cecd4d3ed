//! The worker protocol: how a worker in any language takes part.
//!
//! Invariant: every request about a claimed job repeats its `lease_no`; one that is not the current
//! one is answered 409 `lease_lost`, and nothing was changed.

use axum::Json;
use axum::extract::State;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{
    ClaimBody, ClaimedView, CompleteBody, FailBody, HeartbeatBody, HeartbeatView, JobSummaryView,
    LeaseBody, ProblemView, ProgressBody, lease_ref,
};

pub(crate) const CLAIM_PATH: &str = "/jobs/claim";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(claim_jobs))
        .routes(routes!(heartbeat_job))
        .routes(routes!(report_progress))
        .routes(routes!(complete_job))
        .routes(routes!(fail_job))
        .routes(routes!(release_job))
        .routes(routes!(confirm_cancelled))
}

/// Take work.
///
/// Waits for up to `wait_secs` if there is none. Whoever claims a job must send heartbeats before
/// `lease_until`, or the job is given to somebody else.
#[utoipa::path(
    post, path = "/jobs/claim", tag = "worker", operation_id = "claim_jobs",
    request_body = ClaimBody,
    responses((status = 200, description = "The jobs to work on; none if there was nothing", body = ClaimedView)),
    security(("api_key" = ["work"]), ("bearer" = ["work"]), ("admin_key" = ["work"])))]
async fn claim_jobs(
    State(state): State<Shared>,
    caller: Caller,
    AppJson(body): AppJson<ClaimBody>,
) -> Result<Json<ClaimedView>, Problem> {
    let caller = caller.require(TokenScope::Work)?;
    let jobs = state.jobs.claim(caller, body.into()).await?;
    Ok(Json(jobs.as_slice().into()))
}

/// Still working.
#[utoipa::path(
    post, path = "/jobs/{id}/heartbeat", tag = "worker", operation_id = "heartbeat_job",
    params(("id" = i64, Path, description = "The job's number")),
    request_body = HeartbeatBody,
    responses(
        (status = 200, description = "The lease is extended", body = HeartbeatView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`lease_lost`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["work"]), ("bearer" = ["work"]), ("admin_key" = ["work"])))]
async fn heartbeat_job(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(mut body): AppJson<HeartbeatBody>,
) -> Result<Json<HeartbeatView>, Problem> {
    let caller = caller.require(TokenScope::Work)?;
    let (lease, progress) = (lease_ref(id, body.lease_no), body.progress());
    let (lease_until, cancel_requested) =
        state.jobs.heartbeat(caller, lease, body.lease_secs, progress).await?;
    Ok(Json(HeartbeatView { lease_until, cancel_requested }))
}

/// Report how far it is; also a heartbeat.
#[utoipa::path(
    post, path = "/jobs/{id}/progress", tag = "worker", operation_id = "report_progress",
    params(("id" = i64, Path, description = "The job's number")),
    request_body = ProgressBody,
    responses(
        (status = 200, description = "Noted, and the lease is extended", body = HeartbeatView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`lease_lost`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["work"]), ("bearer" = ["work"]), ("admin_key" = ["work"])))]
async fn report_progress(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<ProgressBody>,
) -> Result<Json<HeartbeatView>, Problem> {
    let caller = caller.require(TokenScope::Work)?;
    let lease = lease_ref(id, body.lease_no);
    let (lease_until, cancel_requested) =
        state.jobs.heartbeat(caller, lease, None, Some(body.into_progress())).await?;
    Ok(Json(HeartbeatView { lease_until, cancel_requested }))
}

/// Done.
#[utoipa::path(
    post, path = "/jobs/{id}/complete", tag = "worker", operation_id = "complete_job",
    params(("id" = i64, Path, description = "The job's number")),
    request_body = CompleteBody,
    responses(
        (status = 200, description = "The job as it is now", body = JobSummaryView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`lease_lost`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["work"]), ("bearer" = ["work"]), ("admin_key" = ["work"])))]
async fn complete_job(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<CompleteBody>,
) -> Result<Json<JobSummaryView>, Problem> {
    let caller = caller.require(TokenScope::Work)?;
    let lease = lease_ref(id, body.lease_no);
    let job = state.jobs.complete(caller, lease, body.into_result()).await?;
    Ok(Json(JobSummaryView::new(&job, state.jobs.now())))
}

/// It did not work.
///
/// The job is tried again after a backoff while attempts are left, unless `fatal` says that this is
/// pointless.
#[utoipa::path(
    post, path = "/jobs/{id}/fail", tag = "worker", operation_id = "fail_job",
    params(("id" = i64, Path, description = "The job's number")),
    request_body = FailBody,
    responses(
        (status = 200, description = "The job as it is now", body = JobSummaryView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`lease_lost`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["work"]), ("bearer" = ["work"]), ("admin_key" = ["work"])))]
async fn fail_job(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<FailBody>,
) -> Result<Json<JobSummaryView>, Problem> {
    let caller = caller.require(TokenScope::Work)?;
    let lease = lease_ref(id, body.lease_no);
    let (error, retry_after) = (body.error(), body.retry_after());
    let job = state.jobs.fail(caller, lease, error, body.fatal, retry_after).await?;
    Ok(Json(JobSummaryView::new(&job, state.jobs.now())))
}

/// Hand it back unfinished; the attempt does not count.
#[utoipa::path(
    post, path = "/jobs/{id}/release", tag = "worker", operation_id = "release_job",
    params(("id" = i64, Path, description = "The job's number")),
    request_body = LeaseBody,
    responses(
        (status = 200, description = "The job as it is now", body = JobSummaryView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`lease_lost`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["work"]), ("bearer" = ["work"]), ("admin_key" = ["work"])))]
async fn release_job(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<LeaseBody>,
) -> Result<Json<JobSummaryView>, Problem> {
    let caller = caller.require(TokenScope::Work)?;
    let job = state.jobs.release(caller, lease_ref(id, body.lease_no)).await?;
    Ok(Json(JobSummaryView::new(&job, state.jobs.now())))
}

/// Stopped, because `cancel_requested` said so.
#[utoipa::path(
    post, path = "/jobs/{id}/cancelled", tag = "worker", operation_id = "confirm_cancelled",
    params(("id" = i64, Path, description = "The job's number")),
    request_body = LeaseBody,
    responses(
        (status = 200, description = "The job as it is now", body = JobSummaryView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`lease_lost`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["work"]), ("bearer" = ["work"]), ("admin_key" = ["work"])))]
async fn confirm_cancelled(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<LeaseBody>,
) -> Result<Json<JobSummaryView>, Problem> {
    let caller = caller.require(TokenScope::Work)?;
    let job = state.jobs.cancelled(caller, lease_ref(id, body.lease_no)).await?;
    Ok(Json(JobSummaryView::new(&job, state.jobs.now())))
}
