//! The WebSocket `/ws`.

use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{session, too_many};
use crate::extract::LiveKey;
use crate::problem::Problem;
use crate::socket::{Handshake, SocketLimits};
use crate::state::Shared;
use crate::views::ProblemView;

/// Commands are short; a longer message gets more while it arrives.
const READ_BUFFER_BYTES: usize = 1024;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(live_socket))
}

/// Listen to meetings over a WebSocket.
///
/// The key is sent in `X-API-Key`, in `Authorization`, or, by browsers, in `?api_key=`. The socket
/// is always accepted: what is wrong is told in a frame before it is closed. Commands and frames are
/// described in the guide.
#[utoipa::path(
    get, path = "/ws", tag = "live", operation_id = "live_socket",
    params(("api_key" = Option<String>, Query, description = "A user's token, for clients that cannot send a header")),
    responses(
        (status = 101, description = "A WebSocket"),
        (status = 426, description = "`invalid_request`: the request asks for no WebSocket", body = ProblemView, content_type = "application/problem+json"),
        (status = 429, description = "`too_many_connections`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn live_socket(
    State(state): State<Shared>,
    key: LiveKey,
    handshake: Handshake,
) -> Result<Response, Problem> {
    let place = state.live.enter().map_err(|_| too_many(&state, "live_connections"))?;
    let limits = SocketLimits {
        message_bytes_max: state.live.limits.message_bytes_max,
        read_buffer_bytes: READ_BUFFER_BYTES,
        send_max: state.live.limits.send_max,
    };
    let live = state.live.clone();
    let session = move |socket| session::run(state, socket, key, place);
    Ok(handshake.accept(limits, &live, session))
}
