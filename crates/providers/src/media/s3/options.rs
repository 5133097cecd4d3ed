//! What an operator chooses about S3.

use std::time::Duration;

use secrecy::SecretString;

/// The smallest part that S3 takes, but for the last.
const PART_BYTES_MIN: u64 = 5 * 1024 * 1024;

/// Where blobs are kept, and as whom. Not `Debug`: it holds secrets.
#[derive(Clone)]
pub struct S3Options {
    /// `https://s3.eu-west-1.amazonaws.com`, `http://minio:9000`: without the bucket.
    pub endpoint: String,
    pub region: String,
    pub bucket: String,
    /// Before the names of blobs, with a slash after it if it is a folder.
    pub prefix: String,
    pub access_key: String,
    pub secret_key: SecretString,
    /// For credentials that were lent.
    pub session_token: Option<SecretString>,
    /// The bucket is named in the path; otherwise before the host.
    pub is_path_style: bool,
    /// Certificates to trust beside the system's, as PEM.
    pub ca_pem: Option<String>,
    /// A longer file is sent in parts of this size.
    pub part_bytes: u64,
    /// For an answer, beside the time that sending takes.
    pub answer_max: Duration,
    /// Slower than this is too slow.
    pub bytes_per_sec_min: u64,
}

impl S3Options {
    pub fn new(
        endpoint: String,
        region: String,
        bucket: String,
        access_key: String,
        secret_key: SecretString,
    ) -> Self {
        S3Options {
            endpoint,
            region,
            bucket,
            prefix: String::new(),
            access_key,
            secret_key,
            session_token: None,
            is_path_style: true,
            ca_pem: None,
            part_bytes: 64 * 1024 * 1024,
            answer_max: Duration::from_secs(30),
            bytes_per_sec_min: 64 * 1024,
        }
    }

    pub(super) fn check(&self) -> Result<(), InvalidS3Options> {
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        if self.bucket.is_empty() || self.bucket.contains('/') || !plain(&self.bucket) {
            return Err(InvalidS3Options::Bucket);
        }
        if self.region.is_empty() || self.access_key.is_empty() {
            return Err(InvalidS3Options::Missing);
        }
        if self.part_bytes < PART_BYTES_MIN {
            return Err(InvalidS3Options::PartBytes);
        }
        Ok(())
    }
}

/// Why S3 cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidS3Options {
    #[error("an S3-compatible store is named by http://host:port or https://host, without a path")]
    Endpoint,
    #[error("a bucket needs a name without slashes")]
    Bucket,
    #[error("an S3-compatible store needs a region and an access key")]
    Missing,
    #[error("S3 takes no parts smaller than {PART_BYTES_MIN} bytes")]
    PartBytes,
    #[error("{0}")]
    Tls(String),
}
