//! Getting and keeping files.

mod fetch;
mod folder;
mod s3;

use sha2::{Digest, Sha256};

fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// Bytes that differ from one place to the next.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..bytes).map(next).collect()
}
