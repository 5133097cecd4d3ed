//! How workers outside the process get work, and how they wait for it.

use std::time::Duration;

use roundsman_core::jobs::{LeaseOwner, RunningJob};
use roundsman_core::ports::Clock;
use roundsman_core::users::Authenticated;
use roundsman_engine::Error;
use roundsman_engine::jobs::{ClaimWish, JobLimits, Jobs};
use tokio::task::JoinHandle;

use super::{OWN, ada, claim_one, claim_wish, enqueue, fields, keyed, wish};
use crate::support::{NEVER, TTL, World, let_others_run, secs, soon, until};

/// Waits may be long, and nobody looks without being woken.
fn patient(world: &World) -> Jobs {
    let limits = JobLimits { wait_max: NEVER, poll_every: NEVER, ..JobLimits::default() };
    world.jobs_with(limits)
}

type Claim = JoinHandle<Result<Vec<RunningJob>, Error>>;

/// A claim that waits; returns once it has looked at the database and found nothing.
async fn waiting_claim(world: &World, jobs: &Jobs, wait_secs: u64) -> Claim {
    let before = world.store.calls("claim");
    let jobs = jobs.clone();
    let wish = ClaimWish { wait_secs: Some(wait_secs), ..claim_wish() };
    let claim = world.tasks.spawn(async move { jobs.claim(&ada(), wish).await });
    until("the claim looks", || world.store.calls("claim") > before).await;
    let_others_run().await;
    assert!(!claim.is_finished());
    claim
}

#[tokio::test]
async fn work_that_is_there_is_handed_out_at_once() {
    let world = World::new();
    let jobs = patient(&world);
    for _ in 0..5 {
        enqueue(&jobs, &ada(), wish(OWN)).await;
    }
    enqueue(&jobs, &ada(), wish("other")).await;
    let wish = ClaimWish { max: Some(3), wait_secs: Some(3600), ..claim_wish() };
    let claimed = soon(jobs.claim(&ada(), wish)).await.unwrap();
    assert_eq!(claimed.len(), 3);
    for job in claimed {
        assert_eq!((job.facts.kind.as_str(), job.facts.attempt), (OWN, 1));
        assert_eq!((job.lease.owner, job.lease.worker.as_str()), (LeaseOwner::Outside, "outside"));
        assert_eq!(job.lease.until, world.clock.now() + TTL);
    }
    world.check().await;
}

#[tokio::test]
async fn terms_of_the_lease_may_be_asked_for() {
    let world = World::new();
    let jobs = patient(&world);
    enqueue(&jobs, &ada(), wish(OWN)).await;
    let claim = ClaimWish { lease_secs: Some(7), ..claim_wish() };
    let claimed = jobs.claim(&ada(), claim).await.unwrap();
    assert_eq!(claimed[0].lease.until, world.clock.now() + secs(7));
    assert_eq!(claimed[0].lease.ttl, secs(7));
    world.check().await;
}

#[tokio::test]
async fn without_waiting_there_may_be_nothing() {
    let world = World::new();
    let jobs = patient(&world);
    for wait_secs in [None, Some(0)] {
        let wish = ClaimWish { wait_secs, ..claim_wish() };
        assert_eq!(soon(jobs.claim(&ada(), wish)).await.unwrap(), []);
    }
    assert_eq!(world.store.calls("claim"), 2);
    world.check().await;
}

#[tokio::test]
async fn a_waiting_worker_is_woken_by_an_enqueue() {
    let world = World::new();
    let jobs = patient(&world);
    let claim = waiting_claim(&world, &jobs, 3600).await;
    enqueue(&jobs, &ada(), wish("other")).await;
    let_others_run().await;
    assert!(!claim.is_finished(), "not its kind");
    let id = enqueue(&jobs, &ada(), wish(OWN)).await;
    assert_eq!(soon(claim).await.unwrap().unwrap()[0].facts.id, id);
    world.check().await;
}

#[tokio::test]
async fn one_job_wakes_one_worker_and_each_job_another() {
    let world = World::new();
    let jobs = patient(&world);
    let mut claims = Vec::new();
    for _ in 0..3 {
        claims.push(waiting_claim(&world, &jobs, 3600).await);
    }
    for left in [2, 1, 0] {
        let looks = world.store.calls("claim");
        enqueue(&jobs, &ada(), wish(OWN)).await;
        until("a worker has it", || claims.iter().any(JoinHandle::is_finished)).await;
        claims.retain(|claim| !claim.is_finished());
        assert_eq!(claims.len(), left);
        assert_eq!(world.store.calls("claim"), looks + 1, "nobody else looked for nothing");
    }
    world.check().await;
}

/// Two wait, and one that has found work already is told of more. It leaves without looking, so
/// the other must hear of it.
#[tokio::test]
async fn a_wake_up_that_a_leaving_worker_does_not_need_goes_to_another() {
    let world = World::new();
    let jobs = patient(&world);
    let busy_one = enqueue(&jobs, &ada(), wish(OWN)).await;
    let gate = world.store.hold("claim");
    let spawn = |jobs: Jobs| {
        let wish = ClaimWish { wait_secs: Some(3600), ..claim_wish() };
        world.tasks.spawn(async move { jobs.claim(&ada(), wish).await })
    };
    let leaving = spawn(jobs.clone());
    gate.reached().await;
    // The first has its job but does not know yet; the second finds nothing and waits.
    world.store.hold_no_more();
    let staying = waiting_claim(&world, &jobs, 3600).await;
    let new = enqueue(&jobs, &ada(), wish(OWN)).await;
    let_others_run().await;
    gate.open();
    assert_eq!(soon(leaving).await.unwrap().unwrap()[0].facts.id, busy_one);
    assert_eq!(soon(staying).await.unwrap().unwrap()[0].facts.id, new);
    world.check().await;
}

#[tokio::test]
async fn a_waiting_worker_gets_a_job_when_it_comes_due() {
    let world = World::new();
    let jobs = patient(&world);
    let claim = waiting_claim(&world, &jobs, 3600).await;
    let moment = Duration::from_millis(30);
    let mut later = wish(OWN);
    later.run_at = Some(world.clock.now() + moment);
    let id = enqueue(&jobs, &ada(), later).await;
    let_others_run().await;
    assert!(!claim.is_finished(), "it is not due yet");
    world.clock.advance(moment);
    // Nobody signals any more; it looks again when the job is due.
    assert_eq!(soon(claim).await.unwrap().unwrap()[0].facts.id, id);
    world.check().await;
}

#[tokio::test]
async fn a_wait_ends_when_its_time_is_over() {
    let world = World::new();
    let limits = JobLimits { poll_every: Duration::from_millis(1), ..JobLimits::default() };
    let jobs = world.jobs_with(limits);
    let claim = waiting_claim(&world, &jobs, 10).await;
    world.clock.advance(secs(10));
    assert_eq!(soon(claim).await.unwrap().unwrap(), []);

    let claim = waiting_claim(&world, &jobs, u64::MAX).await;
    world.clock.advance(limits.wait_max);
    assert_eq!(soon(claim).await.unwrap().unwrap(), [], "no wait is longer than the limit");
    world.check().await;
}

#[tokio::test]
async fn a_lost_wake_up_costs_one_polling_interval() {
    let world = World::new();
    let limits = JobLimits { poll_every: Duration::from_millis(20), ..JobLimits::default() };
    let jobs = world.jobs_with(limits);
    let claim = waiting_claim(&world, &jobs, 30).await;
    let mut silent = world.wish(OWN);
    silent.user_id = roundsman_core::users::UserId::new(1);
    let id = world.enqueue(silent).await;
    assert_eq!(soon(claim).await.unwrap().unwrap()[0].facts.id, id);
    world.check().await;
}

#[tokio::test]
async fn everybody_stops_waiting_when_the_server_goes_down() {
    let world = World::new();
    let jobs = patient(&world);
    let claims =
        [waiting_claim(&world, &jobs, 3600).await, waiting_claim(&world, &jobs, 3600).await];
    world.wakes.close();
    for claim in claims {
        assert_eq!(soon(claim).await.unwrap().unwrap(), []);
    }
    let late = ClaimWish { wait_secs: Some(3600), ..claim_wish() };
    assert_eq!(soon(jobs.claim(&ada(), late)).await.unwrap(), []);
    world.check().await;
}

#[tokio::test]
async fn a_key_that_was_held_is_handed_on_at_once() {
    let world = World::new();
    let jobs = patient(&world);
    enqueue(&jobs, &ada(), keyed(OWN, "a")).await;
    let first = claim_one(&jobs, &ada()).await;
    let second = enqueue(&jobs, &ada(), keyed(OWN, "a")).await;
    let claim = waiting_claim(&world, &jobs, 3600).await;
    jobs.complete(&ada(), first.lease_ref(), None).await.unwrap();
    assert_eq!(soon(claim).await.unwrap().unwrap()[0].facts.id, second);
    world.check().await;
}

#[tokio::test]
async fn every_problem_of_a_claim_is_reported() {
    let world = World::new();
    let jobs = world.jobs();
    let wrong = ClaimWish {
        worker: " ".to_owned(),
        kinds: vec![],
        max: Some(0),
        lease_secs: Some(4),
        wait_secs: None,
    };
    let told = fields(jobs.claim(&ada(), wrong).await);
    assert_eq!(told, ["worker", "kinds", "max", "lease_secs"]);
    let kinds = ["tasks.render", OWN, "No"].map(ToOwned::to_owned).to_vec();
    let wrong = ClaimWish { kinds, max: Some(1001), lease_secs: Some(3601), ..claim_wish() };
    let told = fields(jobs.claim(&ada(), wrong.clone()).await);
    assert_eq!(told, ["max", "lease_secs", "kinds[0]", "kinds[2]"]);
    let told = fields(jobs.claim(&Authenticated::Admin, wrong).await);
    assert!(told.contains(&"kinds[0]".to_owned()), "not even the operator runs built-in kinds");
    let kinds = vec![OWN.to_owned(); 101];
    assert_eq!(fields(jobs.claim(&ada(), ClaimWish { kinds, ..claim_wish() }).await), ["kinds"]);

    // The same kind twice is no problem, and counts once.
    enqueue(&jobs, &ada(), wish(OWN)).await;
    let kinds = vec![OWN.to_owned(); 2];
    let claimed = jobs.claim(&ada(), ClaimWish { kinds, max: Some(5), ..claim_wish() }).await;
    assert_eq!(claimed.unwrap().len(), 1);
    world.check().await;
}
