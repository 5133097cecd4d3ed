//! The WebSocket `/ingest/ws`.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::session;
use crate::extract::bearer;
use crate::problem::{Code, Problem};
use crate::socket::{Handshake, SocketLimits};
use crate::state::Shared;
use crate::views::ProblemView;

/// Producers send much, and there are few of them.
const READ_BUFFER_BYTES: usize = 16 * 1024;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(ingest_socket))
}

/// Tell what is said over a WebSocket.
///
/// Each text is one message, as `POST /ingest/transcription` takes it; the token is in each, or in
/// the handshake. Each is answered in order: `{"type": "ack", "n": 1, "accepted": …}` once it is
/// stored, or `{"type": "error", "n": 2, "error": …, "detail": …}`.
#[utoipa::path(
    get, path = "/ingest/ws", tag = "live", operation_id = "ingest_socket",
    responses(
        (status = 101, description = "A WebSocket"),
        (status = 426, description = "`invalid_request`: the request asks for no WebSocket", body = ProblemView, content_type = "application/problem+json"),
        (status = 429, description = "`too_many_connections`", body = ProblemView, content_type = "application/problem+json")),
    security(("meeting_token" = [])))]
async fn ingest_socket(
    State(state): State<Shared>,
    headers: HeaderMap,
    handshake: Handshake,
) -> Result<Response, Problem> {
    let place = state.live.enter().map_err(|_| {
        state.metrics.limit_hit("live_connections");
        Problem::new(Code::TooManyConnections, "There are too many live connections.")
    })?;
    let limits = SocketLimits {
        message_bytes_max: state.limits.body_bytes_max,
        read_buffer_bytes: READ_BUFFER_BYTES,
        send_max: state.live.limits.send_max,
    };
    let bearer = bearer(&headers).map(str::to_owned);
    let live = state.live.clone();
    let session = move |socket| session::run(state, socket, bearer, place);
    Ok(handshake.accept(limits, &live, session))
}
