//! Where a URL leads.

use url::{Position, Url};

use super::{Route, Tls};
use crate::egress::Target;

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

    /// Where a checked address leads: to what was checked, and nowhere else.
    pub(crate) fn pinned(target: Target, tls: &Tls) -> Self {
        let Target { url, name, addresses } = target;
        let tls = (url.scheme() == "https").then(|| tls.clone());
        Place {
            route: Route::Pinned { addresses, name, tls },
            host: url[Position::BeforeHost..Position::AfterPort].to_owned(),
            target: url[Position::BeforePath..Position::AfterQuery].to_owned(),
        }
    }
}
