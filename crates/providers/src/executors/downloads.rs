//! Getting what a task brought.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderMap;
use roundsman_core::ports::{Fetched, MediaError, ResultContent, ResultFile};
use sha2::{Digest, Sha256};
use url::Url;

use super::HttpExecutor;
use super::description::Limits;
use crate::media::{FetchLimits, Source};

impl HttpExecutor {
    pub(super) async fn download_one(
        &self,
        file: &ResultFile,
        to: &Path,
    ) -> Result<Fetched, MediaError> {
        let link = match &file.content {
            ResultContent::Inline(bytes) => return self.write(bytes.clone(), to).await,
            ResultContent::Link(link) => link,
        };
        let refused = |reason: &str| MediaError::Refused(reason.to_owned());
        let mut url = Url::parse(link).map_err(|_| refused("the link is no URL"))?;
        let is_own = self.plan.is_own(&url);
        let mut headers = HeaderMap::new();
        if is_own && self.plan.result.download_with_key {
            headers.extend(self.auth.header().await.map_err(MediaError::Failed)?);
            headers.extend(self.plan.headers.clone());
            self.auth.sign(&mut url);
        }
        let guard = (!is_own).then_some(&self.guard);
        let source = Source { url, headers, guard, elsewhere: Some(&self.guard) };
        self.files.download_from(&source, to).await
    }

    async fn write(&self, bytes: Bytes, to: &Path) -> Result<Fetched, MediaError> {
        let bytes_max = self.plan.limits.file_bytes_max;
        if bytes.len() as u64 > bytes_max {
            let reason = format!("the file is larger than the limit of {bytes_max} bytes");
            return Err(MediaError::Refused(reason));
        }
        let failed = |error: std::io::Error| MediaError::Failed(error.to_string());
        tokio::fs::write(to, &bytes).await.map_err(failed)?;
        let sha256 = hex::encode(Sha256::digest(&bytes));
        Ok(Fetched { bytes: bytes.len() as u64, sha256 })
    }
}

pub(super) fn limits(limits: &Limits) -> FetchLimits {
    FetchLimits {
        bytes_max: limits.file_bytes_max,
        time_max: Duration::from_secs(limits.download_secs_max),
        answer_max: Duration::from_secs(limits.poll_secs_max.max(10)),
        ..FetchLimits::default()
    }
}
