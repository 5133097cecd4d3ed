//! What can be done with a value before it is sent.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::{Picture, Scope};

/// Stands behind a `|` in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::executors) enum Filter {
    /// A number becomes text.
    Text,
    /// A text becomes a whole number.
    Integer,
    /// A text becomes a number.
    Number,
    /// The picture that the text names, in base64 with nothing before it.
    Base64,
    /// What sort of picture that is: `image/png`.
    MediaType,
    /// The picture as a `data:` address.
    DataUri,
    /// The picture itself, as a file of a form.
    File,
    /// An address as it is; a picture in base64 becomes a `data:` address.
    Link,
    /// In a path: slashes are kept.
    Path,
    /// The first so many parts of a path.
    Segments(usize),
}

impl Filter {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, argument) = text.split_once(':').unwrap_or((text, ""));
        let filter = match (name, argument) {
            ("text", "") => Filter::Text,
            ("integer", "") => Filter::Integer,
            ("number", "") => Filter::Number,
            ("base64", "") => Filter::Base64,
            ("media_type", "") => Filter::MediaType,
            ("data_uri", "") => Filter::DataUri,
            ("file", "") => Filter::File,
            ("link", "") => Filter::Link,
            ("path", "") => Filter::Path,
            ("segments", count) => match count.parse() {
                Ok(count @ 1..=16) => Filter::Segments(count),
                _ => return Err(format!("`{text}`: segments:1 to segments:16")),
            },
            _ => return Err(format!("there is no filter `{text}`")),
        };
        Ok(filter)
    }

    /// Whether the picture itself is needed, so that it has to be fetched first.
    pub(in crate::executors) fn wants_picture(self) -> bool {
        matches!(self, Filter::Base64 | Filter::MediaType | Filter::DataUri | Filter::File)
    }

    pub(super) fn apply(self, value: Value, scope: &Scope<'_>) -> Result<Value, String> {
        match self {
            Filter::Text | Filter::Path => text_of(&value).map(Value::String),
            Filter::Integer => whole(&value),
            Filter::Number => number(&value),
            // Only forms know files; elsewhere the plan refuses this filter.
            Filter::File => Ok(value),
            Filter::Base64 => {
                Ok(Value::String(BASE64_STANDARD.encode(&picture(&value, scope)?.bytes)))
            }
            Filter::MediaType => Ok(Value::String(picture(&value, scope)?.media_type.clone())),
            Filter::DataUri => Ok(Value::String(data_uri(picture(&value, scope)?))),
            Filter::Link => link(&value),
            Filter::Segments(count) => {
                let text = text_of(&value)?;
                let parts: Vec<&str> = text.split('/').take(count).collect();
                Ok(Value::String(parts.join("/")))
            }
        }
    }
}

pub(super) fn text_of(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err("a text is needed, not a list or an object".to_owned()),
    }
}

fn whole(value: &Value) -> Result<Value, String> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.map(Value::from).ok_or_else(|| "a whole number is needed".to_owned())
}

fn number(value: &Value) -> Result<Value, String> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => serde_json::from_str(text.trim()).ok().filter(Value::is_number),
        _ => None,
    }
    .ok_or_else(|| "a number is needed".to_owned())
}

fn picture<'a>(value: &Value, scope: &Scope<'a>) -> Result<&'a Picture, String> {
    let text = value.as_str().ok_or("a picture is named by a text")?;
    scope.pictures.get(text).ok_or_else(|| "the picture was not fetched".to_owned())
}

fn data_uri(picture: &Picture) -> String {
    format!("data:{};base64,{}", picture.media_type, BASE64_STANDARD.encode(&picture.bytes))
}

fn link(value: &Value) -> Result<Value, String> {
    let text = value.as_str().ok_or("an address is needed")?;
    let has_scheme = ["http://", "https://", "data:"].iter().any(|scheme| text.starts_with(scheme));
    if has_scheme {
        return Ok(value.clone());
    }
    // Most of what comes without an address around it is one of these.
    let media_type = match text.as_bytes() {
        [b'/', b'9', b'j', ..] => "image/jpeg",
        [b'U', b'k', b'l', b'G', ..] => "image/webp",
        [b'R', b'0', b'l', b'G', ..] => "image/gif",
        _ => "image/png",
    };
    Ok(Value::String(format!("data:{media_type};base64,{text}")))
}
