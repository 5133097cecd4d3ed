//! Taking jobs back from holders that fell silent, and from nobody else.

use std::time::Duration;

use roundsman_core::jobs::{FinishedState, Job, JobId, LeaseOwner, RunOutcome, WorkerName};
use roundsman_core::ports::{ClaimRequest, Clock, JobStore, LaneDemand};
use roundsman_engine::jobs::Sweeper;

use crate::flaky::Fault;
use crate::support::{
    HEARTBEAT, MICROSECOND, RENDER, TTL, World, just_under, lane, scripted, secs, spec,
    until_running, woken,
};

const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Claims everything there is for a holder that will not be heard of again.
async fn claim_all(world: &World, owner: LeaseOwner) -> Vec<JobId> {
    let demand = LaneDemand { lane: lane(RENDER), max: 1000, lease_ttl: TTL, deadline: None };
    let request = ClaimRequest {
        worker: WorkerName::new("silent"),
        owner,
        demands: vec![demand],
        total_max: 1000,
    };
    let claimed = world.store.claim(request, world.clock.now()).await.unwrap().jobs;
    claimed.into_iter().map(|job| job.facts.id).collect()
}

/// Claims one new job.
async fn claim_new(world: &World, owner: LeaseOwner) -> JobId {
    let id = world.enqueue(world.wish(RENDER)).await;
    assert_eq!(claim_all(world, owner).await, [id]);
    id
}

/// Lets time pass with a sweep every so often, until `id` waits again. Returns how long that took.
async fn time_until_free(world: &World, sweeper: &Sweeper, id: JobId) -> Duration {
    let began = world.clock.monotonic();
    loop {
        sweeper.tick().await.unwrap();
        let passed = world.clock.monotonic().saturating_sub(began);
        if matches!(world.job(id).await, Job::Waiting(_)) {
            return passed;
        }
        assert!(passed < TTL * 10, "it is never taken back");
        world.clock.advance(SWEEP_EVERY);
    }
}

#[tokio::test]
async fn a_dead_workers_job_is_free_within_a_lease_and_a_sweep() {
    let world = World::new();
    let sweeper = world.sweeper();
    sweeper.tick().await.unwrap();
    for owner in [world.owner(), LeaseOwner::Outside] {
        let id = claim_new(&world, owner).await;
        let took = time_until_free(&world, &sweeper, id).await;
        assert!(took > TTL && took <= TTL + SWEEP_EVERY, "{took:?} for {owner:?}");
        let job = world.waiting(id).await;
        assert_eq!((job.facts.attempt, job.facts.runs.total), (1, 1));
        assert_eq!(job.facts.runs.runs[0].outcome, RunOutcome::LeaseExpired);
        assert_eq!(job.facts.runs.last_error().unwrap().code.as_str(), "crashed");
        assert!(job.due_at() <= world.clock.now(), "the lease was a backoff already");
        claim_all(&world, LeaseOwner::Outside).await;
    }
    world.check().await;
}

#[tokio::test]
async fn a_lease_holds_to_its_last_microsecond() {
    let world = World::new();
    let sweeper = world.sweeper();
    let listener = world.wakes.listen(&[lane(RENDER)]);
    claim_new(&world, world.owner()).await;
    world.clock.advance(TTL);
    assert_eq!(sweeper.tick().await.unwrap(), 0);
    assert!(!woken(&listener));
    world.clock.advance(MICROSECOND);
    assert_eq!(sweeper.tick().await.unwrap(), 1);
    assert!(woken(&listener), "whoever waits for work is told");
    assert!(world.metrics.encode().contains("jobs_rescues_total"));
    world.check().await;
}

#[tokio::test]
async fn a_start_gives_outside_workers_one_full_lease_and_the_dead_process_none() {
    let world = World::new();
    let outside = claim_new(&world, LeaseOwner::Outside).await;
    let inside = claim_new(&world, world.owner()).await;
    // The server was down for an hour; its outside workers could not be heard.
    world.clock.advance(secs(3600));
    let sweeper = world.sweeper();
    assert_eq!(sweeper.tick().await.unwrap(), 1);
    assert!(matches!(world.job(inside).await, Job::Waiting(_)));
    world.clock.advance(just_under(TTL));
    assert_eq!(sweeper.tick().await.unwrap(), 0);
    assert!(matches!(world.job(outside).await, Job::Running(_)));
    world.clock.advance(MICROSECOND);
    assert_eq!(sweeper.tick().await.unwrap(), 1, "this one is really gone");
    world.check().await;
}

#[tokio::test]
async fn an_outage_gives_outside_workers_one_full_lease_afterwards() {
    let world = World::new();
    let sweeper = world.sweeper();
    sweeper.tick().await.unwrap();
    let outside = claim_new(&world, LeaseOwner::Outside).await;
    let inside = claim_new(&world, world.owner()).await;
    world.store.set("sweep", Fault::Down);
    for _ in 0..60 {
        world.clock.advance(SWEEP_EVERY);
        sweeper.tick().await.unwrap_err();
    }
    world.store.mend();
    assert_eq!(sweeper.tick().await.unwrap(), 1, "holders in the process fence themselves");
    assert!(matches!(world.job(inside).await, Job::Waiting(_)));
    assert!(matches!(world.job(outside).await, Job::Running(_)));
    let took = time_until_free(&world, &sweeper, outside).await;
    assert!(took >= TTL && took <= TTL + SWEEP_EVERY, "{took:?}");
    world.check().await;
}

#[tokio::test]
async fn a_clock_that_is_set_forward_gives_outside_workers_one_full_lease() {
    let world = World::new();
    let sweeper = world.sweeper();
    sweeper.tick().await.unwrap();
    let outside = claim_new(&world, LeaseOwner::Outside).await;
    world.clock.set_wall(world.clock.now() + secs(3600));
    let took = time_until_free(&world, &sweeper, outside).await;
    assert!(took >= TTL && took <= TTL + secs(90) + SWEEP_EVERY, "{took:?}");
    world.check().await;
}

/// A lease from before the step ends at its time, which the step has moved away; whoever falls silent
/// after it is found as soon as ever.
#[tokio::test]
async fn a_clock_that_is_set_back_delays_nothing_that_begins_afterwards() {
    let world = World::new();
    let sweeper = world.sweeper();
    sweeper.tick().await.unwrap();
    let before = claim_new(&world, LeaseOwner::Outside).await;
    let step = TTL * 5;
    world.clock.set_wall(world.clock.now() - step);
    sweeper.tick().await.unwrap();
    let after = claim_new(&world, LeaseOwner::Outside).await;
    let took = time_until_free(&world, &sweeper, after).await;
    assert!(took >= TTL && took <= TTL + SWEEP_EVERY, "{took:?}");
    assert!(matches!(world.job(before).await, Job::Running(_)));
    claim_all(&world, LeaseOwner::Outside).await;
    let took = time_until_free(&world, &sweeper, before).await;
    assert!(took <= step + SWEEP_EVERY, "{took:?}");
    world.check().await;
}

/// Slewing, a leap second and the moments between two calls are no reason to rest.
#[tokio::test]
async fn a_clock_that_drifts_does_not_delay_the_sweep() {
    let world = World::new();
    let sweeper = world.sweeper();
    let id = claim_new(&world, world.owner()).await;
    for _ in 0..40 {
        sweeper.tick().await.unwrap();
        world.clock.advance(SWEEP_EVERY.saturating_sub(secs(1)));
        world.clock.set_wall(world.clock.now() + secs(1));
    }
    assert!(matches!(world.job(id).await, Job::Waiting(_)));
    world.check().await;
}

#[tokio::test]
async fn a_job_that_kills_every_worker_stops_at_its_last_attempt() {
    let world = World::new();
    let sweeper = world.sweeper();
    let poison = claim_new(&world, world.owner()).await;
    for attempt in 1..=3 {
        assert_eq!(world.running(poison).await.facts.attempt, attempt);
        let other = world.enqueue(world.wish("tasks.other")).await;
        world.clock.advance(TTL + secs(1));
        assert_eq!(sweeper.tick().await.unwrap(), 1);
        assert!(matches!(world.job(other).await, Job::Waiting(job) if job.facts.attempt == 0));
        if attempt < 3 {
            assert_eq!(claim_all(&world, world.owner()).await, [poison]);
        }
    }
    let job = world.finished(poison).await;
    let FinishedState::Failed { error } = &job.state else { panic!("{:?}", job.state) };
    assert_eq!(error.code.as_str(), "crashed");
    assert_eq!((job.facts.attempt, job.facts.runs.total), (3, 3));
    world.clock.advance(TTL * 10);
    assert_eq!(sweeper.tick().await.unwrap(), 0);
    assert_eq!(claim_all(&world, world.owner()).await, []);
    world.check().await;
}

#[tokio::test]
async fn a_kind_without_a_limit_slows_down_and_is_never_dropped() {
    let mut endless = spec(RENDER);
    endless.max_attempts = None;
    let world = World::with(vec![endless]);
    let sweeper = world.sweeper();
    let mut wish = world.wish(RENDER);
    wish.max_attempts = None;
    let id = world.enqueue(wish).await;
    let mut waited = Duration::ZERO;
    for attempt in 1..=30 {
        assert_eq!(claim_all(&world, world.owner()).await, [id]);
        world.clock.advance(TTL + secs(1));
        assert_eq!(sweeper.tick().await.unwrap(), 1);
        let job = world.waiting(id).await;
        assert_eq!(job.facts.attempt, attempt);
        let wait = job.due_at().since(world.clock.now());
        assert!(wait <= secs(300), "the backoff has a cap");
        waited += wait;
        world.clock.advance(wait);
    }
    assert!(waited > secs(300), "it backs off: {waited:?} in all");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sweeps_at_once_cost_one_attempt() {
    let world = World::on_disk().await;
    let (one, two) = (world.sweeper(), world.sweeper());
    world.enqueue_many(RENDER, 50).await;
    let ids = claim_all(&world, world.owner()).await;
    world.clock.advance(TTL + secs(1));
    let (first, second) = tokio::join!(one.tick(), two.tick());
    assert_eq!(first.unwrap() + second.unwrap(), 50);
    for id in ids {
        let facts = world.waiting(id).await.facts;
        assert_eq!((facts.attempt, facts.runs.total), (1, 1));
    }
    world.check().await;
}

#[tokio::test]
async fn one_round_takes_back_all_however_many() {
    let world = World::new();
    world.enqueue_many(RENDER, 700).await;
    assert_eq!(claim_all(&world, world.owner()).await.len(), 700);
    world.clock.advance(TTL + secs(1));
    assert_eq!(world.sweeper().tick().await.unwrap(), 700);
    assert_eq!(world.store.calls("sweep"), 2);
    world.check().await;
}

#[tokio::test]
async fn a_late_heartbeat_that_comes_first_wins() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let start = starts.next().await;
    // The lease is over by the database's clock, but nobody has swept.
    world.clock.set_wall(world.clock.now() + TTL + secs(1));
    world.clock.advance_monotonic(HEARTBEAT);
    worker.keep_tick().await.unwrap();
    assert_eq!(world.sweeper().tick().await.unwrap(), 0);
    start.reply(crate::support::done("1"));
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    assert_eq!(world.finished(id).await.facts.attempt, 1);
    world.check().await;
}
