//! What kinds ask for beyond being run, over the service and in the worker: gates, links, batches, many
//! jobs at once.

use roundsman_core::jobs::{GateChange, GateLimits, Job, JobState, Rate, Role};
use roundsman_core::ports::{BulkStore, Clock, ListFilter};
use roundsman_core::users::{Authenticated, TokenId, UserId};
use roundsman_engine::Error;
use roundsman_engine::jobs::{
    AfterWish, BatchWish, BulkAction, BulkWish, ClaimWish, GateTarget, Housekeeping,
    IdempotencyWish, ImportLine, ImportReport, JobWish, PRUNE_KIND, prune_spec,
};

use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{
    NEVER, RENDER, World, done, kind, lane, scripted, secs, spec, until_running, woken,
};

on_every_database! {
    a_worker_that_a_gate_keeps_back_looks_again_when_it_opens
    a_place_that_becomes_free_on_another_node_is_found_within_a_second
    whoever_opens_a_gate_wakes_those_who_wait_at_it
    a_batch_is_made_once_though_its_answer_was_lost
    a_batch_calls_back_once_though_its_end_is_told_twice
    what_waits_for_others_runs_when_they_are_done
    one_call_after_the_other_goes_over_all_jobs
    nobody_changes_the_jobs_of_others_by_the_dozen
    an_import_that_breaks_off_is_sent_again
    failed_jobs_are_kept_for_as_long_as_their_kind_says
}

const OWN: &str = "report";

fn ada() -> Authenticated {
    user(1)
}

fn user(number: i64) -> Authenticated {
    Authenticated::User {
        user_id: UserId::new(number),
        token_id: TokenId::new(number),
        scopes: vec![],
    }
}

fn wish() -> JobWish {
    JobWish { kind: OWN.to_owned(), ..JobWish::default() }
}

fn of_kind(name: &str) -> GateTarget {
    GateTarget { kind: name.to_owned(), user_id: None }
}

fn limited(limits: GateLimits) -> GateChange {
    GateChange { limits: Some(limits), paused: None }
}

async fn claim(world: &World, max: u32) -> Vec<roundsman_core::jobs::RunningJob> {
    let wish = ClaimWish {
        worker: "outside".to_owned(),
        kinds: vec![OWN.to_owned()],
        max: Some(max),
        ..ClaimWish::default()
    };
    world.jobs().claim(&ada(), wish).await.unwrap()
}

async fn complete(world: &World, max: u32) -> usize {
    let jobs = claim(world, max).await;
    for job in &jobs {
        world.jobs().complete(&ada(), job.lease_ref(), None).await.unwrap();
    }
    jobs.len()
}

async fn a_worker_that_a_gate_keeps_back_looks_again_when_it_opens(backend: Backend) {
    let world = World::on(backend, vec![]).await;
    let rate = Some(Rate { count: 4, per_secs: 1, burst: 1 });
    let limits = limited(GateLimits { rate, ..GateLimits::default() });
    world.jobs().change_gate(&Authenticated::Admin, of_kind(RENDER), limits).await.unwrap();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    world.enqueue_many(RENDER, 3).await;
    for _ in 0..3 {
        let wait = worker.claim_tick().await.unwrap();
        starts.next().await.reply(done("1"));
        until_running(&worker, 0).await;
        worker.settle_tick().await.unwrap();
        assert!(starts.is_empty().await, "one at a time");
        assert!(wait <= std::time::Duration::from_millis(1000), "{wait:?}");
        world.clock.advance(std::time::Duration::from_millis(250));
    }
    assert_eq!(world.all_jobs(Some(RENDER)).await.len(), 3);
    world.check().await;
}

async fn a_place_that_becomes_free_on_another_node_is_found_within_a_second(backend: Backend) {
    let world = World::on(backend, vec![]).await;
    let limits = limited(GateLimits { concurrency: Some(1), ..GateLimits::default() });
    world.jobs().change_gate(&Authenticated::Admin, of_kind(RENDER), limits).await.unwrap();
    let (handler, mut of_one) = scripted(spec(RENDER));
    let one = world.worker(vec![handler]);
    let (handler, mut of_other) = scripted(spec(RENDER));
    let other = world.worker(vec![handler]);
    world.enqueue_many(RENDER, 2).await;
    one.claim_tick().await.unwrap();
    assert_eq!(other.claim_tick().await.unwrap(), secs(1), "though it never polls otherwise");
    assert!(of_other.is_empty().await);
    of_one.next().await.reply(done("1"));
    until_running(&one, 0).await;
    one.settle_tick().await.unwrap();
    other.claim_tick().await.unwrap();
    of_other.next().await.reply(done("1"));
    until_running(&other, 0).await;
    other.settle_tick().await.unwrap();
    let plain = JobWish { kind: OWN.to_owned(), ..JobWish::default() };
    world.jobs().enqueue(&ada(), vec![plain], None).await.unwrap();
    assert_eq!(claim(&world, 9).await.len(), 1, "others have nothing to do with it");
    world.check().await;
}

async fn whoever_opens_a_gate_wakes_those_who_wait_at_it(backend: Backend) {
    let world = World::on(backend, vec![]).await;
    let jobs = world.jobs();
    let pause = |paused| GateChange { paused: Some(paused), limits: None };
    jobs.change_gate(&Authenticated::Admin, of_kind(RENDER), pause(true)).await.unwrap();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    world.enqueue_many(RENDER, 1).await;
    worker.claim_tick().await.unwrap();
    assert!(starts.is_empty().await);
    let listener = world.wakes.listen(&[lane(RENDER)]);
    assert!(!woken(&listener));
    jobs.change_gate(&Authenticated::Admin, of_kind(RENDER), pause(false)).await.unwrap();
    assert!(woken(&listener));
    assert_eq!(worker.claim_tick().await.unwrap(), NEVER, "no gate is left");
    starts.next().await.reply(done("1"));
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    // What a user sets is about their own jobs, and built-in kinds are nobody's own.
    let refused = jobs.change_gate(&ada(), of_kind(RENDER), pause(true)).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    jobs.change_gate(&ada(), of_kind(OWN), pause(true)).await.unwrap();
    assert_eq!(jobs.gates(&ada(), None, 10).await.unwrap().len(), 1);
    assert_eq!(jobs.gates(&user(2), None, 10).await.unwrap(), []);
    world.check().await;
}

fn batch(jobs: usize) -> BatchWish {
    let callback = Some(JobWish { kind: "called".to_owned(), ..JobWish::default() });
    BatchWish { name: None, jobs: vec![wish(); jobs], callback }
}

async fn a_batch_is_made_once_though_its_answer_was_lost(backend: Backend) {
    let world = World::on(backend, vec![]).await;
    let jobs = world.jobs();
    let named = |body: &'static str| {
        let body = bytes::Bytes::from_static(body.as_bytes());
        Some(IdempotencyWish { route: "POST /batches", key: "march".to_owned(), body })
    };
    world.store.set("create_batch", Fault::AnswerLost);
    jobs.create_batch(&ada(), batch(3), named("three")).await.unwrap_err();
    world.store.mend();
    let made = jobs.create_batch(&ada(), batch(3), named("three")).await.unwrap();
    assert_eq!((made.replayed, made.jobs.len()), (true, 3));
    assert_eq!(world.all_jobs(Some(OWN)).await.len(), 3);
    let reused = jobs.create_batch(&ada(), batch(2), named("two")).await;
    assert!(matches!(reused, Err(Error::IdempotencyKeyReused)), "{reused:?}");
    let own = jobs.create_batch(&user(2), batch(1), named("one")).await.unwrap();
    assert!(!own.replayed, "others may call theirs the same");
    let shown = jobs.batch(&ada(), made.id.get()).await.unwrap();
    assert_eq!((shown.total, shown.counts[1]), (3, 3));
    world.check().await;
}

async fn a_batch_calls_back_once_though_its_end_is_told_twice(backend: Backend) {
    let world = World::on(backend, vec![]).await;
    let jobs = world.jobs();
    let made = jobs.create_batch(&ada(), batch(2), None).await.unwrap();
    assert_eq!(complete(&world, 1).await, 1);
    let last = claim(&world, 1).await.remove(0);
    world.store.set("settle", Fault::AnswerLost);
    jobs.complete(&ada(), last.lease_ref(), None).await.unwrap_err();
    world.store.mend();
    // It was written, so that whoever tells it again has lost the lease.
    let again = jobs.complete(&ada(), last.lease_ref(), None).await;
    assert!(matches!(again, Err(Error::LeaseLost)), "{again:?}");
    assert_eq!(world.all_jobs(Some("called")).await.len(), 1);
    let shown = jobs.batch(&ada(), made.id.get()).await.unwrap();
    assert_eq!(shown.finished_at, Some(world.clock.now()));
    assert!(shown.callback.is_some());
    world.check().await;
}

async fn what_waits_for_others_runs_when_they_are_done(backend: Backend) {
    let world = World::on(backend, vec![]).await;
    let jobs = world.jobs();
    let first = jobs.enqueue(&ada(), vec![wish()], None).await.unwrap().jobs[0].id;
    let after = |on_failure: &str| AfterWish {
        after: vec![first.get()],
        on_failure: Some(on_failure.to_owned()),
    };
    let send = || JobWish { kind: "send".to_owned(), ..JobWish::default() };
    let waits = jobs.enqueue_after(&ada(), send(), after("cancel")).await.unwrap();
    assert_eq!(waits.state(world.clock.now()), JobState::Scheduled);
    assert_eq!(jobs.waits_for(&waits).await.unwrap(), [first]);
    // Nobody waits for the jobs of others, or in a way that there is not.
    for (caller, on_failure) in [(user(2), "cancel"), (ada(), "explode")] {
        let refused = jobs.enqueue_after(&caller, send(), after(on_failure)).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    assert_eq!(complete(&world, 9).await, 1);
    let job = jobs.job(&ada(), waits.facts().id).await.unwrap();
    assert_eq!(job.state(world.clock.now()), JobState::Pending);
    assert_eq!(jobs.waits_for(&job).await.unwrap(), []);
    world.check().await;
}

fn bulk(action: BulkAction, jobs_max: u32) -> BulkWish {
    let filter = ListFilter { kind: Some(kind(OWN)), ..ListFilter::default() };
    BulkWish { action, filter, user_id: None, before: None, jobs_max }
}

async fn one_call_after_the_other_goes_over_all_jobs(backend: Backend) {
    let world = World::on(backend, vec![]).await;
    let jobs = world.jobs();
    jobs.enqueue(&ada(), vec![wish(); 450], None).await.unwrap();
    assert_eq!(complete(&world, 50).await, 50);
    let running = claim(&world, 10).await;
    let (mut wish, mut calls, mut changed, mut skipped) = (bulk(BulkAction::Cancel, 300), 0, 0, 0);
    loop {
        let report = jobs.bulk(&ada(), wish.clone()).await.unwrap();
        (calls, changed) = (calls + 1, changed + report.changed);
        skipped += report.skipped;
        wish.before = report.next_before;
        if report.next_before.is_none() {
            break;
        }
    }
    assert_eq!((calls, changed, skipped), (2, 400, 50), "what is over stays as it is");
    let told = jobs.job(&ada(), running[0].facts.id).await.unwrap();
    assert!(matches!(told, Job::Running(job) if job.cancel_requested), "it is told");
    // Whoever waits for work hears of what is tried again.
    let own = roundsman_core::jobs::Lane::of(UserId::new(1), &kind(OWN));
    let listener = world.wakes.listen(&[own]);
    let report = jobs.bulk(&ada(), bulk(BulkAction::Retry, 10_000)).await.unwrap();
    assert_eq!((report.changed, report.skipped), (440, 10), "what runs is not tried again");
    assert!(woken(&listener));
    let report =
        jobs.bulk(&ada(), bulk(BulkAction::Reprioritise { priority: 7 }, 10_000)).await.unwrap();
    assert_eq!(report.changed, 440);
    assert_eq!(claim(&world, 1).await[0].facts.priority, 7);
    for (action, jobs_max) in
        [(BulkAction::Delete, 0), (BulkAction::Reprioritise { priority: i16::MAX }, 1)]
    {
        let refused = jobs.bulk(&ada(), bulk(action, jobs_max)).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    world.check().await;
}

async fn nobody_changes_the_jobs_of_others_by_the_dozen(backend: Backend) {
    let world = World::on(backend, vec![]).await;
    let jobs = world.jobs();
    jobs.enqueue(&ada(), vec![wish(); 3], None).await.unwrap();
    jobs.enqueue(&user(2), vec![wish(); 4], None).await.unwrap();
    let report = jobs.bulk(&user(2), bulk(BulkAction::Cancel, 100)).await.unwrap();
    assert_eq!((report.matched, report.changed), (4, 4));
    let of_ada = BulkWish { user_id: Some(1), ..bulk(BulkAction::Cancel, 100) };
    let refused = jobs.bulk(&user(2), of_ada.clone()).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    let refused = jobs.exported(&user(2), ListFilter::default(), Some(1), None).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })));
    assert_eq!(jobs.bulk(&Authenticated::Admin, of_ada).await.unwrap().changed, 3);
    let all = BulkWish { filter: ListFilter::default(), ..bulk(BulkAction::Delete, 100) };
    assert_eq!(jobs.bulk(&Authenticated::Admin, all).await.unwrap().changed, 7);
    assert_eq!(world.all_jobs(None).await, []);
    world.check().await;
}

fn lines(wishes: Vec<JobWish>) -> Vec<ImportLine> {
    let line = |(number, wish)| ImportLine { number, id: None, wish };
    (0..).zip(wishes).map(line).collect()
}

async fn an_import_that_breaks_off_is_sent_again(backend: Backend) {
    let world = World::on(backend, vec![]).await;
    let jobs = world.jobs();
    let payload = |number: usize| JobWish { payload: Some(number.to_string()), ..wish() };
    let mut file: Vec<JobWish> = (0..200).map(payload).collect();
    file.push(JobWish { key: Some("k".to_owned()), ..wish() });
    // Written, and nobody is told.
    world.store.set("enqueue", Fault::AnswerLost);
    jobs.import(&ada(), lines(file.clone())).await.unwrap_err();
    world.store.mend();
    let some = world.all_jobs(Some(OWN)).await.len();
    assert!(some > 0);
    world.clock.advance(secs(60));
    let report = jobs.import(&ada(), lines(file.clone())).await.unwrap();
    let missing = 201 - some as u64;
    assert_eq!(report, ImportReport { enqueued: missing, coalesced: 0, known: some as u64 });
    let report = jobs.import(&ada(), lines(file)).await.unwrap();
    assert_eq!(report.known, 201, "whenever it is sent");
    assert_eq!(world.all_jobs(Some(OWN)).await.len(), 201);
    // Jobs that say the same are as many as they were where they came from.
    let twins = |id| ImportLine { number: 0, id: Some(id), wish: payload(7) };
    let report = jobs.import(&ada(), vec![twins(1), twins(2), twins(1)]).await.unwrap();
    assert_eq!((report.enqueued, report.known), (2, 1));
    let counted = format!("roundsman_jobs_enqueued_total{{kind=\"report\"}} {}", missing + 2);
    assert!(world.metrics.encode().contains(&counted), "those whose answers came");
    let bad = ImportLine { number: 41, id: None, wish: JobWish::default() };
    match jobs.import(&ada(), vec![bad]).await {
        Err(Error::Invalid(problems)) => assert_eq!(problems[0].field, "lines[41].kind"),
        other => panic!("{other:?}"),
    }
    world.check().await;
}

async fn failed_jobs_are_kept_for_as_long_as_their_kind_says(backend: Backend) {
    let world = World::on(backend, vec![prune_spec()]).await;
    let options = Housekeeping {
        every: secs(1),
        rows_max: 2,
        completed_for: secs(100),
        failed_for: secs(100),
        failed_of_kinds: vec![(kind(OWN), secs(1000))],
        cancelled_for: secs(100),
        idempotency_for: secs(100),
        frames_for: secs(100),
    };
    let handler = options.handler(
        world.store.clone(),
        world.clock.clone(),
        world.random.clone(),
        world.metrics.clone(),
    );
    let pruner = world.worker_with(vec![handler], |options| options.roles = vec![Role::Scheduler]);
    let jobs = world.jobs();
    let other = || JobWish { kind: "other".to_owned(), ..JobWish::default() };
    for wish in [wish(), wish(), wish(), other(), other(), other()] {
        jobs.enqueue(&ada(), vec![wish], None).await.unwrap();
    }
    let kinds = vec![OWN.to_owned(), "other".to_owned()];
    let claim = ClaimWish { worker: "w".to_owned(), kinds, max: Some(9), ..ClaimWish::default() };
    for job in jobs.claim(&ada(), claim).await.unwrap() {
        let error = roundsman_core::jobs::JobError::new("broken", "no answer");
        jobs.fail(&ada(), job.lease_ref(), error, true, None).await.unwrap();
    }
    assert!(world.metrics.encode().contains("roundsman_jobs_dead_total{kind=\"report\"} 3"));
    for (after, own, others) in [(99, 3, 3), (2, 3, 0), (898, 3, 0), (2, 0, 0)] {
        world.clock.advance(secs(after));
        world.enqueue(Housekeeping::wish(world.clock.now())).await;
        pruner.claim_tick().await.unwrap();
        until_running(&pruner, 0).await;
        pruner.settle_tick().await.unwrap();
        let kept = |name: &'static str| world.all_jobs(Some(name));
        assert_eq!((kept(OWN).await.len(), kept("other").await.len()), (own, others));
    }
    assert_eq!(world.all_jobs(Some(PRUNE_KIND)).await.len(), 1);
    let found = ListFilter { error: Some("no answer".to_owned()), ..ListFilter::default() };
    assert_eq!(jobs.exported(&ada(), found, None, None).await.unwrap(), []);
    assert_eq!(world.store.dead_counts().await.unwrap(), []);
    world.check().await;
}
