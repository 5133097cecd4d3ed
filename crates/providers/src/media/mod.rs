//! Files of recordings: getting them, and keeping them by their content.
//!
//! - [`HttpMediaFetcher`] downloads from addresses that the provider named.
//! - [`FolderMediaStore`] and [`S3MediaStore`] keep files; both pass one suite.
//!
//! Invariants:
//! - A blob is named after the SHA-256 of what is in it, and is there whole or not at all.
//! - What is given out has been compared with its name.
//! - Addresses that the provider named carry signatures: they appear in no log and no error.

mod blob;
#[cfg(feature = "conformance")]
pub mod conformance;
mod fetch;
mod folder;
mod s3;

use std::io;

use roundsman_core::ports::MediaError;

pub(crate) use fetch::Source;
pub use fetch::{FetchLimits, HttpMediaFetcher};
pub use folder::FolderMediaStore;
pub use s3::{InvalidS3Options, S3Bucket, S3MediaStore, S3Options};

/// The certificates to trust cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCertificates(String);

/// A file could not be read or written; another time it may.
fn failed(error: &io::Error) -> MediaError {
    match error.kind() {
        io::ErrorKind::NotFound => MediaError::NotFound,
        _ => MediaError::Failed(error.to_string()),
    }
}

/// Runs what would keep others waiting on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MediaError> + Send + 'static,
) -> Result<T, MediaError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(MediaError::Failed(error.to_string())))
}
