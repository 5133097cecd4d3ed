//! Who asks for a room: its owner, the operator, or whoever has a room token.
//!
//! Invariant: a token is read here, asked about and dropped. It is never stored, logged or shown.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use roundsman_core::rooms::{Permission, ProjectId, looks_like_room_token};
use roundsman_core::users::TokenScope;
use roundsman_engine::rooms::{Access, AccessDenied, AccessSource, Naming};

use crate::extract::{ADMIN_KEY_HEADER, API_KEY_HEADER, bearer, header_text};
use crate::problem::{Code, Place, Problem};
use crate::state::Shared;

/// Somebody with a valid token, of whatever room or user.
pub(super) struct RoomCaller {
    token: String,
    /// A room token says itself what it allows.
    has_write_scope: bool,
}

impl RoomCaller {
    /// What the caller may do, if they may read.
    pub(super) async fn reader(
        &self,
        state: &Shared,
        project: &ProjectId,
    ) -> Result<Access, Problem> {
        self.access(state, project, Naming::Finds).await
    }

    /// The same for whoever wants to write. An owner's first word makes the room.
    pub(super) async fn writer(
        &self,
        state: &Shared,
        project: &ProjectId,
    ) -> Result<Access, Problem> {
        if !self.has_write_scope {
            return Err(Problem::new(Code::Forbidden, "This token lacks the scope jobs."));
        }
        let access = self.access(state, project, Naming::Opens).await?;
        if access.permission == Permission::Write {
            return Ok(access);
        }
        Err(Problem::new(Code::Forbidden, "This token allows reading only."))
    }

    /// The same for what only the owner of the project may do.
    pub(super) async fn owner(
        &self,
        state: &Shared,
        project: &ProjectId,
    ) -> Result<Access, Problem> {
        let access = self.writer(state, project).await?;
        match access.source {
            AccessSource::Owner(_) | AccessSource::Operator => Ok(access),
            AccessSource::Token(_) => {
                Err(Problem::new(Code::Forbidden, "Only the owner of the project may do this."))
            }
        }
    }

    async fn access(
        &self,
        state: &Shared,
        project: &ProjectId,
        naming: Naming,
    ) -> Result<Access, Problem> {
        state.rooms.authorise(project, &self.token, naming).await.map_err(refused)
    }
}

pub(super) fn refused(denied: AccessDenied) -> Problem {
    match denied {
        AccessDenied::InvalidToken | AccessDenied::Expired => Problem::unauthorized(),
        // Whose it is, and whether there is one, is nobody else's business.
        AccessDenied::Foreign => Problem::new(Code::NotFound, "There is no such room."),
        AccessDenied::Unavailable(error) => roundsman_engine::Error::from(error).into(),
    }
}

impl FromRequestParts<Shared> for RoomCaller {
    type Rejection = Problem;

    /// Who has no valid token is refused before anything else of the request is looked at.
    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let headers = &parts.headers;
        let sent = header_text(headers, API_KEY_HEADER).or_else(|| bearer(headers));
        let (token, authenticated) = match (sent, header_text(headers, ADMIN_KEY_HEADER)) {
            (Some(token), _) if looks_like_room_token(token) => {
                if !state.rooms.knows_token(token).await? {
                    return Err(Problem::unauthorized());
                }
                return Ok(RoomCaller { token: token.to_owned(), has_write_scope: true });
            }
            (Some(token), _) => (token, state.authenticator.authenticate(token).await?),
            (None, Some(token)) => (token, state.authenticator.authenticate_admin(token)?),
            (None, None) => return Err(Problem::unauthorized()),
        };
        let has_write_scope = authenticated.may(TokenScope::Jobs);
        Ok(RoomCaller { token: token.to_owned(), has_write_scope })
    }
}

/// A project and a number in a path such as `/rooms/{project}/versions/{seq}`.
pub(super) struct PartPath {
    pub(super) project: ProjectId,
    pub(super) number: i64,
}

impl FromRequestParts<Shared> for PartPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let unreadable =
            |_| Problem::field("path", "must be UTF-8, percent-encoded").at(Place::Path);
        let Path((project, number)) = path.map_err(unreadable)?;
        let project = ProjectId::new(&project)
            .map_err(|error| Problem::field("project", error.to_string()).at(Place::Path))?;
        let number = number
            .parse()
            .map_err(|_| Problem::field("number", "must be a whole number").at(Place::Path))?;
        Ok(PartPath { project, number })
    }
}
