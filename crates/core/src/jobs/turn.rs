//! Who may go through a gate now, and how many: limits are kept, and tenants are served in turn.

use std::collections::BTreeMap;

use super::bucket::{Bucket, Rate};
use super::gate::{BucketName, Gate, buckets_of};
use super::share::Shares;
use super::{GateName, Lane};
use crate::Timestamp;

/// What is known when a claim comes to a gate. Nobody else passes it meanwhile.
#[derive(Debug)]
pub struct GateScene<'a> {
    pub base: &'a Lane,
    /// Those that cover `base`.
    pub gates: &'a [Gate],
    /// Running jobs of the kind, by lane: those that came through gates, and those that ran before
    /// a limit was set.
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
    /// Whose turn it was last.
    pub turn: Option<Lane>,
    /// When a rate lets the next job through that waits now.
    pub open_at: Option<Timestamp>,
}

/// Hands out as much as every limit allows, to whoever was given least for their weight, and one
/// tenant after the other among those who were given the same. A paused gate lets nothing through.
pub fn plan(scene: &GateScene<'_>) -> GatePlan {
    let own = scene.gates.iter().find(|gate| gate.name.as_str() == scene.base.as_str());
    let turn = own.and_then(|gate| gate.turn.clone());
    if scene.gates.iter().any(|gate| gate.paused_at.is_some()) || scene.waiting.is_empty() {
        return GatePlan { turn, ..GatePlan::default() };
    }
    let mut allowances = Allowances::of(scene);
    let shares = Shares::of(scene.base, scene.gates, scene.buckets);
    let in_line = |(lane, waiting): &(Lane, u32)| InLine {
        limits: allowances.of_lane(scene, lane),
        waiting: *waiting,
        quota: 0,
        given: shares.given(lane),
        price: shares.price(lane),
    };
    let mut line: Vec<InLine> = scene.waiting.iter().map(in_line).collect();
    // The first is the one that was served last, if it still waits, and then comes after all others.
    let begun = turn.as_ref() == Some(&scene.waiting[0].0);
    let mut last = if begun { 0 } else { line.len() - 1 };
    for _ in 0..scene.jobs_max {
        let Some(next) = next_in_line(&line, last, &allowances) else { break };
        line[next].quota += 1;
        line[next].given = line[next].given.saturating_add(line[next].price);
        allowances.take(&line[next].limits);
        last = next;
    }
    let kept = line.iter().filter(|one| one.waiting > one.quota);
    let open_at = kept.filter_map(|one| allowances.opens_at(&one.limits)).min();
    let quotas = scene.waiting.iter().zip(&line).filter(|(_, one)| one.quota > 0);
    let quotas: Vec<_> = quotas.map(|((lane, _), one)| (lane.clone(), one.quota)).collect();
    let turn = if quotas.is_empty() { turn } else { Some(scene.waiting[last].0.clone()) };
    GatePlan { quotas, turn, open_at }
}

/// A lane during a claim.
struct InLine {
    /// Places of the limits that concern its jobs.
    limits: Vec<usize>,
    waiting: u32,
    quota: u32,
    given: i64,
    price: i64,
}

/// Who gets the next job, if anybody may.
fn next_in_line(line: &[InLine], last: usize, allowances: &Allowances) -> Option<usize> {
    let may = |one: &InLine| one.waiting > one.quota && allowances.room(&one.limits) > 0;
    let around = (1..=line.len()).map(|step| (last + step) % line.len());
    around.filter(|&index| may(&line[index])).min_by_key(|&index| line[index].given)
}

/// Takes the tokens of what was claimed out of the buckets, counts what tenants were given, and returns
/// what changed.
pub fn spend(
    base: &Lane,
    gates: &[Gate],
    buckets: &BTreeMap<BucketName, Bucket>,
    claimed: &[(Lane, u32)],
    now: Timestamp,
) -> BTreeMap<BucketName, Bucket> {
    let mut changed = Shares::of(base, gates, buckets).after(claimed, now);
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

    fn take(&mut self, places: &[usize]) {
        for &place in places {
            self.left[place] -= 1;
            if let Some((_, _, taken)) = &mut self.buckets[place] {
                *taken += 1;
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
