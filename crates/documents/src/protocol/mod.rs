//! The frames of loro-protocol v1, as the published clients send and expect them.
//!
//! A frame is four letters for the sort of document, the room, the sort of message and what it says.
//! One connection carries the frames of many rooms. Texts `ping` and `pong` keep it alive beside them.

mod assembly;
mod frame;
mod read;
mod write;

pub use assembly::{Assemblies, AssemblyLimits, BatchKey, Piece};
pub use frame::{
    AckStatus, BatchId, Crdt, Frame, JoinErrorCode, JoinRefusal, Message, RoomErrorCode,
};
pub use read::DecodeError;
pub use write::{FRAGMENT_BYTES, update_frames};

/// A frame is at most this long, on either side.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
/// The name of a room is at most this long.
pub const ROOM_BYTES_MAX: usize = 128;
/// Half of a batch that is not followed by the rest is given up after this time, in seconds.
pub const FRAGMENT_TIMEOUT_SECS: u64 = 10;
