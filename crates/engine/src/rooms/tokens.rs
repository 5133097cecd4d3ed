//! Room tokens: made and ended by the owner of the project.

use std::time::Duration;

use roundsman_core::ports::StoreError;
use roundsman_core::rooms::{
    Permission, ProjectId, RoomToken, RoomTokenId, RoomTokenSecret, RoomTokenWish,
};

use super::message::News;
use super::service::Rooms;
use crate::{Error, FieldError};

/// A token holds at least and at most this long.
pub const TOKEN_SECS_MIN: u64 = 10;
pub const TOKEN_SECS_MAX: u64 = 366 * 24 * 3600;
/// A token's name is at most this long.
const NAME_BYTES_MAX: usize = 200;

/// A token and the only copy of its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedRoomToken {
    pub token: RoomToken,
    /// As its holder sends it.
    pub text: String,
}

impl std::fmt::Debug for IssuedRoomToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedRoomToken").field("token", &self.token).finish_non_exhaustive()
    }
}

impl Rooms {
    pub async fn issue_token(
        &self,
        project: &ProjectId,
        permission: Permission,
        name: Option<String>,
        holds_for: Duration,
    ) -> Result<IssuedRoomToken, Error> {
        check_time(holds_for)?;
        if name
            .as_ref()
            .is_some_and(|name| name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control))
        {
            let message = format!("at most {NAME_BYTES_MAX} bytes without control characters");
            return Err(Error::Invalid(vec![FieldError::new("name", message)]));
        }
        let now = self.clock().now();
        let max = self.limits().tokens_per_room_max;
        if self.store().room_tokens(project.clone(), now, max).await?.len() >= max as usize {
            self.metrics().limit_hit("room_tokens");
            let reason = "the room has too many tokens; revoke some of them first".to_owned();
            return Err(Error::Forbidden { reason });
        }
        let secret = RoomTokenSecret::draw(self.random());
        let wish = RoomTokenWish {
            project: project.clone(),
            permission,
            name,
            hash: secret.hash(),
            expires_at: now + holds_for,
        };
        let token = self.store().create_room_token(wish, now).await?;
        let token = token.ok_or(Error::NotFound { what: "room" })?;
        Ok(IssuedRoomToken { text: secret.reveal(token.id), token })
    }

    /// Tokens that hold, newest first.
    pub async fn tokens(&self, project: &ProjectId) -> Result<Vec<RoomToken>, StoreError> {
        let max = self.limits().tokens_per_room_max;
        self.store().room_tokens(project.clone(), self.clock().now(), max).await
    }

    /// Lets a token hold for so long from now on. Whoever uses it stays connected.
    pub async fn refresh_token(
        &self,
        project: &ProjectId,
        id: RoomTokenId,
        holds_for: Duration,
    ) -> Result<RoomToken, Error> {
        check_time(holds_for)?;
        let until = self.clock().now() + holds_for;
        let token = self.store().extend_room_token(project.clone(), id, until).await?;
        self.tokens_changed(project).await;
        token.ok_or(Error::NotFound { what: "room token" })
    }

    /// Ends a token. Whoever uses it is out of the room at once.
    pub async fn revoke_token(&self, project: &ProjectId, id: RoomTokenId) -> Result<(), Error> {
        let now = self.clock().now();
        if !self.store().revoke_room_token(project.clone(), id, now).await? {
            return Err(Error::NotFound { what: "room token" });
        }
        self.tokens_changed(project).await;
        Ok(())
    }

    async fn tokens_changed(&self, project: &ProjectId) {
        if let Some(replica) = self.loaded(project) {
            replica.recheck();
        }
        self.publish_to(project, News::Tokens).await;
    }
}

fn check_time(holds_for: Duration) -> Result<(), Error> {
    if (TOKEN_SECS_MIN..=TOKEN_SECS_MAX).contains(&holds_for.as_secs()) {
        return Ok(());
    }
    let problem = format!("must be {TOKEN_SECS_MIN} to {TOKEN_SECS_MAX} seconds");
    Err(Error::Invalid(vec![FieldError::new("expires_in_secs", problem)]))
}
