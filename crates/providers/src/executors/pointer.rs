//! JSON pointers (RFC 6901) with `*` for every member or item, and `**` at the end for everything
//! below.

use serde_json::Value;

/// Below this nothing is looked for: no service nests deeper, and a hostile answer may.
const DEPTH_MAX: usize = 32;

/// A place, or several, in a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Named(String),
    Each,
    Below,
}

impl Pointer {
    /// The whole value.
    pub(super) const WHOLE: Pointer = Pointer { steps: Vec::new() };

    /// The error says what is wrong.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Pointer::WHOLE);
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("`{text}` is no JSON pointer: it begins with `/`"));
        };
        let steps: Vec<Step> =
            rest.split('/').map(step).collect::<Option<_>>().ok_or_else(|| {
                format!("`{text}` is no JSON pointer: after `~` comes `0` or `1`")
            })?;
        if steps.len() > DEPTH_MAX {
            return Err(format!("`{text}` has more than {DEPTH_MAX} steps"));
        }
        let below = steps.iter().position(|step| *step == Step::Below);
        if below.is_some_and(|at| at + 1 < steps.len()) {
            return Err(format!("`{text}`: `**` stands only at the end"));
        }
        Ok(Pointer { steps })
    }

    /// Everything there that is not null: items of lists in their order, members as JSON objects keep
    /// them, which is by their names.
    pub(super) fn all<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.from(value)).collect();
        }
        found.retain(|value| !value.is_null());
        found
    }

    /// The first thing there that is not null.
    pub(super) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.all(value).into_iter().next()
    }
}

/// The first text or number that any of the pointers finds, as text.
pub(super) fn first_text(pointers: &[Pointer], value: &Value) -> Option<String> {
    let found = pointers.iter().flat_map(|pointer| pointer.all(value));
    found.into_iter().find_map(text_of).filter(|text| !text.is_empty())
}

/// Text, or a number as text.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn step(text: &str) -> Option<Step> {
    match text {
        "*" => return Some(Step::Each),
        "**" => return Some(Step::Below),
        _ => {}
    }
    let mut name = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '~') {
            (_, true) => match chars.next()? {
                '0' => name.push('~'),
                '1' => name.push('/'),
                _ => return None,
            },
            (c, false) => name.push(c),
        }
    }
    Some(Step::Named(name))
}

impl Step {
    fn from<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Step::Named(name), Value::Object(members)) => members.get(name).into_iter().collect(),
            (Step::Named(name), Value::Array(items)) => {
                name.parse::<usize>().ok().and_then(|at| items.get(at)).into_iter().collect()
            }
            (Step::Each, Value::Object(members)) => members.values().collect(),
            (Step::Each, Value::Array(items)) => items.iter().collect(),
            (Step::Below, value) => {
                let mut found = Vec::new();
                leaves(value, DEPTH_MAX, &mut found);
                found
            }
            _ => Vec::new(),
        }
    }
}

fn leaves<'a>(value: &'a Value, depth_left: usize, found: &mut Vec<&'a Value>) {
    if depth_left == 0 {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| leaves(item, depth_left - 1, found)),
        Value::Object(members) => {
            members.values().for_each(|member| leaves(member, depth_left - 1, found));
        }
        leaf => found.push(leaf),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(pointer: &str, value: &Value) -> Value {
        let pointer = Pointer::parse(pointer).unwrap();
        pointer.all(value).into_iter().cloned().collect()
    }

    #[test]
    fn pointers_find_what_is_there() {
        let value = json!({
            "data": {"videos": [{"url": "a"}, {"url": null}, {"url": "b"}], "z": 1},
            "odd/name~": {"": true},
            "output": "text",
        });
        for (pointer, expected) in [
            ("/data/z", json!([1])),
            ("/data/videos/*/url", json!(["a", "b"])),
            ("/data/videos/2/url", json!(["b"])),
            ("/data/videos/x", json!([])),
            ("/odd~1name~0/", json!([true])),
            ("/nothing/*/at/all", json!([])),
            ("/output", json!(["text"])),
            ("/output/**", json!(["text"])),
            ("/output/*", json!([])),
            ("/data/**", json!(["a", "b", 1])),
        ] {
            assert_eq!(found(pointer, &value), expected, "{pointer}");
        }
        assert_eq!(found("", &value), json!([value]));
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for bad in ["data", "$.data", "/a/~", "/a/~2", "/**/a", &"/a".repeat(33)] {
            assert!(Pointer::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_deep_answer_ends() {
        let mut value = json!("x");
        for _ in 0..100 {
            value = json!([value]);
        }
        assert_eq!(found("/**", &value), json!([]));
    }

    #[test]
    fn the_first_text_is_not_an_empty_one() {
        let pointers = ["/a", "/b"].map(|text| Pointer::parse(text).unwrap());
        assert_eq!(first_text(&pointers, &json!({"a": {}, "b": 7})).as_deref(), Some("7"));
        assert_eq!(first_text(&pointers, &json!({"a": null})), None);
    }
}
