//! Looking at jobs: one, many, those that run, how many there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::jobs::{Job, JobId, JobState, NewJob, Outcome};
use roundsman_core::ports::{KindDepth, LaneDemand, ListFilter, ListPage, Scope};
use roundsman_core::users::UserId;

use super::fixture::{Fixture, at_once, boxed, demand};
use super::wishes::{
    ADA, BOB, COLLECT, MINUTE, RENDER, SECOND, done, fail, key, kind, retry_after,
};

pub async fn one_job_is_found_in_every_state(fx: &Arc<Fixture>) {
    let ids = one_of_each_state(fx, ADA, "").await;
    for (state, id) in ids {
        let job = fx.find(Scope::User(ADA), id).await.expect("it is there");
        assert_eq!(job.state(fx.now()), state);
        assert_eq!(fx.find(Scope::All, id).await, Some(job));
        assert_eq!(fx.find(Scope::User(BOB), id).await, None);
    }
    assert_eq!(fx.find(Scope::All, JobId::new(i64::MAX)).await, None);
}

pub async fn lists_are_filtered_by_state_kind_and_key(fx: &Arc<Fixture>) {
    let adas = one_of_each_state(fx, ADA, "").await;
    let bobs = one_of_each_state(fx, BOB, "").await;
    for state in JobState::ALL {
        let filter = ListFilter { state: Some(state), ..ListFilter::default() };
        let of = |ids: &[(JobState, JobId)]| {
            let found: Vec<_> = ids.iter().filter(|(one, _)| *one == state).collect();
            assert_eq!(found.len(), 1);
            found[0].1
        };
        let (ada, bob) = (of(&adas), of(&bobs));
        assert_eq!(listed(fx, Scope::All, &filter).await, [bob, ada]);
        assert_eq!(listed(fx, Scope::User(ADA), &filter).await, [ada]);
        let filter = ListFilter { kind: Some(kind("absent")), ..filter };
        assert_eq!(listed(fx, Scope::All, &filter).await, []);
    }
    let other = fx.put(fx.keyed(COLLECT, "pending")).await;
    let by_key = ListFilter { key: Some(key("pending")), ..ListFilter::default() };
    assert_eq!(listed(fx, Scope::User(ADA), &by_key).await.len(), 2);
    let by_both = ListFilter { kind: Some(kind(COLLECT)), ..by_key };
    assert_eq!(listed(fx, Scope::User(ADA), &by_both).await, [other]);
    let by_kind = ListFilter { kind: Some(kind(RENDER)), ..ListFilter::default() };
    assert_eq!(listed(fx, Scope::User(BOB), &by_kind).await.len(), 6);
}

/// Whether a job is scheduled or pending is a matter of the time, not of who looked last.
pub async fn a_state_filter_goes_by_the_time_of_the_look(fx: &Arc<Fixture>) {
    let later = NewJob { run_at: fx.now() + MINUTE, ..fx.wish(RENDER) };
    let id = fx.put(later).await;
    let by = |state| ListFilter { state: Some(state), ..ListFilter::default() };
    for (scheduled, pending) in [(vec![id], vec![]), (vec![], vec![id])] {
        let listed_as = async |state| listed(fx, Scope::All, &by(state)).await;
        assert_eq!(listed_as(JobState::Scheduled).await, scheduled);
        assert_eq!(listed_as(JobState::Pending).await, pending);
        let depths = fx.store.depths(fx.now()).await.expect("depths");
        assert_eq!(depths[0].scheduled, scheduled.len() as u64);
        assert_eq!(depths[0].pending, pending.len() as u64);
        fx.advance(MINUTE);
    }
}

pub async fn pages_follow_each_other_without_gap_or_overlap(fx: &Arc<Fixture>) {
    let mut expected = Vec::new();
    for mark in ["1", "2", "3", "4", "5"] {
        let ids = one_of_each_state(fx, ADA, mark).await;
        expected.extend(ids.into_iter().map(|(_, id)| id));
        one_of_each_state(fx, BOB, mark).await;
    }
    expected.sort_by(|a, b| b.cmp(a));
    for rows_max in [1, 4, 30, 200] {
        let mut seen = Vec::new();
        let mut before = None;
        loop {
            let page = ListPage { before, rows_max };
            let filter = ListFilter::default();
            let rows = fx.store.jobs(Scope::User(ADA), filter, page, fx.now()).await.expect("jobs");
            assert!(rows.len() <= rows_max as usize);
            let Some(last) = rows.last() else { break };
            before = Some(last.facts().id);
            seen.extend(rows.iter().map(|job| job.facts().id));
        }
        assert_eq!(seen, expected, "pages of {rows_max}");
    }
    let nothing = ListPage { before: None, rows_max: 0 };
    let rows = fx.store.jobs(Scope::All, ListFilter::default(), nothing, fx.now()).await;
    assert_eq!(rows.expect("jobs"), vec![]);
}

pub async fn leases_are_listed_for_whom_they_concern(fx: &Arc<Fixture>) {
    let mut expected = Vec::new();
    for user_id in [ADA, BOB, ADA, BOB, ADA] {
        let wish = NewJob { user_id, ..fx.wish("presence.poll") };
        fx.put(wish).await;
        expected.push(fx.claim_one("presence.poll").await);
    }
    one_of_each_state(fx, ADA, "").await;
    let leases = async |scope, before, rows_max| {
        let page = ListPage { before, rows_max };
        fx.store.leases(scope, page).await.expect("leases")
    };
    let mut adas = leases(Scope::User(ADA), None, 100).await;
    assert_eq!(adas.len(), 4, "the waiting and finished ones hold none");
    let newest = adas.remove(0);
    assert_eq!(adas, [4, 2, 0].map(|position: usize| expected[position].clone()));
    let bobs = leases(Scope::User(BOB), None, 100).await;
    assert_eq!(bobs, [3, 1].map(|position: usize| expected[position].clone()));
    let first = leases(Scope::All, None, 2).await;
    assert_eq!(first, [newest, expected[4].clone()]);
    let rest = leases(Scope::All, Some(first[1].facts.id), 100).await;
    assert_eq!(rest.len(), 4);
    assert_eq!(rest[0], expected[3]);
}

pub async fn depths_count_what_waits_and_runs(fx: &Arc<Fixture>) {
    assert_eq!(fx.store.depths(fx.now()).await.expect("depths"), vec![]);
    let oldest = fx.now() - MINUTE;
    let mut wishes: Vec<NewJob> = (0..5).map(|_| fx.wish(RENDER)).collect();
    wishes[3].run_at = oldest;
    wishes[3].user_id = BOB;
    wishes.extend((0..2).map(|_| NewJob { run_at: fx.now() + MINUTE, ..fx.wish(RENDER) }));
    wishes.push(fx.wish(COLLECT));
    fx.enqueue(wishes).await;
    let running = fx.claim(RENDER, 2).await;
    fx.claim_one(COLLECT).await;
    let depth = |kind_name: &str, counts: [u64; 3], oldest_due_at| KindDepth {
        kind: kind(kind_name),
        scheduled: counts[0],
        pending: counts[1],
        processing: counts[2],
        oldest_due_at,
    };
    let depths = async || {
        let mut depths = fx.store.depths(fx.now()).await.expect("depths");
        depths.sort_by(|a, b| a.kind.cmp(&b.kind));
        depths
    };
    let expected = [depth(COLLECT, [0, 0, 1], None), depth(RENDER, [2, 3, 2], Some(oldest))];
    assert_eq!(depths().await, expected);
    fx.land(running[0].lease_ref(), done("1")).await;
    fx.land(running[1].lease_ref(), retry_after(SECOND)).await;
    assert_eq!(depths().await[1], depth(RENDER, [3, 3, 0], Some(oldest)));
}

/// A reader never sees a job in no place or in two, however fast it moves between them.
pub async fn a_moving_job_is_always_in_exactly_one_place(fx: &Arc<Fixture>) {
    const CYCLES: usize = 100;
    const LOOKS: usize = 200;
    let id = fx.put(fx.keyed(RENDER, "a")).await;
    let mover = {
        let fx = Arc::clone(fx);
        async move {
            for _ in 0..CYCLES {
                let job = fx.claim_one(RENDER).await;
                fx.land(job.lease_ref(), done("1")).await;
                let answer = fx.store.retry(Scope::All, id, fx.now()).await;
                answer.expect("retry");
                // A store that never waits would keep the reader from its turn.
                tokio::task::yield_now().await;
            }
        }
    };
    let reader = {
        let fx = Arc::clone(fx);
        async move {
            for _ in 0..LOOKS {
                assert!(fx.find(Scope::All, id).await.is_some(), "it is nowhere");
                let rows = fx.list(Scope::User(ADA), ListFilter::default()).await;
                assert_eq!(rows.len(), 1, "{rows:?}");
                tokio::task::yield_now().await;
            }
        }
    };
    at_once([boxed(mover), boxed(reader)]).await;
    assert_eq!(fx.waiting(id).await.facts.runs.total, CYCLES as u64);
}

pub async fn the_database_describes_itself_and_can_be_written(fx: &Arc<Fixture>) {
    let name = fx.store.describe();
    assert!(name.chars().any(|c| c.is_ascii_digit()), "{name} has a version");
    for _ in 0..3 {
        fx.store.ping().await.expect("ping");
    }
    let first = fx.store.now().await.expect("now");
    let second = fx.store.now().await.expect("now");
    assert!(first <= second, "the clock goes forward");
    assert!(first.to_string().as_str() > "2025", "and is about right: {first}");
}

type Ids = Vec<(JobState, JobId)>;

async fn listed(fx: &Fixture, scope: Scope, filter: &ListFilter) -> Vec<JobId> {
    let rows = fx.list(scope, filter.clone()).await;
    let ids: Vec<JobId> = rows.iter().map(|job: &Job| job.facts().id).collect();
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    ids
}

/// Makes six jobs of a user, with keys that name the state each is in, and a mark.
async fn one_of_each_state(fx: &Arc<Fixture>, user_id: UserId, mark: &str) -> Ids {
    let mut ids = Vec::new();
    for state in JobState::ALL {
        let wish = NewJob { user_id, ..fx.keyed(RENDER, &format!("{}{mark}", state.as_str())) };
        let run = async |wish: NewJob, outcome: Option<Outcome>| {
            let terms = LaneDemand { lane: wish.lane(), ..demand(RENDER, 1) };
            let urgent = NewJob { priority: 100, ..wish };
            let stored = fx.enqueue(vec![urgent]).await;
            let job = fx.claim_lanes(vec![terms]).await.jobs.remove(0);
            assert_eq!(job.facts.id, stored[0].id);
            if let Some(outcome) = outcome {
                fx.land(job.lease_ref(), outcome).await;
            }
            job.facts.id
        };
        let id = match state {
            JobState::Scheduled => {
                let later = NewJob { run_at: fx.now() + MINUTE * 600, ..wish };
                fx.enqueue(vec![later]).await[0].id
            }
            JobState::Pending => fx.enqueue(vec![wish]).await[0].id,
            JobState::Processing => run(wish, None).await,
            JobState::Completed => run(wish, Some(done("1"))).await,
            JobState::Failed => run(wish, Some(fail())).await,
            JobState::Cancelled => run(wish, Some(Outcome::Cancelled)).await,
        };
        ids.push((state, id));
    }
    ids
}
