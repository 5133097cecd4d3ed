//! Objects that somebody else has put into a bucket, under names of their own.

use std::sync::Arc;

use hyper::Method;
use roundsman_core::ports::{Clock, MediaError};

use super::api::{Api, Ask, Payload};
use super::{InvalidS3Options, S3Options};

/// A bucket of an S3-compatible store, to which others write.
pub struct S3Bucket {
    api: Api,
}

impl S3Bucket {
    pub fn new(options: &S3Options, clock: Arc<dyn Clock>) -> Result<Self, InvalidS3Options> {
        Ok(S3Bucket { api: Api::new(options, clock)? })
    }

    /// An address under which an object can be read for so long. Whether there is one shows when it
    /// is read.
    pub fn link(&self, name: &str, lasts_secs: u32) -> String {
        self.api.link(name, lasts_secs)
    }

    /// Deletes an object; one that is gone already is as good.
    pub async fn delete(&self, name: &str) -> Result<(), MediaError> {
        let ask = Ask { method: Method::DELETE, blob: name, query: &[], body: Payload::default() };
        let mut answer = self.api.call(ask).await?;
        self.api.answered(&mut answer).await.map(drop)
    }
}

impl std::fmt::Debug for S3Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Bucket").finish_non_exhaustive()
    }
}
