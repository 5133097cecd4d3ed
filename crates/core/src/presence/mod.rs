//! People in video rooms: what a look at a room says, what its events add, and when a meeting is
//! over.
//!
//! Invariants: events only ask for a look; one look at a time writes, under its lease; see
//! [`reconcile()`] for what it may write.

mod domain;
mod hint;
mod meeting;
mod process;
mod reconcile;
mod rules;
#[cfg(test)]
mod samples;
mod session;
mod work;

pub use domain::DomainLook;
pub use hint::{Hint, HintKind, read_hints, write_hints};
pub use meeting::{
    DAILY, EndReason, InvalidRoomName, Looks, NewPresenceMeeting, PresenceMeeting, PresenceStatus,
    ROOM_NAME_BYTES_MAX, RoomName, Schedule,
};
pub use process::{Verdict, judge};
pub use reconcile::{Look, LookPlan, LookReport, LookTally, end_meeting, reconcile};
pub use rules::{PresenceRules, VANISHED_AT_ONCE_FLAGGED};
pub use session::{
    Closed, ClosedBy, NAME_BYTES_MAX, Participant, PresenceSession, SESSION_ID_BYTES_MAX,
    is_session_id, kept_name,
};
pub use work::{
    JUDGE_KIND, POLL_KIND, PROCESS_KIND, RECONCILE_KIND, SUBSCRIPTION_KIND, judge_wish,
    opening_effects, poll_wish,
};
