//! What Daily sends: how its events are signed, and what its events and answers say.
//!
//! Invariants: whatever comes is read without a panic. An event that cannot be understood is odd and
//! keeps its name, so that it can be acknowledged and looked at. An answer is read whole or not at
//! all: nothing that went wrong reads as an empty room.

mod event;
mod loose;
mod presence;
mod recording;
mod signature;

pub use event::{Delivery, EVENT_ID_BYTES_MAX, Event, SUBSCRIBED_EVENTS, read_delivery};
pub use presence::{read_domain_presence, read_room_presence};
pub use recording::{Listed, ListedPage, read_listed, read_recordings_page};
pub use signature::{
    InvalidWebhookSecret, REPLAY_WINDOW_DEFAULT, SignatureHeaders, Unverified, WebhookSecret,
    verify,
};

use crate::ports::RoomsError;

/// Why something cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Odd(String);

impl From<Odd> for RoomsError {
    fn from(odd: Odd) -> Self {
        RoomsError::Odd(odd.0)
    }
}

impl Odd {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Odd(reason.into())
    }
}
