//! A lease holds as long as its holder says so, and whoever does not hold it changes nothing.

use std::sync::Arc;

use roundsman_core::effects::{Effects, NewFrame};
use roundsman_core::jobs::{
    FinishedState, Job, JobId, JobState, LeaseNo, LeaseRef, NewJob, Outcome, Settle, Settled,
};
use roundsman_core::ports::{CancelAnswer, Heartbeat, HeartbeatAnswer, Scope};

use super::fixture::{Fixture, at_once};
use super::wishes::{MINUTE, RENDER, SECOND, TTL, done, fail, json, retry_after};

pub async fn a_heartbeat_extends_the_lease(fx: &Arc<Fixture>) {
    let id = fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    // As long as it was claimed for; as long as this beat says; then as claimed again.
    for (ttl, granted) in [(None, TTL), (Some(MINUTE), MINUTE), (None, TTL)] {
        fx.advance(SECOND * 30);
        let answer = fx.heartbeat_with(job.lease_ref(), ttl, None).await;
        let until = fx.now() + granted;
        let extended = HeartbeatAnswer::Extended { until, cancel_requested: false };
        assert_eq!(answer, extended);
        let mut expected = job.clone();
        expected.lease.until = until;
        expected.lease.heartbeat_at = fx.now();
        assert_eq!(fx.running(id).await, expected);
    }
}

pub async fn progress_is_kept_until_it_is_replaced(fx: &Arc<Fixture>) {
    let id = fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    let progress = async || fx.running(id).await.progress.map(|progress| progress.0);
    assert_eq!(progress().await, None);
    let beats = [
        (Some("1"), "1"),
        (None, "1"),
        (Some(r#"{"pages":7}"#), r#"{"pages":7}"#),
        (None, r#"{"pages":7}"#),
    ];
    for (given, kept) in beats {
        fx.heartbeat_with(job.lease_ref(), None, given.map(json)).await;
        assert_eq!(progress().await, Some(json(kept)));
    }
    // The next attempt starts from nothing; what the last one reported stays with the result.
    fx.land(job.lease_ref(), retry_after(SECOND)).await;
    fx.advance(SECOND);
    let job = fx.claim_one(RENDER).await;
    assert_eq!(job.progress, None);
    fx.heartbeat_with(job.lease_ref(), None, Some(json("9"))).await;
    fx.land(job.lease_ref(), fail()).await;
    let finished = fx.finished(id).await;
    assert_eq!(finished.progress.map(|progress| progress.0), Some(json("9")));
}

pub async fn a_late_heartbeat_that_finds_its_lease_has_won(fx: &Arc<Fixture>) {
    let id = fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    fx.advance(TTL * 3);
    let answer = fx.heartbeat(job.lease_ref()).await;
    assert!(matches!(answer, HeartbeatAnswer::Extended { until, .. } if until == fx.now() + TTL));
    assert_eq!(fx.sweep().await.rescued, vec![]);
    assert_eq!(fx.state(id).await, JobState::Processing);
    fx.land(job.lease_ref(), done("1")).await;
}

pub async fn a_heartbeat_learns_of_a_cancel(fx: &Arc<Fixture>) {
    let id = fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    let answer = fx.store.cancel(Scope::All, id, fx.now()).await;
    assert_eq!(answer.expect("cancel"), CancelAnswer::Requested);
    let expected = HeartbeatAnswer::Extended { until: fx.now() + TTL, cancel_requested: true };
    assert_eq!(fx.heartbeat(job.lease_ref()).await, expected);
}

pub async fn a_batch_answers_in_order_whatever_its_neighbours(fx: &Arc<Fixture>) {
    fx.enqueue((0..5).map(|_| fx.wish(RENDER)).collect()).await;
    let jobs = fx.claim(RENDER, 5).await;
    fx.land(jobs[1].lease_ref(), done("1")).await;
    fx.store.cancel(Scope::All, jobs[3].facts.id, fx.now()).await.expect("cancel");
    fx.advance(SECOND);
    let beats = [4u32, 1, 0, 3, 2].map(|position| Heartbeat {
        lease: jobs[position as usize].lease_ref(),
        ttl: Some(SECOND * (10 + position)),
        progress: Some(json(&position.to_string())),
    });
    let answers = fx.store.heartbeat(beats.to_vec(), fx.now()).await.expect("heartbeat");
    let extended = |position: u32, cancel_requested| HeartbeatAnswer::Extended {
        until: fx.now() + SECOND * (10 + position),
        cancel_requested,
    };
    let expected = [
        extended(4, false),
        HeartbeatAnswer::LeaseLost,
        extended(0, false),
        extended(3, true),
        extended(2, false),
    ];
    assert_eq!(answers, expected);
    for position in [0, 2, 3, 4] {
        let progress = fx.running(jobs[position].facts.id).await.progress;
        assert_eq!(progress.expect("progress").0, json(&position.to_string()));
    }
    let none = fx.store.heartbeat(vec![], fx.now()).await;
    assert_eq!(none.expect("an empty batch"), vec![]);
}

pub async fn after_a_rescue_the_old_holder_changes_nothing(fx: &Arc<Fixture>) {
    let id = fx.put(fx.keyed(RENDER, "a")).await;
    let zombie = fx.claim_one(RENDER).await;
    fx.advance(TTL + SECOND);
    assert_eq!(fx.sweep().await.rescued.len(), 1);
    // While it waits, while the next holder runs it, and when it is over.
    assert_powerless(fx, zombie.lease_ref(), id).await;
    let holder = fx.claim_one(RENDER).await;
    assert!(holder.lease.lease_no > zombie.lease.lease_no);
    assert_powerless(fx, zombie.lease_ref(), id).await;
    fx.land(holder.lease_ref(), done("1")).await;
    assert_powerless(fx, zombie.lease_ref(), id).await;
    assert_powerless(fx, holder.lease_ref(), id).await;
}

pub async fn a_lease_that_never_was_changes_nothing(fx: &Arc<Fixture>) {
    let wishes = vec![fx.wish(RENDER), fx.wish(RENDER), fx.wish(RENDER)];
    let waiting = fx.enqueue(wishes).await[2].id;
    let jobs = fx.claim(RENDER, 2).await;
    let (one, two) = (jobs[0].lease_ref(), jobs[1].lease_ref());
    let invented = [
        (one.id, two.lease_no),
        (two.id, one.lease_no),
        (one.id, LeaseNo::new(0)),
        (one.id, LeaseNo::new(two.lease_no.get() + 1)),
        (one.id, LeaseNo::new(i64::MAX)),
        (waiting, two.lease_no),
        (JobId::new(i64::MAX), one.lease_no),
        (JobId::new(-1), one.lease_no),
    ];
    for (id, lease_no) in invented {
        for watched in [one.id, two.id, waiting] {
            assert_powerless(fx, LeaseRef { id, lease_no }, watched).await;
        }
    }
}

pub async fn of_many_endings_of_one_run_one_lands(fx: &Arc<Fixture>) {
    for _ in 0..10 {
        let id = fx.put(fx.wish(RENDER)).await;
        let lease = fx.claim_one(RENDER).await.lease_ref();
        let callers = (0..16).map(|number: u32| {
            let fx = Arc::clone(fx);
            async move {
                let settled = fx.settle(lease, done(&number.to_string())).await;
                (number, settled)
            }
        });
        let answers = at_once(callers).await;
        let landed: Vec<u32> = answers
            .iter()
            .filter(|(_, settled)| matches!(settled, Settled::Landed { .. }))
            .map(|(number, _)| *number)
            .collect();
        assert_eq!(landed.len(), 1, "{answers:?}");
        let result = json(&landed[0].to_string());
        let finished = fx.finished(id).await;
        assert_eq!(finished.state, FinishedState::Completed { result });
        assert_eq!(finished.facts.runs.total, 1);
    }
}

pub async fn the_same_lease_twice_in_a_batch_lands_once(fx: &Arc<Fixture>) {
    let id = fx.put(fx.wish(RENDER)).await;
    let lease = fx.claim_one(RENDER).await.lease_ref();
    let settle =
        |result: &str| Settle { lease, outcome: done(result), effects: frame_effect("twice") };
    let answers = fx.settle_batch(vec![settle("1"), settle("2")]).await;
    let landed = Settled::Landed { state: JobState::Completed };
    assert_eq!(answers, [landed, Settled::LeaseLost]);
    let result = json("1");
    assert_eq!(fx.finished(id).await.state, FinishedState::Completed { result });
    let frames = fx.store.frames("twice".to_owned(), 0, 10).await;
    assert_eq!(frames.expect("frames").len(), 1);
}

/// Both are of one job: which of them is answered goes by the lease and not by the job.
pub async fn an_old_lease_beside_the_new_one_stays_lost(fx: &Arc<Fixture>) {
    for outcome in [done("1"), retry_after(SECOND), fail()] {
        let id = fx.put(fx.wish(RENDER)).await;
        let old = fx.claim_one(RENDER).await.lease_ref();
        fx.advance(TTL + SECOND);
        fx.sweep().await;
        fx.advance(MINUTE);
        let new = fx.claim_one(RENDER).await.lease_ref();
        assert_eq!(new.id, id);
        let settle =
            |lease| Settle { lease, outcome: outcome.clone(), effects: Effects::default() };
        let answers = fx.settle_batch(vec![settle(old), settle(new), settle(old)]).await;
        assert!(matches!(answers[1], Settled::Landed { .. }), "{answers:?}");
        assert_eq!((answers[0], answers[2]), (Settled::LeaseLost, Settled::LeaseLost));
        fx.store.cancel(Scope::All, id, fx.now()).await.expect("cancel");
    }
}

/// Whatever is done with `lease`, nothing about `watched` or anything else changes.
async fn assert_powerless(fx: &Arc<Fixture>, lease: LeaseRef, watched: JobId) {
    let before = fx.job(watched).await;
    let all_before = fx.all_jobs().await;
    for progress in [None, Some(json("666"))] {
        let answer = fx.heartbeat_with(lease, Some(TTL * 2), progress).await;
        assert_eq!(answer, HeartbeatAnswer::LeaseLost);
    }
    let outcomes = [
        done("666"),
        Outcome::Again { at: fx.now(), payload: Some(json("666")) },
        retry_after(SECOND),
        fail(),
        Outcome::Cancelled,
        Outcome::Release,
    ];
    for outcome in outcomes {
        let mut effects = frame_effect("zombie");
        effects.jobs.push(NewJob { payload: json("666"), ..fx.keyed(RENDER, "a") });
        let settled = fx.settle_with(lease, outcome.clone(), effects).await;
        assert_eq!(settled, Settled::LeaseLost, "{outcome:?}");
    }
    let written = fx.store.commit(Some(lease), frame_effect("zombie"), fx.now()).await;
    assert!(!written.expect("commit"), "a guarded write went through");
    let frames = fx.store.frames("zombie".to_owned(), 0, 10).await;
    assert_eq!(frames.expect("frames"), vec![]);
    assert_eq!(fx.job(watched).await, before);
    let all: Vec<Job> = fx.all_jobs().await;
    assert_eq!(all, all_before);
}

fn frame_effect(stream: &str) -> Effects {
    Effects {
        frames: vec![NewFrame { stream: stream.to_owned(), body: json("1") }],
        ..Effects::default()
    }
}
