//! Who may do what in a room.

use roundsman_core::Timestamp;
use roundsman_core::ports::StoreError;
use roundsman_core::rooms::{
    Permission, ProjectId, RoomTokenId, RoomTokenSecret, TokenState, looks_like_room_token,
};
use roundsman_core::users::{Authenticated, TokenScope, UserId};

use super::service::Rooms;
use crate::Error;
use crate::users::Denied;

/// What somebody may do, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub permission: Permission,
    pub source: AccessSource,
    /// Their right ends then.
    pub until: Option<Timestamp>,
}

/// What naming a project that nobody has named before does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// It is the caller's from now on.
    Opens,
    /// There is nothing to be found.
    Finds,
}

/// Where a right comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessSource {
    Owner(UserId),
    Operator,
    Token(RoomTokenId),
}

/// Whether somebody who was let in may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Holds(Access),
    /// With a newer token they may come again.
    Expired,
    /// They may not.
    Revoked,
}

/// Why somebody is not let in.
#[derive(Debug, thiserror::Error)]
pub enum AccessDenied {
    /// The credential is worth nothing, here.
    #[error("no token that opens this room was sent")]
    InvalidToken,
    /// The token has ended; another may be fetched.
    #[error("the token has expired")]
    Expired,
    /// The project is somebody else's.
    #[error("the project belongs to somebody else; ask its owner for a room token")]
    Foreign,
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

impl Rooms {
    /// What a room token or the API token of a user opens.
    pub async fn authorise(
        &self,
        project: &ProjectId,
        credential: &str,
        naming: Naming,
    ) -> Result<Access, AccessDenied> {
        if looks_like_room_token(credential) {
            return self.authorise_token(project, credential).await;
        }
        let authenticated =
            self.authenticator().authenticate(credential).await.map_err(|denied| match denied {
                Denied::Unavailable(error) => AccessDenied::Unavailable(error),
                Denied::InvalidToken | Denied::AdminNotConfigured => AccessDenied::InvalidToken,
            })?;
        self.access_of(project, &authenticated, naming).await
    }

    async fn access_of(
        &self,
        project: &ProjectId,
        caller: &Authenticated,
        naming: Naming,
    ) -> Result<Access, AccessDenied> {
        let may_write = caller.may(TokenScope::Jobs);
        let permission = if may_write { Permission::Write } else { Permission::Read };
        let source = match caller {
            Authenticated::Admin => AccessSource::Operator,
            Authenticated::User { user_id, .. } => {
                let owner = if may_write && naming == Naming::Opens {
                    self.open(*user_id, project).await.map_err(unavailable)?.map(|room| room.owner)
                } else {
                    self.room(project).await?.map(|room| room.owner)
                };
                if owner != Some(*user_id) {
                    return Err(AccessDenied::Foreign);
                }
                AccessSource::Owner(*user_id)
            }
        };
        Ok(Access { permission, source, until: None })
    }

    async fn authorise_token(
        &self,
        project: &ProjectId,
        text: &str,
    ) -> Result<Access, AccessDenied> {
        let (id, secret) = RoomTokenSecret::parse(text).ok_or(AccessDenied::InvalidToken)?;
        let token = self.store().room_token(id).await?;
        let token = token
            .filter(|token| secret.matches(&token.hash) && token.project == *project)
            .ok_or(AccessDenied::InvalidToken)?;
        match token.state(self.clock().now()) {
            TokenState::Holds => Ok(Access {
                permission: token.permission,
                source: AccessSource::Token(id),
                until: Some(token.expires_at),
            }),
            TokenState::Expired => Err(AccessDenied::Expired),
            TokenState::Revoked => Err(AccessDenied::InvalidToken),
        }
    }

    /// Whether a text is a room token that was made here and holds, whatever it opens.
    pub async fn knows_token(&self, text: &str) -> Result<bool, StoreError> {
        let Some((id, secret)) = RoomTokenSecret::parse(text) else { return Ok(false) };
        let token = self.store().room_token(id).await?;
        let holds = |state| matches!(state, TokenState::Holds);
        let now = self.clock().now();
        Ok(token.is_some_and(|token| secret.matches(&token.hash) && holds(token.state(now))))
    }

    /// Whether a right still holds. Users are asked about with their credential, which may have been
    /// revoked since.
    pub async fn standing(
        &self,
        project: &ProjectId,
        access: Access,
        credential: &str,
    ) -> Result<Standing, StoreError> {
        if let AccessSource::Token(id) = access.source {
            let token = self.store().room_token(id).await?;
            let now = self.clock().now();
            return Ok(match token.map(|token| (token.state(now), token.expires_at)) {
                Some((TokenState::Holds, until)) => {
                    Standing::Holds(Access { until: Some(until), ..access })
                }
                Some((TokenState::Expired, _)) => Standing::Expired,
                Some((TokenState::Revoked, _)) | None => Standing::Revoked,
            });
        }
        match self.authorise(project, credential, Naming::Finds).await {
            Ok(access) => Ok(Standing::Holds(access)),
            Err(AccessDenied::Unavailable(error)) => Err(error),
            Err(_) => Ok(Standing::Revoked),
        }
    }
}

fn unavailable(error: Error) -> AccessDenied {
    match error {
        Error::Store(error) => AccessDenied::Unavailable(error),
        _ => AccessDenied::InvalidToken,
    }
}
