//! Stands where nobody was configured, and says so.

use async_trait::async_trait;
use roundsman_core::ports::{
    CreatedRoom, NewRoom, NewRoomToken, NewSubscription, RecordingsPage, RoomsError, Subscription,
    Urgency, VideoRecordings, VideoRooms,
};
use roundsman_core::presence::{DomainLook, Participant, RoomName};
use roundsman_core::recordings::{RecordingId, Track};

/// No provider of rooms.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRooms;

#[async_trait]
impl VideoRooms for NoRooms {
    async fn room_presence(
        &self,
        _: &RoomName,
        _: Urgency,
    ) -> Result<Vec<Participant>, RoomsError> {
        Err(RoomsError::NotConfigured)
    }

    async fn domain_presence(&self) -> Result<DomainLook, RoomsError> {
        Err(RoomsError::NotConfigured)
    }

    async fn create_room(&self, _: NewRoom) -> Result<CreatedRoom, RoomsError> {
        Err(RoomsError::NotConfigured)
    }

    async fn delete_room(&self, _: &RoomName) -> Result<bool, RoomsError> {
        Err(RoomsError::NotConfigured)
    }

    async fn meeting_token(&self, _: NewRoomToken) -> Result<String, RoomsError> {
        Err(RoomsError::NotConfigured)
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, RoomsError> {
        Err(RoomsError::NotConfigured)
    }

    async fn subscribe(&self, _: NewSubscription) -> Result<Subscription, RoomsError> {
        Err(RoomsError::NotConfigured)
    }

    async fn renew_subscription(
        &self,
        _: &str,
        _: NewSubscription,
    ) -> Result<Subscription, RoomsError> {
        Err(RoomsError::NotConfigured)
    }
}

#[async_trait]
impl VideoRecordings for NoRooms {
    async fn recordings_page(&self, _: Option<&str>) -> Result<RecordingsPage, RoomsError> {
        Err(RoomsError::NotConfigured)
    }

    async fn access_link(&self, _: &RecordingId, _: Option<&Track>) -> Result<String, RoomsError> {
        Err(RoomsError::NotConfigured)
    }

    async fn delete_recording(&self, _: &RecordingId) -> Result<bool, RoomsError> {
        Err(RoomsError::NotConfigured)
    }
}
