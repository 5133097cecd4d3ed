//! The WebSockets `/ws/rooms` and `/sync/{project}`.

use axum::extract::State;
use axum::response::Response;
use roundsman_documents::protocol::FRAME_BYTES_MAX;
use roundsman_engine::rooms::Naming;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::refused;
use super::{session, sync, too_many};
use crate::extract::{LiveKey, ProjectPath};
use crate::problem::Problem;
use crate::socket::{Handshake, SocketLimits};
use crate::state::Shared;
use crate::views::ProblemView;

/// Updates are small; a larger message gets more while it arrives.
const READ_BUFFER_BYTES: usize = 4 * 1024;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(room_socket)).routes(routes!(sync_socket))
}

/// Follow and change the documents of rooms over a WebSocket.
///
/// It speaks loro-protocol v1, for documents (`%LOR`) and presence (`%EPH`): the npm client
/// `loro-websocket` works as it is. What a join sends as `auth` is a room token or the API token of the
/// project's owner, in UTF-8; without it, the token that came with the handshake counts.
#[utoipa::path(
    get, path = "/ws/rooms", tag = "live", operation_id = "room_socket",
    params(("token" = Option<String>, Query, description = "A token for joins that send none")),
    responses(
        (status = 101, description = "A WebSocket"),
        (status = 426, description = "`invalid_request`: the request asks for no WebSocket", body = ProblemView, content_type = "application/problem+json"),
        (status = 429, description = "`too_many_connections`", body = ProblemView, content_type = "application/problem+json")),
    security((), ("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn room_socket(
    State(state): State<Shared>,
    key: LiveKey,
    handshake: Handshake,
) -> Result<Response, Problem> {
    let place = state.live.enter().map_err(|_| too_many(&state))?;
    let limits = limits(&state, FRAME_BYTES_MAX);
    let live = state.live.clone();
    let session = move |socket| session::run(state, socket, key, place);
    Ok(handshake.accept(limits, &live, session))
}

/// Follow and change one document over a WebSocket, without a protocol.
///
/// The first message is the whole document, every other one, in either direction, an update of Loro.
#[utoipa::path(
    get, path = "/sync/{project}", tag = "live", operation_id = "sync_socket",
    params(
        ("project" = String, Path, example = "storyboard-7"),
        ("token" = Option<String>, Query, description = "A room token or a user's, for clients that cannot send a header")),
    responses(
        (status = 101, description = "A WebSocket"),
        (status = 401, description = "`unauthorized`", body = ProblemView, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`: the project is somebody else's", body = ProblemView, content_type = "application/problem+json"),
        (status = 426, description = "`invalid_request`: the request asks for no WebSocket", body = ProblemView, content_type = "application/problem+json"),
        (status = 429, description = "`too_many_connections`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn sync_socket(
    State(state): State<Shared>,
    ProjectPath(project): ProjectPath,
    key: LiveKey,
    handshake: Handshake,
) -> Result<Response, Problem> {
    let credential = key.into_text().ok_or_else(Problem::unauthorized)?;
    let access = state.rooms.authorise(&project, &credential, Naming::Opens).await;
    let access = access.map_err(refused)?;
    let place = state.live.enter().map_err(|_| too_many(&state))?;
    let limits = limits(&state, state.room_sockets.batch_bytes_max);
    let live = state.live.clone();
    let sync = sync::Sync { state, project, access, credential };
    Ok(handshake.accept(limits, &live, move |socket| sync::run(sync, socket, place)))
}

fn limits(state: &Shared, message_bytes_max: usize) -> SocketLimits {
    let send_max = state.live.limits.send_max;
    SocketLimits { message_bytes_max, read_buffer_bytes: READ_BUFFER_BYTES, send_max }
}
