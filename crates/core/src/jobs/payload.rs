//! JSON that is carried and never looked into: payloads, results, progress.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::limits::{JSON_DEPTH_MAX, MERGED_ITEMS_MAX};

/// A JSON document kept as text, so that what is read back is what was given on either database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(String);

/// Why a text is not acceptable as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJson {
    #[error("not valid JSON")]
    Syntax,
    #[error("nested deeper than {JSON_DEPTH_MAX} levels")]
    TooDeep,
    #[error("contains the character NUL (\\u0000), which databases cannot store")]
    Nul,
}

impl Json {
    pub const NULL: &'static str = "null";

    /// The document `null`.
    pub fn null() -> Self {
        Json(Json::NULL.to_owned())
    }

    /// Takes a text from outside, checking all that makes it storable.
    pub fn parse(text: &str) -> Result<Self, InvalidJson> {
        if depth_of(text) > JSON_DEPTH_MAX {
            return Err(InvalidJson::TooDeep);
        }
        let value: Value = serde_json::from_str(text).map_err(|_| InvalidJson::Syntax)?;
        if has_nul(&value) {
            return Err(InvalidJson::Nul);
        }
        // The text as it came: writing the value anew would reorder members and round numbers.
        Ok(Json(text.trim().to_owned()))
    }

    /// Takes a parsed value.
    pub fn from_value(value: &Value) -> Result<Self, InvalidJson> {
        if has_nul(value) {
            return Err(InvalidJson::Nul);
        }
        Ok(Json(value.to_string()))
    }

    /// Takes a text that this type wrote earlier: the database's own copy.
    pub fn from_stored(text: String) -> Self {
        Json(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }

    /// The parsed document; a stored text that no longer parses reads as `null`.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }
}

/// What becomes of the payloads when a trigger joins a waiting job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MergeRule {
    /// The newer payload says it better.
    #[default]
    Replace,
    /// The first payload stays.
    Keep,
    /// Both are arrays; the newer items follow the older ones, and the oldest are dropped beyond
    /// [`MERGED_ITEMS_MAX`]. A payload that is no array counts as an array of one.
    Append,
}

impl MergeRule {
    /// Merges the payload of a waiting job with that of the trigger that joined it.
    pub fn merge(self, older: Json, newer: Json) -> Json {
        match self {
            MergeRule::Replace => newer,
            MergeRule::Keep => older,
            MergeRule::Append => {
                let mut items = items_of(older.as_str());
                items.extend(items_of(newer.as_str()));
                let surplus = items.len().saturating_sub(MERGED_ITEMS_MAX);
                Json(format!("[{}]", items[surplus..].join(",")))
            }
        }
    }
}

/// The items as texts: they are carried over as they are, and a waiting job may be joined thousands of
/// times a second.
fn items_of(text: &str) -> Vec<&str> {
    if text == Json::NULL {
        return Vec::new();
    }
    match serde_json::from_str::<Vec<&RawValue>>(text) {
        Ok(items) => items.into_iter().map(RawValue::get).collect(),
        // What is stored and can no longer be read is nothing, as everywhere.
        Err(_) => serde_json::from_str::<&RawValue>(text).iter().map(|one| one.get()).collect(),
    }
}

/// The deepest nesting of brackets outside strings, without building the document: the parser
/// recurses, so depth must be bounded before it runs.
fn depth_of(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains('\0') || has_nul(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn what_no_database_can_hold_is_refused() {
        let deep = "[".repeat(JSON_DEPTH_MAX + 1) + &"]".repeat(JSON_DEPTH_MAX + 1);
        let cases = [
            ("{", InvalidJson::Syntax),
            ("NaN", InvalidJson::Syntax),
            (deep.as_str(), InvalidJson::TooDeep),
            (r#"{"a":"x\u0000y"}"#, InvalidJson::Nul),
            (r#"{"\u0000":1}"#, InvalidJson::Nul),
        ];
        for (text, reason) in cases {
            assert_eq!(Json::parse(text), Err(reason), "{text}");
        }
        assert!(Json::parse(&format!("\"{}\"", "[".repeat(1000))).is_ok(), "brackets in a string");
    }

    #[test]
    fn a_text_is_kept_as_it_came() {
        let text = r#"{"b": 12345678901234567890123, "a": 1.10}"#;
        assert_eq!(json(text).as_str(), text);
    }

    #[test]
    fn payloads_merge_by_their_rule() {
        let cases = [
            (MergeRule::Replace, "1", "2", "2"),
            (MergeRule::Keep, "1", "2", "1"),
            (MergeRule::Append, "[1]", "[2,3]", "[1,2,3]"),
            (MergeRule::Append, "null", "{\"a\":1}", "[{\"a\":1}]"),
            (MergeRule::Append, "[]", "[]", "[]"),
            (MergeRule::Append, " [ 1.10 , \"],[\" ]", "2", "[1.10,\"],[\",2]"),
        ];
        for (rule, older, newer, merged) in cases {
            assert_eq!(rule.merge(json(older), json(newer)), json(merged));
        }
    }

    #[test]
    fn what_can_no_longer_be_read_is_not_carried_on() {
        let damaged = Json::from_stored("[1,".to_owned());
        assert_eq!(MergeRule::Append.merge(damaged, json("2")), json("[2]"));
    }

    #[test]
    fn appending_is_bounded_and_drops_the_oldest() {
        let older = Json::from_value(&(0..MERGED_ITEMS_MAX).collect::<Vec<_>>().into()).unwrap();
        let merged = MergeRule::Append.merge(older, json("[-1]")).to_value();
        let items = merged.as_array().unwrap();
        assert_eq!(items.len(), MERGED_ITEMS_MAX);
        assert_eq!((items.first().unwrap(), items.last().unwrap()), (&1.into(), &(-1).into()));
    }
}
