//! Presence at run time: what becomes of the provider's events, the jobs that look at rooms, compare
//! them with the record, end meetings and keep the events coming, and the service that users call.
//!
//! Invariants: an event writes nothing, it asks for a look; who is in a meeting is written by the
//! look that holds the meeting's lease and by nobody else; whatever an event, a node or the memory of
//! one loses, the comparison every half minute finds.

mod intake;
mod limits;
mod poll;
mod process;
mod reconcile;
mod service;
mod subscription;
mod wish;
mod work;

pub use intake::{HearAnswer, Heard, Intake, IntakeOptions, Matter};
pub use limits::PresenceLimits;
pub use poll::poll_spec;
pub use process::{ProcessRound, Processor, judge_spec, process_spec};
pub use reconcile::{Reconciled, Reconciler, reconcile_spec};
pub use service::{
    JOINED_LOOK_AFTER, JOINING_FOR, LEFT_LOOK_AFTER, MeetingExport, MeetingView, Presence,
    PresenceDeps, Timeline, TimelineEntry, TimelineWhat,
};
pub use subscription::{SubscriptionState, Subscriptions, subscription_spec};
pub use wish::{MeetingWish, PresenceError, RoomWish, TokenWish};
pub use work::{PresenceOptions, PresenceWork, presence_specs, presence_wishes};
