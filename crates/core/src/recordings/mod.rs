//! Recordings of rooms: each is announced any number of times and processed once.
//!
//! Invariants: a recording is one row by the provider's id; what was announced twice is noticed by
//! its state, whoever holds what lease; media and transcript belong to the meeting that was nearest
//! in time.

mod announce;
mod change;
mod matching;
mod recording;
mod spoken;
mod track;
mod work;

pub use announce::{Announced, Announcement, Via, announce};
pub use change::{
    Changed, RECORDING_ENTITY, abandon, begin, erase, fail, finish, forget, keep, retry,
};
pub use matching::{MATCH_WITHIN, nearest};
pub use recording::{
    Consent, Media, RECORDING_ID_BYTES_MAX, Recording, RecordingId, RecordingKind, RecordingStatus,
};
pub use spoken::{HeardSegment, HeardTrack, SpokenSegment, merge_tracks, session_uid};
pub use track::{Track, TrackMedium, TrackName, parse_track_name};
pub use work::{ERASE_KIND, POLL_KIND, PROCESS_KIND, RETRY_KIND, erase_wish, process_wish};
