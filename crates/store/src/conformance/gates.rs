//! Gates: limits, rates, turns and pauses, and that nobody else notices them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{
    GateChange, GateLimits, GateName, KindName, Lane, LeaseOwner, NewJob, Outcome, Rate,
    RunningJob, Tenant, WorkerName,
};
use roundsman_core::ports::{ClaimAnswer, ClaimRequest, LaneDemand};

use super::fixture::{Fixture, at_once};
use super::wishes::{ADA, BOB, COLLECT, RENDER, SECOND, SHARED, TTL, done, kind};

fn own_gate(kind_name: &str) -> GateName {
    GateName::of_lane(&Lane::of(ADA, &kind(kind_name)))
}

async fn limit(fx: &Fixture, name: GateName, limits: GateLimits) {
    let change = GateChange { limits: Some(limits), ..GateChange::default() };
    fx.store.change_gate(name, change, fx.now()).await.expect("change_gate");
}

async fn pause(fx: &Fixture, name: GateName, paused: bool) {
    let change = GateChange { paused: Some(paused), ..GateChange::default() };
    fx.store.change_gate(name, change, fx.now()).await.expect("change_gate");
}

fn of(tenant: &str, wish: NewJob) -> NewJob {
    NewJob { tenant: Some(Tenant::new(tenant).expect("a tenant")), ..wish }
}

async fn fill(fx: &Fixture, wish: NewJob, jobs: usize) {
    fx.enqueue(vec![wish; jobs]).await;
}

fn tenants(jobs: &[RunningJob]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for job in jobs {
        let tenant = job.facts.tenant.as_ref().map(|tenant| tenant.as_str().to_owned());
        *counts.entry(tenant.unwrap_or_default()).or_default() += 1;
    }
    counts
}

fn counts(parts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    parts.iter().map(|(tenant, jobs)| ((*tenant).to_owned(), *jobs)).collect()
}

async fn claim_as(fx: &Fixture, user: roundsman_core::users::UserId, max: u32) -> ClaimAnswer {
    let demand =
        LaneDemand { lane: Lane::of(user, &kind(RENDER)), max, lease_ttl: TTL, deadline: None };
    fx.claim_lanes(vec![demand]).await
}

pub async fn a_gate_limits_what_runs_at_once(fx: &Arc<Fixture>) {
    limit(fx, own_gate(RENDER), GateLimits { concurrency: Some(3), ..GateLimits::default() }).await;
    fill(fx, fx.wish(RENDER), 10).await;
    let first = fx.claim(RENDER, 2).await;
    let second = fx.claim(RENDER, 99).await;
    assert_eq!((first.len(), second.len()), (2, 1));
    fx.assert_nothing_to_claim(RENDER).await;
    // However a run ends, it makes room.
    fx.land(first[0].lease_ref(), done("1")).await;
    fx.land(first[1].lease_ref(), Outcome::Release).await;
    let third = fx.claim(RENDER, 99).await;
    assert_eq!(third.len(), 2);
    fx.advance(TTL + SECOND);
    let swept = fx.sweep().await;
    assert_eq!(swept.rescued.len(), 3);
    assert_eq!(fx.claim(RENDER, 99).await.len(), 3);
}

pub async fn what_runs_when_a_limit_is_set_is_counted_by_it(fx: &Arc<Fixture>) {
    let of_bob = NewJob { user_id: BOB, ..fx.wish(RENDER) };
    fill(fx, fx.wish(RENDER), 9).await;
    fill(fx, of_bob, 9).await;
    let of_ada = claim_as(fx, ADA, 2).await.jobs;
    assert_eq!(claim_as(fx, BOB, 2).await.jobs.len(), 2);
    let limits = GateLimits { concurrency: Some(3), ..GateLimits::default() };
    limit(fx, own_gate(RENDER), limits).await;
    assert_eq!(claim_as(fx, ADA, 99).await.jobs.len(), 1, "two of hers ran already");
    let limits =
        GateLimits { concurrency: Some(6), tenant_concurrency: Some(3), ..GateLimits::default() };
    limit(fx, GateName::of_kind(&kind(RENDER)), limits).await;
    assert_eq!(claim_as(fx, BOB, 99).await.jobs.len(), 1, "two of his ran already");
    assert!(claim_as(fx, ADA, 99).await.jobs.is_empty());
    fx.land(of_ada[0].lease_ref(), done("1")).await;
    assert_eq!(claim_as(fx, ADA, 99).await.jobs.len(), 1, "whatever ends makes room");
    // The jobs of a built-in kind are counted together, whoever's they are.
    fill(fx, fx.wish(SHARED), 3).await;
    fill(fx, NewJob { user_id: BOB, ..fx.wish(SHARED) }, 3).await;
    assert_eq!(fx.claim(SHARED, 3).await.len(), 3);
    let limits = GateLimits { concurrency: Some(5), ..GateLimits::default() };
    limit(fx, GateName::of_kind(&kind(SHARED)), limits).await;
    assert_eq!(fx.claim(SHARED, 99).await.len(), 2);
}

pub async fn a_gate_of_a_kind_holds_for_all_users_together(fx: &Arc<Fixture>) {
    let limits =
        GateLimits { concurrency: Some(5), tenant_concurrency: Some(3), ..GateLimits::default() };
    limit(fx, GateName::of_kind(&kind(RENDER)), limits).await;
    fill(fx, fx.wish(RENDER), 9).await;
    fill(fx, NewJob { user_id: BOB, ..fx.wish(RENDER) }, 9).await;
    assert_eq!(claim_as(fx, ADA, 99).await.jobs.len(), 3, "as many as one user may have");
    assert_eq!(claim_as(fx, BOB, 99).await.jobs.len(), 2, "as many as there may be in all");
    fill(fx, fx.wish(COLLECT), 9).await;
    assert_eq!(fx.claim(COLLECT, 99).await.len(), 9, "other kinds have nothing to do with it");
}

pub async fn tenants_are_served_in_turn(fx: &Arc<Fixture>) {
    fill(fx, of("flood", fx.wish(RENDER)), 500).await;
    fx.advance(SECOND);
    fill(fx, of("b", fx.wish(RENDER)), 4).await;
    fill(fx, of("c", fx.wish(RENDER)), 4).await;
    fill(fx, fx.wish(RENDER), 4).await;
    let all = fx.claim(RENDER, 8).await;
    assert_eq!(tenants(&all), counts(&[("", 2), ("b", 2), ("c", 2), ("flood", 2)]));
    let mut singles = BTreeMap::new();
    for _ in 0..8 {
        for (tenant, jobs) in tenants(&fx.claim(RENDER, 1).await) {
            *singles.entry(tenant).or_default() += jobs;
        }
    }
    assert_eq!(singles, counts(&[("", 2), ("b", 2), ("c", 2), ("flood", 2)]));
    assert_eq!(tenants(&fx.claim(RENDER, 3).await), counts(&[("flood", 3)]));
}

pub async fn weights_are_shares(fx: &Arc<Fixture>) {
    let weights = BTreeMap::from([("big".to_owned(), 3)]);
    limit(fx, own_gate(RENDER), GateLimits { weights, ..GateLimits::default() }).await;
    for tenant in ["big", "small"] {
        fill(fx, of(tenant, fx.wish(RENDER)), 50).await;
    }
    assert_eq!(tenants(&fx.claim(RENDER, 40).await), counts(&[("big", 30), ("small", 10)]));
}

pub async fn each_tenant_has_its_own_limit(fx: &Arc<Fixture>) {
    let limits = GateLimits { tenant_concurrency: Some(2), ..GateLimits::default() };
    limit(fx, own_gate(RENDER), limits).await;
    for tenant in ["a", "b"] {
        fill(fx, of(tenant, fx.wish(RENDER)), 9).await;
    }
    let running = fx.claim(RENDER, 99).await;
    assert_eq!(tenants(&running), counts(&[("a", 2), ("b", 2)]));
    let of_b = running.iter().find(|job| job.facts.lane().as_str().ends_with("/b"));
    let of_b = of_b.expect("one of b");
    fx.land(of_b.lease_ref(), done("1")).await;
    assert_eq!(tenants(&fx.claim(RENDER, 99).await), counts(&[("b", 1)]));
}

pub async fn a_rate_is_exact_and_says_when_it_opens(fx: &Arc<Fixture>) {
    let rate = Rate { count: 10, per_secs: 5, burst: 4 };
    limit(fx, own_gate(RENDER), GateLimits { rate: Some(rate), ..GateLimits::default() }).await;
    fill(fx, fx.wish(RENDER), 99).await;
    let answer = claim_as(fx, ADA, 99).await;
    assert_eq!(answer.jobs.len(), 4);
    assert!(answer.gated);
    let wait = Duration::from_millis(500);
    assert_eq!(answer.next_due_at, Some(fx.now() + wait));
    fx.advance(Duration::from_micros(499_999));
    assert_eq!(claim_as(fx, ADA, 99).await.jobs.len(), 0);
    fx.advance(Duration::from_micros(1));
    assert_eq!(claim_as(fx, ADA, 99).await.jobs.len(), 1);
    fx.advance(SECOND * 60);
    assert_eq!(claim_as(fx, ADA, 99).await.jobs.len(), 4, "never more than its burst");
    // What is changed begins anew.
    let rate = Rate { burst: 10, ..rate };
    limit(fx, own_gate(RENDER), GateLimits { rate: Some(rate), ..GateLimits::default() }).await;
    assert_eq!(claim_as(fx, ADA, 99).await.jobs.len(), 10);
}

pub async fn many_nodes_at_once_keep_every_limit(fx: &Arc<Fixture>) {
    let limits = GateLimits {
        concurrency: Some(7),
        tenant_concurrency: Some(3),
        rate: Some(Rate { count: 100, per_secs: 1, burst: 20 }),
        ..GateLimits::default()
    };
    limit(fx, own_gate(RENDER), limits).await;
    for tenant in ["a", "b", "c", "d"] {
        fill(fx, of(tenant, fx.wish(RENDER)), 40).await;
    }
    let mut passed = 0;
    for _ in 0..4 {
        let claims = (0..12).map(|_| {
            let fx = Arc::clone(fx);
            async move { fx.claim(RENDER, 4).await }
        });
        let claims = at_once(claims).await;
        let jobs: Vec<RunningJob> = claims.into_iter().flatten().collect();
        passed += jobs.len();
        assert!(jobs.len() <= 7, "{} run at once", jobs.len());
        assert!(tenants(&jobs).values().all(|jobs| *jobs <= 3), "{:?}", tenants(&jobs));
        for job in jobs {
            fx.land(job.lease_ref(), done("1")).await;
        }
    }
    assert_eq!(passed, 20, "as many as the bucket held");
}

pub async fn a_paused_kind_is_passed_over(fx: &Arc<Fixture>) {
    fill(fx, fx.wish(RENDER), 3).await;
    fill(fx, fx.wish(COLLECT), 3).await;
    let name = GateName::of_kind(&kind(RENDER));
    pause(fx, name.clone(), true).await;
    let since = fx.now();
    fx.advance(SECOND);
    pause(fx, name.clone(), true).await;
    fx.assert_nothing_to_claim(RENDER).await;
    assert_eq!(fx.claim(COLLECT, 9).await.len(), 3);
    let gates = fx.store.gates(vec![name.clone()]).await.expect("gates");
    assert_eq!(gates[0].paused_at, Some(since), "since it was paused first");
    pause(fx, name, false).await;
    assert_eq!(fx.claim(RENDER, 9).await.len(), 3);
    assert!(fx.store.all_gates(None, 9).await.expect("gates").is_empty(), "nothing is asked for");
}

pub async fn gated_and_other_kinds_share_a_worker(fx: &Arc<Fixture>) {
    fill(fx, fx.wish(RENDER), 50).await;
    fill(fx, of("a", fx.wish(COLLECT)), 50).await;
    let ask = async |total_max: u32| {
        let demand = |name: &str| LaneDemand {
            lane: Lane::of(ADA, &kind(name)),
            max: 100,
            lease_ttl: TTL,
            deadline: None,
        };
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands: vec![demand(RENDER), demand(COLLECT)],
            total_max,
        };
        let jobs = fx.claim_with(request).await.jobs;
        let render: KindName = kind(RENDER);
        let plain = jobs.iter().filter(|job| job.facts.kind == render).count();
        (plain, jobs.len() - plain)
    };
    // The first claim may have to learn that there is a gate.
    ask(2).await;
    assert_eq!(ask(10).await, (5, 5), "neither keeps the other from working");
    let (mut plain, mut gated) = (0, 0);
    for _ in 0..10 {
        let (of_plain, of_gated) = ask(1).await;
        (plain, gated) = (plain + of_plain, gated + of_gated);
    }
    assert_eq!((plain + gated, plain > 0, gated > 0), (10, true, true));
    let (plain, gated) = ask(1000).await;
    assert!(plain > 0 && gated > 0, "all the rest");
    assert_eq!(ask(1000).await, (0, 0));
}

pub async fn no_lane_gives_more_than_was_asked_for(fx: &Arc<Fixture>) {
    for name in [RENDER, SHARED] {
        fill(fx, fx.wish(name), 10).await;
    }
    fill(fx, of("a", fx.wish(COLLECT)), 10).await;
    let demand = |name: &str| LaneDemand {
        lane: Lane::of(ADA, &kind(name)),
        max: 1,
        lease_ttl: TTL,
        deadline: None,
    };
    // With room for one more than all lanes together may give, however it is shared out.
    for _ in 0..3 {
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands: vec![demand(RENDER), demand(SHARED), demand(COLLECT)],
            total_max: 4,
        };
        let jobs = fx.claim_with(request).await.jobs;
        let mut kinds: Vec<&str> = jobs.iter().map(|job| job.facts.kind.as_str()).collect();
        kinds.sort_unstable();
        let mut expected = [RENDER, SHARED, COLLECT];
        expected.sort_unstable();
        assert_eq!(kinds, expected);
    }
}

pub async fn a_tenant_stays_with_its_job(fx: &Arc<Fixture>) {
    let wish = of("cust/7 ü", fx.keyed(SHARED, "k"));
    let id = fx.put(wish.clone()).await;
    let tenant = wish.tenant.clone();
    assert_eq!(fx.job(id).await.facts().tenant, tenant);
    for outcome in [Outcome::Release, super::wishes::retry_after(SECOND), super::wishes::fail()] {
        fx.advance(SECOND);
        let job = fx.claim_one(SHARED).await;
        assert_eq!((job.facts.id, &job.facts.tenant), (id, &tenant));
        assert_eq!(fx.job(id).await.facts().tenant, tenant);
        fx.land(job.lease_ref(), outcome).await;
        assert_eq!(fx.job(id).await.facts().tenant, tenant);
    }
    fx.store.retry(roundsman_core::ports::Scope::All, id, fx.now()).await.expect("retry");
    let job = fx.claim_one(SHARED).await;
    fx.land(job.lease_ref(), done("1")).await;
    assert_eq!(fx.job(id).await.facts().tenant, tenant);
}

pub async fn many_jobs_that_are_kept_back_cost_the_others_nothing(fx: &Arc<Fixture>) {
    let limits = GateLimits { tenant_concurrency: Some(1), ..GateLimits::default() };
    limit(fx, own_gate(RENDER), limits).await;
    for _ in 0..2 {
        fill(fx, of("blocked", fx.wish(RENDER)), 5_000).await;
    }
    assert_eq!(fx.claim(RENDER, 10).await.len(), 1);
    // More tenants than one claim looks at.
    let wishes = (0..300).map(|number| of(&format!("t{number:03}"), fx.wish(RENDER)));
    fx.enqueue(wishes.collect()).await;
    let mut claimed = 0;
    for _ in 0..40 {
        claimed += fx.claim(RENDER, 10).await.len();
    }
    assert_eq!(claimed, 300);
}
