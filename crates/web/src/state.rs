//! What every handler can reach.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::daily::WebhookSecret;
use roundsman_core::ports::{Clock, Random};
use roundsman_engine::alarms::Alarms;
use roundsman_engine::audits::Audits;
use roundsman_engine::bots::Bots;
use roundsman_engine::jobs::Jobs;
use roundsman_engine::metrics::Metrics;
use roundsman_engine::presence::{Intake, Presence};
use roundsman_engine::recordings::Recordings;
use roundsman_engine::rooms::Rooms;
use roundsman_engine::tasks::Tasks;
use roundsman_engine::transcripts::Transcripts;
use roundsman_engine::users::{Authenticator, Users};
use roundsman_engine::webhooks::Webhooks;

use crate::{Live, Readiness, RoomSocketLimits};

/// The services behind the edge. Cheap to clone: every member is a handle.
#[derive(Clone)]
pub struct AppState {
    pub jobs: Jobs,
    pub bots: Bots,
    pub webhooks: Webhooks,
    pub transcripts: Transcripts,
    pub presence: Presence,
    pub recordings: Recordings,
    pub audits: Audits,
    pub rooms: Rooms,
    pub room_sockets: RoomSocketLimits,
    pub tasks: Tasks,
    pub alarms: Alarms,
    pub daily: DailyEvents,
    /// Who listens live.
    pub live: Live,
    pub users: Users,
    pub authenticator: Authenticator,
    pub readiness: Readiness,
    pub metrics: Metrics,
    /// Measures how long a request took.
    pub clock: Arc<dyn Clock>,
    /// Names requests that come without a name.
    pub random: Arc<dyn Random>,
    pub limits: WebLimits,
    /// Where clients reach this server, such as `https://meetings.example.org`. Without it, links
    /// begin with the host that the request for them named.
    pub public_url: Option<String>,
}

/// Whom to believe what Daily tells, and who hears it.
#[derive(Debug, Clone)]
pub struct DailyEvents {
    /// Any of them may have signed, so that one can be replaced without a gap. Without one, nobody
    /// is believed.
    pub secrets: Arc<[WebhookSecret]>,
    /// How old, or how far ahead, a signature may be.
    pub replay_window: Duration,
    pub intake: Arc<Intake>,
}

/// What a request may cost.
#[derive(Debug, Clone)]
pub struct WebLimits {
    pub body_bytes_max: usize,
    /// From the request's headers to its answer, the body's arrival included.
    pub request_max: Duration,
    /// What a claim may wait for work on top of that: the job service's own limit.
    pub claim_wait_max: Duration,
    /// Further requests are refused at once.
    pub requests_at_once_max: usize,
    /// In the long run, by one token; 0 for any number.
    pub token_requests_per_sec_max: u32,
    /// Whose pages may call from a browser.
    pub cors_origins: Vec<String>,
}

impl Default for WebLimits {
    fn default() -> Self {
        WebLimits {
            body_bytes_max: 1024 * 1024,
            request_max: Duration::from_secs(30),
            claim_wait_max: Duration::from_secs(30),
            requests_at_once_max: 1024,
            token_requests_per_sec_max: 0,
            cors_origins: Vec::new(),
        }
    }
}

/// How handlers receive it: one counter to bump per request instead of one per member.
pub(crate) type Shared = Arc<AppState>;

impl fmt::Debug for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppState").field("limits", &self.limits).finish_non_exhaustive()
    }
}
