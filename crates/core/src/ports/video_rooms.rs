//! The provider of video rooms.

use std::time::Duration;

use async_trait::async_trait;

use crate::Timestamp;
use crate::presence::{DomainLook, Participant, RoomName};

/// Asks and tells the provider. Every call is bounded in time and counts against the provider's
/// limits; who must wait for those waits here, those of the more urgent sort first.
#[async_trait]
pub trait VideoRooms: Send + Sync {
    /// Who is in a room. An answer that is not whole is none.
    async fn room_presence(
        &self,
        room: &RoomName,
        urgency: Urgency,
    ) -> Result<Vec<Participant>, RoomsError>;

    /// Who is in any room. Up to the provider's lag old. Odd entries are left out together with their
    /// whole room, so that it is looked at by itself.
    async fn domain_presence(&self) -> Result<DomainLook, RoomsError>;

    async fn create_room(&self, room: NewRoom) -> Result<CreatedRoom, RoomsError>;

    /// `false` if there is none.
    async fn delete_room(&self, room: &RoomName) -> Result<bool, RoomsError>;

    /// A token with which one person may join.
    async fn meeting_token(&self, token: NewRoomToken) -> Result<String, RoomsError>;

    /// Where the provider sends its events.
    async fn subscriptions(&self) -> Result<Vec<Subscription>, RoomsError>;

    async fn subscribe(&self, wish: NewSubscription) -> Result<Subscription, RoomsError>;

    /// Switches a subscription on again, or changes what it says.
    async fn renew_subscription(
        &self,
        id: &str,
        wish: NewSubscription,
    ) -> Result<Subscription, RoomsError>;
}

/// Whose call waits longer when the limits are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// The timer's.
    Routine,
    /// An event's.
    Event,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoomsError {
    #[error("the provider has no such thing")]
    NotFound,
    #[error("the provider asks for patience")]
    RateLimited { after: Option<Duration> },
    /// Repeating it will not help: a wrong key, a wrong request.
    #[error("the provider refuses: {0}")]
    Refused(String),
    #[error("the provider does not answer: {0}")]
    Unavailable(String),
    #[error("the provider's answer cannot be understood: {0}")]
    Odd(String),
    /// No key was configured.
    #[error("no provider is configured")]
    NotConfigured,
}

/// A room to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRoom {
    /// `None`: the provider chooses.
    pub name: Option<RoomName>,
    pub is_private: bool,
    /// Nobody joins after this.
    pub expires_at: Option<Timestamp>,
    /// `cloud`, `raw-tracks` or the like, as the provider calls it.
    pub recording: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedRoom {
    pub name: RoomName,
    pub url: String,
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRoomToken {
    pub room: RoomName,
    pub user_id: Option<String>,
    pub user_name: Option<String>,
    pub is_owner: bool,
    pub expires_at: Option<Timestamp>,
}

/// Where events are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub id: String,
    pub url: String,
    /// As the provider calls it; `ACTIVE` is the good one.
    pub state: String,
    pub event_types: Vec<String>,
}

impl Subscription {
    pub fn is_active(&self) -> bool {
        self.state.eq_ignore_ascii_case("active")
    }
}

/// A subscription to be made.
#[derive(Clone, PartialEq, Eq)]
pub struct NewSubscription {
    pub url: String,
    pub event_types: Vec<String>,
    /// What its events are signed with, in base64.
    pub secret: String,
}

impl std::fmt::Debug for NewSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewSubscription").field("url", &self.url).finish_non_exhaustive()
    }
}
