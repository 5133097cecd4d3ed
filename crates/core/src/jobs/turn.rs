//! Who may go through a gate now, and how many: limits are kept, and tenants are served in turn.

use std::collections::BTreeMap;

use super::bucket::{Bucket, Rate};
use super::gate::{BucketName, Gate, Turn, buckets_of};
use super::{GateName, Lane};
use crate::Timestamp;

/// What is known when a claim comes to a gate. Nobody else passes it meanwhile.
#[derive(Debug)]
pub struct GateScene<'a> {
    pub base: &'a Lane,
    /// Those that cover `base`.
    pub gates: &'a [Gate],
    /// Running jobs of the kind that came through gates, by lane.
    pub running: &'a [(Lane, u32)],
    /// A bucket that is missing is full.
    pub buckets: &'a BTreeMap<BucketName, Bucket>,
    /// Lanes with jobs that could be claimed, and how many, once around from whose turn it was last.
    pub waiting: &'a [(Lane, u32)],
    pub jobs_max: u32,
    pub now: Timestamp,
}

/// What a claim may take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatePlan {
    /// Lanes and how many jobs of each; none with zero.
    pub quotas: Vec<(Lane, u32)>,
    /// Whose turn it is afterwards.
    pub turn: Turn,
    /// When a rate lets the next job through that waits now.
    pub open_at: Option<Timestamp>,
}

/// Hands out as much as every limit allows, one tenant after the other, each as much in a row as
/// its weight says. A paused gate lets nothing through.
pub fn plan(scene: &GateScene<'_>) -> GatePlan {
    let own = scene.gates.iter().find(|gate| gate.name.as_str() == scene.base.as_str());
    let mut turn = own.map(|gate| gate.turn.clone()).unwrap_or_default();
    if scene.gates.iter().any(|gate| gate.paused_at.is_some()) || scene.waiting.is_empty() {
        return GatePlan { turn, ..GatePlan::default() };
    }
    let mut allowances = Allowances::of(scene);
    let lanes: Vec<Vec<usize>> =
        scene.waiting.iter().map(|(lane, _)| allowances.of_lane(scene, lane)).collect();
    let weight = |lane: &Lane| {
        let tenant = lane.tenant().map(|tenant| tenant.as_str().to_owned()).unwrap_or_default();
        own.and_then(|gate| gate.limits.weights.get(&tenant)).copied().unwrap_or(1).max(1)
    };
    let mut given = vec![0u32; lanes.len()];
    let mut left = scene.jobs_max;
    let (mut index, mut idle) = (0, 0);
    let mut in_a_row = if turn.lane.as_ref() == Some(&scene.waiting[0].0) { turn.given } else { 0 };
    while left > 0 && idle <= lanes.len() {
        let (lane, waiting) = &scene.waiting[index];
        let wish = weight(lane).saturating_sub(in_a_row).min(left).min(waiting - given[index]);
        let now = wish.min(allowances.room(&lanes[index]));
        if now > 0 {
            allowances.take(&lanes[index], now);
            given[index] += now;
            left -= now;
            turn = Turn { lane: Some(lane.clone()), given: in_a_row + now };
            idle = 0;
        } else {
            idle += 1;
        }
        in_a_row = 0;
        index = (index + 1) % lanes.len();
    }
    let open_at = scene.waiting.iter().zip(&lanes).zip(&given);
    let open_at = open_at
        .filter(|(((_, waiting), _), given)| waiting > given)
        .filter_map(|((_, lane), _)| allowances.opens_at(lane))
        .min();
    let quotas = scene.waiting.iter().zip(given).filter(|(_, given)| *given > 0);
    let quotas = quotas.map(|((lane, _), given)| (lane.clone(), given)).collect();
    GatePlan { quotas, turn, open_at }
}

/// Takes the tokens of what was claimed out of the buckets and returns those that changed.
pub fn spend(
    gates: &[Gate],
    buckets: &BTreeMap<BucketName, Bucket>,
    claimed: &[(Lane, u32)],
    now: Timestamp,
) -> BTreeMap<BucketName, Bucket> {
    let mut changed: BTreeMap<BucketName, Bucket> = BTreeMap::new();
    for (lane, jobs) in claimed {
        for (name, rate) in gates.iter().flat_map(|gate| buckets_of(gate, lane)) {
            let before =
                changed.get(&name).copied().unwrap_or_else(|| held(buckets, &name, rate, now));
            changed.insert(name, before.spent(rate, *jobs));
        }
    }
    changed
}

fn held(
    buckets: &BTreeMap<BucketName, Bucket>,
    name: &BucketName,
    rate: Rate,
    now: Timestamp,
) -> Bucket {
    buckets.get(name).map_or_else(|| Bucket::full(rate, now), |bucket| bucket.refilled(rate, now))
}

/// What every limit still allows; a job takes one of each that concerns it.
#[derive(Default)]
struct Allowances {
    left: Vec<u32>,
    /// Of the limits that are rates: the bucket as it is now, and how much is taken from it.
    buckets: Vec<Option<(Bucket, Rate, u32)>>,
    places: BTreeMap<Limit, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    Concurrency(GateName),
    TenantConcurrency(GateName, String),
    Rate(BucketName),
}

impl Allowances {
    fn of(scene: &GateScene<'_>) -> Self {
        let mut allowances = Allowances::default();
        for gate in scene.gates {
            if let Some(limit) = gate.limits.concurrency {
                let running = scene.running.iter().filter(|(lane, _)| gate.name.covers(lane));
                let running: u32 = running.map(|(_, jobs)| jobs).sum();
                let name = Limit::Concurrency(gate.name.clone());
                allowances.add(name, limit.saturating_sub(running), None);
            }
        }
        allowances
    }

    fn add(&mut self, limit: Limit, left: u32, bucket: Option<(Bucket, Rate, u32)>) -> usize {
        self.left.push(left);
        self.buckets.push(bucket);
        self.places.insert(limit, self.left.len() - 1);
        self.left.len() - 1
    }

    /// The limits that concern the jobs of a lane.
    fn of_lane(&mut self, scene: &GateScene<'_>, lane: &Lane) -> Vec<usize> {
        let mut places = Vec::new();
        for gate in scene.gates {
            places.extend(self.places.get(&Limit::Concurrency(gate.name.clone())));
            if let Some(limit) = gate.limits.tenant_concurrency {
                let tenant = gate.name.tenant_of(lane);
                let name = Limit::TenantConcurrency(gate.name.clone(), tenant.clone());
                let known = self.places.get(&name).copied();
                places.push(known.unwrap_or_else(|| {
                    let of_tenant =
                        |lane: &Lane| gate.name.covers(lane) && gate.name.tenant_of(lane) == tenant;
                    let running = scene.running.iter().filter(|(lane, _)| of_tenant(lane));
                    let running: u32 = running.map(|(_, jobs)| jobs).sum();
                    self.add(name, limit.saturating_sub(running), None)
                }));
            }
            for (bucket, rate) in buckets_of(gate, lane) {
                let known = self.places.get(&Limit::Rate(bucket.clone())).copied();
                places.push(known.unwrap_or_else(|| {
                    let held = held(scene.buckets, &bucket, rate, scene.now);
                    self.add(Limit::Rate(bucket), held.tokens(rate), Some((held, rate, 0)))
                }));
            }
        }
        places
    }

    fn room(&self, places: &[usize]) -> u32 {
        places.iter().map(|&place| self.left[place]).min().unwrap_or(u32::MAX)
    }

    fn take(&mut self, places: &[usize], jobs: u32) {
        for &place in places {
            self.left[place] -= jobs;
            if let Some((_, _, taken)) = &mut self.buckets[place] {
                *taken += jobs;
            }
        }
    }

    /// When the rates let one more job through; `None` if something else keeps it, or nothing does.
    fn opens_at(&self, places: &[usize]) -> Option<Timestamp> {
        let mut opens_at = None;
        for &place in places.iter().filter(|&&place| self.left[place] == 0) {
            let (bucket, rate, taken) = self.buckets[place]?;
            opens_at = opens_at.max(Some(bucket.holds_at(rate, taken + 1)));
        }
        opens_at
    }
}

#[cfg(test)]
mod tests;
