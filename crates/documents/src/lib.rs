//! Shared documents: what Loro can do, in the words of rooms, and the frames of its protocol.
//!
//! Invariants: this is the only crate that knows Loro; nothing here does I/O or reads a clock, and who
//! writes under which name (the peer) is said by the caller. All calls are work for a processor, of
//! milliseconds and sometimes seconds: callers keep them away from threads that serve others.

mod completion;
mod document;
mod history;
mod json;
mod patch;
mod presence;
pub mod protocol;
mod stored;

pub use document::{Document, ImportError, Imported, LoadError, UnknownVersion};
pub use json::{apply_merge_patch, merge_patch_between};
pub use patch::{PATCHED_MAPS, PatchError};
pub use presence::{InvalidPresence, KeptError, PresenceState, keep_presence};
