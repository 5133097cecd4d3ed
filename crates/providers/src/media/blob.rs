//! How blobs are named, and whether they are what their names say.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use roundsman_core::ports::MediaError;
use sha2::{Digest, Sha256};

/// What is read or written at once.
const BUFFER_BYTES: usize = 256 * 1024;
const HASH_CHARS: usize = 64;

/// The name of a content: `blobs/ab/cdef…`.
pub(super) fn name_of(sha256: &str) -> Result<String, MediaError> {
    if !is_hash(sha256) {
        return Err(MediaError::Refused("that is no SHA-256 in hexadecimal".to_owned()));
    }
    let (first, rest) = sha256.split_at(2);
    Ok(format!("blobs/{first}/{rest}"))
}

/// The content of a name; `None` for a name that was not given here, wherever it would lead.
pub(super) fn hash_of(blob: &str) -> Option<String> {
    let (first, rest) = blob.strip_prefix("blobs/")?.split_once('/')?;
    let hash = format!("{first}{rest}");
    (first.len() == 2 && is_hash(&hash)).then_some(hash)
}

fn is_hash(text: &str) -> bool {
    text.len() == HASH_CHARS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The hash of what is read.
pub(super) fn hash(from: &mut impl Read) -> io::Result<String> {
    copy(from, &mut io::sink())
}

/// Copies, and returns the hash of what was copied.
pub(super) fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(hex::encode(hasher.finalize())),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
    }
}

/// A part of a file.
pub(super) fn part(path: &Path, offset: u64, bytes: u64) -> io::Result<io::Take<File>> {
    use std::io::Seek;
    let mut file = File::open(path)?;
    file.seek(io::SeekFrom::Start(offset))?;
    Ok(file.take(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hashes_and_nothing_else() {
        let hash = "ab".repeat(32);
        let name = name_of(&hash).unwrap();
        assert_eq!(name, format!("blobs/ab/{}", "ab".repeat(31)));
        assert_eq!(hash_of(&name), Some(hash.clone()));
        for bad in ["", "ab", &"AB".repeat(32), &"../".repeat(22)[..64]] {
            assert!(name_of(bad).is_err(), "{bad}");
        }
        let rest = &name["blobs/ab/".len()..];
        for bad in [
            String::new(),
            hash,
            format!("/{name}"),
            format!("blobs/../{rest}"),
            format!("blobs/a/b{rest}"),
            format!("{name}/"),
            "blobs/../../../../etc/passwd".to_owned(),
        ] {
            assert_eq!(hash_of(&bad), None, "{bad}");
        }
    }
}
