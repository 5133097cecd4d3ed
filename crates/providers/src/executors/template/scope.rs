//! What the places of a template stand for.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::Source;

/// A picture that a parameter named, by the text of that parameter.
pub(in crate::executors) type Pictures = BTreeMap<String, Picture>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::executors) struct Picture {
    pub(in crate::executors) media_type: String,
    pub(in crate::executors) bytes: Bytes,
}

/// The values of one request.
#[derive(Clone, Copy)]
pub(in crate::executors) struct Scope<'a> {
    pub(in crate::executors) params: &'a Map<String, Value>,
    pub(in crate::executors) settings: &'a BTreeMap<String, String>,
    pub(in crate::executors) key: &'a str,
    /// One, or those of a batch.
    pub(in crate::executors) ids: &'a [&'a str],
    pub(in crate::executors) callback_url: Option<&'a str>,
    pub(in crate::executors) pictures: &'a Pictures,
    /// Within `$each`.
    pub(in crate::executors) item: Option<&'a Value>,
}

impl Scope<'_> {
    /// `None` for what is absent or null.
    pub(super) fn value(&self, source: &Source) -> Option<Value> {
        let text = |text: &str| Value::String(text.to_owned());
        let value = match source {
            Source::Param(name) => self.params.get(name)?.clone(),
            Source::Id => text(self.ids.first()?),
            Source::Ids => Value::String(self.ids.join(",")),
            Source::Key => text(self.key),
            Source::CallbackUrl => text(self.callback_url?),
            Source::Item => self.item?.clone(),
            // A setting that may be left empty is one that may be absent.
            Source::Setting(name) => text(self.settings.get(name).filter(|t| !t.is_empty())?),
        };
        (!value.is_null()).then_some(value)
    }

    /// Whether `$if` holds: there is something, and it is neither empty nor false.
    pub(super) fn holds(&self, source: &Source) -> bool {
        match self.value(source) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        }
    }
}
