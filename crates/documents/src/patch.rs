//! A JSON merge patch (RFC 7396) on a document.
//!
//! A merge patch says what members are to be, as a map of Loro does: two patches at the same time both
//! hold, and the same one twice is the same one once. A patch of operations (RFC 6902) names places in
//! lists, which somebody else may have moved by the time it is applied.

use bytes::Bytes;
use loro::{Container, LoroDoc, LoroMap, ValueOrContainer};
use serde_json::{Map, Value};

use crate::Document;
use crate::json::{apply_merge_patch, from_loro, to_loro};

/// What can be patched.
pub const PATCHED_MAPS: [&str; 3] = ["nodes", "edges", "tasks"];

/// Why a patch was not applied. Nothing of it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("a patch of a document is an object with members among nodes, edges and tasks")]
    NoDocument,
    #[error("{0} is a map with a member for each of them; it takes an object")]
    NoMap(&'static str),
    #[error("the document cannot take the patch: {0}")]
    Refused(String),
}

impl Document {
    /// Applies a patch. The answer is the update that does the same elsewhere; `None` if the document
    /// says all that already.
    pub fn patch(&mut self, patch: &Value) -> Result<Option<Bytes>, PatchError> {
        let Value::Object(members) = patch else { return Err(PatchError::NoDocument) };
        let mut maps = Vec::with_capacity(members.len());
        for (name, entries) in members {
            let known = PATCHED_MAPS.into_iter().find(|known| known == name);
            let name = known.ok_or(PatchError::NoDocument)?;
            let Value::Object(entries) = entries else { return Err(PatchError::NoMap(name)) };
            maps.push((name, entries));
        }
        self.change(|doc| patch_maps(doc, &maps))
    }
}

fn patch_maps(doc: &LoroDoc, maps: &[(&str, &Map<String, Value>)]) -> Result<(), PatchError> {
    for (name, entries) in maps {
        patch_map(&doc.get_map(*name), entries)?;
    }
    Ok(())
}

fn patch_map(map: &LoroMap, changes: &Map<String, Value>) -> Result<(), PatchError> {
    for (name, change) in changes {
        set(map, name, change).map_err(|error| PatchError::Refused(error.to_string()))?;
    }
    Ok(())
}

/// Changes one member as a merge patch says. A map of Loro keeps what others write to its other
/// members at the same time; a plain value is written anew as a whole, if it changes.
pub(crate) fn set(map: &LoroMap, name: &str, change: &Value) -> Result<(), loro::LoroError> {
    let found = map.get(name);
    match (found, change) {
        (None, Value::Null) => Ok(()),
        (Some(_), Value::Null) => map.delete(name),
        (Some(ValueOrContainer::Container(Container::Map(inner))), Value::Object(changes)) => {
            changes.iter().try_for_each(|(name, change)| set(&inner, name, change))
        }
        (Some(ValueOrContainer::Value(value)), change) => {
            let before = from_loro(&value);
            let after = apply_merge_patch(&before, change);
            if before == after {
                return Ok(());
            }
            map.insert(name, to_loro(&after))
        }
        (_, change) => map.insert(name, to_loro(&apply_merge_patch(&Value::Null, change))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_sets_merges_and_deletes() {
        let mut document = Document::new(1);
        let update = document
            .patch(&json!({
                "nodes": {"a": {"data": {"label": "one", "old": true}}, "b": {"x": 1}},
                "edges": {"e": {"source": "a", "target": "b"}},
            }))
            .unwrap()
            .unwrap();
        document
            .patch(&json!({"nodes": {"a": {"data": {"label": "two", "old": null}}, "b": null}}))
            .unwrap();
        let after = json!({
            "nodes": {"a": {"data": {"label": "two"}}},
            "edges": {"e": {"source": "a", "target": "b"}},
            "tasks": {},
        });
        assert_eq!(document.to_json(), after);
        let again = document.patch(&json!({"nodes": {"a": {"data": {"label": "two"}}, "b": null}}));
        assert_eq!(again, Ok(None), "what is so already is no update");
        let mut other = Document::new(2);
        other.import(&update).unwrap();
        assert_eq!(other.to_json()["edges"], after["edges"]);
    }

    #[test]
    fn a_map_of_loro_is_changed_member_by_member() {
        let mut document = Document::new(1);
        let node = document.doc.get_map("nodes").insert_container("a", LoroMap::new()).unwrap();
        node.insert("x", 1).unwrap();
        let base = document.snapshot();
        let mut other = Document::new(2);
        other.import(&base).unwrap();
        let here = document.patch(&json!({"nodes": {"a": {"x": 2}}})).unwrap().unwrap();
        let there = other.patch(&json!({"nodes": {"a": {"y": 3}}})).unwrap().unwrap();
        document.import(&there).unwrap();
        other.import(&here).unwrap();
        assert_eq!(document.to_json()["nodes"], json!({"a": {"x": 2, "y": 3}}));
        assert_eq!(other.to_json(), document.to_json());
    }

    #[test]
    fn what_is_no_patch_of_a_document_changes_nothing() {
        let mut document = Document::new(1);
        for bad in [json!([]), json!(1), json!({"other": {}})] {
            assert_eq!(document.patch(&bad), Err(PatchError::NoDocument));
        }
        let both = json!({"edges": {"a": 1}, "nodes": [1]});
        assert_eq!(document.patch(&both), Err(PatchError::NoMap("nodes")));
        assert_eq!(document.to_json(), json!({"nodes": {}, "edges": {}, "tasks": {}}));
    }
}
