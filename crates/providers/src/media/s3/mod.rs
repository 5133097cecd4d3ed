//! Blobs in an S3-compatible store.
//!
//! Invariant: S3 compares what it is sent with the hash that was signed, and shows an object only
//! when it has all of it; a file that is sent in parts appears when they are put together.
//!
//! Parts of an upload that a dead server has left cost money until they are removed: a rule of the
//! bucket does that (`AbortIncompleteMultipartUpload`).

mod api;
mod bucket;
mod options;
mod sign;
mod upload;
mod xml;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use hyper::Method;
use roundsman_core::ports::{Clock, MediaError, MediaStore};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use self::api::{Api, Ask, Payload};
pub use self::bucket::S3Bucket;
pub use self::options::{InvalidS3Options, S3Options};
use super::{blob, failed};
use crate::http::Exchange;

/// Keeps blobs in an S3-compatible store.
pub struct S3MediaStore {
    api: Api,
    part_bytes: u64,
}

impl S3MediaStore {
    pub fn new(options: &S3Options, clock: Arc<dyn Clock>) -> Result<Self, InvalidS3Options> {
        Ok(S3MediaStore { api: Api::new(options, clock)?, part_bytes: options.part_bytes })
    }

    /// How long the blob is; `None` if there is none.
    async fn bytes_of(&self, blob: &str) -> Result<Option<u64>, MediaError> {
        let ask = Ask { method: Method::HEAD, blob, query: &[], body: Payload::default() };
        let mut answer = self.api.call(ask).await?;
        let bytes = answer.header("content-length").and_then(|length| length.parse().ok());
        let found = self.api.answered(&mut answer).await?;
        Ok(found.map(|_| bytes.unwrap_or(0)))
    }

    async fn download(&self, answer: &mut Exchange, to: &Path) -> Result<String, MediaError> {
        let mut file = tokio::fs::File::create(to).await.map_err(|error| failed(&error))?;
        let mut hasher = Sha256::new();
        let broken = |error: crate::http::CallError| MediaError::Failed(error.to_string());
        while let Some(piece) = answer.piece().await.map_err(broken)? {
            hasher.update(&piece);
            file.write_all(&piece).await.map_err(|error| failed(&error))?;
        }
        file.flush().await.map_err(|error| failed(&error))?;
        Ok(hex::encode(hasher.finalize()))
    }
}

#[async_trait]
impl MediaStore for S3MediaStore {
    async fn keep(&self, file: &Path, sha256: &str) -> Result<String, MediaError> {
        let blob = blob::name_of(sha256)?;
        let metadata = tokio::fs::metadata(file).await.map_err(|error| failed(&error))?;
        // One of another length cannot be what its name says, and is replaced.
        if self.bytes_of(&blob).await? == Some(metadata.len()) {
            return Ok(blob);
        }
        if metadata.len() <= self.part_bytes {
            self.put(&blob, file, metadata.len(), sha256).await?;
        } else {
            self.put_in_parts(&blob, file, metadata.len(), sha256).await?;
        }
        Ok(blob)
    }

    async fn read(&self, blob: &str, to: &Path) -> Result<(), MediaError> {
        let hash = blob::hash_of(blob).ok_or(MediaError::NotFound)?;
        let ask = Ask { method: Method::GET, blob, query: &[], body: Payload::default() };
        let mut answer = self.api.call(ask).await?;
        if answer.status != 200 {
            return match self.api.answered(&mut answer).await? {
                None => Err(MediaError::NotFound),
                Some(_) => Err(MediaError::Failed("S3 sends something else".to_owned())),
            };
        }
        let bytes = answer.header("content-length").and_then(|length| length.parse().ok());
        let within = self.api.time_for(bytes.unwrap_or(0)) + self.api.answer_max();
        let too_slow = |_| MediaError::Failed(format!("not read within {within:?}"));
        let found = tokio::time::timeout(within, self.download(&mut answer, to)).await;
        if found.map_err(too_slow)?? != hash {
            return Err(MediaError::Failed("the blob is damaged".to_owned()));
        }
        Ok(())
    }

    async fn delete(&self, blob: &str) -> Result<bool, MediaError> {
        // S3 does not say whether there was anything to delete.
        if blob::hash_of(blob).is_none() || self.bytes_of(blob).await?.is_none() {
            return Ok(false);
        }
        let ask = Ask { method: Method::DELETE, blob, query: &[], body: Payload::default() };
        let mut answer = self.api.call(ask).await?;
        Ok(self.api.answered(&mut answer).await?.is_some())
    }
}

impl std::fmt::Debug for S3MediaStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3MediaStore").finish_non_exhaustive()
    }
}
