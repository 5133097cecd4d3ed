//! Where a user wants to be told.

use std::collections::BTreeMap;

use super::{EVENT_TYPES, SigningSecret};
use crate::Timestamp;
use crate::users::UserId;

/// An address is at most this long.
const URL_BYTES_MAX: usize = 2048;

/// A user's endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub user_id: UserId,
    /// Kept in the user's data under `webhook_url`, where Vexa keeps it too.
    pub url: String,
    /// An endpoint of an existing Vexa database has none until one is made for it.
    pub secret: Option<SigningSecret>,
    /// Types that are switched off or on; what is not named is on.
    pub events: BTreeMap<String, bool>,
    /// The endpoint said that it wants nothing any more.
    pub disabled_at: Option<Timestamp>,
}

impl Endpoint {
    /// Whether the endpoint wants to be told of this type.
    pub fn wants(&self, event_type: &str) -> bool {
        self.disabled_at.is_none() && self.events.get(event_type).copied().unwrap_or(true)
    }
}

/// What to change of an endpoint. Setting one also enables it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointChange {
    /// `None` takes the endpoint away.
    pub url: Option<String>,
    /// Replaces the secret; without it the old one stays, or `fresh_secret` becomes the first.
    pub secret: Option<SigningSecret>,
    pub fresh_secret: SigningSecret,
    /// Replaces the switches; `None` leaves them.
    pub events: Option<BTreeMap<String, bool>>,
}

/// What a user set cannot be an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidEndpoint(pub &'static str);

/// Whether the text can be an endpoint's address at all; where it leads is checked when sending.
pub fn check_url(url: &str) -> Result<(), InvalidEndpoint> {
    if url.len() > URL_BYTES_MAX || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(InvalidEndpoint("must be at most 2048 characters without spaces"));
    }
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') => Ok(()),
        _ => Err(InvalidEndpoint("must be an http:// or https:// address")),
    }
}

impl EndpointChange {
    /// Whether every switch names a type that exists.
    pub fn check_events(&self) -> Result<(), InvalidEndpoint> {
        let known = |name: &String| EVENT_TYPES.contains(&name.as_str());
        match &self.events {
            Some(events) if !events.keys().all(known) => {
                Err(InvalidEndpoint("names an event type that does not exist"))
            }
            _ => Ok(()),
        }
    }
}
