//! How the process is.

use serde::Serialize;
use utoipa::ToSchema;

use crate::readiness::Check;

/// The process is there.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Alive)]
pub(crate) struct HealthView {
    #[schema(example = "ok")]
    pub(crate) status: &'static str,
    /// The release that is running.
    #[schema(example = "0.1.0")]
    pub(crate) version: &'static str,
}

/// Whether requests should be sent here.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Readiness)]
pub(crate) struct ReadyView {
    pub(crate) ready: bool,
    pub(crate) checks: Vec<CheckView>,
}

/// One thing that must be well.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReadinessCheck)]
pub(crate) struct CheckView {
    /// `process`, `database`, or `loop:` and the name of a background loop.
    #[schema(example = "database")]
    name: String,
    ok: bool,
    /// What is wrong. A node is ready in spite of it while `ok` is true.
    #[schema(example = "unavailable")]
    reason: Option<String>,
}

impl From<Vec<Check>> for ReadyView {
    fn from(checks: Vec<Check>) -> Self {
        let ready = checks.iter().all(|check| check.ok);
        let one = |Check { name, ok, reason }| CheckView { name, ok, reason };
        ReadyView { ready, checks: checks.into_iter().map(one).collect() }
    }
}
