//! Triggers join a waiting job with their key, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::jobs::{Job, JobState, MergeRule, NewJob, coalesce, first_wait};

use super::fixture::{Fixture, at_once};
use super::wishes::{
    BOB, COLLECT, FIRST, MINUTE, RENDER, SECOND, catalog, done, fail, json, retry_after,
};

pub async fn a_second_trigger_joins_the_waiting_job(fx: &Arc<Fixture>) {
    let rules = catalog();
    for kind_name in [RENDER, FIRST, COLLECT] {
        let first = NewJob {
            payload: json("[1]"),
            run_at: fx.now() + MINUTE,
            max_attempts: Some(7),
            ..fx.keyed(kind_name, "a")
        };
        let second = NewJob {
            payload: json("[2]"),
            priority: 5,
            run_at: fx.now() + SECOND,
            max_attempts: Some(1),
            ..first.clone()
        };
        let id = fx.put(first.clone()).await;
        let mut expected = first_wait(id, first.clone(), fx.now());
        fx.advance(SECOND);
        assert_eq!(fx.join(second.clone()).await, id);
        let merge = rules.merge(&first.kind);
        coalesce(&mut expected, second, merge, fx.now());
        assert_eq!(fx.waiting(id).await, expected, "{merge:?}");
        // A later wish of lower priority moves neither time nor place.
        let third =
            NewJob { payload: json("[3]"), priority: -5, run_at: fx.now() + MINUTE, ..first };
        assert_eq!(fx.join(third.clone()).await, id);
        coalesce(&mut expected, third, merge, fx.now());
        assert_eq!(fx.waiting(id).await, expected, "{merge:?}");
    }
}

pub async fn an_earlier_trigger_makes_a_scheduled_job_due(fx: &Arc<Fixture>) {
    let later = NewJob { run_at: fx.now() + MINUTE, ..fx.keyed(RENDER, "a") };
    let id = fx.put(later).await;
    fx.assert_nothing_to_claim(RENDER).await;
    fx.join(fx.keyed(RENDER, "a")).await;
    assert_eq!(fx.state(id).await, JobState::Pending);
    assert_eq!(fx.claim_one(RENDER).await.facts.id, id);
}

pub async fn a_trigger_of_higher_priority_moves_the_job_ahead(fx: &Arc<Fixture>) {
    let slow = fx.put(fx.keyed(RENDER, "slow")).await;
    let urgent = NewJob { priority: 5, ..fx.keyed(RENDER, "urgent") };
    let urgent = fx.put(urgent).await;
    let ahead = NewJob { priority: 10, ..fx.keyed(RENDER, "slow") };
    fx.join(ahead).await;
    let claimed: Vec<_> = fx.claim(RENDER, 2).await;
    let order: Vec<_> = claimed.iter().map(|job| job.facts.id).collect();
    assert_eq!(order, [slow, urgent]);
}

pub async fn wishes_of_one_batch_join_each_other(fx: &Arc<Fixture>) {
    let wish = |key_text: &str, payload: &str| NewJob {
        payload: json(payload),
        ..fx.keyed(COLLECT, key_text)
    };
    let waiting = fx.put(wish("c", "[0]")).await;
    let batch = vec![
        wish("a", "[1]"),
        wish("a", "[2]"),
        wish("b", "[3]"),
        wish("c", "[4]"),
        wish("a", "[5]"),
        wish("c", "[6]"),
    ];
    let stored = fx.enqueue(batch).await;
    let joined: Vec<_> = stored.iter().map(|one| one.coalesced).collect();
    assert_eq!(joined, [false, true, false, true, true, true]);
    let (a, b) = (stored[0].id, stored[2].id);
    let ids: Vec<_> = stored.iter().map(|one| one.id).collect();
    assert_eq!(ids, [a, a, b, waiting, a, waiting]);
    for (id, payload) in [(a, "[1,2,5]"), (b, "[3]"), (waiting, "[0,4,6]")] {
        assert_eq!(fx.waiting(id).await.facts.payload, json(payload));
    }
}

pub async fn jobs_without_a_key_never_join(fx: &Arc<Fixture>) {
    let stored = fx.enqueue(vec![fx.wish(RENDER), fx.wish(RENDER), fx.wish(RENDER)]).await;
    fx.put(fx.wish(RENDER)).await;
    assert!(stored.iter().all(|one| !one.coalesced));
    let claimed = fx.claim(RENDER, 10).await;
    assert_eq!(claimed.len(), 4, "all of them run at once");
    for job in claimed {
        fx.land(job.lease_ref(), retry_after(SECOND)).await;
    }
    fx.advance(SECOND);
    assert_eq!(fx.claim(RENDER, 10).await.len(), 4, "nor do they fold");
}

pub async fn keys_are_apart_per_user_and_kind(fx: &Arc<Fixture>) {
    let wishes = vec![
        fx.keyed(RENDER, "a"),
        NewJob { user_id: BOB, ..fx.keyed(RENDER, "a") },
        fx.keyed(COLLECT, "a"),
    ];
    let stored = fx.enqueue(wishes).await;
    assert!(stored.iter().all(|one| !one.coalesced));
    let ids: BTreeSet<_> = stored.iter().map(|one| one.id).collect();
    assert_eq!(ids.len(), 3);
}

pub async fn a_trigger_while_running_leaves_exactly_one_more(fx: &Arc<Fixture>) {
    let first = fx.put(fx.keyed(COLLECT, "a")).await;
    let run = fx.claim_one(COLLECT).await;
    let wish = |payload: &str| NewJob { payload: json(payload), ..fx.keyed(COLLECT, "a") };
    let next = fx.put(wish("[1]")).await;
    assert_ne!(next, first, "the running job cannot take it");
    for payload in ["[2]", "[3]"] {
        assert_eq!(fx.join(wish(payload)).await, next);
    }
    fx.assert_nothing_to_claim(COLLECT).await;
    let running = fx.running(first).await;
    assert_eq!(running, run, "the run is not disturbed");

    fx.land(run.lease_ref(), done("null")).await;
    let second = fx.claim_one(COLLECT).await;
    assert_eq!(second.facts.id, next);
    assert_eq!(second.facts.payload, json("[1,2,3]"));
}

pub async fn a_finished_job_attracts_no_triggers(fx: &Arc<Fixture>) {
    let mut seen = BTreeSet::new();
    for outcome in [done("1"), fail()] {
        assert!(seen.insert(fx.put(fx.keyed(RENDER, "a")).await));
        let run = fx.claim_one(RENDER).await;
        fx.land(run.lease_ref(), outcome).await;
    }
    let id = fx.put(fx.keyed(RENDER, "a")).await;
    assert!(seen.insert(id));
}

pub async fn a_trigger_cannot_shorten_a_backoff(fx: &Arc<Fixture>) {
    let id = fx.put(fx.keyed(RENDER, "a")).await;
    let run = fx.claim_one(RENDER).await;
    let state = fx.land(run.lease_ref(), retry_after(MINUTE)).await;
    assert_eq!(state, JobState::Scheduled);
    for _ in 0..3 {
        fx.advance(SECOND);
        assert_eq!(fx.join(fx.keyed(RENDER, "a")).await, id);
        fx.assert_nothing_to_claim(RENDER).await;
    }
    fx.advance(MINUTE.saturating_sub(SECOND * 3));
    let again = fx.claim_one(RENDER).await;
    assert_eq!((again.facts.id, again.facts.attempt), (id, 2));
}

/// Fifty triggers at once: one waits, and what each of them said is in it.
pub async fn many_triggers_at_once_leave_one_waiting_job(fx: &Arc<Fixture>) {
    const CALLERS: usize = 50;
    let callers = (0..CALLERS).map(|number| {
        let fx = Arc::clone(fx);
        async move {
            let wish = NewJob { payload: json(&format!("[{number}]")), ..fx.keyed(COLLECT, "a") };
            fx.enqueue(vec![wish]).await[0]
        }
    });
    let answers = at_once(callers).await;
    let ids: BTreeSet<_> = answers.iter().map(|one| one.id).collect();
    assert_eq!(ids.len(), 1, "all met in one job");
    let new = answers.iter().filter(|one| !one.coalesced).count();
    assert_eq!(new, 1, "and one of them made it");
    let jobs = fx.all_jobs().await;
    assert_eq!(jobs.len(), 1);
    let payload = jobs[0].facts().payload.to_value();
    let mut items: Vec<u64> = payload
        .as_array()
        .expect("an array")
        .iter()
        .filter_map(serde_json::Value::as_u64)
        .collect();
    items.sort_unstable();
    assert_eq!(items, (0..CALLERS as u64).collect::<Vec<_>>());
}

/// Batches that name the same keys in different orders neither wait for each other for ever nor
/// leave two jobs of one key.
pub async fn batches_in_any_order_of_keys_do_not_deadlock(fx: &Arc<Fixture>) {
    const CALLERS: usize = 16;
    const KEYS: usize = 20;
    let callers = (0..CALLERS).map(|caller| {
        let fx = Arc::clone(fx);
        async move {
            for round in 0..5 {
                let wishes = (0..KEYS).map(|step| {
                    // A different walk over all keys for each caller and round: 1, 3, 7, 9 and 11
                    // have no factor in common with 20.
                    let stride = [1, 3, 7, 9, 11][(caller + round) % 5];
                    let number = (caller + step * stride) % KEYS;
                    fx.keyed(RENDER, &format!("k{number}"))
                });
                fx.enqueue(wishes.collect()).await;
            }
        }
    });
    at_once(callers).await;
    let jobs = fx.all_jobs().await;
    assert_eq!(jobs.len(), KEYS);
    assert!(jobs.iter().all(|job| matches!(job, Job::Waiting(_))));
}

pub async fn appended_payloads_are_bounded(fx: &Arc<Fixture>) {
    let id = fx.put(fx.keyed(COLLECT, "a")).await;
    let mut expected = json("null");
    for round in 0..3 {
        let items: Vec<u32> = (round * 300..round * 300 + 300).collect();
        let payload = json(&serde_json::Value::from(items).to_string());
        expected = MergeRule::Append.merge(expected, payload.clone());
        let wish = NewJob { payload, ..fx.keyed(COLLECT, "a") };
        assert_eq!(fx.join(wish).await, id);
    }
    assert_eq!(fx.waiting(id).await.facts.payload, expected);
}
