//! JSON bodies: the type of the content, its size, its syntax and its shape, each refused in words
//! that say what to change.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::problem::{Code, Problem};
use crate::state::Shared;

/// A parser's message may quote the body; past this length it only repeats it.
const MESSAGE_BYTES_MAX: usize = 300;

/// A JSON body of the shape `T`.
#[derive(Debug)]
pub(crate) struct AppJson<T>(pub(crate) T);

/// A JSON body with the bytes it came as, for those who must recognise the same request again.
#[derive(Debug)]
pub(crate) struct AppJsonWithBytes<T>(pub(crate) T, pub(crate) Bytes);

/// The bytes of a body that says it is JSON; nobody has looked at them yet.
#[derive(Debug)]
pub(crate) struct JsonBytes(pub(crate) Bytes);

impl<T: DeserializeOwned> FromRequest<Shared> for AppJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        let AppJsonWithBytes(value, _) = AppJsonWithBytes::from_request(request, state).await?;
        Ok(AppJson(value))
    }
}

impl<T: DeserializeOwned> FromRequest<Shared> for AppJsonWithBytes<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        let JsonBytes(bytes) = JsonBytes::from_request(request, state).await?;
        Ok(AppJsonWithBytes(parse(&bytes)?, bytes))
    }
}

impl FromRequest<Shared> for JsonBytes {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            let detail = "Send the body as application/json.";
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| unread(&rejection, state.limits.body_bytes_max))?;
        Ok(JsonBytes(bytes))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let media_type = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json"
        || (media_type.starts_with("application/") && media_type.ends_with("+json"))
}

pub(super) fn unread(rejection: &BytesRejection, bytes_max: usize) -> Problem {
    match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
            let detail = format!("The body is larger than {bytes_max} bytes.");
            Problem::new(Code::TooLarge, detail)
        }
        _ => Problem::new(Code::InvalidJson, "The body ended early."),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.is_empty() {
        return Err(Problem::new(Code::InvalidJson, "The body is empty."));
    }
    check_object(bytes)?;
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        let path = error.path().to_string();
        refused(error.inner(), &path)
    })?;
    parser.end().map_err(|error| refused(&error, "."))?;
    Ok(value)
}

/// Every body is an object. The parser alone would also take a list of its fields' values.
fn check_object(bytes: &[u8]) -> Result<(), Problem> {
    if bytes.trim_ascii_start().starts_with(b"{") {
        return Ok(());
    }
    let syntax: Result<&RawValue, _> = serde_json::from_slice(bytes);
    syntax.map_err(|error| refused(&error, "."))?;
    Err(Problem::field("body", "must be a JSON object"))
}

fn refused(error: &serde_json::Error, path: &str) -> Problem {
    let mut message = error.to_string();
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.push('…');
    }
    match error.classify() {
        Category::Data => Problem::field(if path == "." { "body" } else { path }, message),
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::new(Code::InvalidJson, format!("The body is not JSON: {message}."))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        items: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        number: i64,
        raw: Option<Box<RawValue>>,
    }

    #[test]
    fn a_refusal_says_where() {
        let cases = [
            (r#"{"items":[{"number":1},{"number":"x"}]}"#, "items[1].number"),
            (r#"{"items":[{"number":1,"extra":2}]}"#, "items[0].extra"),
            (r#"{"items":[{}]}"#, "items[0]"),
            (r#" [[{"number":1}]]"#, "body"),
            ("null", "body"),
        ];
        for (text, field) in cases {
            let problem = parse::<Outer>(text.as_bytes()).unwrap_err();
            assert_eq!(problem.code, Code::InvalidRequest, "{text}");
            assert_eq!(problem.errors[0].field, field, "{text}: {:?}", problem.errors);
        }
    }

    #[test]
    fn raw_json_comes_through_as_it_was_written() {
        let text = r#"{"items":[{"number":1,"raw":{"b": 1.0, "a":[ 12345678901234567890123 ]}}]}"#;
        let outer: Outer = parse(text.as_bytes()).unwrap();
        let raw = outer.items[0].raw.as_ref().unwrap();
        assert_eq!(raw.get(), r#"{"b": 1.0, "a":[ 12345678901234567890123 ]}"#);
        assert_eq!(outer.items[0].number, 1);
    }

    #[test]
    fn what_is_no_json_is_told_apart_from_what_has_the_wrong_shape() {
        let deep = "[".repeat(100_000);
        for text in
            ["", "{", "{\"items\":[]}x", "nope", "{\"items\":[]} {}", "\u{0}", deep.as_str()]
        {
            let problem = parse::<Outer>(text.as_bytes()).unwrap_err();
            assert_eq!(problem.code, Code::InvalidJson, "{}", &text[..text.len().min(20)]);
        }
        assert_eq!(parse::<Outer>(b"{\"items\xff\":1}").unwrap_err().code, Code::InvalidJson);
    }

    #[test]
    fn a_message_that_quotes_the_body_is_cut() {
        let text = format!("{{\"items\":\"{}\"}}", "é".repeat(10_000));
        let problem = parse::<Outer>(text.as_bytes()).unwrap_err();
        assert!(problem.errors[0].message.len() < 2 * MESSAGE_BYTES_MAX);
    }
}
