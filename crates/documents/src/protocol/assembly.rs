//! Updates that arrive in pieces.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::{AckStatus, BatchId, Crdt};

/// What may be gathered for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssemblyLimits {
    pub batch_bytes_max: u64,
    pub fragments_max: u64,
    pub batches_max: usize,
    /// A batch that is not whole by then is given up.
    pub timeout: Duration,
}

/// Which batch of which room.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchKey {
    pub crdt: Crdt,
    pub room: String,
    pub batch: BatchId,
}

/// The batches of one connection that are not whole yet.
#[derive(Debug)]
pub struct Assemblies {
    limits: AssemblyLimits,
    batches: BTreeMap<BatchKey, Assembly>,
}

#[derive(Debug)]
struct Assembly {
    pieces: BTreeMap<u64, Bytes>,
    fragments: u64,
    bytes: u64,
    bytes_received: u64,
    until: Duration,
}

/// What a piece did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// More are to come.
    Kept,
    /// It was the last one.
    Whole(Bytes),
    /// It is of a batch that was refused or given up, which its sender was told.
    Ignored,
    /// It does not fit what was announced; the batch is given up.
    Refused(AckStatus),
}

impl Assemblies {
    pub fn new(limits: AssemblyLimits) -> Self {
        Assemblies { limits, batches: BTreeMap::new() }
    }

    /// A batch is announced. Times are those of a clock that only runs forward.
    pub fn begin(
        &mut self,
        key: BatchKey,
        fragments: u64,
        bytes: u64,
        now: Duration,
    ) -> Result<(), AckStatus> {
        let limits = &self.limits;
        if bytes > limits.batch_bytes_max || fragments > limits.fragments_max {
            return Err(AckStatus::PayloadTooLarge);
        }
        if fragments == 0 || bytes < fragments {
            return Err(AckStatus::InvalidUpdate);
        }
        if !self.batches.contains_key(&key) && self.batches.len() >= limits.batches_max {
            return Err(AckStatus::RateLimited);
        }
        let assembly = Assembly {
            pieces: BTreeMap::new(),
            fragments,
            bytes,
            bytes_received: 0,
            until: now + limits.timeout,
        };
        self.batches.insert(key, assembly);
        Ok(())
    }

    pub fn add(&mut self, key: &BatchKey, index: u64, piece: Bytes) -> Piece {
        let Some(assembly) = self.batches.get_mut(key) else { return Piece::Ignored };
        let known = assembly.pieces.contains_key(&index);
        let bytes = assembly.bytes_received + piece.len() as u64;
        if index >= assembly.fragments || known || bytes > assembly.bytes {
            self.batches.remove(key);
            return Piece::Refused(AckStatus::InvalidUpdate);
        }
        assembly.bytes_received = bytes;
        assembly.pieces.insert(index, piece);
        if (assembly.pieces.len() as u64) < assembly.fragments {
            return Piece::Kept;
        }
        let Some(assembly) = self.batches.remove(key) else { return Piece::Ignored };
        if assembly.bytes_received != assembly.bytes {
            return Piece::Refused(AckStatus::InvalidUpdate);
        }
        let mut whole = BytesMut::with_capacity(usize::try_from(assembly.bytes).unwrap_or(0));
        assembly.pieces.values().for_each(|piece| whole.extend_from_slice(piece));
        Piece::Whole(whole.freeze())
    }

    /// Gives up what has waited too long.
    pub fn give_up(&mut self, now: Duration) -> Vec<BatchKey> {
        let late = self.batches.iter().filter(|(_, assembly)| assembly.until <= now);
        let late: Vec<BatchKey> = late.map(|(key, _)| key.clone()).collect();
        for key in &late {
            self.batches.remove(key);
        }
        late
    }

    /// Forgets what was gathered for a room.
    pub fn forget(&mut self, crdt: Crdt, room: &str) {
        self.batches.retain(|key, _| key.crdt != crdt || key.room != room);
    }

    /// When [`Assemblies::give_up`] has something to do.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.batches.values().map(|assembly| assembly.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Frame, Message, update_frames};
    use super::*;

    const LIMITS: AssemblyLimits = AssemblyLimits {
        batch_bytes_max: 1_000_000,
        fragments_max: 16,
        batches_max: 2,
        timeout: Duration::from_secs(10),
    };

    fn key(batch: u8) -> BatchKey {
        BatchKey { crdt: Crdt::Loro, room: "p".to_owned(), batch: BatchId([batch; 8]) }
    }

    #[test]
    fn what_was_cut_becomes_whole_in_any_order() {
        let update: Bytes = (0..700_000u32).map(|n| n.to_le_bytes()[0]).collect::<Vec<_>>().into();
        let mut frames = update_frames(Crdt::Loro, "p", &update, BatchId([1; 8]));
        let mut assemblies = Assemblies::new(LIMITS);
        let Message::FragmentHeader { fragments, bytes, .. } =
            Frame::decode(frames.remove(0)).unwrap().message
        else {
            panic!("a header comes first");
        };
        assemblies.begin(key(1), fragments, bytes, Duration::ZERO).unwrap();
        frames.reverse();
        let mut last = Piece::Kept;
        for frame in frames {
            assert_eq!(last, Piece::Kept);
            let Message::Fragment { index, bytes, .. } = Frame::decode(frame).unwrap().message
            else {
                panic!("then fragments");
            };
            last = assemblies.add(&key(1), index, bytes);
        }
        assert_eq!(last, Piece::Whole(update));
        assert_eq!(assemblies.next_timeout(), None);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut all = Assemblies::new(LIMITS);
        let now = Duration::ZERO;
        assert_eq!(all.begin(key(1), 2, 1_000_001, now), Err(AckStatus::PayloadTooLarge));
        assert_eq!(all.begin(key(1), 17, 100, now), Err(AckStatus::PayloadTooLarge));
        assert_eq!(all.begin(key(1), 0, 0, now), Err(AckStatus::InvalidUpdate));
        assert_eq!(all.begin(key(1), 2, 4, now), Ok(()));
        assert_eq!(all.begin(key(2), 2, 4, now), Ok(()));
        assert_eq!(all.begin(key(3), 2, 4, now), Err(AckStatus::RateLimited));
        let two = || Bytes::from_static(b"xx");
        assert_eq!(all.add(&key(1), 2, two()), Piece::Refused(AckStatus::InvalidUpdate));
        assert_eq!(all.add(&key(1), 0, two()), Piece::Ignored);
        assert_eq!(all.add(&key(2), 0, two()), Piece::Kept);
        assert_eq!(all.add(&key(2), 0, two()), Piece::Refused(AckStatus::InvalidUpdate));
        all.begin(key(1), 2, 5, now).unwrap();
        assert_eq!(all.add(&key(1), 0, two()), Piece::Kept);
        assert_eq!(all.add(&key(1), 1, two()), Piece::Refused(AckStatus::InvalidUpdate));
    }

    #[test]
    fn half_a_batch_is_given_up() {
        let mut all = Assemblies::new(LIMITS);
        all.begin(key(1), 2, 4, Duration::from_secs(1)).unwrap();
        all.begin(key(2), 2, 4, Duration::from_secs(3)).unwrap();
        assert_eq!(all.next_timeout(), Some(Duration::from_secs(11)));
        assert_eq!(all.give_up(Duration::from_secs(11)), [key(1)]);
        assert_eq!(all.next_timeout(), Some(Duration::from_secs(13)));
        all.forget(Crdt::Loro, "p");
        assert_eq!(all.next_timeout(), None);
    }
}
