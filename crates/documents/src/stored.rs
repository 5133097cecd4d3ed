//! How a snapshot is kept: Loro's own, and beside it the updates that wait for others.
//!
//! Loro leaves out of a snapshot what it has received and cannot apply yet because something before it
//! is missing. That was acknowledged, so it is kept too.

use bytes::{BufMut, Bytes, BytesMut};

/// The first byte, so that another form can be told from this one.
const FORM: u8 = 1;

/// The parts of a stored snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) snapshot: &'a [u8],
    /// Empty if nothing waits.
    pub(crate) waiting: &'a [u8],
}

pub(crate) fn write(parts: Parts<'_>) -> Bytes {
    let mut bytes = BytesMut::with_capacity(9 + parts.snapshot.len() + parts.waiting.len());
    bytes.put_u8(FORM);
    bytes.put_u64(parts.snapshot.len() as u64);
    bytes.put_slice(parts.snapshot);
    bytes.put_slice(parts.waiting);
    bytes.freeze()
}

pub(crate) fn read(bytes: &[u8]) -> Result<Parts<'_>, &'static str> {
    let (form, rest) = bytes.split_first().ok_or("the snapshot is empty")?;
    if *form != FORM {
        return Err("the snapshot has a form that this release does not know");
    }
    let (length, rest) = rest.split_first_chunk::<8>().ok_or("the snapshot is cut off")?;
    let length = usize::try_from(u64::from_be_bytes(*length)).map_err(|_| "too large")?;
    let (snapshot, waiting) = rest.split_at_checked(length).ok_or("the snapshot is cut off")?;
    Ok(Parts { snapshot, waiting })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_read_back_and_damage_is_seen() {
        for (snapshot, waiting) in [(&b"abc"[..], &b""[..]), (b"", b"x"), (b"abc", b"de")] {
            let parts = Parts { snapshot, waiting };
            assert_eq!(read(&write(parts)), Ok(parts));
        }
        let whole = write(Parts { snapshot: b"abcdef", waiting: b"" });
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "{cut}");
        }
        let mut other = whole.to_vec();
        other[0] = 2;
        assert!(read(&other).is_err());
    }
}
