//! Telling users' own endpoints what happened.
//!
//! Invariants: an event is written with the change it tells of, or not at all; its id never
//! changes, however often it is sent; sending is tried for a day.

mod delivery;
mod endpoint;
mod event;
mod signature;

pub use delivery::{Delivery, DeliveryState, GIVE_UP_AFTER, Verdict, judge, retry_delay};
pub use endpoint::{Endpoint, EndpointChange, InvalidEndpoint, check_url};
pub use event::{DELIVER_KIND, EVENT_TYPES, StoredEvent, WebhookEvent, deliver_wish, event_id};
pub use signature::{InvalidSecret, SigningSecret};
