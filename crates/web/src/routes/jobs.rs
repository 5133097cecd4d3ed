//! Asking for jobs and looking at them.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use roundsman_core::jobs::JobId;
use roundsman_core::users::TokenScope;
use roundsman_engine::jobs::{EnqueueReport, IdempotencyWish};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJsonWithBytes, AppQuery, Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{
    EnqueueBody, EnqueueView, EnqueuedView, JobListQuery, JobListView, JobView, ProblemView,
};

const IDEMPOTENCY_HEADER: &str = "idempotency-key";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_jobs, enqueue_jobs))
        .routes(routes!(get_job))
        .routes(routes!(cancel_job))
        .routes(routes!(retry_job))
}

/// Ask for one job, or for several.
///
/// A job whose `(kind, key)` is waiting already is not made again: the wish joins the waiting job.
/// With an `Idempotency-Key` the same request may be sent again safely for a day.
#[utoipa::path(
    post, path = "/jobs", tag = "jobs", operation_id = "enqueue_jobs",
    params(("Idempotency-Key" = Option<String>, Header, max_length = 255,
        description = "Names this request: sent again with the same body, it is answered and not done again")),
    request_body(content = EnqueueBody, examples(
        ("one job" = (value = json!({"kind": "reports.render", "key": "customer-7", "payload": {"page": 4}}))),
        ("several jobs" = (value = json!({"jobs": [{"kind": "reports.render"}, {"kind": "reports.send", "run_at": "2026-01-31T12:00:00Z"}]}))))),
    responses(
        (status = 201, description = "At least one new job was made", body = EnqueueView,
            headers(("Location" = String, description = "Of a single job: where it is"))),
        (status = 200, description = "Nothing new: every wish joined a waiting job, or the request was a repetition", body = EnqueueView)),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn enqueue_jobs(
    State(state): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    AppJsonWithBytes(mut body, bytes): AppJsonWithBytes<EnqueueBody>,
) -> Result<Response, Problem> {
    let caller = caller.require(TokenScope::Jobs)?;
    let after = body.take_after()?;
    let (mut wishes, single) = body.into_wishes();
    let idempotency = idempotency("POST /jobs", &headers, bytes)?;
    if let Some(after) = after {
        if idempotency.is_some() {
            let reason = "is not taken for a job that waits for others: give it a key";
            return Err(Problem::field("Idempotency-Key", reason));
        }
        let job = state.jobs.enqueue_after(caller, wishes.remove(0), after).await?;
        let id = job.facts().id;
        let view = Some(JobView::new(&job, state.jobs.now()));
        let view = EnqueuedView { id: id.get(), coalesced: false, replayed: false, job: view };
        let view = Json(EnqueueView::One(Box::new(view)));
        let place = [(LOCATION, format!("/jobs/{id}"))];
        return Ok((StatusCode::CREATED, place, view).into_response());
    }
    let report = state.jobs.enqueue(caller, wishes, idempotency).await?;
    let Some(id) = report.jobs.first().map(|job| job.id).filter(|_| single) else {
        return Ok((status_of(&report), Json(EnqueueView::Many((&report).into()))).into_response());
    };
    // The job is safely stored by now: not finding it again must not look like a failure.
    let job = state.jobs.job(caller, id).await.ok();
    let view = enqueued(&report, id, job.map(|job| JobView::new(&job, state.jobs.now())));
    Ok((status_of(&report), [(LOCATION, format!("/jobs/{id}"))], Json(view)).into_response())
}

/// List jobs, newest first.
#[utoipa::path(
    get, path = "/jobs", tag = "jobs", operation_id = "list_jobs",
    params(JobListQuery),
    responses((status = 200, description = "A page of jobs", body = JobListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_jobs(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<JobListQuery>,
) -> Result<Json<JobListView>, Problem> {
    let caller = caller.require(TokenScope::Read)?;
    let (filter, before, rows_max) = query.check()?;
    let jobs = state.jobs.jobs(caller, filter, before, rows_max).await?;
    Ok(Json(JobListView::new(&jobs, rows_max, state.jobs.now())))
}

/// Everything about one job.
#[utoipa::path(
    get, path = "/jobs/{id}", tag = "jobs", operation_id = "get_job",
    params(("id" = i64, Path, description = "The job's number")),
    responses(
        (status = 200, description = "The job", body = JobView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_job(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<JobView>, Problem> {
    let caller = caller.require(TokenScope::Read)?;
    let job = state.jobs.job(caller, JobId::new(id)).await?;
    let waits_for = state.jobs.waits_for(&job).await?;
    Ok(Json(JobView::new(&job, state.jobs.now()).waiting_for(&waits_for)))
}

/// Cancel a job.
///
/// A waiting job is cancelled at once. A running one is told to stop: its worker learns it with its
/// next heartbeat, and the job ends when the worker says so.
#[utoipa::path(
    post, path = "/jobs/{id}/cancel", tag = "jobs", operation_id = "cancel_job",
    params(("id" = i64, Path, description = "The job's number")),
    responses(
        (status = 200, description = "The job as it is now", body = JobView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: it has ended already", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn cancel_job(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<JobView>, Problem> {
    let caller = caller.require(TokenScope::Jobs)?;
    let job = state.jobs.cancel(caller, JobId::new(id)).await?;
    Ok(Json(JobView::new(&job, state.jobs.now())))
}

/// Try a job again now.
///
/// A finished job gets all its attempts back; a waiting one no longer waits for its backoff.
#[utoipa::path(
    post, path = "/jobs/{id}/retry", tag = "jobs", operation_id = "retry_job",
    params(("id" = i64, Path, description = "The job's number")),
    responses(
        (status = 200, description = "The job as it is now", body = JobView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: it is being worked on; `key_taken`: another job with its key waits", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn retry_job(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<JobView>, Problem> {
    let caller = caller.require(TokenScope::Jobs)?;
    let job = state.jobs.retry(caller, JobId::new(id)).await?;
    Ok(Json(JobView::new(&job, state.jobs.now())))
}

/// What a request is called, if its sender has named it.
pub(super) fn idempotency(
    route: &'static str,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Option<IdempotencyWish>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_HEADER) else { return Ok(None) };
    let key = value
        .to_str()
        .map_err(|_| Problem::field("Idempotency-Key", "must be visible ASCII characters"))?;
    Ok(Some(IdempotencyWish { route, key: key.to_owned(), body }))
}

fn status_of(report: &EnqueueReport) -> StatusCode {
    if report.replayed || report.jobs.iter().all(|job| job.coalesced) {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    }
}

fn enqueued(report: &EnqueueReport, id: JobId, job: Option<JobView>) -> EnqueueView {
    let coalesced = report.jobs.iter().all(|job| job.coalesced);
    let replayed = report.replayed;
    EnqueueView::One(Box::new(EnqueuedView { id: id.get(), coalesced, replayed, job }))
}
