//! What a disk holds after the power failed.

use std::path::Path;

use anyhow::Result;
use roundsman_core::ports::Random;
use roundsman_testkit::SeededRandom;

use super::trace::{Change, FILES, Instant, Sync, Trace, Write};

/// What is written wholly or not at all.
const SECTOR_BYTES: usize = 512;

/// Writes the files into `folder` as a loss of power at `at` leaves them.
pub(super) fn after_loss(
    trace: &Trace,
    at: Instant,
    random: &SeededRandom,
    folder: &Path,
) -> Result<()> {
    let mut files: [Vec<u8>; FILES.len()] = Default::default();
    for write in trace.writes.iter().filter(|write| write.began < at) {
        let file = &mut files[write.file];
        // What nobody waited for may be there, or not, or in part.
        match if is_synchronised(&trace.syncs, write, at) { 0 } else { random.below(3) } {
            0 => apply(file, &write.change),
            1 => {}
            _ => apply(file, &some_sectors(&write.change, random)?),
        }
    }
    for (name, bytes) in FILES.iter().zip(files) {
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

/// Changes the bytes of a file, or its length.
pub(super) fn apply(file: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => file.resize(*length, 0),
        Change::Bytes { bytes, .. } if bytes.is_empty() => {}
        Change::Bytes { offset, bytes } => {
            let end = offset + bytes.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[*offset..end].copy_from_slice(bytes);
        }
    }
}

fn is_synchronised(syncs: &[Sync], write: &Write, at: Instant) -> bool {
    let covers =
        |sync: &Sync| sync.file == write.file && sync.began >= write.ended && sync.ended <= at;
    syncs.iter().any(covers)
}

/// A write of which only the first sectors came through.
fn some_sectors(change: &Change, random: &SeededRandom) -> Result<Change> {
    let (offset, bytes) = match change {
        Change::Length(length) => return Ok(Change::Length(*length)),
        Change::Bytes { offset, bytes } => (*offset, bytes),
    };
    let (first, end) = (offset / SECTOR_BYTES, (offset + bytes.len()) / SECTOR_BYTES);
    let sectors = random.below(u64::try_from(end - first + 1)?);
    let last = (first + usize::try_from(sectors)?) * SECTOR_BYTES;
    let survive = last.saturating_sub(offset).min(bytes.len());
    Ok(Change::Bytes { offset, bytes: bytes[..survive].to_vec() })
}
