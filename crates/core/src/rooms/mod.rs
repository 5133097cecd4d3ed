//! Rooms: one shared document per project, kept as a log of updates behind a snapshot.
//!
//! Invariants: a project belongs to the user who first names it; the updates of a room are numbered
//! without a gap, and a number is given in the transaction that stores the update; what is in the
//! snapshot is what the log held up to `snapshot_seq`, so either may be lost from memory at any time.

mod append;
mod completion;
mod mode;
mod project;
mod room;
mod token;
mod update;
mod work;

pub use append::{AppendRules, DocumentFull, append, compacted, snapshot_due};
pub use completion::{TaskCompletion, TaskOutcome};
pub use mode::{AlarmType, alarm_type};
pub use project::{InvalidProject, PROJECT_BYTES_MAX, ProjectId};
pub use room::{Room, RoomVersion};
pub use token::{
    Permission, ROOM_TOKEN_PREFIX, RoomToken, RoomTokenId, RoomTokenSecret, RoomTokenWish,
    TokenState, UnknownPermission, looks_like_room_token,
};
pub use update::{AppendedUpdate, NewUpdate, StoredUpdate, UpdateOrigin};
pub use work::{SNAPSHOT_KIND, snapshot_wish};
