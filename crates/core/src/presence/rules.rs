//! The patience that presence has, with the provider and with people.

use std::time::Duration;

/// How long things are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresenceRules {
    /// How late the provider's answers may be.
    pub lag: Duration,
    /// A room that is gone for this long ends its meeting.
    pub gone_grace: Duration,
    /// Everybody has been away for this long before a meeting ends.
    pub empty_grace: Duration,
    /// Nobody has come to an unplanned meeting for this long before it ends.
    pub unused_for: Duration,
    /// A visit of which no end was heard is kept if it began at most this long ago.
    pub visit_max: Duration,
}

impl Default for PresenceRules {
    fn default() -> Self {
        PresenceRules {
            lag: Duration::from_secs(15),
            gone_grace: Duration::from_secs(60),
            empty_grace: Duration::from_secs(30),
            unused_for: Duration::from_secs(1800),
            visit_max: Duration::from_secs(600),
        }
    }
}

/// So many who vanish in one look are told to the operator: it may be the provider.
pub const VANISHED_AT_ONCE_FLAGGED: u32 = 5;
