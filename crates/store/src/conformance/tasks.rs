//! A task is made with its jobs, changes as the rules say, and its end is told in the same transaction.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::JobState;
use roundsman_core::ports::{ChangeAnswer, Scope, TaskChange, TaskFilter};
use roundsman_core::tasks::{
    COLLECT_KIND, KeptFile, NewTask, POLLING_KIND, Produced, SUBMIT_KIND, Task, TaskError,
    TaskEvent, TaskId, TaskStage, TaskStatus, new_task, room_stream, step,
};

use super::attend::user;
use super::fixture::Fixture;
use super::task::{
    RULES, accepted, apply, change, create, failed, head_of, live_jobs, log_of, made, owner,
    polling, produced, project, round, stepped, steps, task, update, wish,
};
use super::visit::lease;
use super::wishes::{MINUTE, SECOND, done, json};

pub async fn a_task_is_made_with_the_jobs_that_look_after_it(fx: &Arc<Fixture>) {
    let ada = owner(fx, "p").await;
    let odd = NewTask {
        params: json(r#"{"prompt":"Ada's 😀 \"cat\" ; -- $1 ?1"}"#),
        node_id: None,
        retry_of: Some(TaskId::new(7)),
        ..wish(fx, ada, "p", 2)
    };
    let wishes = vec![wish(fx, ada, "p", 1), odd];
    let tasks = create(fx, wishes.clone()).await;
    for (given, made) in wishes.into_iter().zip(&tasks) {
        let expected = new_task(made.id, given, fx.now());
        assert_eq!(*made, expected.task);
        assert_eq!(task(fx, made.id).await, expected.task);
        assert_eq!(log_of(fx, made.id).await, steps(&expected.effects.transitions));
        let key = made.id.get().to_string();
        assert_eq!(live_jobs(fx, SUBMIT_KIND, &key).await.len(), 1);
    }
    assert!(tasks[0].id < tasks[1].id, "numbers grow in the order given");
    let rounds = live_jobs(fx, POLLING_KIND, "p").await;
    assert_eq!(rounds.len(), 1, "one alarm for all tasks of a room");
    assert_eq!(rounds[0].facts().run_at, fx.now() + RULES.poll_every);
    assert_eq!(create(fx, Vec::new()).await, Vec::new());
}

pub async fn every_step_is_written_as_the_rules_say(fx: &Arc<Fixture>) {
    let mut known = made(fx, "p", 1).await;
    let file = KeptFile {
        blob: "a/b".to_owned(),
        bytes: u64::MAX >> 1,
        sha256: "x".to_owned(),
        media_type: Some("video/mp4".to_owned()),
    };
    let all = Produced {
        result_url: Some("/results/😀/0".to_owned()),
        result_data: Some(json(r#"{"a":[1,2]}"#)),
        files: vec![file.clone(), KeptFile { media_type: None, ..file }],
    };
    let error = TaskError::new("unavailable", "nobody \"answers\"");
    let pause = Duration::from_secs(3);
    let events = [
        TaskEvent::Sending,
        TaskEvent::NotSent { error: error.clone() },
        TaskEvent::Sending,
        accepted("ext"),
        TaskEvent::Unfinished { look_after: pause, asked_at: fx.now() },
        TaskEvent::PollFailed { error: error.clone(), look_after: None, is_counted: true },
        TaskEvent::PollFailed { error, look_after: Some(pause), is_counted: false },
        TaskEvent::Ready,
        TaskEvent::Produced(all),
    ];
    for event in events {
        fx.advance(SECOND);
        let expected = step(known.clone(), event.clone(), RULES, fx.now())
            .expect("it works")
            .expect("it works");
        let answer = apply(fx, change(known.id, event.clone())).await;
        let ChangeAnswer::Changed { task: written, frames, appended } = answer else {
            panic!("{event:?}: {answer:?}");
        };
        assert_eq!((*written).clone(), expected.task, "{event:?}");
        assert_eq!((frames.len(), appended), (expected.effects.frames.len(), None), "{event:?}");
        assert_eq!(task(fx, known.id).await, expected.task, "{event:?}");
        known = expected.task;
    }
    let states: Vec<String> = log_of(fx, known.id).await.into_iter().map(|(_, to)| to).collect();
    assert_eq!(states, ["pending", "processing", "completed"]);
    let key = known.id.get().to_string();
    assert_eq!(live_jobs(fx, COLLECT_KIND, &key).await.len(), 1);
    let told = fx.store.frames(room_stream(&project("p")), 0, 10).await.expect("it works");
    assert_eq!(told.len(), 1, "its end is told once");
    let events = fx.store.webhook_events(0, 10).await.expect("it works");
    assert_eq!(events.last().expect("it works").1.event_type, "task.completed");
}

pub async fn what_is_over_stays_as_it_is(fx: &Arc<Fixture>) {
    for (number, end) in
        [produced(), failed("provider"), TaskEvent::Cancelled].into_iter().enumerate()
    {
        let known = polling(fx, "p", u32::try_from(number).expect("it works")).await;
        let over = stepped(fx, known.id, end).await;
        assert!(over.status.is_over());
        fx.advance(MINUTE);
        let late = [
            produced(),
            failed("late"),
            TaskEvent::Cancelled,
            TaskEvent::Overdue,
            accepted("other"),
            TaskEvent::Sending,
        ];
        for event in late {
            let with_update = TaskChange { update: Some(update("p")), ..change(over.id, event) };
            let answer = apply(fx, with_update).await;
            assert_eq!(answer, ChangeAnswer::Unchanged(over.clone().into()));
        }
        assert_eq!(task(fx, over.id).await, over);
        let hinted = fx.store.hint_task("kling".to_owned(), format!("ext-p-{number}"), fx.now());
        assert_eq!(hinted.await.expect("it works"), None);
    }
    assert_eq!(head_of(fx, "p").await, 0, "nothing was told of what came late");
}

pub async fn an_end_and_the_document_are_written_together(fx: &Arc<Fixture>) {
    let known = polling(fx, "p", 1).await;
    // A step that is no end tells nothing, whatever it was given.
    let event = TaskEvent::Unfinished { look_after: SECOND, asked_at: fx.now() };
    let unfinished = TaskChange { update: Some(update("p")), ..change(known.id, event) };
    let ChangeAnswer::Changed { appended, task: known, .. } = apply(fx, unfinished).await else {
        panic!("it goes on");
    };
    assert_eq!((appended, head_of(fx, "p").await), (None, 0));
    let end = TaskChange { update: Some(update("p")), ..change(known.id, produced()) };
    let ChangeAnswer::Changed { appended, task: over, .. } = apply(fx, end).await else {
        panic!("it ends");
    };
    assert_eq!(appended.map(|told| (told.seq, told.project)), Some((1, project("p"))));
    assert_eq!((over.applied_at, head_of(fx, "p").await), (Some(fx.now()), 1));
    assert_eq!(fx.store.untold_tasks(10).await.expect("it works"), Vec::new());
    // The document knows already.
    let other = polling(fx, "p", 2).await;
    let told = TaskChange { is_told: true, ..change(other.id, TaskEvent::Cancelled) };
    let ChangeAnswer::Changed { task: other, .. } = apply(fx, told).await else { panic!("ends") };
    assert!(other.applied_at.is_some());
}

pub async fn a_document_that_was_not_told_is_told_later(fx: &Arc<Fixture>) {
    let known = polling(fx, "p", 1).await;
    let over = stepped(fx, known.id, produced()).await;
    assert_eq!(over.applied_at, None);
    assert_eq!(fx.store.untold_tasks(10).await.expect("it works"), vec![over.clone()]);
    fx.advance(SECOND);
    // Of a room that is not there nothing can be told.
    let lost =
        fx.store.tell_task(over.id, Some(update("elsewhere")), fx.now()).await.expect("it works");
    assert_eq!((lost, fx.store.untold_tasks(10).await.expect("it works").len()), (None, 1));
    let told = fx.store.tell_task(over.id, Some(update("p")), fx.now()).await.expect("it works");
    assert_eq!(told.map(|told| told.seq), Some(1));
    assert_eq!(fx.store.untold_tasks(10).await.expect("it works"), Vec::new());
    let again = fx.store.tell_task(over.id, Some(update("p")), fx.now()).await.expect("it works");
    assert_eq!((again, head_of(fx, "p").await), (None, 1), "once");
    assert_eq!(task(fx, over.id).await, Task { applied_at: Some(fx.now()), ..over });
}

pub async fn a_step_needs_its_lease_and_its_version(fx: &Arc<Fixture>) {
    let known = polling(fx, "p", 1).await;
    let held = lease(fx).await;
    let stale = TaskChange { version: Some(known.version - 1), ..change(known.id, produced()) };
    assert_eq!(apply(fx, stale).await, ChangeAnswer::Stale(known.clone().into()));
    let guarded = |guard| TaskChange {
        guard: Some(guard),
        version: Some(known.version),
        update: Some(update("p")),
        ..change(known.id, produced())
    };
    fx.advance(Duration::from_secs(301));
    fx.sweep().await;
    assert_eq!(apply(fx, guarded(held)).await, ChangeAnswer::LeaseLost, "a zombie writes nothing");
    assert_eq!((task(fx, known.id).await, head_of(fx, "p").await), (known.clone(), 0));
    let held = lease(fx).await;
    assert!(matches!(apply(fx, guarded(held)).await, ChangeAnswer::Changed { .. }));
    assert_eq!(apply(fx, change(TaskId::new(999), produced())).await, ChangeAnswer::NotFound);
    let waiting = made(fx, "p", 2).await;
    let early = TaskEvent::Unfinished { look_after: SECOND, asked_at: fx.now() };
    assert_eq!(
        apply(fx, change(waiting.id, early)).await,
        ChangeAnswer::Stale(waiting.into()),
        "what cannot happen changes nothing"
    );
}

pub async fn a_service_has_so_many_slots(fx: &Arc<Fixture>) {
    let ada = owner(fx, "p").await;
    let tasks = create(fx, (1..=4).map(|number| wish(fx, ada, "p", number)).collect()).await;
    let send = |id| TaskChange { slots_max: Some(2), ..change(id, TaskEvent::Sending) };
    for task in &tasks[..2] {
        assert!(matches!(apply(fx, send(task.id)).await, ChangeAnswer::Changed { .. }));
    }
    assert_eq!(apply(fx, send(tasks[2].id)).await, ChangeAnswer::NoSlot);
    assert!(matches!(apply(fx, send(tasks[1].id)).await, ChangeAnswer::Changed { .. }), "its own");
    let elsewhere = NewTask { external_service: "gemini".to_owned(), ..wish(fx, ada, "p", 5) };
    let elsewhere = create(fx, vec![elsewhere]).await.remove(0);
    assert!(matches!(apply(fx, send(elsewhere.id)).await, ChangeAnswer::Changed { .. }));
    stepped(fx, tasks[0].id, accepted("a")).await;
    assert_eq!(apply(fx, send(tasks[2].id)).await, ChangeAnswer::NoSlot, "it has it until the end");
    stepped(fx, tasks[0].id, TaskEvent::Ready).await;
    assert!(matches!(apply(fx, send(tasks[2].id)).await, ChangeAnswer::Changed { .. }));
    stepped(fx, tasks[1].id, failed("provider")).await;
    assert!(matches!(apply(fx, send(tasks[3].id)).await, ChangeAnswer::Changed { .. }));
}

pub async fn a_hint_makes_a_task_and_its_room_due(fx: &Arc<Fixture>) {
    let known = polling(fx, "p", 1).await;
    let hint =
        |external: &str| fx.store.hint_task("kling".to_owned(), external.to_owned(), fx.now());
    assert_eq!(hint("nobody").await.expect("it works"), None);
    fx.advance(SECOND);
    assert_eq!(
        fx.store
            .hint_task("kling".to_owned(), "ext-p-1".to_owned(), fx.now())
            .await
            .expect("it works"),
        Some(project("p"))
    );
    let hinted = task(fx, known.id).await;
    let due = Some(fx.now());
    assert_eq!(hinted, Task { hinted_at: due, next_poll_at: due, ..known });
    let rounds = live_jobs(fx, POLLING_KIND, "p").await;
    assert_eq!((rounds.len(), rounds[0].state(fx.now())), (1, JobState::Pending));
    round(fx).await;
}

pub async fn tasks_are_listed_and_counted(fx: &Arc<Fixture>) {
    let ada = owner(fx, "p").await;
    let bob = user(fx, "bob").await;
    fx.store.open_room(bob, project("q"), fx.now()).await.expect("it works");
    let mut wishes: Vec<_> = (1..=5).map(|number| wish(fx, ada, "p", number)).collect();
    wishes.push(wish(fx, bob, "q", 1));
    let tasks = create(fx, wishes).await;
    let ids = |found: Vec<Task>| -> Vec<TaskId> { found.iter().map(|task| task.id).collect() };
    let list = async |scope, filter, before, rows_max| {
        ids(fx.store.tasks(scope, filter, before, rows_max).await.expect("it works"))
    };
    let newest: Vec<TaskId> = tasks.iter().rev().map(|task| task.id).collect();
    let all = TaskFilter::default();
    assert_eq!(list(Scope::All, all.clone(), None, 100).await, newest);
    assert_eq!(list(Scope::User(bob), all.clone(), None, 100).await, newest[..1]);
    assert_eq!(list(Scope::All, all, Some(newest[1]), 2).await, newest[2..4]);
    let of_p = TaskFilter { project: Some(project("p")), ..TaskFilter::default() };
    assert_eq!(list(Scope::User(ada), of_p.clone(), None, 100).await, newest[1..]);
    assert_eq!(list(Scope::User(bob), of_p.clone(), None, 100).await, []);
    stepped(fx, tasks[0].id, failed("x")).await;
    let failed = TaskFilter { status: Some(TaskStatus::Failed), ..of_p };
    assert_eq!(list(Scope::All, failed, None, 100).await, [tasks[0].id]);
    assert_eq!(fx.store.task(Scope::User(bob), tasks[0].id).await.expect("it works"), None);
    let order = vec![tasks[3].id, TaskId::new(999), tasks[1].id];
    let found = fx.store.tasks_by_id(order).await.expect("it works");
    assert_eq!(ids(found), [tasks[3].id, tasks[1].id]);
    let opened = fx.store.task_of_result("result-p-2".to_owned()).await.expect("it works");
    assert_eq!(opened.map(|task| task.id), Some(tasks[1].id));
    assert_eq!(fx.store.task_of_result("no\0".to_owned()).await.expect("it works"), None);
    let projects = vec![project("q"), project("none"), project("p")];
    assert_eq!(fx.store.tasks_pending(projects.clone(), 100).await.expect("it works"), [1, 0, 4]);
    assert_eq!(fx.store.tasks_pending(projects, 3).await.expect("it works"), [1, 0, 3]);
    assert_eq!(fx.store.task_counts().await.expect("it works"), [(TaskStatus::Pending, 5)]);
    let looks = fx.store.task_looks(project("p"), 3).await.expect("it works");
    assert_eq!(looks.iter().map(|look| look.id).collect::<Vec<_>>(), ids(tasks[1..4].to_vec()));
    assert!(looks.iter().all(|look| look.stage == TaskStage::Waiting));
}

pub async fn what_ended_long_ago_is_forgotten(fx: &Arc<Fixture>) {
    let file =
        KeptFile { blob: "a/b".to_owned(), bytes: 3, sha256: "x".to_owned(), media_type: None };
    let with_file = Produced { files: vec![file], ..Produced::default() };
    let ends = [failed("x"), produced(), TaskEvent::Cancelled, TaskEvent::Produced(with_file)];
    let mut ids = Vec::new();
    for (number, end) in (1..).zip(ends) {
        fx.advance(SECOND);
        let known = polling(fx, "p", number).await;
        apply(fx, TaskChange { is_told: true, ..change(known.id, end) }).await;
        ids.push(known.id);
    }
    let untold = polling(fx, "p", 5).await;
    stepped(fx, untold.id, failed("x")).await;
    let waits = polling(fx, "p", 6).await;
    let last_end = fx.now();
    fx.advance(MINUTE);
    let prune =
        async |before, rows_max| fx.store.prune_tasks(before, rows_max).await.expect("prune_tasks");
    assert_eq!(prune(last_end - SECOND, 1).await, 1, "the oldest first, so many at once");
    assert_eq!(fx.store.task(Scope::All, ids[0]).await.expect("it works"), None);
    assert_eq!(log_of(fx, ids[0]).await, [], "its log goes with it");
    assert_eq!(prune(last_end - SECOND * 2, 10).await, 0, "not before its time");
    assert_eq!(prune(fx.now(), 10).await, 2);
    let left = fx.store.tasks(Scope::All, TaskFilter::default(), None, 10).await.expect("it works");
    let left: Vec<TaskId> = left.iter().map(|task| task.id).collect();
    assert_eq!(left, [waits.id, untold.id, ids[3]], "what is linked, untold or under way stays");
    let next = made(fx, "p", 7).await;
    assert!(next.id > waits.id, "no number is given twice");
}

pub async fn what_was_lost_is_set_again(fx: &Arc<Fixture>) {
    let ready = polling(fx, "p", 1).await;
    stepped(fx, ready.id, TaskEvent::Ready).await;
    made(fx, "p", 2).await;
    polling(fx, "q", 1).await;
    let over = polling(fx, "r", 1).await;
    stepped(fx, over.id, produced()).await;
    let rearm = async |after, rows_max| {
        fx.store.rearm_tasks(after, rows_max, fx.now()).await.expect("it works")
    };
    assert_eq!(rearm(None, 100).await.jobs, 0, "nothing is lost");
    fx.advance(MINUTE);
    let polling_p = fx.claim(POLLING_KIND, 100).await;
    assert_eq!(rearm(None, 100).await.jobs, 0, "what runs is not lost");
    for running in polling_p {
        fx.land(running.lease_ref(), done("null")).await;
    }
    for kind in [SUBMIT_KIND, COLLECT_KIND] {
        for job in fx.claim(kind, 100).await {
            fx.land(job.lease_ref(), done("null")).await;
        }
    }
    let first = rearm(None, 2).await;
    assert_eq!(first.jobs, 3, "collect, submit, and the round of p");
    let second = rearm(first.next_after, 2).await;
    assert_eq!((second.jobs, second.next_after), (1, None), "the round of q");
    assert_eq!(live_jobs(fx, POLLING_KIND, "r").await.len(), 0, "nobody waits there");
    assert_eq!(rearm(None, 100).await.jobs, 0);
}
