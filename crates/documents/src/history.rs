//! What a document said earlier, and going back to it.

use bytes::Bytes;
use loro::Frontiers;
use serde_json::Value;

use crate::json::document_json;
use crate::{Document, PatchError, UnknownVersion};

impl Document {
    /// Where in its history the document is.
    pub fn place(&self) -> Vec<u8> {
        self.doc.oplog_frontiers().encode()
    }

    /// What the document said at a place.
    pub fn to_json_at(&self, place: &[u8]) -> Result<Value, UnknownVersion> {
        let frontiers = self.known(place)?;
        let then = self.doc.fork_at(&frontiers).map_err(|_| UnknownVersion)?;
        Ok(document_json(&then.get_deep_value()))
    }

    /// Lets the document say what it said at a place. History goes on: this is a change like any other,
    /// and can be undone in the same way. `None` if it says that already.
    pub fn restore(&mut self, place: &[u8]) -> Result<Option<Bytes>, PatchError> {
        let refused = |_| PatchError::Refused(UnknownVersion.to_string());
        let frontiers = self.known(place).map_err(refused)?;
        self.change(|doc| {
            doc.revert_to(&frontiers).map_err(|error| PatchError::Refused(error.to_string()))
        })
    }

    /// A place of another document, or one that is not here yet, is none.
    fn known(&self, place: &[u8]) -> Result<Frontiers, UnknownVersion> {
        let frontiers = Frontiers::decode(place).map_err(|_| UnknownVersion)?;
        self.doc.frontiers_to_vv(&frontiers).ok_or(UnknownVersion)?;
        Ok(frontiers)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn earlier_places_can_be_seen_and_restored() {
        let mut document = Document::new(1);
        let empty = document.place();
        document.patch(&json!({"nodes": {"a": {"x": 1}, "b": 1}})).unwrap();
        let first = document.place();
        document.patch(&json!({"nodes": {"a": {"x": 2}, "b": null, "c": 3}})).unwrap();
        let second = document.place();
        let base = document.snapshot();
        let nodes = |place: &[u8]| document.to_json_at(place).unwrap()["nodes"].clone();
        assert_eq!(nodes(&first), json!({"a": {"x": 1}, "b": 1}));
        assert_eq!(document.to_json_at(&second), Ok(document.to_json()));
        assert_eq!(nodes(&empty), json!({}));
        let update = document.restore(&first).unwrap().expect("a change");
        assert_eq!(document.to_json()["nodes"], json!({"a": {"x": 1}, "b": 1}));
        let mut other = Document::new(2);
        other.import(&base).unwrap();
        other.import(&update).unwrap();
        assert_eq!(other.to_json(), document.to_json());
        document.restore(&second).unwrap().expect("back again");
        assert_eq!(document.to_json()["nodes"], json!({"a": {"x": 2}, "c": 3}));
    }

    #[test]
    fn a_place_of_another_document_is_unknown() {
        let mut other = Document::new(7);
        other.patch(&json!({"nodes": {"a": 1}})).unwrap();
        let mut document = Document::new(1);
        assert_eq!(document.to_json_at(&other.place()), Err(UnknownVersion));
        assert!(document.restore(&other.place()).is_err());
        assert_eq!(document.to_json_at(b"\xff\xff"), Err(UnknownVersion));
    }
}
