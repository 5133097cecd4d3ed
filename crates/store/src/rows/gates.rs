//! Gates as rows.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Gate, GateLimits, GateName, Lane, RunningJob};
use roundsman_core::ports::{LaneDemand, StoreError};

use super::inconsistent;

/// A claim looks at no more than this many lanes of tenants; the next one goes on where it ended.
pub(crate) const LANES_MAX: u32 = 256;
/// When all of these are kept back, it goes on there after this long.
pub(crate) const LOOK_ON_AFTER: Duration = Duration::from_millis(50);
/// Jobs counted in all lanes together by one claim.
const COUNTED_MAX: u32 = 16_384;

/// A row of `job_gates`.
#[derive(Debug)]
pub(crate) struct GateColumns {
    pub(crate) name: String,
    pub(crate) paused_at: Option<Timestamp>,
    pub(crate) limits: String,
    pub(crate) has_tenants: bool,
    pub(crate) turn_lane: Option<String>,
}

impl GateColumns {
    pub(crate) fn into_gate(self) -> Result<Gate, StoreError> {
        let limits: GateLimits = serde_json::from_str(&self.limits).map_err(|error| {
            inconsistent("job_gates", "limits", 0, format!("of {}: {error}", self.name))
        })?;
        Ok(Gate {
            name: GateName::from_stored(self.name),
            paused_at: self.paused_at,
            limits,
            has_tenants: self.has_tenants,
            turn: self.turn_lane.map(Lane::from_stored),
        })
    }
}

pub(crate) fn limits_to_text(limits: &GateLimits) -> String {
    serde_json::to_string(limits).expect("limits are plain data and always serialise")
}

/// What a look at the lanes behind a gate found.
#[derive(Debug)]
pub(crate) struct LanesWaiting {
    /// Lanes with something to claim, and how much, once around from whose turn it was.
    pub(crate) lanes: Vec<(Lane, u32)>,
    /// Where the look ended, if not all was looked at.
    pub(crate) ended_at: Option<Lane>,
}

/// What is left of demands after these jobs, none of which came through a gate.
pub(crate) fn rest_of(demands: &[&LaneDemand], claimed: &[RunningJob]) -> Vec<LaneDemand> {
    let of_lane = |demand: &&LaneDemand| {
        let jobs = claimed.iter().filter(|job| job.facts.lane() == demand.lane).count();
        let max = demand.max.saturating_sub(u32::try_from(jobs).unwrap_or(u32::MAX));
        LaneDemand { max, ..(*demand).clone() }
    };
    demands.iter().map(of_lane).collect()
}

/// How many lanes a claim of so many jobs looks at: many jobs of few, or few of many.
pub(crate) fn lanes_looked_at(jobs_max: u32) -> u32 {
    (COUNTED_MAX / jobs_max.max(1)).clamp(16, LANES_MAX)
}

/// How many of the jobs of a claim are kept for gated lanes while others have work too. A claim of
/// one job goes to either side by turns.
pub(crate) fn gated_share(total_max: u32, tick: u64) -> u32 {
    if total_max == 1 { u32::from(tick % 2 == 1) } else { total_max / 2 }
}
