//! Rooms at run time: documents in memory while somebody is in them, and the one way in which they
//! change.
//!
//! Invariants: an update is acknowledged when it is in the log and not before; what is in memory is a
//! copy that may be dropped at any moment, and is dropped when it may differ from the log; the bus only
//! brings sooner what the log has anyway; presence is told, and stored only if whoever tells it asks for
//! it. Work on documents runs on blocking threads, a few at a time.

mod access;
mod applied;
mod history;
mod kept;
mod limits;
mod mailbox;
mod message;
mod names;
mod registry;
mod replica;
mod service;
mod snapshot;
mod telling;
mod tokens;
mod workshop;
mod write;
mod writers;

pub use access::{Access, AccessDenied, AccessSource, Naming, Standing};
pub use history::{VersionDiff, VersionPage};
pub use limits::RoomLimits;
pub use mailbox::{Mail, Mailbox};
pub use registry::{JoinError, Joined, Membership};
pub use service::{Rooms, RoomsDeps};
pub use snapshot::{room_specs, snapshot_spec};
pub use tokens::{IssuedRoomToken, TOKEN_SECS_MAX, TOKEN_SECS_MIN};
pub use write::{Pending, WriteError};
