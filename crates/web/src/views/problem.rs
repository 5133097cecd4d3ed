//! The body of a problem.

use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;

/// Why a request was not answered as hoped (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemView<'a> {
    /// Names the sort of problem; the same for the same `code`.
    #[serde(rename = "type")]
    #[schema(example = "urn:roundsman:problem:lease_lost")]
    kind: String,
    /// The sort of problem in words.
    #[schema(example = "The lease is no longer held")]
    title: &'a str,
    #[schema(example = 409)]
    status: u16,
    /// This problem in words.
    #[schema(
        example = "The lease is no longer held: another worker has the job, or it has ended."
    )]
    detail: &'a str,
    /// The path that was asked for.
    #[schema(example = "/jobs/17/complete")]
    instance: &'a str,
    /// Finds the request in the server's log; also in the header `x-request-id`.
    request_id: &'a str,
    /// The sort of problem in a stable word: decide by this.
    #[schema(example = "lease_lost")]
    code: &'a str,
    /// Every field that is wrong, when fields are wrong.
    errors: Vec<FieldErrorView<'a>>,
}

/// One field that is wrong.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FieldError)]
pub(crate) struct FieldErrorView<'a> {
    /// Where: a path such as `jobs[3].kind`.
    #[schema(example = "jobs[3].kind")]
    field: &'a str,
    message: &'a str,
}

impl<'a> ProblemView<'a> {
    pub(crate) fn new(problem: &'a Problem, instance: &'a str, request_id: &'a str) -> Self {
        let code = problem.code;
        let one = |error: &'a roundsman_engine::FieldError| FieldErrorView {
            field: &error.field,
            message: &error.message,
        };
        ProblemView {
            kind: format!("urn:roundsman:problem:{}", code.word()),
            title: code.title(),
            status: code.status().as_u16(),
            detail: &problem.detail,
            instance,
            request_id,
            code: code.word(),
            errors: problem.errors.iter().map(one).collect(),
        }
    }
}
