//! A task at a stand-in.

use serde_json::Value;

/// How a task ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    Succeeded,
    /// With an output of the test's, where the service has any shape of it; `{file}` in a text is
    /// the link to the result.
    SucceededWith(Value),
    /// By the service's word, and with nothing to show.
    Empty,
    /// Its filters took the result.
    Filtered(String),
    Failed {
        code: String,
        message: String,
    },
    Cancelled,
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub method: String,
    /// Path and query as they came, encoded.
    pub target: String,
    /// Names in lower case; those that every request has are left out.
    pub headers: Vec<(String, String)>,
    /// As JSON, or else as text.
    pub body: Value,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub(super) struct Task {
    pub(super) number: usize,
    pub(super) id: String,
    /// The submission's key, or nothing.
    pub(super) key: String,
    /// Of the submission.
    pub(super) path: Vec<String>,
    pub(super) body: Value,
    pub(super) callback_url: Option<String>,
    pub(super) percent: Option<u8>,
    pub(super) ending: Option<Ending>,
}

impl Task {
    /// Where its result is, with a signature as such links have.
    pub(super) fn link(&self, url: &str) -> String {
        format!("{url}/files/{}.mp4?sig=secret", self.number)
    }

    /// The output that the test wants, with the link in its place.
    pub(super) fn output(&self, url: &str, usual: Value) -> Value {
        match &self.ending {
            Some(Ending::SucceededWith(output)) => filled(output, &self.link(url)),
            _ => usual,
        }
    }
}

fn filled(value: &Value, link: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{file}", link)),
        Value::Array(items) => items.iter().map(|item| filled(item, link)).collect(),
        Value::Object(members) => {
            let members = members.iter();
            Value::Object(members.map(|(name, m)| (name.clone(), filled(m, link))).collect())
        }
        other => other.clone(),
    }
}

/// What is in a file: not the same everywhere, so that a wrong piece is seen.
pub(super) fn content(bytes: usize) -> Vec<u8> {
    let block = (0u32..65_521).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]);
    let block: Vec<u8> = block.collect();
    let mut content = b"\x00\x00\x00\x20ftypisom".to_vec();
    while content.len() < bytes {
        content.extend_from_slice(&block);
    }
    content.truncate(bytes);
    content
}
