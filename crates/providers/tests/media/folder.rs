//! Blobs in a folder on a real disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use roundsman_core::ports::{MediaError, MediaStore};
use roundsman_providers::media::FolderMediaStore;
use roundsman_providers::media::conformance::MediaHost;
use tempfile::TempDir;

use super::sha256;

roundsman_providers::media_conformance_suite!(std::future::ready(host()));

struct FolderHost {
    blobs: TempDir,
    own: TempDir,
}

fn host() -> FolderHost {
    FolderHost { blobs: tempfile::tempdir().unwrap(), own: tempfile::tempdir().unwrap() }
}

#[async_trait]
impl MediaHost for FolderHost {
    fn store(&self) -> Arc<dyn MediaStore> {
        Arc::new(FolderMediaStore::new(self.blobs.path().to_owned()))
    }

    async fn blobs(&self) -> Vec<String> {
        files_under(self.blobs.path())
    }

    async fn damage(&self, blob: &str) {
        let path = self.blobs.path().join(blob);
        let mut content = std::fs::read(&path).unwrap();
        content[0] ^= 0xff;
        std::fs::write(path, content).unwrap();
    }

    fn folder(&self) -> PathBuf {
        self.own.path().to_owned()
    }

    fn long_bytes(&self) -> usize {
        3 * 1024 * 1024
    }
}

#[tokio::test]
async fn a_blob_that_was_cut_short_is_replaced() {
    let host = host();
    let file = host.folder().join("in");
    std::fs::write(&file, "the whole of it").unwrap();
    let hash = sha256(b"the whole of it");
    let blob = host.store().keep(&file, &hash).await.unwrap();
    std::fs::write(host.blobs.path().join(&blob), "the who").unwrap();
    assert_eq!(host.store().keep(&file, &hash).await, Ok(blob.clone()));
    host.store().read(&blob, &host.folder().join("out")).await.unwrap();
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_may_be_mended() {
    let host = host();
    let file = host.folder().join("in");
    std::fs::write(&file, "x").unwrap();
    // A file where the folder should be.
    let taken = host.folder().join("taken");
    std::fs::write(&taken, "").unwrap();
    let store = FolderMediaStore::new(taken);
    let kept = store.keep(&file, &sha256(b"x")).await;
    assert!(matches!(kept, Err(MediaError::Failed(_))), "{kept:?}");
}

/// All files below a folder, in order; nothing is left of what was being written.
fn files_under(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}
