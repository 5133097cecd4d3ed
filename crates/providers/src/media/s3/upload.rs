//! Sends files to S3, those that are long in parts.

use std::path::Path;

use bytes::Bytes;
use hyper::Method;
use roundsman_core::ports::MediaError;
use sha2::{Digest, Sha256};

use super::api::{Ask, Payload};
use super::{S3MediaStore, xml};
use crate::http::{Exchange, FileBody};
use crate::media::{blob, blocking, failed};

/// How often a part is sent before the whole is given up.
const TRIES_MAX: u32 = 3;
/// S3 takes no more.
const PARTS_MAX: u64 = 10_000;

/// A part of a file.
struct Part<'a> {
    file: &'a Path,
    offset: u64,
    bytes: u64,
    sha256: String,
}

impl S3MediaStore {
    pub(super) async fn put(
        &self,
        blob: &str,
        file: &Path,
        bytes: u64,
        sha256: &str,
    ) -> Result<(), MediaError> {
        let part = Part { file, offset: 0, bytes, sha256: sha256.to_owned() };
        self.send(blob, &[], &part).await.map(drop)
    }

    /// Begins, sends the parts, puts them together. What cannot be finished is taken back.
    pub(super) async fn put_in_parts(
        &self,
        blob: &str,
        file: &Path,
        bytes: u64,
        sha256: &str,
    ) -> Result<(), MediaError> {
        let begun = self.post(blob, &[("uploads", "")], Bytes::new()).await?;
        let upload = xml::value(&begun, "UploadId");
        let upload = upload.ok_or_else(|| odd("begins no upload"))?;
        let sent = self.put_parts(blob, file, bytes, &upload, sha256).await;
        if sent.is_err() {
            let query: &[_] = &[("uploadId", upload.as_str())];
            let ask = Ask { method: Method::DELETE, blob, query, body: Payload::default() };
            if let Ok(mut answer) = self.api.call(ask).await {
                // If it stays, the bucket's rule removes it.
                let _ = self.api.answered(&mut answer).await;
            }
        }
        sent
    }

    async fn put_parts(
        &self,
        blob: &str,
        file: &Path,
        bytes: u64,
        upload: &str,
        sha256: &str,
    ) -> Result<(), MediaError> {
        let part_bytes = self.part_bytes.max(bytes.div_ceil(PARTS_MAX));
        let mut parts = Vec::new();
        let offsets = (0..bytes.div_ceil(part_bytes)).map(|index| index * part_bytes);
        for (number, offset) in (1u64..).zip(offsets) {
            let bytes = part_bytes.min(bytes - offset);
            let sha256 = hash_of_part(file, offset, bytes).await?;
            let part = Part { file, offset, bytes, sha256 };
            let number = number.to_string();
            let query = [("partNumber", number.as_str()), ("uploadId", upload)];
            let answer = self.send(blob, &query, &part).await?;
            let etag = answer.header("etag").ok_or_else(|| odd("does not name a part"))?;
            let etag = xml::escape(etag);
            parts.push(format!("<PartNumber>{number}</PartNumber><ETag>{etag}</ETag>"));
        }
        let parts = parts.join("</Part><Part>");
        let whole =
            format!("<CompleteMultipartUpload><Part>{parts}</Part></CompleteMultipartUpload>");
        // S3 checks the parts, not the whole: the file must have stayed what it was.
        if hash_of_part(file, 0, bytes).await? != sha256 {
            return Err(MediaError::Failed("the file is not what it was said to be".to_owned()));
        }
        self.post(blob, &[("uploadId", upload)], whole.into()).await.map(drop)
    }

    /// Sends a part, again if S3 did not take it and may yet.
    async fn send(
        &self,
        blob: &str,
        query: &[(&str, &str)],
        part: &Part<'_>,
    ) -> Result<Exchange, MediaError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.send_once(blob, query, part).await {
                Err(MediaError::Failed(reason)) if tries < TRIES_MAX => {
                    tracing::debug!(reason, tries, "S3 did not take a part of a file");
                }
                sent => return sent,
            }
        }
    }

    async fn send_once(
        &self,
        blob: &str,
        query: &[(&str, &str)],
        part: &Part<'_>,
    ) -> Result<Exchange, MediaError> {
        let file = tokio::fs::File::open(part.file).await.map_err(|error| failed(&error))?;
        let body = FileBody::part(file, part.offset, part.bytes).await;
        let body = body.map_err(|error| failed(&error))?;
        let body = Payload { body, bytes: part.bytes, sha256: Some(part.sha256.clone()) };
        let mut answer = self.api.call(Ask { method: Method::PUT, blob, query, body }).await?;
        match self.api.answered(&mut answer).await? {
            Some(_) => Ok(answer),
            None => Err(MediaError::Failed("S3 has forgotten the upload".to_owned())),
        }
    }

    async fn post(
        &self,
        blob: &str,
        query: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Bytes, MediaError> {
        let bytes = body.len() as u64;
        let sha256 = Some(hex::encode(Sha256::digest(&body)));
        let body = Payload { body: FileBody::bytes(body), bytes, sha256 };
        let mut answer = self.api.call(Ask { method: Method::POST, blob, query, body }).await?;
        let body = self.api.answered(&mut answer).await?;
        body.ok_or_else(|| MediaError::Failed("S3 has forgotten the upload".to_owned()))
    }
}

async fn hash_of_part(file: &Path, offset: u64, bytes: u64) -> Result<String, MediaError> {
    let file = file.to_owned();
    let hash = move || blob::part(&file, offset, bytes).and_then(|mut part| blob::hash(&mut part));
    blocking(move || hash().map_err(|error| failed(&error))).await
}

fn odd(what: &str) -> MediaError {
    MediaError::Failed(format!("S3 {what}"))
}
