//! Files that tasks have brought, for whoever has their address.

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use roundsman_core::ports::MediaError;
use roundsman_core::tasks::KeptFile;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::ProblemView;

const CHUNK_BYTES: usize = 64 * 1024;
const UNKNOWN_TYPE: &str = "application/octet-stream";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(get_result))
}

/// A file that a task has brought.
///
/// The address is a secret of its own: `result_url` of the task, and `files` in its `result_data`.
#[utoipa::path(
    get, path = "/results/{key}/{number}", tag = "tasks", operation_id = "get_result",
    params(("key" = String, Path), ("number" = usize, Path, example = 0)),
    responses(
        (status = 200, description = "The file", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(()))]
async fn get_result(
    State(state): State<Shared>,
    path: Result<Path<(String, usize)>, axum::extract::rejection::PathRejection>,
) -> Result<Response, Problem> {
    let missing = || Problem::new(Code::NotFound, "There is no such file.");
    let Path((key, place)) = path.map_err(|_| missing())?;
    let kept = state.tasks.file(&key, place).await?.ok_or_else(missing)?;
    let file = open(&state, &kept).await?;
    Ok(answer(&kept, file))
}

/// The file, which is gone when nobody reads it any more.
async fn open(state: &Shared, kept: &KeptFile) -> Result<File, Problem> {
    let folder = state.tasks.work_folder();
    tokio::fs::create_dir_all(folder).await.map_err(Problem::internal)?;
    let mut name = [0u8; 12];
    state.random.fill(&mut name);
    let path = folder.join(format!("read-{}", hex::encode(name)));
    let read = state.tasks.media().read(&kept.blob, &path).await;
    let file = match read {
        Ok(()) => File::open(&path).await.map_err(Problem::internal),
        Err(MediaError::NotFound) => {
            Err(Problem::new(Code::NotFound, "The file is not kept any more."))
        }
        Err(error) => Err(Problem::internal(error)),
    };
    let _ = tokio::fs::remove_file(&path).await;
    file
}

fn answer(kept: &KeptFile, file: File) -> Response {
    let chunks = stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = file.read(&mut chunk).await?;
        chunk.truncate(read);
        let next = (read > 0).then(|| (Bytes::from(chunk), file));
        Ok::<_, std::io::Error>(next)
    });
    let media_type = kept.media_type.as_deref().unwrap_or(UNKNOWN_TYPE);
    let media_type = HeaderValue::from_str(media_type)
        .unwrap_or_else(|_| HeaderValue::from_static(UNKNOWN_TYPE));
    // What somebody else has made is shown, and never run, in the name of this server.
    let headers = [
        (CONTENT_TYPE, media_type),
        (CONTENT_LENGTH, HeaderValue::from(kept.bytes)),
        (CACHE_CONTROL, HeaderValue::from_static("private, max-age=31536000, immutable")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
    ];
    (headers, Body::from_stream(chunks)).into_response()
}
