//! Path and query parameters.

use std::error::Error as StdError;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use roundsman_core::bots::Platform;
use roundsman_core::ports::BotTarget;
use roundsman_core::rooms::ProjectId;
use serde::de::DeserializeOwned;

use crate::problem::{Place, Problem};
use crate::state::Shared;

/// In the words of Vexa's validation, whose clients see it.
pub(crate) const NO_PLATFORM: &str =
    "value is not a valid enumeration member; permitted: 'google_meet', 'zoom', 'teams', 'daily'";
/// The same where bots are meant.
pub(crate) const NO_BOT_PLATFORM: &str =
    "value is not a valid enumeration member; permitted: 'google_meet', 'zoom', 'teams'";

/// The number in a path such as `/jobs/{id}`.
#[derive(Debug)]
pub(crate) struct IdPath(pub(crate) i64);

impl FromRequestParts<Shared> for IdPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        match Path::<i64>::from_request_parts(parts, state).await {
            Ok(Path(id)) => Ok(IdPath(id)),
            Err(_) => Err(Problem::field("id", "must be a whole number").at(Place::Path)),
        }
    }
}

/// The text in a path such as `/admin/users/email/{email}`.
#[derive(Debug)]
pub(crate) struct TextPath(pub(crate) String);

impl FromRequestParts<Shared> for TextPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(TextPath(text)),
            Err(_) => Err(not_text()),
        }
    }
}

/// The project in a path such as `/rooms/{project}/alarms`.
#[derive(Debug)]
pub(crate) struct ProjectPath(pub(crate) ProjectId);

impl FromRequestParts<Shared> for ProjectPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let TextPath(text) = TextPath::from_request_parts(parts, state).await?;
        let project = ProjectId::new(&text);
        let project = project.map_err(|error| Problem::field("project", error.to_string()));
        Ok(ProjectPath(project.map_err(|problem| problem.at(Place::Path))?))
    }
}

/// Where a meeting is, in a path such as `/bots/{platform}/{native_meeting_id}`.
#[derive(Debug)]
pub(crate) struct AddressPath {
    pub(crate) platform: Platform,
    pub(crate) native_id: String,
}

impl FromRequestParts<Shared> for AddressPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((platform, native_id)) = path.map_err(|_| not_text())?;
        let Ok(platform) = Platform::parse(&platform) else {
            return Err(Problem::field("platform", NO_PLATFORM).at(Place::Path));
        };
        Ok(AddressPath { platform, native_id })
    }
}

impl AddressPath {
    pub(crate) fn target(&self) -> BotTarget {
        BotTarget::Address { platform: self.platform, native_id: self.native_id.clone() }
    }

    /// The same where only a bot can be meant.
    pub(crate) fn bot_target(&self) -> Result<BotTarget, Problem> {
        if self.platform.is_attended() {
            return Ok(self.target());
        }
        Err(Problem::field("platform", NO_BOT_PLATFORM).at(Place::Path))
    }
}

fn not_text() -> Problem {
    Problem::field("path", "must be UTF-8, percent-encoded").at(Place::Path)
}

/// The query string.
#[derive(Debug)]
pub(crate) struct AppQuery<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for AppQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &Shared) -> Result<Self, Problem> {
        let Query(value) =
            Query::try_from_uri(&parts.uri).map_err(|e| refused(&e).at(Place::Query))?;
        Ok(AppQuery(value))
    }
}

/// Finds the parameter's name in the chain of errors: the parser tracks where it was.
fn refused(rejection: &(dyn StdError + 'static)) -> Problem {
    let mut link: Option<&(dyn StdError + 'static)> = Some(rejection);
    while let Some(error) = link {
        let tracked = error.downcast_ref::<serde_path_to_error::Error<serde::de::value::Error>>();
        if let Some(tracked) = tracked {
            let path = tracked.path().to_string();
            let field = if path == "." { "query".to_owned() } else { path };
            return Problem::field(field, tracked.inner().to_string());
        }
        link = error.source();
    }
    Problem::field("query", "cannot be read")
}
