//! The way to websites.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::audits::observed::Observed;

/// Looks at pages as a browser first would.
#[async_trait]
pub trait Pages: Send + Sync {
    /// Looks at a page and what belongs to it. Bounded in time, bytes, redirects and requests; every
    /// address is checked before it is connected to. Says meanwhile how far it has come.
    async fn observe(
        &self,
        wish: ObserveWish,
        progress: Arc<dyn ObserveProgress>,
    ) -> Result<Observed, ObserveError>;
}

/// Hears how far a look has come.
pub trait ObserveProgress: Send + Sync {
    fn step(&self, step: ObserveStep);
}

/// A part of a look that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObserveStep {
    Page,
    Robots,
    Sitemap,
    Resources { done: u32, of: u32 },
    Browser,
}

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserveWish {
    /// With or without a scheme; without one it is https.
    pub url: String,
    pub in_browser: bool,
    /// Only for an engineer's own machine: addresses that are not public are allowed.
    pub allow_private: bool,
    /// Whether a robots.txt that forbids it ends the look.
    pub obey_robots: bool,
    pub time_max: Duration,
}

/// Why there is nothing to judge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct ObserveError {
    pub kind: ObserveErrorKind,
    /// For people; says nothing of addresses inside.
    pub detail: String,
}

/// The words that users see as an audit's `error_code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObserveErrorKind {
    InvalidUrl,
    DnsFailure,
    BlockedTarget,
    ConnectFailure,
    TlsError,
    TooLarge,
    Timeout,
    HttpStatus,
    TooManyRedirects,
    ForbiddenByRobots,
    NotHtml,
    ProtocolError,
}

impl ObserveErrorKind {
    pub const ALL: [ObserveErrorKind; 12] = [
        Self::InvalidUrl,
        Self::DnsFailure,
        Self::BlockedTarget,
        Self::ConnectFailure,
        Self::TlsError,
        Self::TooLarge,
        Self::Timeout,
        Self::HttpStatus,
        Self::TooManyRedirects,
        Self::ForbiddenByRobots,
        Self::NotHtml,
        Self::ProtocolError,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidUrl => "invalid_url",
            Self::DnsFailure => "dns_failure",
            Self::BlockedTarget => "blocked_target",
            Self::ConnectFailure => "connect_failure",
            Self::TlsError => "tls_error",
            Self::TooLarge => "too_large",
            Self::Timeout => "timeout",
            Self::HttpStatus => "http_status",
            Self::TooManyRedirects => "too_many_redirects",
            Self::ForbiddenByRobots => "forbidden_by_robots",
            Self::NotHtml => "not_html",
            Self::ProtocolError => "protocol_error",
        }
    }

    /// Whether trying again later may help.
    pub fn is_passing(self) -> bool {
        matches!(
            self,
            Self::DnsFailure
                | Self::ConnectFailure
                | Self::Timeout
                | Self::HttpStatus
                | Self::ProtocolError
        )
    }
}

impl std::fmt::Display for ObserveErrorKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}
