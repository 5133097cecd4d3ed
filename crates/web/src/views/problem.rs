//! The body of a problem.

use roundsman_engine::FieldError;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::problem::{Place, Problem, Surface};

/// What a field is told that is not there, in the words of Vexa's validation.
pub(crate) const FIELD_REQUIRED: &str = "field required";

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
    /// This problem in words. On the paths of the Vexa API, wrong fields are listed here.
    #[schema(
        value_type = String,
        example = "The lease is no longer held: another worker has the job, or it has ended."
    )]
    detail: DetailView<'a>,
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
    #[serde(flatten)]
    #[schema(ignore)]
    members: &'a Map<String, Value>,
}

/// Why a request to a path of the Vexa API is not valid. The other members are those of a problem.
#[derive(ToSchema)]
#[schema(as = ValidationProblem)]
#[expect(dead_code, reason = "describes what a view makes of wrong fields, for the document")]
pub(crate) struct ValidationProblemShape {
    detail: Vec<ValidationErrorShape>,
    #[schema(example = 422)]
    status: u16,
    #[schema(example = "invalid_request")]
    code: String,
    request_id: String,
}

/// One field that is wrong, as Vexa tells it.
#[derive(ToSchema)]
#[schema(as = ValidationError)]
#[expect(dead_code, reason = "describes what a view makes of wrong fields, for the document")]
pub(crate) struct ValidationErrorShape {
    /// Where: `body`, `path` or `query`, and the way from there.
    #[schema(value_type = Vec<serde_json::Value>, example = json!(["body", "language"]))]
    loc: Vec<Value>,
    msg: String,
    #[schema(example = "value_error")]
    r#type: String,
}

/// A sentence, or the list that clients of the Vexa API expect for wrong fields.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum DetailView<'a> {
    Text(&'a str),
    List(Vec<Value>),
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
        let one =
            |error: &'a FieldError| FieldErrorView { field: &error.field, message: &error.message };
        ProblemView {
            kind: format!("urn:roundsman:problem:{}", code.word()),
            title: code.title(),
            status: problem.status().as_u16(),
            detail: match problem.surface {
                Surface::Vexa if !problem.errors.is_empty() => {
                    let place = place_word(problem.place);
                    let list = problem.errors.iter().map(|error| validation_error(place, error));
                    DetailView::List(list.collect())
                }
                Surface::Own | Surface::Vexa => DetailView::Text(&problem.detail),
            },
            instance,
            request_id,
            code: code.word(),
            errors: problem.errors.iter().map(one).collect(),
            members: &problem.members,
        }
    }

    /// Whether this is a problem document by the standard, whose `detail` is a text.
    pub(crate) fn is_standard(&self) -> bool {
        matches!(self.detail, DetailView::Text(_))
    }
}

fn place_word(place: Place) -> &'static str {
    match place {
        Place::Body => "body",
        Place::Path => "path",
        Place::Query => "query",
    }
}

/// One wrong field as Vexa's validation tells of it.
fn validation_error(place: &str, error: &FieldError) -> Value {
    let missing = error.message == FIELD_REQUIRED;
    let kind = if missing { "value_error.missing" } else { "value_error" };
    let mut path = vec![json!(place)];
    let steps = error.field.split(['.', '[', ']']).filter(|step| !step.is_empty());
    // The body as a whole is named by its place alone.
    path.extend(steps.filter(|step| *step != place).map(|step| match step.parse::<u32>() {
        Ok(index) => json!(index),
        Err(_) => json!(step),
    }));
    json!({ "loc": path, "msg": error.message, "type": kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_field_has_its_place_in_the_request() {
        let shown = |place, field: &str, message: &str| {
            validation_error(place, &FieldError::new(field, message))
        };
        assert_eq!(
            shown("body", "data.languages[1]", "no"),
            json!({"loc": ["body", "data", "languages", 1], "msg": "no", "type": "value_error"})
        );
        assert_eq!(shown("body", "body", "no")["loc"], json!(["body"]));
        assert_eq!(
            shown("path", "platform", FIELD_REQUIRED),
            json!({"loc": ["path", "platform"], "msg": "field required",
                "type": "value_error.missing"})
        );
    }
}
