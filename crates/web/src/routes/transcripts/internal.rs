//! What Vexa's own services ask its collector: which meetings a user may listen to, and the bare
//! segments of a meeting.

use axum::Json;
use axum::extract::State;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::BotTarget;
use roundsman_core::users::TokenScope;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::no_such_meeting;
use crate::extract::{AppJson, IdPath, MeetingsCaller};
use crate::problem::Problem;
use crate::routes::live::find;
use crate::state::Shared;
use crate::views::{AuthorizeBody, AuthorizeView, ProblemView, SegmentShape, segment_list};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(authorize_subscribe)).routes(routes!(internal_transcript))
}

/// Which of these meetings the user may listen to.
#[utoipa::path(
    post, path = "/ws/authorize-subscribe", tag = "transcripts", operation_id = "authorize_subscribe",
    request_body = AuthorizeBody,
    responses((status = 200, description = "Those they may, and why not the others", body = AuthorizeView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn authorize_subscribe(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    AppJson(body): AppJson<AuthorizeBody>,
) -> Result<Json<AuthorizeView>, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let mut view = AuthorizeView::new(user);
    for (index, named) in body.check()?.into_iter().enumerate() {
        match find(&state, user, &named).await? {
            Ok(row) => view.authorize(&row),
            Err(missing) => view.refuse(index, &missing)?,
        }
    }
    Ok(Json(view))
}

/// The segments of a meeting, and nothing else.
///
/// Vexa asks nobody who asks for this. Here it is for the meeting's user alone: whoever has
/// everybody's transcripts should have to show everybody's keys.
#[utoipa::path(
    get, path = "/internal/transcripts/{id}", tag = "transcripts", operation_id = "internal_transcript",
    params(("id" = i64, Path, description = "The meeting's number")),
    responses(
        (status = 200, description = "In the order they were said", body = Vec<SegmentShape>),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn internal_transcript(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    IdPath(id): IdPath,
) -> Result<Json<Vec<Value>>, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let target = BotTarget::Meeting(MeetingId::new(id));
    let transcript = state.transcripts.transcript(user, target, None).await?;
    Ok(Json(segment_list(transcript.ok_or_else(no_such_meeting)?)))
}
