//! Texts with places in them.

use serde_json::Value;

use super::Scope;
use super::filter::{Filter, text_of};

/// A text with places in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::executors) struct TextTemplate {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Place(Place),
}

/// Something to be filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::executors) struct Place {
    pub(in crate::executors) source: Source,
    pub(in crate::executors) filters: Vec<Filter>,
}

/// What is filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::executors) enum Source {
    Param(String),
    Id,
    Ids,
    Key,
    CallbackUrl,
    Item,
    Setting(String),
}

impl Source {
    pub(in crate::executors) fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("$setting.") {
            return Ok(Source::Setting(name.to_owned()));
        }
        match text {
            "$id" => Ok(Source::Id),
            "$ids" => Ok(Source::Ids),
            "$key" => Ok(Source::Key),
            "$callback_url" => Ok(Source::CallbackUrl),
            "$item" => Ok(Source::Item),
            name if is_name(name) => Ok(Source::Param(name.to_owned())),
            other => Err(format!("`{{{other}}}` names nothing")),
        }
    }
}

/// Small letters, digits and `_`, a letter first.
pub(in crate::executors) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

impl TextTemplate {
    pub(in crate::executors) const EMPTY: TextTemplate = TextTemplate { parts: Vec::new() };

    pub(in crate::executors) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            literal.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('{') {
                literal.push('{');
                rest = after;
                continue;
            }
            let end = rest.find('}').ok_or_else(|| format!("`{text}`: a `{{` is not closed"))?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Place(place(&rest[..end])?));
            rest = &rest[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(TextTemplate { parts })
    }

    pub(in crate::executors) fn places(&self) -> impl Iterator<Item = &Place> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Place(place) => Some(place),
        })
    }

    /// The only place, if there is nothing else.
    pub(in crate::executors) fn lone_place(&self) -> Option<&Place> {
        match self.parts.as_slice() {
            [Part::Place(place)] => Some(place),
            _ => None,
        }
    }

    /// `None` if a place has no value.
    pub(in crate::executors) fn value(&self, scope: &Scope<'_>) -> Result<Option<Value>, String> {
        match self.lone_place() {
            Some(place) => place.value(scope),
            None => Ok(self.text(scope)?.map(Value::String)),
        }
    }

    /// `None` if a place has no value.
    pub(in crate::executors) fn text(&self, scope: &Scope<'_>) -> Result<Option<String>, String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Place(place) => match place.value(scope)? {
                    Some(value) => text.push_str(&text_of(&value)?),
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(text))
    }

    /// For the path of a URL: what is filled in is encoded, and names nothing outside its place.
    pub(in crate::executors) fn path(&self, scope: &Scope<'_>) -> Result<String, String> {
        let mut path = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => path.push_str(literal),
                Part::Place(place) => {
                    let missing = || format!("{} is missing", place.name());
                    let text = text_of(&place.value(scope)?.ok_or_else(missing)?)?;
                    let keeps_slashes = place.filters.last() == Some(&Filter::Path);
                    path.push_str(
                        &encoded(&text, keeps_slashes).ok_or_else(|| {
                            format!("{} cannot be part of an address", place.name())
                        })?,
                    );
                }
            }
        }
        Ok(path)
    }
}

impl Place {
    pub(in crate::executors) fn value(&self, scope: &Scope<'_>) -> Result<Option<Value>, String> {
        let Some(value) = scope.value(&self.source) else { return Ok(None) };
        let filtered = self.filters.iter().try_fold(value, |value, f| f.apply(value, scope));
        filtered.map(Some).map_err(|reason| format!("{}: {reason}", self.name()))
    }

    /// As people call it.
    pub(in crate::executors) fn name(&self) -> String {
        match &self.source {
            Source::Param(name) => name.clone(),
            Source::Id | Source::Ids => "the task's id".to_owned(),
            Source::Key => "the task's key".to_owned(),
            Source::CallbackUrl => "the callback's address".to_owned(),
            Source::Item => "an item of the list".to_owned(),
            Source::Setting(name) => format!("the setting {name}"),
        }
    }
}

fn place(text: &str) -> Result<Place, String> {
    let mut words = text.split('|').map(str::trim);
    let source = Source::parse(words.next().unwrap_or_default())?;
    let filters = words.map(Filter::parse).collect::<Result<_, _>>()?;
    Ok(Place { source, filters })
}

/// `None` for what would leave its place in the path.
fn encoded(text: &str, keeps_slashes: bool) -> Option<String> {
    let parts: Vec<&str> = if keeps_slashes { text.split('/').collect() } else { vec![text] };
    let encode = |part: &str| {
        let stays = !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
        stays.then(|| percent(part))
    };
    Some(parts.into_iter().map(encode).collect::<Option<Vec<_>>>()?.join("/"))
}

fn percent(part: &str) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' | b'@' => {
                text.push(char::from(byte));
            }
            other => drop(write!(text, "%{other:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Map, json};

    use super::*;

    fn with_scope<T>(params: Value, use_it: impl FnOnce(&Scope<'_>) -> T) -> T {
        let params: Map<String, Value> = serde_json::from_value(params).unwrap();
        let settings = BTreeMap::from([("place".to_owned(), "here".to_owned())]);
        let pictures = BTreeMap::new();
        use_it(&Scope {
            params: &params,
            settings: &settings,
            key: "k-1",
            ids: &["a/b", "c"],
            callback_url: None,
            pictures: &pictures,
            item: None,
        })
    }

    fn value(template: &str, params: Value) -> Result<Option<Value>, String> {
        let template = TextTemplate::parse(template).unwrap();
        with_scope(params, |scope| template.value(scope))
    }

    #[test]
    fn a_place_alone_keeps_the_type() {
        assert_eq!(value("{n}", json!({"n": 5})), Ok(Some(json!(5))));
        assert_eq!(value("{n|text}", json!({"n": 5})), Ok(Some(json!("5"))));
        assert_eq!(value("{n|integer}", json!({"n": "5"})), Ok(Some(json!(5))));
        assert_eq!(value("{n}s", json!({"n": 5})), Ok(Some(json!("5s"))));
        assert_eq!(value("{n}", json!({"n": null})), Ok(None));
        assert_eq!(value("a {n}", json!({})), Ok(None));
        assert_eq!(
            value("{$key} {$ids} {$setting.place}", json!({})),
            Ok(Some(json!("k-1 a/b,c here")))
        );
        assert_eq!(value("{{n}", json!({})), Ok(Some(json!("{n}"))));
        assert_eq!(
            value("{n|integer}", json!({"n": "x"})),
            Err("n: a whole number is needed".into())
        );
    }

    #[test]
    fn a_path_is_not_left() {
        let path = |template: &str, params: Value| {
            let template = TextTemplate::parse(template).unwrap();
            with_scope(params, |scope| template.path(scope))
        };
        assert_eq!(path("/v1/{m}:go", json!({"m": "a b/c"})), Ok("/v1/a%20b%2Fc:go".into()));
        assert_eq!(path("/v1/{m|path}", json!({"m": "a/b c"})), Ok("/v1/a/b%20c".into()));
        assert_eq!(path("/{m|segments:2|path}/x", json!({"m": "a/b/c/d"})), Ok("/a/b/x".into()));
        assert_eq!(path("/{$id|path}", json!({})), Ok("/a/b".into()));
        for bad in ["..", "", ".", "a\nb"] {
            assert!(path("/v1/{m}", json!({"m": bad})).is_err(), "{bad}");
        }
        for bad in ["a/../b", "/a", "a/", "a//b"] {
            assert!(path("/v1/{m|path}", json!({"m": bad})).is_err(), "{bad}");
        }
        assert_eq!(path("/v1/{m}", json!({})), Err("m is missing".into()));
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for bad in ["{", "{a", "{}", "{A}", "{a b}", "{a|nothing}", "{$nothing}", "{a|segments:0}"]
        {
            assert!(TextTemplate::parse(bad).is_err(), "{bad}");
        }
    }
}
