//! One document in memory.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use loro::{ExportMode, LoroDoc, VersionVector};
use serde_json::Value;

use crate::json::document_json;
use crate::stored::{self, Parts};

/// A document. Whatever is written to it here is written in the name of its peer.
#[derive(Debug)]
pub struct Document {
    pub(crate) doc: LoroDoc,
}

/// What is stored is no document. It must not be replaced by a new one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(pub String);

/// What an update did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// Part of it waits for something that is missing.
    pub waits: bool,
}

/// Why an update did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It is no update, or not one of this document.
    #[error("not an update of this document: {0}")]
    Invalid(String),
    /// It has broken the document in memory, which is to be loaded again.
    #[error("the update cannot be worked on: {0}")]
    Broken(String),
}

/// The bytes are no version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the version of a document")]
pub struct UnknownVersion;

impl Document {
    /// An empty document. Two who write at the same time must not be the same peer.
    pub fn new(peer: u64) -> Self {
        let doc = LoroDoc::new();
        // The largest number is not a peer's; all others are.
        let _ = doc.set_peer_id(peer & (u64::MAX >> 1));
        Document { doc }
    }

    /// The document that a snapshot (as [`Document::to_stored`] made it) and updates make. An error
    /// means that something is wrong with what is stored: there is no document then, not an empty one.
    pub fn load<'a>(
        snapshot: Option<&[u8]>,
        updates: impl IntoIterator<Item = &'a [u8]>,
        peer: u64,
    ) -> Result<Self, LoadError> {
        let mut document = Document::new(peer);
        if let Some(snapshot) = snapshot {
            let parts = stored::read(snapshot).map_err(|reason| LoadError(reason.to_owned()))?;
            for part in [parts.snapshot, parts.waiting].into_iter().filter(|part| !part.is_empty())
            {
                document.import(part).map_err(|error| LoadError(format!("snapshot: {error}")))?;
            }
        }
        for (index, update) in updates.into_iter().enumerate() {
            document.import(update).map_err(|error| {
                LoadError(format!("update {index} after the snapshot: {error}"))
            })?;
        }
        Ok(document)
    }

    /// From now on what is written here is written under this name. Whoever used it before must be done:
    /// what they wrote is in the document.
    pub fn write_as(&mut self, peer: u64) {
        let _ = self.doc.set_peer_id(peer & (u64::MAX >> 1));
    }

    /// Takes in an update of somebody else. One that is in it already changes nothing.
    pub fn import(&mut self, update: &[u8]) -> Result<Imported, ImportError> {
        let doc = &self.doc;
        // The bytes are anybody's. Should Loro stumble over them, one document is lost from memory.
        match catch_unwind(AssertUnwindSafe(|| doc.import(update))) {
            Ok(Ok(status)) => Ok(Imported { waits: status.pending.is_some() }),
            Ok(Err(error)) => Err(ImportError::Invalid(error.to_string())),
            Err(_) => Err(ImportError::Broken("Loro panicked".to_owned())),
        }
    }

    /// How far the document is, as clients compare it.
    pub fn version(&self) -> Vec<u8> {
        self.doc.oplog_vv().encode()
    }

    /// What somebody with this version lacks; `None` if that is nothing. An empty version is that of
    /// somebody who has nothing.
    pub fn updates_since(&self, version: &[u8]) -> Result<Option<Bytes>, UnknownVersion> {
        let ours = self.doc.oplog_vv();
        let theirs = decode(version)?;
        if matches!(ours.partial_cmp(&theirs), Some(Ordering::Less | Ordering::Equal)) {
            return Ok(None);
        }
        // A snapshot is read faster than the same updates.
        if theirs.is_empty() {
            return Ok(Some(self.snapshot()));
        }
        let updates = self.doc.export(ExportMode::updates(&theirs)).map_err(|_| UnknownVersion)?;
        Ok(Some(updates.into()))
    }

    /// Whether everything of a version is here. The same version may be written in several ways.
    pub fn has(&self, version: &[u8]) -> Result<bool, UnknownVersion> {
        let order = self.doc.oplog_vv().partial_cmp(&decode(version)?);
        Ok(matches!(order, Some(Ordering::Greater | Ordering::Equal)))
    }

    /// The whole document with its history, for clients.
    pub fn snapshot(&self) -> Bytes {
        let bytes = self.doc.export(ExportMode::Snapshot);
        bytes.expect("the whole of a document can be written").into()
    }

    /// The whole document with all that it has received, to be given to [`Document::load`].
    pub fn to_stored(&self) -> Bytes {
        let snapshot = self.snapshot();
        let waiting = self.doc.export_pending_updates();
        let waiting = waiting.expect("what waits can be written").unwrap_or_default();
        stored::write(Parts { snapshot: &snapshot, waiting: &waiting })
    }

    /// What it says now.
    pub fn to_json(&self) -> Value {
        document_json(&self.doc.get_deep_value())
    }

    /// Runs changes and answers with the update they make; `None` if they change nothing.
    pub(crate) fn change<E>(
        &mut self,
        changes: impl FnOnce(&LoroDoc) -> Result<(), E>,
    ) -> Result<Option<Bytes>, E> {
        let before = self.doc.oplog_vv();
        changes(&self.doc)?;
        self.doc.commit();
        if self.doc.oplog_vv() == before {
            return Ok(None);
        }
        let update = self.doc.export(ExportMode::updates(&before));
        Ok(Some(update.expect("what was just written can be written out").into()))
    }
}

fn decode(version: &[u8]) -> Result<VersionVector, UnknownVersion> {
    if version.is_empty() {
        return Ok(VersionVector::default());
    }
    VersionVector::decode(version).map_err(|_| UnknownVersion)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(peer: u64, patch: &Value) -> (Document, Bytes) {
        let mut document = Document::new(peer);
        let update = document.patch(patch).unwrap().unwrap();
        (document, update)
    }

    #[test]
    fn snapshot_and_log_make_the_document_again() {
        let (mut document, first) = written(1, &json!({"nodes": {"a": {"x": 1}}}));
        let second = document.patch(&json!({"nodes": {"b": {"x": 2}}})).unwrap().unwrap();
        let all = Document::load(None, [&first[..], &second], 2).unwrap();
        assert_eq!(all.to_json(), document.to_json());
        let half = Document::load(None, [&first[..]], 3).unwrap().to_stored();
        let again = Document::load(Some(&half), [&second[..]], 4).unwrap();
        assert_eq!(again.to_json(), document.to_json());
        assert_eq!(again.version(), document.version());
    }

    #[test]
    fn garbage_is_refused_and_changes_nothing() {
        let (mut document, update) = written(1, &json!({"nodes": {"a": 1}}));
        let (version, said) = (document.version(), document.to_json());
        let mut damaged = update.to_vec();
        *damaged.last_mut().unwrap() ^= 0xff;
        for garbage in [&b""[..], b"x", b"loro but not really", &damaged, &update[..20]] {
            assert!(matches!(document.import(garbage), Err(ImportError::Invalid(_))));
        }
        assert_eq!((document.version(), document.to_json()), (version, said));
    }

    #[test]
    fn a_damaged_snapshot_is_an_error_and_never_an_empty_document() {
        let (document, update) = written(1, &json!({"nodes": {"a": 1}}));
        let stored = document.to_stored();
        for at in [0, 5, 10, 30, stored.len() - 1] {
            let mut damaged = stored.to_vec();
            damaged[at] ^= 0xff;
            assert!(Document::load(Some(&damaged), [], 2).is_err(), "{at}");
        }
        assert!(Document::load(Some(b""), [], 2).is_err());
        assert!(Document::load(None, [&update[..], b"garbage"], 2).is_err());
    }

    #[test]
    fn what_waits_for_something_is_kept_in_a_snapshot() {
        let (mut document, first) = written(1, &json!({"nodes": {"a": 1}}));
        let second = document.patch(&json!({"nodes": {"a": 2}})).unwrap().unwrap();
        let mut late = Document::new(2);
        assert!(late.import(&second).unwrap().waits);
        let mut again = Document::load(Some(&late.to_stored()), [], 3).unwrap();
        assert_eq!(again.to_json()["nodes"], json!({}));
        again.import(&first).unwrap();
        assert_eq!(again.to_json()["nodes"], json!({"a": 2}));
    }

    /// Every name under which something was written is part of every version for ever.
    #[test]
    fn a_name_may_be_used_again_by_whoever_comes_after() {
        let mut log: Vec<Bytes> = Vec::new();
        for number in 0..5 {
            let mut next =
                Document::load(None, log.iter().map(|update| &update[..]), number).unwrap();
            next.write_as(77);
            log.push(next.patch(&json!({"nodes": {"a": number}})).unwrap().unwrap());
        }
        let all = Document::load(None, log.iter().map(|update| &update[..]), 9).unwrap();
        assert_eq!(all.to_json()["nodes"], json!({"a": 4}));
        let (one, _) = written(1, &json!({"nodes": {"a": 1}}));
        assert!(all.version().len() <= one.version().len() + 8, "one name, not five");
    }

    #[test]
    fn somebody_gets_what_they_lack_and_nothing_else() {
        let (mut document, first) = written(1, &json!({"nodes": {"a": 1}}));
        let mut other = Document::load(None, [&first[..]], 2).unwrap();
        assert_eq!(document.updates_since(&other.version()), Ok(None));
        document.patch(&json!({"nodes": {"b": 1}})).unwrap();
        let missing = document.updates_since(&other.version()).unwrap().unwrap();
        assert!(missing.len() < document.snapshot().len());
        assert_eq!(other.has(&document.version()), Ok(false));
        other.import(&missing).unwrap();
        assert_eq!(other.to_json(), document.to_json());
        assert_eq!(other.has(&document.version()), Ok(true));
        assert_eq!((other.has(&[]), other.has(b"\xff")), (Ok(true), Err(UnknownVersion)));
        let mut late = Document::new(3);
        late.import(&document.updates_since(&[]).unwrap().unwrap()).unwrap();
        late.import(&missing).unwrap();
        assert_eq!(late.to_json(), document.to_json(), "the same twice is the same once");
        let empty = Document::new(4).version();
        assert!(document.updates_since(&empty).unwrap().is_some());
        assert_eq!(Document::new(5).updates_since(&document.version()), Ok(None));
        assert_eq!(document.updates_since(b"\xff\xff\xff\xff\xff"), Err(UnknownVersion));
    }
}
