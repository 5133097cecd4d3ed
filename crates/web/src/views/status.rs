//! What an operator watches.

use roundsman_core::Timestamp;
use roundsman_core::ports::{DEPTH_COUNT_MAX, KindDepth};
use serde::Serialize;
use utoipa::ToSchema;

use super::{CheckView, ReadyView};

/// How a node is, and what waits and runs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Status)]
pub(crate) struct StatusView {
    /// The release that is running.
    #[schema(example = "0.1.0")]
    version: &'static str,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    ready: bool,
    checks: Vec<CheckView>,
    /// By name; those with nothing to do are left out.
    kinds: Vec<KindStatusView>,
}

/// What of a kind waits and runs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KindStatus)]
struct KindStatusView {
    #[schema(example = "audits.run")]
    kind: String,
    /// For later.
    scheduled: u64,
    /// To be run now.
    pending: u64,
    processing: u64,
    /// Counting ended at its limit: there may be more.
    at_least: bool,
    /// How long the oldest pending job has been due.
    oldest_wait_secs: Option<f64>,
}

impl StatusView {
    pub(crate) fn new(now: Timestamp, health: ReadyView, kinds: &[KindDepth]) -> Self {
        StatusView {
            version: env!("CARGO_PKG_VERSION"),
            at: now,
            ready: health.ready,
            checks: health.checks,
            kinds: kinds.iter().map(|depth| KindStatusView::new(now, depth)).collect(),
        }
    }
}

impl KindStatusView {
    fn new(now: Timestamp, depth: &KindDepth) -> Self {
        let counts = [depth.scheduled, depth.pending, depth.processing];
        KindStatusView {
            kind: depth.kind.to_string(),
            scheduled: depth.scheduled,
            pending: depth.pending,
            processing: depth.processing,
            at_least: counts.iter().any(|count| *count >= DEPTH_COUNT_MAX),
            oldest_wait_secs: depth.oldest_due_at.map(|due| now.since(due).as_secs_f64()),
        }
    }
}
