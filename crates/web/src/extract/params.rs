//! Path and query parameters.

use std::error::Error as StdError;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::state::Shared;

/// The number in a path such as `/jobs/{id}`.
#[derive(Debug)]
pub(crate) struct IdPath(pub(crate) i64);

impl FromRequestParts<Shared> for IdPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        match Path::<i64>::from_request_parts(parts, state).await {
            Ok(Path(id)) => Ok(IdPath(id)),
            Err(_) => Err(Problem::field("id", "must be a whole number")),
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
            Err(_) => Err(Problem::field("path", "must be UTF-8, percent-encoded")),
        }
    }
}

/// The query string.
#[derive(Debug)]
pub(crate) struct AppQuery<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for AppQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &Shared) -> Result<Self, Problem> {
        let Query(value) = Query::try_from_uri(&parts.uri).map_err(|e| refused(&e))?;
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
