//! What must hold for whatever a client of rooms sends: an input is one frame, or an update of a
//! document.

use std::time::Duration;

use bytes::Bytes;
use roundsman_documents::Document;
use roundsman_documents::protocol::{
    Assemblies, AssemblyLimits, BatchKey, FRAME_BYTES_MAX, Frame, Message, Piece, ROOM_BYTES_MAX,
};

const LIMITS: AssemblyLimits = AssemblyLimits {
    batch_bytes_max: 1 << 20,
    fragments_max: 64,
    batches_max: 2,
    timeout: Duration::from_secs(10),
};

/// Panics if something does not hold.
pub(crate) fn check(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(frame) = Frame::decode(bytes) {
        assert!(frame.room.len() <= ROOM_BYTES_MAX);
        let again = frame.encode();
        assert!(again.len() <= FRAME_BYTES_MAX + 16, "it grows by the longer form of numbers only");
        if again.len() <= FRAME_BYTES_MAX {
            assert_eq!(Frame::decode(again).as_ref(), Ok(&frame));
        }
        check_pieces(&frame);
    }
    check_update(data);
}

/// However a batch is announced, what is kept of it is bounded.
fn check_pieces(frame: &Frame) {
    let mut all = Assemblies::new(LIMITS);
    let Message::FragmentHeader { batch, fragments, bytes } = frame.message else { return };
    let key = BatchKey { crdt: frame.crdt, room: frame.room.clone(), batch };
    if all.begin(key.clone(), fragments, bytes, Duration::ZERO).is_err() {
        return;
    }
    assert!(bytes <= LIMITS.batch_bytes_max && fragments <= LIMITS.fragments_max);
    let piece = Bytes::from(vec![0; 20_000]);
    for index in 0..fragments {
        if let Piece::Whole(whole) = all.add(&key, index, piece.clone()) {
            assert_eq!(whole.len() as u64, bytes);
        }
    }
}

/// What is no update leaves the document as it was.
fn check_update(data: &[u8]) {
    let mut document = Document::new(1);
    let version = document.version();
    if document.import(data).is_err() {
        assert_eq!(document.version(), version);
    }
    let _ = document.updates_since(data);
}
