//! Keys: one runs, one waits.

use roundsman_core::jobs::FinishedState;

use crate::support::{RENDER, World, done, retry, scripted, secs, spec, until_running};

#[tokio::test]
async fn triggers_while_it_runs_make_it_run_once_more_afterwards() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let first = world.enqueue(world.keyed(RENDER, "a")).await;
    worker.claim_tick().await.unwrap();
    let running = starts.next().await;

    let second = world.enqueue(world.keyed(RENDER, "a")).await;
    assert_ne!(first, second);
    for _ in 0..5 {
        assert_eq!(world.enqueue(world.keyed(RENDER, "a")).await, second, "they join");
        worker.claim_tick().await.unwrap();
    }
    assert!(starts.is_empty().await, "a key never runs twice at once");

    running.reply(done("1"));
    until_running(&worker, 0).await;
    worker.claim_tick().await.unwrap();
    assert!(starts.is_empty().await, "an end that is not written frees no key");
    worker.settle_tick().await.unwrap();
    worker.claim_tick().await.unwrap();
    let again = starts.next().await;
    assert_eq!(again.id(), second);
    again.reply(done("2"));
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    worker.claim_tick().await.unwrap();
    assert!(starts.is_empty().await, "six triggers, one more run");
    assert!(matches!(world.finished(first).await.state, FinishedState::Completed { .. }));
    world.check().await;
}

#[tokio::test]
async fn a_failure_that_meets_a_waiting_trigger_goes_on_as_one_job() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let first = world.enqueue(world.keyed(RENDER, "a")).await;
    worker.claim_tick().await.unwrap();
    let second = world.enqueue(world.keyed(RENDER, "a")).await;
    starts.next().await.reply(retry("broken"));
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();

    assert!(matches!(world.finished(first).await.state, FinishedState::Cancelled { .. }));
    let survivor = world.waiting(second).await;
    assert_eq!((survivor.facts.attempt, survivor.facts.runs.total), (1, 1));
    world.clock.advance(secs(300));
    worker.claim_tick().await.unwrap();
    assert_eq!(starts.next().await.context.job.attempt, 2);
    assert!(starts.is_empty().await);
    world.check().await;
}

#[tokio::test]
async fn two_workers_never_share_a_key() {
    let world = World::new();
    let (one_handler, mut one_starts) = scripted(spec(RENDER));
    let (two_handler, mut two_starts) = scripted(spec(RENDER));
    let (one, two) = (world.worker(vec![one_handler]), world.worker(vec![two_handler]));
    for round in 0..20 {
        for key in ["a", "b", "c"] {
            world.enqueue(world.keyed(RENDER, key)).await;
        }
        let (first, second) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        first.claim_tick().await.unwrap();
        for key in ["a", "b", "c"] {
            world.enqueue(world.keyed(RENDER, key)).await;
        }
        second.claim_tick().await.unwrap();
        assert_eq!((first.running_count(), second.running_count()), (3, 0));
        let starts = if round % 2 == 0 { &mut one_starts } else { &mut two_starts };
        starts.take(3).await.into_iter().for_each(|start| start.reply(done("1")));
        until_running(first, 0).await;
        first.settle_tick().await.unwrap();
        second.claim_tick().await.unwrap();
        let starts = if round % 2 == 0 { &mut two_starts } else { &mut one_starts };
        starts.take(3).await.into_iter().for_each(|start| start.reply(done("2")));
        until_running(second, 0).await;
        second.settle_tick().await.unwrap();
    }
    assert_eq!(world.all_jobs(Some(RENDER)).await.len(), 20 * 6);
    world.check().await;
}
