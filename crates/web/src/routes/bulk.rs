//! One thing done to many jobs; export and import as lines of JSON.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use roundsman_core::jobs::JobId;
use roundsman_core::users::{Authenticated, TokenScope};
use roundsman_engine::jobs::{ImportLine, ImportReport};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, AppQuery, Caller};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{BulkBody, BulkView, FilterBody, ImportView, JobView, line_of, read_line};

const JSON_LINES: &str = "application/x-ndjson";
/// Lines that are written together.
const LINES_PER_STEP: usize = 500;
/// What a line may hold beside its payload.
const LINE_BYTES_EXTRA: usize = 64 * 1024;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(bulk_jobs))
        .routes(routes!(export_jobs))
        .routes(routes!(import_jobs))
}

/// Cancel, retry, reprioritise or delete all jobs that fit a filter.
///
/// One call does so much; go on with `next_before` until it is `null`. Jobs whose state excludes the
/// action are counted as skipped.
#[utoipa::path(
    post, path = "/jobs/bulk", tag = "jobs", operation_id = "bulk_jobs",
    request_body(content = BulkBody, examples(
        ("replay what failed" = (value = json!({"action": "retry", "filter": {"state": "failed", "kind": "reports.render", "error": "timeout"}}))),
        ("cancel what waits" = (value = json!({"action": "cancel", "filter": {"state": "pending", "key_prefix": "customer-7:"}}))))),
    responses((status = 200, description = "What came of it", body = BulkView)),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn bulk_jobs(
    State(state): State<Shared>,
    caller: Caller,
    AppJson(body): AppJson<BulkBody>,
) -> Result<Json<BulkView>, Problem> {
    let caller = caller.require(TokenScope::Jobs)?;
    Ok(Json(state.jobs.bulk(caller, body.check()?).await?.into()))
}

/// Export jobs as lines of JSON, newest first.
///
/// Each line is a job with everything about it, in whatever state it is. The jobs are read in pages as the
/// client takes them.
#[utoipa::path(
    get, path = "/jobs/export", tag = "jobs", operation_id = "export_jobs",
    params(FilterBody),
    responses((status = 200, description = "A job per line", body = String, content_type = "application/x-ndjson")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn export_jobs(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<FilterBody>,
) -> Result<Response, Problem> {
    let caller = caller.require(TokenScope::Read)?.clone();
    let user_id = query.user_id;
    let filter = query.check()?;
    // The first page is read before anything is answered, so that what is wrong can still be said.
    let first = state.jobs.exported(&caller, filter.clone(), user_id, None).await?;
    let pages = stream::unfold(Some((first, state)), move |rest| {
        let (caller, filter) = (caller.clone(), filter.clone());
        async move {
            let (jobs, state) = rest?;
            let last: JobId = jobs.last()?.facts().id;
            let now = state.jobs.now();
            let lines: String = jobs.iter().map(|job| line_of(&JobView::new(job, now))).collect();
            let next = state.jobs.exported(&caller, filter, user_id, Some(last)).await;
            match next {
                Ok(next) => Some((Ok(lines), Some((next, state)))),
                // The answer breaks off, which the client notices.
                Err(error) => Some((Err(std::io::Error::other(error.to_string())), None)),
            }
        }
    });
    Ok(([(CONTENT_TYPE, JSON_LINES)], Body::from_stream(pages)).into_response())
}

/// Import jobs from lines of JSON.
///
/// Takes the lines of an export, or wishes as `POST /jobs` takes them, one per line. Lines of jobs that are
/// over are skipped. A line whose kind and key (or, without a key, whose whole content and number) was imported
/// in the last day is recognised: after a failure the same lines can be sent again.
#[utoipa::path(
    post, path = "/jobs/import", tag = "jobs", operation_id = "import_jobs",
    request_body(content = String, content_type = "application/x-ndjson"),
    responses((status = 200, description = "What came of it", body = ImportView)),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn import_jobs(
    State(state): State<Shared>,
    caller: Caller,
    body: Body,
) -> Result<Json<ImportView>, Problem> {
    let caller = caller.require(TokenScope::Jobs)?.clone();
    let line_bytes_max = state.jobs.payload_bytes_max() + LINE_BYTES_EXTRA;
    let mut importing = Importing::default();
    let mut stream = body.into_data_stream();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(bytes) = stream.next().await {
        let bytes = bytes.map_err(|_| Problem::new(Code::InvalidRequest, "The body broke off."))?;
        rest.extend_from_slice(&bytes);
        let mut begin = 0;
        while let Some(length) = rest[begin..].iter().position(|byte| *byte == b'\n') {
            importing.line(&rest[begin..begin + length])?;
            begin += length + 1;
            importing.write(&state, &caller, LINES_PER_STEP).await?;
        }
        rest.drain(..begin);
        if rest.len() > line_bytes_max {
            let detail = format!("A line is longer than {line_bytes_max} bytes.");
            return Err(Problem::new(Code::TooLarge, detail));
        }
    }
    importing.line(&rest)?;
    importing.write(&state, &caller, 1).await?;
    Ok(Json(ImportView::new(importing.lines, importing.skipped, importing.report)))
}

/// An import under way.
#[derive(Default)]
struct Importing {
    lines: u64,
    skipped: u64,
    waiting: Vec<ImportLine>,
    report: ImportReport,
}

impl Importing {
    fn line(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let line = std::str::from_utf8(bytes)
            .map_err(|_| Problem::field(format!("lines[{}]", self.lines), "must be UTF-8"))?;
        if line.trim().is_empty() {
            return Ok(());
        }
        match read_line(line, self.lines)? {
            Some(line) => self.waiting.push(line),
            None => self.skipped += 1,
        }
        self.lines += 1;
        Ok(())
    }

    /// Writes what has come together, if that is enough.
    async fn write(
        &mut self,
        state: &Shared,
        caller: &Authenticated,
        lines_min: usize,
    ) -> Result<(), Problem> {
        if self.waiting.len() < lines_min {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.waiting);
        self.report.add(state.jobs.import(caller, lines).await?);
        Ok(())
    }
}
