//! A file as far as it was downloaded, and what its source is known by.
//!
//! Invariant: as much of the file as the mark beside it says is on the disk and came from the source
//! that the mark describes. What is beyond that may be anything after a power failure, and is
//! downloaded again; a file without a mark is begun anew.

use std::io;
use std::path::{Path, PathBuf};

use roundsman_core::ports::Fetched;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BUFFER_BYTES: usize = 256 * 1024;
/// After so much it is made sure that it is on the disk.
const SAFE_EVERY_BYTES: u64 = 32 * 1024 * 1024;

/// What a source is known by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// A strong one.
    pub(super) etag: Option<String>,
    pub(super) bytes_total: Option<u64>,
    /// How much of it is on the disk.
    #[serde(default)]
    bytes_safe: u64,
}

impl Mark {
    pub(super) fn new(etag: Option<String>, bytes_total: Option<u64>) -> Self {
        Mark { etag, bytes_total, bytes_safe: 0 }
    }

    /// Whether a later answer of a source with this mark would be of the same content.
    pub(super) fn can_resume(&self) -> bool {
        self.etag.is_some() || self.bytes_total.is_some()
    }
}

pub(super) struct Partial {
    file: File,
    mark_path: PathBuf,
    mark: Mark,
    hasher: Sha256,
    bytes: u64,
}

impl Partial {
    /// What is there already, or nothing.
    pub(super) async fn open(path: &Path) -> io::Result<Self> {
        let mut mark_path = path.as_os_str().to_owned();
        mark_path.push(".mark");
        let mark_path = PathBuf::from(mark_path);
        let mark: Mark = match fs::read(&mark_path).await {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Mark::default(),
            Err(error) => return Err(error),
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).await?;
        let mut partial = Partial { file, mark_path, mark, hasher: Sha256::new(), bytes: 0 };
        partial.take_up().await?;
        Ok(partial)
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// How much of it is there.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins anew with a source.
    pub(super) async fn begin(&mut self, mark: Mark) -> io::Result<()> {
        // What is there must not be taken for a part of what the mark describes.
        self.file.set_len(0).await?;
        self.file.sync_data().await?;
        self.read_from_the_start().await?;
        self.mark = mark;
        self.write_mark().await
    }

    pub(super) async fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece).await?;
        self.hasher.update(piece);
        self.bytes += piece.len() as u64;
        if self.bytes - self.mark.bytes_safe >= SAFE_EVERY_BYTES {
            self.make_safe().await?;
        }
        Ok(())
    }

    /// Makes sure that all that was written is on the disk.
    pub(super) async fn make_safe(&mut self) -> io::Result<()> {
        self.file.flush().await?;
        self.file.sync_data().await?;
        self.mark.bytes_safe = self.bytes;
        self.write_mark().await
    }

    pub(super) fn fetched(&self) -> Fetched {
        Fetched { bytes: self.bytes, sha256: hex::encode(self.hasher.clone().finalize()) }
    }

    /// Hashes what is there and goes to its end.
    async fn take_up(&mut self) -> io::Result<()> {
        let length = self.file.metadata().await?.len();
        // The last byte is always asked for: the answer shows that the source is still the same.
        let safe = length.min(self.mark.bytes_safe);
        let known = match self.mark.bytes_total {
            Some(total) => safe.min(total.saturating_sub(1)),
            None => safe,
        };
        let usable = if self.mark.can_resume() { known } else { 0 };
        self.file.set_len(usable).await?;
        self.mark.bytes_safe = usable;
        self.read_from_the_start().await
    }

    async fn write_mark(&self) -> io::Result<()> {
        // One that is torn cannot be read, and means a new beginning.
        fs::write(&self.mark_path, serde_json::to_vec(&self.mark).unwrap_or_default()).await
    }

    async fn read_from_the_start(&mut self) -> io::Result<()> {
        use tokio::io::AsyncSeekExt;
        self.file.rewind().await?;
        (self.hasher, self.bytes) = (Sha256::new(), 0);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = self.file.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            self.hasher.update(&buffer[..read]);
            self.bytes += read as u64;
        }
    }
}
