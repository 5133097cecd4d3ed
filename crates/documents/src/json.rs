//! JSON and Loro's values, and RFC 7396 on plain JSON.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use loro::LoroValue;
use serde_json::{Map, Number, Value};

use crate::PATCHED_MAPS;

/// Bytes become base64; everything else has a form of its own.
pub(crate) fn from_loro(value: &LoroValue) -> Value {
    match value {
        LoroValue::Bool(flag) => Value::Bool(*flag),
        // As JavaScript writes it: whole numbers without a point.
        LoroValue::Double(number) => number_of(*number),
        LoroValue::I64(number) => Value::from(*number),
        LoroValue::String(text) => Value::from(text.as_str()),
        LoroValue::Binary(bytes) => Value::from(BASE64_STANDARD.encode(bytes.as_slice())),
        LoroValue::List(items) => items.iter().map(from_loro).collect(),
        LoroValue::Map(members) => {
            let sorted: BTreeMap<&str, &LoroValue> =
                members.iter().map(|(name, value)| (name.as_ref(), value)).collect();
            let members =
                sorted.into_iter().map(|(name, value)| (name.to_owned(), from_loro(value)));
            Value::Object(members.collect())
        }
        // Deep values hold no containers; one would have nothing to show.
        LoroValue::Null | LoroValue::Container(_) => Value::Null,
    }
}

/// What a whole document says. The maps that every document has are there even while they are empty.
pub(crate) fn document_json(value: &LoroValue) -> Value {
    let mut document = from_loro(value);
    for name in PATCHED_MAPS {
        if document.get(name).is_none() {
            document[name] = Value::Object(Map::new());
        }
    }
    document
}

/// Whole numbers up to this are the same number as a double.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

#[expect(clippy::cast_possible_truncation, reason = "whole and small enough to be exact")]
fn number_of(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

pub(crate) fn to_loro(value: &Value) -> LoroValue {
    match value {
        Value::Null => LoroValue::Null,
        Value::Bool(flag) => LoroValue::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => LoroValue::I64(whole),
            None => LoroValue::Double(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => LoroValue::from(text.as_str()),
        Value::Array(items) => LoroValue::from(items.iter().map(to_loro).collect::<Vec<_>>()),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), to_loro(value)));
            LoroValue::Map(members.collect::<std::collections::HashMap<_, _>>().into())
        }
    }
}

/// A value after a patch (RFC 7396).
pub fn apply_merge_patch(value: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut members = match value {
        Value::Object(members) => members.clone(),
        _ => Map::new(),
    };
    for (name, change) in changes {
        if change.is_null() {
            members.remove(name);
        } else {
            let before = members.get(name).unwrap_or(&Value::Null);
            let after = apply_merge_patch(before, change);
            members.insert(name.clone(), after);
        }
    }
    Value::Object(members)
}

/// The patch that makes `after` of `before`; `None` if they are the same. A patch has no way to say
/// that a member becomes null: such a member is left out.
pub fn merge_patch_between(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return Some(after.clone());
    };
    let mut changes = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changes.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        let known = old.get(name);
        let change = match known {
            Some(known) => merge_patch_between(known, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            changes.insert(name.clone(), change);
        }
    }
    Some(Value::Object(changes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_between_two_makes_one_of_the_other(before in value(), after in value()) {
            let patched = match merge_patch_between(&before, &after) {
                Some(patch) => apply_merge_patch(&before, &patch),
                None => before,
            };
            prop_assert_eq!(patched, after);
        }

        #[test]
        fn values_survive_loro(value in value()) {
            prop_assert_eq!(from_loro(&to_loro(&value)), value);
        }
    }

    #[test]
    fn the_examples_of_the_standard() {
        for (before, patch, after) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(apply_merge_patch(&before, &patch), after);
        }
    }

    #[test]
    fn numbers_look_as_in_javascript() {
        assert_eq!(from_loro(&LoroValue::Double(3.0)), json!(3));
        assert_eq!(from_loro(&LoroValue::Double(3.5)), json!(3.5));
        assert_eq!(from_loro(&LoroValue::Double(f64::NAN)), Value::Null);
        assert_eq!(to_loro(&json!(u64::MAX)), LoroValue::Double(18_446_744_073_709_551_615.0));
    }
}
