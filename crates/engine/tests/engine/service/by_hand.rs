//! Cancel and retry by hand.

use roundsman_core::jobs::{CancelCause, FinishedState, Job, JobError, JobState};
use roundsman_core::ports::Clock;
use roundsman_engine::Error;

use super::{OWN, ada, claim_one, claim_wish, enqueue, keyed, wish};
use crate::support::{World, secs, woken};
use roundsman_core::jobs::Lane;
use roundsman_core::users::UserId;

#[tokio::test]
async fn a_waiting_job_is_cancelled_at_once_and_a_finished_one_not_at_all() {
    let world = World::new();
    let jobs = world.jobs();
    let id = enqueue(&jobs, &ada(), wish(OWN)).await;
    let Job::Finished(job) = jobs.cancel(&ada(), id).await.unwrap() else { panic!() };
    assert_eq!(job.state, FinishedState::Cancelled { cause: CancelCause::Requested });
    assert_eq!(jobs.claim(&ada(), claim_wish()).await.unwrap(), []);
    let again = jobs.cancel(&ada(), id).await.unwrap_err();
    assert!(matches!(again, Error::WrongState { state: JobState::Cancelled }), "{again:?}");

    enqueue(&jobs, &ada(), wish(OWN)).await;
    let claimed = claim_one(&jobs, &ada()).await;
    jobs.complete(&ada(), claimed.lease_ref(), None).await.unwrap();
    let late = jobs.cancel(&ada(), claimed.facts.id).await.unwrap_err();
    assert!(matches!(late, Error::WrongState { state: JobState::Completed }), "{late:?}");
    world.check().await;
}

#[tokio::test]
async fn a_running_job_is_asked_to_stop_and_never_tried_again() {
    let world = World::new();
    let jobs = world.jobs();
    let mut cancels = world.wakes.cancels();
    let id = enqueue(&jobs, &ada(), wish(OWN)).await;
    let lease = claim_one(&jobs, &ada()).await.lease_ref();
    let Job::Running(job) = jobs.cancel(&ada(), id).await.unwrap() else { panic!() };
    assert!(job.cancel_requested);
    assert_eq!(cancels.try_recv().unwrap(), id);
    // Its holder does not listen and fails instead: that is the end of it, too.
    let error = JobError::new("broken", "it broke");
    let job = jobs.fail(&ada(), lease, error, false, None).await.unwrap();
    assert_eq!(job.state(world.clock.now()), JobState::Cancelled);
    world.check().await;
}

#[tokio::test]
async fn a_finished_job_is_tried_anew_with_all_its_attempts() {
    let world = World::new();
    let jobs = world.jobs();
    let id = enqueue(&jobs, &ada(), keyed(OWN, "a")).await;
    let lease = claim_one(&jobs, &ada()).await.lease_ref();
    let running = jobs.retry(&ada(), id).await.unwrap_err();
    assert!(matches!(running, Error::WrongState { state: JobState::Processing }), "{running:?}");
    jobs.fail(&ada(), lease, JobError::new("broken", ""), true, None).await.unwrap();

    let listener = world.wakes.listen(&[Lane::of(UserId::new(1), &crate::support::kind(OWN))]);
    let Job::Waiting(job) = jobs.retry(&ada(), id).await.unwrap() else { panic!() };
    assert_eq!((job.facts.id, job.facts.attempt, job.facts.runs.total), (id, 0, 1));
    assert!(woken(&listener));
    let claimed = claim_one(&jobs, &ada()).await;
    assert_eq!((claimed.facts.id, claimed.facts.attempt), (id, 1));
    jobs.complete(&ada(), claimed.lease_ref(), None).await.unwrap();

    // Another job waits with its key: the two would be one.
    let waiting = enqueue(&jobs, &ada(), keyed(OWN, "a")).await;
    let taken = jobs.retry(&ada(), id).await.unwrap_err();
    assert!(matches!(taken, Error::KeyTaken { by } if by == waiting.get()), "{taken:?}");
    world.check().await;
}

#[tokio::test]
async fn a_job_that_backs_off_is_hastened() {
    let world = World::new();
    let jobs = world.jobs();
    let id = enqueue(&jobs, &ada(), wish(OWN)).await;
    let lease = claim_one(&jobs, &ada()).await.lease_ref();
    let error = JobError::new("broken", "it broke");
    jobs.fail(&ada(), lease, error, false, Some(secs(600))).await.unwrap();
    assert_eq!(jobs.claim(&ada(), claim_wish()).await.unwrap(), []);
    jobs.retry(&ada(), id).await.unwrap();
    assert_eq!(claim_one(&jobs, &ada()).await.facts.id, id);
    world.check().await;
}
