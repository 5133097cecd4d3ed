//! Daily: rooms, who is in them, where its events go, and what was recorded.
//!
//! Invariants:
//! - No more is asked than Daily allows, in any stretch of time; who must wait stands in line, those
//!   whom an event has sent before those whom the timer has.
//! - An answer is read whole or not at all. Nothing that went wrong reads as an empty room, and only
//!   Daily's own words say that a room is gone.
//! - The key is in no log and no error.

mod api;
mod limiter;
mod options;
mod recordings;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use hyper::Method;
use roundsman_core::daily::{read_domain_presence, read_room_presence};
use roundsman_core::ports::{
    Clock, CreatedRoom, NewRoom, NewRoomToken, NewSubscription, RoomsError, Subscription, Urgency,
    VideoRooms,
};
use roundsman_core::presence::{DomainLook, Participant, RoomName};

use crate::media::S3Bucket;
use api::{Api, Ask, DOMAIN_ANSWER_BYTES_MAX};
use limiter::Class;
pub use options::{DailyLimits, DailyOptions, InvalidDailyOptions, Rate};

/// Asks Daily.
pub struct DailyClient {
    api: Api,
    clock: Arc<dyn Clock>,
    has_track_links: bool,
    tracks: Option<S3Bucket>,
}

impl DailyClient {
    pub fn new(options: &DailyOptions, clock: Arc<dyn Clock>) -> Result<Self, InvalidDailyOptions> {
        let api = Api::new(options, clock.clone())?;
        let tracks = options.tracks.as_ref().map(|bucket| S3Bucket::new(bucket, clock.clone()));
        let tracks = tracks.transpose().map_err(InvalidDailyOptions::Tracks)?;
        Ok(DailyClient { api, clock, has_track_links: options.has_track_links, tracks })
    }

    /// Ends a subscription; `false` if there is none.
    pub async fn unsubscribe(&self, id: &str) -> Result<bool, RoomsError> {
        self.delete(&["webhooks", id], Class::Most).await
    }

    /// How many calls wait for their turn.
    pub fn waiting(&self) -> usize {
        self.api.limiter.waiting()
    }

    /// Lets those who wait look at the clock again. Nobody needs to be told of time that passes by
    /// itself; one who moves a clock by hand does this.
    pub fn recheck(&self) {
        self.api.limiter.recheck();
    }

    async fn delete(&self, path: &[&str], class: Class) -> Result<bool, RoomsError> {
        let ask = Ask { class, ..Ask::new(Method::DELETE, path, Urgency::Routine) };
        match self.api.ask(ask).await {
            Ok(body) => wire::is_deleted(&body),
            Err(RoomsError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl VideoRooms for DailyClient {
    async fn room_presence(
        &self,
        room: &RoomName,
        urgency: Urgency,
    ) -> Result<Vec<Participant>, RoomsError> {
        let path = ["rooms", room.as_str(), "presence"];
        let body = self.api.ask(Ask::new(Method::GET, &path, urgency)).await?;
        Ok(read_room_presence(&body, self.clock.now())?)
    }

    async fn domain_presence(&self) -> Result<DomainLook, RoomsError> {
        let ask = Ask::new(Method::GET, &["presence"], Urgency::Routine);
        let answer_bytes_max = DOMAIN_ANSWER_BYTES_MAX;
        let body = self.api.ask(Ask { answer_bytes_max, ..ask }).await?;
        Ok(read_domain_presence(&body, self.clock.now())?)
    }

    async fn create_room(&self, room: NewRoom) -> Result<CreatedRoom, RoomsError> {
        let ask = Ask::new(Method::POST, &["rooms"], Urgency::Event);
        let body = self.api.ask(Ask { body: Some(wire::new_room(&room)), ..ask }).await?;
        wire::created_room(&body)
    }

    async fn delete_room(&self, room: &RoomName) -> Result<bool, RoomsError> {
        self.delete(&["rooms", room.as_str()], Class::Scarce).await
    }

    async fn meeting_token(&self, token: NewRoomToken) -> Result<String, RoomsError> {
        let ask = Ask::new(Method::POST, &["meeting-tokens"], Urgency::Event);
        let body = self.api.ask(Ask { body: Some(wire::new_token(&token)), ..ask }).await?;
        wire::token(&body)
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, RoomsError> {
        let body = self.api.ask(Ask::new(Method::GET, &["webhooks"], Urgency::Routine)).await?;
        wire::subscriptions(&body)
    }

    async fn subscribe(&self, wish: NewSubscription) -> Result<Subscription, RoomsError> {
        let ask = Ask::new(Method::POST, &["webhooks"], Urgency::Routine);
        let body = self.api.ask(Ask { body: Some(wire::new_subscription(&wish)), ..ask }).await?;
        wire::subscription(&wire::object(&body)?)
    }

    async fn renew_subscription(
        &self,
        id: &str,
        wish: NewSubscription,
    ) -> Result<Subscription, RoomsError> {
        let path = ["webhooks", id];
        let ask = Ask::new(Method::POST, &path, Urgency::Routine);
        let body = self.api.ask(Ask { body: Some(wire::new_subscription(&wish)), ..ask }).await?;
        wire::subscription(&wire::object(&body)?)
    }
}
