//! What producers of transcripts send, over HTTP or a WebSocket, and what could not be taken.
//!
//! Invariant: a message is answered well only after what it says is in the database, and nothing of
//! it is told to whoever shows no token of its meeting.

mod dead_letters;
mod http;
mod session;
mod ws;

use roundsman_core::transcripts::RefusedMessage;
use roundsman_engine::transcripts::{IngestError, Ingested};
use utoipa_axum::router::OpenApiRouter;

use crate::problem::{Code, Problem, sentence};
use crate::state::Shared;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().merge(http::routes()).merge(ws::routes()).merge(dead_letters::routes())
}

/// Takes one message. Its own token counts more than the one that came beside it.
async fn take(state: &Shared, text: &str, bearer: Option<&str>) -> Result<Ingested, Problem> {
    Ok(state.transcripts.ingest_beside(text, bearer).await?)
}

impl From<IngestError> for Problem {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Unauthorized => {
                let detail = "Send the meeting's token in the message, or in Authorization as \
                    Bearer.";
                Problem::new(Code::Unauthorized, detail)
            }
            IngestError::Refused(RefusedMessage::Field { field, problem }) => {
                Problem::field(field, problem)
            }
            IngestError::Refused(refused @ RefusedMessage::NotJson(_)) => {
                Problem::new(Code::InvalidJson, sentence(&refused.to_string()))
            }
            IngestError::Refused(refused) => {
                Problem::new(Code::InvalidRequest, refused.to_string())
            }
            IngestError::NoSuchMeeting => {
                Problem::new(Code::InvalidRequest, "There is no such meeting.")
            }
            IngestError::Store(error) => error.into(),
        }
    }
}
