//! What belongs to one user does not exist for another.

use roundsman_core::jobs::{JobError, JobId, LeaseRef};
use roundsman_core::ports::ListFilter;
use roundsman_core::users::Authenticated;
use roundsman_engine::Error;
use roundsman_engine::jobs::Jobs;

use super::{OWN, ada, claim_one, claim_wish, enqueue, keyed, user, wish};
use crate::support::{World, kind, scripted, spec};

async fn all_by_number(jobs: &Jobs, caller: &Authenticated, lease: LeaseRef) -> Vec<Error> {
    let id = lease.id;
    let error = JobError::new("broken", "it broke");
    vec![
        jobs.job(caller, id).await.unwrap_err(),
        jobs.cancel(caller, id).await.unwrap_err(),
        jobs.retry(caller, id).await.unwrap_err(),
        jobs.heartbeat(caller, lease, None, None).await.unwrap_err(),
        jobs.complete(caller, lease, None).await.unwrap_err(),
        jobs.fail(caller, lease, error, true, None).await.unwrap_err(),
        jobs.release(caller, lease).await.unwrap_err(),
        jobs.cancelled(caller, lease).await.unwrap_err(),
    ]
}

#[tokio::test]
async fn nobody_reaches_the_jobs_of_another() {
    let world = World::new();
    let jobs = world.jobs();
    let id = enqueue(&jobs, &ada(), keyed(OWN, "a")).await;
    assert_eq!(jobs.claim(&user(2), claim_wish()).await.unwrap(), [], "a claim finds nothing");
    let own = claim_one(&jobs, &ada()).await;
    let before = world.job(id).await;
    let ended = enqueue(&jobs, &ada(), keyed("other", "b")).await;
    jobs.cancel(&ada(), ended).await.unwrap();
    for lease in [own.lease_ref(), LeaseRef { id: ended, ..own.lease_ref() }] {
        for error in all_by_number(&jobs, &user(2), lease).await {
            assert!(matches!(error, Error::NotFound { what: "job" }), "{error:?}");
        }
    }
    assert_eq!(world.job(id).await, before);
    assert_eq!(jobs.jobs(&user(2), ListFilter::default(), None, 200).await.unwrap(), []);
    assert_eq!(jobs.leases(&user(2), None, 200).await.unwrap(), []);

    // A job that never was is the same as one of somebody else.
    let nowhere = LeaseRef { id: JobId::new(999), ..own.lease_ref() };
    for error in all_by_number(&jobs, &ada(), nowhere).await {
        assert!(matches!(error, Error::NotFound { what: "job" }), "{error:?}");
    }
    world.check().await;
}

#[tokio::test]
async fn lists_hold_ones_own_and_for_the_operator_all() {
    let world = World::new();
    let jobs = world.jobs();
    let mut own = Vec::new();
    for _ in 0..3 {
        own.push(enqueue(&jobs, &ada(), wish(OWN)).await);
        enqueue(&jobs, &user(2), wish(OWN)).await;
    }
    own.reverse();
    let ids = async |caller: &Authenticated, filter: ListFilter, before, rows_max| {
        let page = jobs.jobs(caller, filter, before, rows_max).await.unwrap();
        page.iter().map(|job| job.facts().id).collect::<Vec<_>>()
    };
    let all = ListFilter::default;
    assert_eq!(ids(&ada(), all(), None, 200).await, own);
    assert_eq!(ids(&ada(), all(), None, 2).await, own[..2]);
    assert_eq!(ids(&ada(), all(), Some(own[1]), 2).await, own[2..]);
    assert_eq!(ids(&ada(), all(), None, 0).await.len(), 1, "a page holds at least one");
    assert_eq!(ids(&Authenticated::Admin, all(), None, u32::MAX).await.len(), 6);
    let other = ListFilter { kind: Some(kind("other")), ..all() };
    assert_eq!(ids(&ada(), other, None, 200).await, []);
    world.check().await;
}

#[tokio::test]
async fn leases_go_by_the_names_their_kinds_give_them() {
    let mut poll = spec("presence.poll");
    poll.lease_name = Some("meeting_presence_poll:{key}");
    let world = World::with(vec![poll.clone()]);
    let jobs = world.jobs();
    let (handler, _starts) = scripted(poll);
    let worker = world.worker(vec![handler]);
    world.enqueue(world.keyed("presence.poll", "7")).await;
    worker.claim_tick().await.unwrap();
    enqueue(&jobs, &ada(), keyed(OWN, "a")).await;
    claim_one(&jobs, &ada()).await;
    let plain = enqueue(&jobs, &ada(), wish(OWN)).await;
    claim_one(&jobs, &ada()).await;

    let names = async |caller: &Authenticated| {
        let leases = jobs.leases(caller, None, 200).await.unwrap();
        leases.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let plain = format!("render:#{plain}");
    let own = [plain.as_str(), "render:a"];
    assert_eq!(names(&ada()).await, own);
    assert_eq!(names(&Authenticated::Admin).await, [own[0], own[1], "meeting_presence_poll:7"]);
    world.check().await;
}
