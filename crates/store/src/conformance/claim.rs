//! Workers get the right jobs, in the right order, each job once.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::jobs::{Job, JobState, Lane, Lease, LeaseOwner, NewJob, Outcome, WorkerName};
use roundsman_core::ports::{ClaimRequest, LaneDemand};

use super::fixture::{Fixture, at_once, demand};
use super::wishes::{
    ADA, BOB, COLLECT, MINUTE, RENDER, SECOND, SHARED, TTL, done, key, kind, retry_after,
};

pub async fn a_claim_hands_out_a_lease(fx: &Arc<Fixture>) {
    let wish = NewJob { priority: 2, ..fx.keyed(RENDER, "a") };
    let id = fx.put(wish).await;
    let mut facts = fx.waiting(id).await.facts;
    facts.attempt = 1;
    fx.advance(SECOND);
    let terms = [(LeaseOwner::Outside, None), (LeaseOwner::Process(17), Some(MINUTE))];
    for (owner, deadline) in terms {
        let demand = LaneDemand { lease_ttl: SECOND * 30, deadline, ..demand(RENDER, 1) };
        let request = ClaimRequest {
            worker: WorkerName::new("worker ä 1"),
            owner,
            demands: vec![demand],
            total_max: 1,
        };
        let job = fx.claim_with(request).await.jobs.remove(0);
        let lease = Lease {
            lease_no: job.lease.lease_no,
            until: fx.now() + SECOND * 30,
            ttl: SECOND * 30,
            worker: WorkerName::new("worker ä 1"),
            owner,
            claimed_at: fx.now(),
            heartbeat_at: fx.now(),
            deadline_at: deadline.map(|after| fx.now() + after),
        };
        assert_eq!(job.lease, lease);
        assert_eq!(job.facts, facts);
        assert_eq!((job.cancel_requested, &job.progress), (false, &None));
        assert_eq!(fx.job(id).await, Job::Running(Box::new(job.clone())));
        // Handed back, so that the other terms find it as it was.
        fx.land(job.lease_ref(), Outcome::Release).await;
        facts.runs = fx.waiting(id).await.facts.runs;
    }
}

pub async fn every_claim_uses_an_attempt_and_a_new_number(fx: &Arc<Fixture>) {
    let wish = NewJob { max_attempts: None, ..fx.keyed(RENDER, "a") };
    let id = fx.put(wish).await;
    let mut last = None;
    for attempt in 1..=10 {
        fx.put(fx.wish(COLLECT)).await;
        let other = fx.claim_one(COLLECT).await;
        let job = fx.claim_one(RENDER).await;
        assert_eq!((job.facts.id, job.facts.attempt), (id, attempt));
        assert!(Some(other.lease.lease_no) > last, "numbers only grow");
        assert!(job.lease.lease_no > other.lease.lease_no);
        last = Some(job.lease.lease_no);
        fx.land(job.lease_ref(), retry_after(SECOND)).await;
        fx.advance(SECOND);
    }
}

pub async fn limits_of_lane_and_total_are_kept(fx: &Arc<Fixture>) {
    let wishes = (0..20).flat_map(|_| [fx.wish(RENDER), fx.wish(COLLECT)]);
    fx.enqueue(wishes.collect()).await;
    let claim = async |render: u32, collect: u32, total_max: u32| {
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands: vec![demand(RENDER, render), demand(COLLECT, collect)],
            total_max,
        };
        let jobs = fx.claim_with(request).await.jobs;
        let renders = jobs.iter().filter(|job| job.facts.kind == kind(RENDER)).count();
        (renders, jobs.len() - renders)
    };
    assert_eq!(claim(3, 2, 10).await, (3, 2));
    assert_eq!(claim(0, 2, 10).await, (0, 2));
    assert_eq!(claim(5, 5, 0).await, (0, 0));
    let (renders, collects) = claim(5, 5, 7).await;
    assert_eq!(renders + collects, 7);
    assert!(renders <= 5 && collects <= 5, "{renders} {collects}");
    let (renders, collects) = claim(100, 100, 1000).await;
    assert_eq!(renders + collects, 40 - 5 - 2 - 7, "the rest, once");
}

pub async fn the_best_rank_goes_first(fx: &Arc<Fixture>) {
    let mut expected = Vec::new();
    for (number, age) in [5u32, 0, 59, 60, 61, 120, 7, 0].into_iter().enumerate() {
        for priority in [0, 1, -1, 100] {
            let wish = NewJob {
                priority,
                run_at: fx.now() - SECOND * age,
                // Some have keys: they must not be treated apart.
                key: (number % 2 == 0).then(|| key(&format!("{number} {priority}"))),
                ..fx.wish(RENDER)
            };
            let id = fx.put(wish).await;
            expected.push((fx.waiting(id).await.rank(), id));
        }
    }
    expected.sort();
    let mut order = Vec::new();
    // Batches of unequal sizes: the order holds within each and from one to the next.
    for max in [1, 5, 2, 10, 100] {
        order.extend(fx.claim(RENDER, max).await.iter().map(|job| job.facts.id));
    }
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(order, expected);
}

pub async fn age_overtakes_priority(fx: &Arc<Fixture>) {
    let low = NewJob { priority: -1, ..fx.wish(RENDER) };
    let old_and_low = fx.put(low).await;
    let mut order = Vec::new();
    for _ in 0..4 {
        fx.advance(SECOND * 25);
        fx.put(fx.wish(RENDER)).await;
        order.push(fx.claim_one(RENDER).await.facts.id == old_and_low);
    }
    assert_eq!(order, [false, false, true, false]);
}

pub async fn only_the_lanes_asked_for_are_claimed(fx: &Arc<Fixture>) {
    let bobs = |wish: NewJob| NewJob { user_id: BOB, ..wish };
    let wishes =
        vec![bobs(fx.wish(RENDER)), fx.wish(COLLECT), bobs(fx.wish(SHARED)), fx.wish(SHARED)];
    fx.enqueue(wishes).await;
    fx.assert_nothing_to_claim(RENDER).await;
    let shared = fx.claim(SHARED, 10).await;
    let users: BTreeSet<_> = shared.iter().map(|job| job.facts.user_id).collect();
    assert_eq!(users, BTreeSet::from([ADA, BOB]), "one lane for all");
    let bobs_lane = LaneDemand { lane: Lane::of(BOB, &kind(RENDER)), ..demand(RENDER, 10) };
    let jobs = fx.claim_lanes(vec![bobs_lane]).await.jobs;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].facts.user_id, BOB);
    assert_eq!(fx.claim_lanes(vec![]).await.jobs, vec![]);
}

/// A key that runs keeps its waiting job from being claimed, and nobody else's.
pub async fn a_running_key_is_skipped_and_blocks_nobody(fx: &Arc<Fixture>) {
    const BLOCKED: u32 = 300;
    let keyed = |number: u32| fx.keyed(RENDER, &format!("k{number}"));
    fx.enqueue((0..BLOCKED).map(keyed).collect()).await;
    let running = fx.claim(RENDER, BLOCKED).await;
    assert_eq!(running.len(), BLOCKED as usize);
    // All of these wait behind their own running job, in front of everything else.
    fx.enqueue((0..BLOCKED).map(keyed).collect()).await;
    fx.advance(SECOND);
    let free: Vec<_> = fx
        .enqueue(vec![
            fx.keyed(RENDER, "free"),
            fx.wish(RENDER),
            NewJob { user_id: BOB, ..fx.keyed(RENDER, "k1") },
        ])
        .await;
    let claimed = fx.claim(RENDER, 10).await;
    let ids: Vec<_> = claimed.iter().map(|job| job.facts.id).collect();
    assert_eq!(ids, [free[0].id, free[1].id]);

    fx.land(running[7].lease_ref(), done("null")).await;
    let next = fx.claim(RENDER, 10).await;
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].facts.key, running[7].facts.key);
}

pub async fn a_claim_says_when_the_next_job_comes_due(fx: &Arc<Fixture>) {
    let claim = async || fx.claim_lanes(vec![demand(RENDER, 10)]).await;
    assert_eq!(claim().await.next_due_at, None);
    fx.put(fx.wish(RENDER)).await;
    let later = |wish: NewJob, wait| NewJob { run_at: fx.now() + wait, ..wish };
    fx.put(later(fx.wish(RENDER), MINUTE * 2)).await;
    let start = fx.now();
    let answer = claim().await;
    assert_eq!(answer.jobs.len(), 1);
    assert_eq!(answer.next_due_at, Some(start + MINUTE * 2));
    // Of whatever lane: a node sleeps until then.
    fx.put(later(fx.wish(COLLECT), MINUTE)).await;
    assert_eq!(claim().await.next_due_at, Some(start + MINUTE));
    // A backoff counts like a time that was asked for.
    fx.land(answer.jobs[0].lease_ref(), retry_after(SECOND * 30)).await;
    assert_eq!(claim().await.next_due_at, Some(start + SECOND * 30));

    fx.advance(MINUTE);
    let answer = claim().await;
    assert_eq!(answer.jobs.len(), 1);
    assert_eq!(answer.next_due_at, Some(start + MINUTE * 2), "the rest is due");
    assert_eq!(fx.claim(COLLECT, 1).await.len(), 1);
    fx.advance(MINUTE);
    assert_eq!(claim().await.next_due_at, None);
}

pub async fn sixty_four_claimers_share_a_thousand_jobs(fx: &Arc<Fixture>) {
    const JOBS: usize = 1000;
    const CLAIMERS: usize = 64;
    const EACH: u32 = 7;
    fx.enqueue((0..JOBS).map(|_| fx.wish(RENDER)).collect()).await;
    let claimers = (0..CLAIMERS).map(|_| {
        let fx = Arc::clone(fx);
        async move {
            let mut claimed = Vec::new();
            // An empty answer is final: nothing here ever comes back.
            loop {
                let jobs = fx.claim(RENDER, EACH).await;
                assert!(jobs.len() <= EACH as usize, "more than asked for");
                if jobs.is_empty() {
                    return claimed;
                }
                claimed.extend(jobs.iter().map(|job| (job.facts.id, job.lease.lease_no)));
            }
        }
    });
    let mut claims: Vec<_> = at_once(claimers).await.into_iter().flatten().collect();
    // A claimer may see nothing while the others hold the rest; nothing may stay behind for good.
    claims
        .extend(fx.claim(RENDER, 1000).await.iter().map(|job| (job.facts.id, job.lease.lease_no)));
    let ids: BTreeSet<_> = claims.iter().map(|(id, _)| *id).collect();
    let numbers: BTreeSet<_> = claims.iter().map(|(_, number)| *number).collect();
    assert_eq!(claims.len(), JOBS, "every job once");
    assert_eq!((ids.len(), numbers.len()), (JOBS, JOBS));
}

/// Under contention the limit of a lane holds as well, and keys are handed out once.
pub async fn claimers_at_once_never_share_a_key(fx: &Arc<Fixture>) {
    const KEYS: u32 = 40;
    let wishes = (0..KEYS).map(|number| fx.keyed(RENDER, &format!("k{number}")));
    fx.enqueue(wishes.collect()).await;
    let claimers = (0..16).map(|_| {
        let fx = Arc::clone(fx);
        async move {
            let jobs = fx.claim(RENDER, 5).await;
            assert!(jobs.len() <= 5);
            // Triggers in between must not make a running key claimable.
            for job in &jobs {
                let key = job.facts.key.clone();
                let wish = NewJob { key, ..fx.wish(RENDER) };
                fx.enqueue(vec![wish]).await;
            }
            let more = fx.claim(RENDER, 5).await;
            jobs.into_iter().chain(more).collect::<Vec<_>>()
        }
    });
    let jobs: Vec<_> = at_once(claimers).await.into_iter().flatten().collect();
    let keys: BTreeSet<_> = jobs.iter().map(|job| job.facts.key.clone()).collect();
    assert_eq!(keys.len(), jobs.len(), "a key ran twice at once");
    for job in &jobs {
        assert_eq!(fx.state(job.facts.id).await, JobState::Processing);
        assert_eq!(job.lease.ttl, TTL);
    }
}
