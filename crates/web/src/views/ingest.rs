//! What producers of transcripts are told, and messages that could not be taken.

use roundsman_core::Timestamp;
use roundsman_core::ports::DeadLetter;
use roundsman_core::transcripts::RefusedSegment;
use roundsman_engine::transcripts::{DeadLetterPage, Ingested};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::problem::Problem;

/// One message: `session_start`, `transcription`, `session_end` or `speaker_activity`.
#[derive(Deserialize, ToSchema)]
#[schema(as = IngestMessage)]
#[expect(dead_code, reason = "describes what the core reads, for the OpenAPI document")]
pub(crate) struct MessageShape {
    /// `transcription` if it is absent.
    #[schema(example = "transcription")]
    r#type: Option<String>,
    /// The meeting's token; or send it in `Authorization` as Bearer.
    token: Option<String>,
    /// The session's name.
    #[schema(example = "3f1c…")]
    uid: Option<String>,
    /// Of `session_start`: when it started.
    #[schema(example = "2026-01-31T12:00:00.000Z")]
    start_timestamp: Option<String>,
    /// Of `transcription`: each with `start` and `end` in seconds, `text`, and perhaps `language`,
    /// `completed`, `speaker` and `segment_id`.
    #[schema(value_type = Option<Vec<Object>>)]
    segments: Option<Vec<Box<RawValue>>>,
}

/// What became of a message.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ingested)]
pub(crate) struct IngestedView {
    /// Segments that were taken.
    #[schema(example = 9)]
    accepted: u32,
    /// Those of them that look different from before.
    #[schema(example = 1)]
    changed: u32,
    /// Those that cannot be taken; the others were.
    refused: Vec<RefusedView>,
    /// The place of the frame that told of it; `null` if nothing changed.
    #[schema(example = 42)]
    seq: Option<i64>,
    warnings: Vec<&'static str>,
}

/// A segment that cannot be taken.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RefusedSegment)]
struct RefusedView {
    /// Its place in the message, from 0.
    index: usize,
    #[schema(example = "text is too long")]
    reason: &'static str,
}

/// What became of each of several messages, in their order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = IngestedList)]
pub(crate) struct IngestedListView {
    pub(crate) results: Vec<IngestResultView>,
}

/// What became of one of them: what one alone would be answered, or `error` and `detail`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = IngestResult)]
pub(crate) enum IngestResultView {
    Taken(IngestedView),
    Refused(IngestRefusedView),
}

/// Why a message was not taken.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = IngestRefused)]
pub(crate) struct IngestRefusedView {
    /// The code of the problem that it would be alone.
    #[schema(example = "invalid_request")]
    error: &'static str,
    detail: String,
}

/// An answer on `/ingest/ws`.
#[derive(Debug, Serialize)]
pub(crate) struct AckView {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Which message of this connection, from 1.
    n: u64,
    #[serde(flatten)]
    result: IngestResultView,
}

/// A page of messages that could not be taken, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetterList)]
pub(crate) struct DeadLetterListView {
    dead_letters: Vec<DeadLetterView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// A message that could not be taken.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetter)]
struct DeadLetterView {
    #[schema(example = 5)]
    id: i64,
    /// Where it came from.
    #[schema(example = "transcription_segments")]
    source: String,
    /// What it was called there.
    #[schema(example = "1769860800000-0")]
    entry: String,
    #[schema(example = "not a valid meeting token")]
    reason: String,
    #[schema(example = 1)]
    deliveries: u32,
    /// As it came, cut if it is longer than a message may be.
    payload: String,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl From<Ingested> for IngestedView {
    fn from(ingested: Ingested) -> Self {
        let Ingested { accepted, changed, refused, seq, warnings } = ingested;
        let refused = refused
            .into_iter()
            .map(|RefusedSegment { index, reason }| RefusedView { index, reason });
        IngestedView { accepted, changed, refused: refused.collect(), seq, warnings }
    }
}

impl From<Result<Ingested, Problem>> for IngestResultView {
    fn from(result: Result<Ingested, Problem>) -> Self {
        match result {
            Ok(ingested) => IngestResultView::Taken(ingested.into()),
            Err(problem) => IngestResultView::Refused(IngestRefusedView {
                error: problem.code.word(),
                detail: problem.detail,
            }),
        }
    }
}

impl AckView {
    pub(crate) fn new(n: u64, result: IngestResultView) -> Self {
        let kind = match result {
            IngestResultView::Taken(_) => "ack",
            IngestResultView::Refused(_) => "error",
        };
        AckView { kind, n, result }
    }
}

impl From<DeadLetterPage> for DeadLetterListView {
    fn from(page: DeadLetterPage) -> Self {
        let view = |DeadLetter { id, letter, at }| DeadLetterView {
            id,
            source: letter.source,
            entry: letter.entry,
            reason: letter.reason,
            deliveries: letter.deliveries,
            payload: letter.payload,
            at,
        };
        DeadLetterListView {
            next_before: page.next_before,
            dead_letters: page.letters.into_iter().map(view).collect(),
        }
    }
}
