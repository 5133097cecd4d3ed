//! What each tenant was given at a gate, so that whoever was given less goes first.
//!
//! Strict turns are not enough: a tenant with endless work takes one in every round, and those who ask for less than their
//! share wait behind it whenever several of them come at once. So what somebody left to others is owed to them,
//! up to [`CREDIT_JOBS`]: more would let one who was away for long keep all others waiting.

use std::collections::BTreeMap;

use super::bucket::Bucket;
use super::gate::{BucketName, Gate};
use super::{GateName, Lane};
use crate::Timestamp;

/// What one job counts for a tenant of weight one. All weights up to 16 divide it.
const JOB: i64 = 720_720;
/// How many jobs, for each unit of its weight, a tenant is served ahead of one that has had more.
pub(super) const CREDIT_JOBS: i64 = 10;

/// Begins the second part of the name under which it is kept what a tenant was given.
const GIVEN_MARK: char = '~';
/// The second part of the name under which the most is kept that any tenant was given.
const MOST: &str = "^";

/// The shares of the lanes behind one gate. Somebody of whom nothing is known was given least.
pub(super) struct Shares<'a> {
    gate: Option<&'a Gate>,
    buckets: &'a BTreeMap<BucketName, Bucket>,
    most: i64,
}

impl<'a> Shares<'a> {
    /// Of the lanes of `base`. Only a gate that knows tenants has more than one lane behind it.
    pub(super) fn of(
        base: &Lane,
        gates: &'a [Gate],
        buckets: &'a BTreeMap<BucketName, Bucket>,
    ) -> Self {
        let gate = gates.iter().find(|gate| shares_lanes_of(gate, base));
        let known = gate.into_iter().flat_map(|gate| {
            let from = buckets.range(most_name(&gate.name)..);
            from.take_while(move |(name, _)| name.0 == gate.name)
        });
        let is_share = |name: &str| name == MOST || name.starts_with(GIVEN_MARK);
        let most = known.filter(|(name, _)| is_share(&name.1)).map(|(_, bucket)| bucket.level);
        Shares { gate, buckets, most: most.max().unwrap_or(0) }
    }

    /// What a lane was given.
    pub(super) fn given(&self, lane: &Lane) -> i64 {
        let least = self.most.saturating_sub(CREDIT_JOBS * JOB);
        let Some(gate) = self.gate else { return least };
        let known = self.buckets.get(&given_name(gate, lane)).map(|bucket| bucket.level);
        known.map_or(least, |level| level.max(least))
    }

    /// What one job adds to it: the more weight, the less.
    pub(super) fn price(&self, lane: &Lane) -> i64 {
        let tenant = lane.tenant().map(|tenant| tenant.as_str().to_owned()).unwrap_or_default();
        let weight = self.gate.and_then(|gate| gate.limits.weights.get(&tenant));
        JOB / i64::from(weight.copied().unwrap_or(1).max(1))
    }

    /// What is to be kept after these jobs were given.
    pub(super) fn after(
        &self,
        claimed: &[(Lane, u32)],
        now: Timestamp,
    ) -> BTreeMap<BucketName, Bucket> {
        let mut changed = BTreeMap::new();
        let Some(gate) = self.gate else { return changed };
        let mut most = self.most;
        for (lane, jobs) in claimed.iter().filter(|(_, jobs)| *jobs > 0) {
            let added = self.price(lane).saturating_mul(i64::from(*jobs));
            let level = self.given(lane).saturating_add(added);
            most = most.max(level);
            changed.insert(given_name(gate, lane), Bucket { level, at: now });
        }
        if !changed.is_empty() {
            changed.insert(most_name(&gate.name), Bucket { level: most, at: now });
        }
        changed
    }
}

/// Under which names it is kept what a lane was given at a gate, and the most that any was.
pub(super) fn share_names(gate: &Gate, lane: &Lane) -> Vec<BucketName> {
    if !shares_lanes_of(gate, &lane.base()) {
        return Vec::new();
    }
    vec![most_name(&gate.name), given_name(gate, lane)]
}

fn shares_lanes_of(gate: &Gate, base: &Lane) -> bool {
    gate.has_tenants && gate.name.as_str() == base.as_str()
}

fn given_name(gate: &Gate, lane: &Lane) -> BucketName {
    let tenant = lane.tenant().map(|tenant| tenant.as_str().to_owned()).unwrap_or_default();
    (gate.name.clone(), format!("{GIVEN_MARK}{tenant}"))
}

fn most_name(gate: &GateName) -> BucketName {
    (gate.clone(), MOST.to_owned())
}
