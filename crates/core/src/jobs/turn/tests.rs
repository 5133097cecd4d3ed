use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::jobs::share::CREDIT_JOBS;
use crate::jobs::{GateLimits, KindName, Tenant, ranges_from};
use crate::users::UserId;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

fn base() -> Lane {
    Lane::of(UserId::new(1), &KindName::new("render").unwrap())
}

fn lane(tenant: &str) -> Lane {
    base().of_tenant(Tenant::new(tenant).ok().as_ref())
}

fn gate(limits: GateLimits) -> Gate {
    Gate { limits, has_tenants: true, ..Gate::new(GateName::of_lane(&base())) }
}

/// A gate with its surroundings, through which claims go one after the other.
struct World {
    gates: Vec<Gate>,
    waiting: BTreeMap<Lane, u32>,
    running: BTreeMap<Lane, u32>,
    buckets: BTreeMap<BucketName, Bucket>,
    now: Timestamp,
}

impl World {
    fn new(gates: Vec<Gate>, waiting: &[(&str, u32)]) -> Self {
        let waiting = waiting.iter().map(|(tenant, jobs)| (lane(tenant), *jobs)).collect();
        World { gates, waiting, running: BTreeMap::new(), buckets: BTreeMap::new(), now: NOW }
    }

    /// Claims, and returns what each tenant got and when to come again.
    fn claim(&mut self, jobs_max: u32) -> (Vec<(String, u32)>, Option<Timestamp>) {
        let turn = self.gates.last().and_then(|gate| gate.turn.clone());
        let mut waiting = Vec::new();
        for range in ranges_from(&base(), turn.as_ref()) {
            let here = self.waiting.iter().filter(|(lane, jobs)| range.holds(lane) && **jobs > 0);
            waiting.extend(here.map(|(lane, jobs)| (lane.clone(), *jobs)));
        }
        let running: Vec<_> =
            self.running.iter().map(|(lane, jobs)| (lane.clone(), *jobs)).collect();
        let plan = plan(&GateScene {
            base: &base(),
            gates: &self.gates,
            running: &running,
            buckets: &self.buckets,
            waiting: &waiting,
            jobs_max,
            now: self.now,
        });
        let spent = spend(&base(), &self.gates, &self.buckets, &plan.quotas, self.now);
        self.buckets.extend(spent);
        self.gates.last_mut().unwrap().turn = plan.turn;
        let mut got = Vec::new();
        for (lane, jobs) in plan.quotas {
            *self.waiting.get_mut(&lane).unwrap() -= jobs;
            *self.running.entry(lane.clone()).or_default() += jobs;
            got.push((lane.tenant().unwrap().to_string(), jobs));
        }
        got.sort();
        (got, plan.open_at)
    }

    fn finish(&mut self, tenant: &str) {
        *self.running.get_mut(&lane(tenant)).unwrap() -= 1;
    }
}

fn got(parts: &[(&str, u32)]) -> Vec<(String, u32)> {
    parts.iter().map(|(tenant, jobs)| ((*tenant).to_owned(), *jobs)).collect()
}

#[test]
fn tenants_are_served_in_turn_however_much_one_of_them_has() {
    let mut world =
        World::new(vec![gate(GateLimits::default())], &[("a", 1000), ("b", 3), ("c", 3)]);
    assert_eq!(world.claim(3).0, got(&[("a", 1), ("b", 1), ("c", 1)]));
    for expected in ["a", "b", "c", "a", "b", "c"] {
        assert_eq!(world.claim(1).0, got(&[(expected, 1)]), "one at a time goes round as well");
    }
    assert_eq!(world.claim(10).0, got(&[("a", 10)]), "who is alone gets all");
}

#[test]
fn who_was_given_less_goes_first_but_only_for_so_long() {
    let mut world = World::new(vec![gate(GateLimits::default())], &[("a", 1000), ("c", 1)]);
    world.claim(100);
    world.waiting.insert(lane("b"), 500);
    let singles = |world: &mut World, jobs: usize| {
        let tenants: Vec<String> = (0..jobs).map(|_| world.claim(1).0.remove(0).0).collect();
        tenants.concat()
    };
    let owed = usize::try_from(CREDIT_JOBS).unwrap();
    assert_eq!(singles(&mut world, owed), "b".repeat(owed), "what it left to others is owed to it");
    assert_eq!(singles(&mut world, 6), "ababab");
    // One that asks for less than its share never waits behind one that asks for more.
    for _ in 0..20 {
        world.waiting.insert(lane("d"), 1);
        assert_eq!(singles(&mut world, 5).matches('d').count(), 1);
        world.waiting.insert(lane("d"), 1);
        assert_eq!(singles(&mut world, 1), "d");
    }
    assert_eq!(world.claim(10).0.len(), 2, "nothing of this is lost between claims");
}

#[test]
fn a_weight_is_a_share() {
    let weights = BTreeMap::from([("b".to_owned(), 3)]);
    let mut world = World::new(
        vec![gate(GateLimits { weights, ..GateLimits::default() })],
        &[("a", 99), ("b", 99)],
    );
    assert_eq!(world.claim(8).0, got(&[("a", 2), ("b", 6)]));
    let singles: Vec<String> = (0..8).map(|_| world.claim(1).0.remove(0).0).collect();
    assert_eq!(singles.concat(), "abbbabbb");
}

#[test]
fn concurrency_is_kept_in_all_and_for_each() {
    let limits =
        GateLimits { concurrency: Some(5), tenant_concurrency: Some(2), ..GateLimits::default() };
    let mut world = World::new(vec![gate(limits)], &[("a", 9), ("b", 9), ("c", 9)]);
    assert_eq!(world.claim(99).0, got(&[("a", 2), ("b", 2), ("c", 1)]));
    assert_eq!(world.claim(99), (vec![], None));
    world.finish("a");
    assert_eq!(world.claim(99).0, got(&[("c", 1)]), "the one whose turn it is");
}

#[test]
fn a_gate_of_all_users_counts_users_and_both_gates_hold() {
    let of_kind = Gate {
        limits: GateLimits { tenant_concurrency: Some(3), ..GateLimits::default() },
        ..Gate::new(GateName::of_kind(&KindName::new("render").unwrap()))
    };
    let own = gate(GateLimits { tenant_concurrency: Some(2), ..GateLimits::default() });
    let mut world = World::new(vec![of_kind, own], &[("a", 9), ("b", 9)]);
    let other = Lane::of(UserId::new(2), &KindName::new("render").unwrap());
    world.running.insert(other, 50);
    assert_eq!(world.claim(99).0, got(&[("a", 2), ("b", 1)]));
}

#[test]
fn a_rate_says_when_it_lets_the_next_one_through() {
    let rate = Rate { count: 10, per_secs: 10, burst: 2 };
    let limits = GateLimits { tenant_rate: Some(rate), ..GateLimits::default() };
    let mut world = World::new(vec![gate(limits)], &[("a", 9), ("b", 1)]);
    let (first, open_at) = world.claim(99);
    assert_eq!(first, got(&[("a", 2), ("b", 1)]));
    assert_eq!(open_at, Some(NOW + Duration::from_secs(1)));
    world.now = NOW + Duration::from_secs(1);
    assert_eq!(world.claim(99).0, got(&[("a", 1)]));
}

#[test]
fn nothing_passes_a_gate_that_is_paused() {
    let paused = Gate { paused_at: Some(NOW), ..gate(GateLimits::default()) };
    assert_eq!(World::new(vec![paused], &[("a", 9)]).claim(99), (vec![], None));
}

proptest! {
    /// Whatever the limits and however claims come, no limit is ever exceeded, nothing that could
    /// be handed out stays, and of two tenants with work and equal weights none is a turn ahead.
    #[test]
    fn limits_hold_and_nobody_is_passed_over(
        concurrency in prop::option::of(1u32..12),
        tenant_concurrency in prop::option::of(1u32..6),
        backlog in prop::collection::vec(1u32..40, 1..6),
        steps in prop::collection::vec((1u32..7, 0usize..6), 1..40),
    ) {
        let limits = GateLimits { concurrency, tenant_concurrency, ..GateLimits::default() };
        let names: Vec<String> = (0..backlog.len()).map(|n| format!("t{n}")).collect();
        let parts: Vec<_> = names.iter().map(String::as_str).zip(backlog.iter().copied()).collect();
        let mut world = World::new(vec![gate(limits)], &parts);
        let mut given: BTreeMap<Lane, u32> = names.iter().map(|name| (lane(name), 0)).collect();
        for (jobs_max, ends) in steps {
            let before: u32 = world.running.values().sum();
            let waiting: Vec<u32> = world.waiting.values().copied().collect();
            let (claimed, _) = world.claim(jobs_max);
            for (tenant, jobs) in &claimed {
                *given.get_mut(&lane(tenant)).unwrap() += jobs;
            }
            let total: u32 = claimed.iter().map(|(_, jobs)| jobs).sum();
            let after: u32 = world.running.values().sum();
            prop_assert!(concurrency.is_none_or(|limit| after <= limit.max(before)));
            for jobs in world.running.values() {
                prop_assert!(tenant_concurrency.is_none_or(|limit| *jobs <= limit));
            }
            if concurrency.is_none() && tenant_concurrency.is_none() {
                prop_assert_eq!(total, jobs_max.min(waiting.iter().sum()));
                let still = world.waiting.iter().filter(|(_, jobs)| **jobs > 0);
                let given: Vec<u32> = still.map(|(lane, _)| given[lane]).collect();
                let spread = given.iter().max().unwrap_or(&0) - given.iter().min().unwrap_or(&0);
                prop_assert!(spread <= 1, "{:?}", given);
            }
            for _ in 0..ends {
                let busy = world.running.iter().find(|(_, jobs)| **jobs > 0);
                let Some(tenant) = busy.and_then(|(lane, _)| lane.tenant()) else { break };
                world.finish(tenant.as_str());
            }
        }
    }
}
