//! Where a URL leads.

use url::{Position, Url};

use super::{Route, Tls};

/// A URL, as a call needs it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) route: Route,
    /// The value of `Host`.
    pub(crate) host: String,
    /// Path and query, encoded.
    pub(crate) target: String,
}

impl Place {
    /// `None` for what is neither `http` nor `https`, and for a URL with a name or password in it.
    pub(crate) fn of(url: &Url, tls: &Tls) -> Option<Self> {
        let tls = match url.scheme() {
            "http" => None,
            "https" => Some(tls.clone()),
            _ => return None,
        };
        if !url.username().is_empty() || url.password().is_some() {
            return None;
        }
        let name = url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port_or_known_default()?;
        Some(Place {
            route: Route::Host { name, port, tls },
            host: url[Position::BeforeHost..Position::AfterPort].to_owned(),
            target: url[Position::BeforePath..Position::AfterQuery].to_owned(),
        })
    }
}
