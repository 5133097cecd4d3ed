//! Links with which anybody can read a transcript for a while.
//!
//! Invariants: a link's secret is in the answer that made it and nowhere else; a link that never
//! was, one that has ended and one whose transcript is gone look the same.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use roundsman_core::transcripts::ExportFormat;
use roundsman_core::users::TokenScope;
use roundsman_engine::transcripts::IssuedShare;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppQuery, IdPath, MeetingPath, MeetingsCaller, TextPath};
use crate::layers::PUBLIC_TRANSCRIPTS;
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{ExportView, NewShareView, ProblemView, ShareListView, ShareQuery};

/// No secret is longer; a longer text is not worth looking at.
const SECRET_BYTES_MAX: usize = 100;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(share_transcript))
        .routes(routes!(list_shares))
        .routes(routes!(end_share))
}

pub(super) fn public_routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(shared_transcript))
}

/// Make a link to a transcript.
#[utoipa::path(
    post, path = "/transcripts/{platform}/{native_meeting_id}/share", tag = "transcripts", operation_id = "share_transcript",
    params(
        ("platform" = String, Path, description = "google_meet, zoom, teams or daily", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform, or the name of the room", example = "abc-defg-hij"),
        ("meeting_id" = Option<i64>, Query, description = "Not the latest there, but the one with this number"),
        ShareQuery),
    responses(
        (status = 200, description = "The link", body = NewShareView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["tx"]), ("bearer" = ["tx"])))]
async fn share_transcript(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    path: MeetingPath,
    AppQuery(query): AppQuery<ShareQuery>,
    headers: HeaderMap,
) -> Result<Json<NewShareView>, Problem> {
    let user = caller.require(TokenScope::Tx)?;
    let target = path.checked(&state, user).await?;
    let secs = query.secs();
    let made = state.transcripts.share(user, target, Duration::from_secs(secs)).await?;
    let IssuedShare { share, secret } = made.ok_or_else(|| path.not_found())?;
    Ok(Json(NewShareView {
        url: format!("{}{PUBLIC_TRANSCRIPTS}{secret}.txt", base_url(&state, &headers)),
        share_id: secret,
        expires_at: share.expires_at,
        expires_in_seconds: secs,
        id: share.id,
    }))
}

/// List the links to a meeting's transcript that hold.
#[utoipa::path(
    get, path = "/transcripts/{platform}/{native_meeting_id}/shares", tag = "transcripts", operation_id = "list_shares",
    params(
        ("platform" = String, Path, description = "google_meet, zoom, teams or daily", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform, or the name of the room", example = "abc-defg-hij"),
        ("meeting_id" = Option<i64>, Query, description = "Not the latest there, but the one with this number")),
    responses(
        (status = 200, description = "The links, without their secrets", body = ShareListView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn list_shares(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    path: MeetingPath,
) -> Result<Json<ShareListView>, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let row = state.bots.meeting(user, path.target()).await?;
    let row = row.filter(|row| path.means(row)).ok_or_else(|| path.not_found())?;
    let shares = state.transcripts.shares(user, row.meeting.id).await?;
    Ok(Json(ShareListView::new(&shares)))
}

/// End a link.
#[utoipa::path(
    delete, path = "/transcripts/shares/{id}", tag = "transcripts", operation_id = "end_share",
    params(("id" = i64, Path, description = "The link's number")),
    responses(
        (status = 204, description = "It opens nothing any more"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["tx"]), ("bearer" = ["tx"])))]
async fn end_share(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    IdPath(id): IdPath,
) -> Result<StatusCode, Problem> {
    let user = caller.require(TokenScope::Tx)?;
    if state.transcripts.end_share(user, id).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::new(Code::NotFound, "Share not found"))
}

/// Read a shared transcript.
///
/// The path is a link's secret, a dot and `txt`, `json`, `srt`, `vtt`, `csv` or `md`. No token is
/// needed.
#[utoipa::path(
    get, path = "/public/transcripts/{share_file}", tag = "transcripts", operation_id = "shared_transcript",
    params(("share_file" = String, Path, description = "The link's secret and a format", example = "….txt")),
    responses(
        (status = 200, description = "The transcript", body = String, content_type = "text/plain"),
        (status = 404, description = "`not_found`: there is no such link, or not any more", body = ProblemView, content_type = "application/problem+json"),
        (status = 429, description = "`too_many_refusals`", body = ProblemView, content_type = "application/problem+json")),
    security(()))]
async fn shared_transcript(
    State(state): State<Shared>,
    TextPath(file): TextPath,
) -> Result<Response, Problem> {
    let (secret, format) = parts(&file).ok_or_else(no_such_share)?;
    let shared = state.transcripts.shared(secret).await?;
    let (_, transcript) = shared.ok_or_else(no_such_share)?;
    let text = ExportView::new(transcript, format).text;
    let about = [(CONTENT_TYPE.as_str(), format.content_type()), ("x-robots-tag", "noindex")];
    Ok((about, text).into_response())
}

fn parts(file: &str) -> Option<(&str, ExportFormat)> {
    let (secret, ending) = file.rsplit_once('.')?;
    let format = ExportFormat::parse(ending).ok()?;
    (!secret.is_empty() && secret.len() <= SECRET_BYTES_MAX).then_some((secret, format))
}

fn no_such_share() -> Problem {
    Problem::new(Code::NotFound, "Share not found or expired")
}

/// How the link begins. Who asks for it names the host, and only they are told.
fn base_url(state: &Shared, headers: &HeaderMap) -> String {
    if let Some(url) = &state.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.map(|host| format!("http://{host}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_a_secret_and_a_format() {
        assert_eq!(parts("abc.txt"), Some(("abc", ExportFormat::Txt)));
        assert_eq!(parts("a.b.md"), Some(("a.b", ExportFormat::Md)));
        for bad in ["", "abc", ".txt", "abc.", "abc.exe", "abc.TXT"] {
            assert_eq!(parts(bad), None, "{bad}");
        }
        assert_eq!(parts(&format!("{}.txt", "a".repeat(101))), None);
    }
}
