//! Short names for what the cases of tasks and alarms do.

use std::time::Duration;

use bytes::Bytes;
use roundsman_core::effects::Transition;
use roundsman_core::jobs::{Job, LeaseRef};
use roundsman_core::ports::{ChangeAnswer, ListFilter, OpenRoomAnswer, Scope, TaskChange};
use roundsman_core::rooms::{AppendRules, NewUpdate, ProjectId, UpdateOrigin};
use roundsman_core::tasks::{
    NewTask, POLLING_KIND, Produced, TASK_ENTITY, Task, TaskError, TaskEvent, TaskId, TaskRules,
    TaskType,
};
use roundsman_core::users::UserId;

use super::attend::user;
use super::fixture::Fixture;
use super::wishes::{json, kind};

pub(super) const RULES: TaskRules = TaskRules {
    poll_every: Duration::from_secs(10),
    deadline: Duration::from_secs(7200),
    max_retries: 3,
};

pub(super) fn project(text: &str) -> ProjectId {
    ProjectId::new(text).expect("the suite names valid projects")
}

/// Ada, who has named this project.
pub(super) async fn owner(fx: &Fixture, name: &str) -> UserId {
    let ada = user(fx, "ada").await;
    let opened = fx.store.open_room(ada, project(name), fx.now()).await.expect("open_room");
    assert!(matches!(opened, OpenRoomAnswer::Open { .. }), "{opened:?}");
    ada
}

pub(super) fn wish(fx: &Fixture, user: UserId, in_project: &str, number: u32) -> NewTask {
    NewTask {
        user_id: user,
        project_id: project(in_project),
        task_type: TaskType::new("kling_video").expect("a type"),
        params: json(r#"{"prompt":"a cat"}"#),
        node_id: Some(format!("node-{number}")),
        external_service: "kling".to_owned(),
        submit_key: format!("submit-{in_project}-{number}"),
        result_key: format!("result-{in_project}-{number}"),
        max_retries: RULES.max_retries,
        retry_of: None,
        deadline_at: fx.now() + RULES.deadline,
        first_look_at: fx.now() + RULES.poll_every,
    }
}

pub(super) async fn create(fx: &Fixture, wishes: Vec<NewTask>) -> Vec<Task> {
    fx.store.create_tasks(wishes, fx.now()).await.expect("create_tasks")
}

/// Ada's new task in a project of hers.
pub(super) async fn made(fx: &Fixture, in_project: &str, number: u32) -> Task {
    let ada = owner(fx, in_project).await;
    create(fx, vec![wish(fx, ada, in_project, number)]).await.remove(0)
}

pub(super) async fn task(fx: &Fixture, id: TaskId) -> Task {
    fx.store.task(Scope::All, id).await.expect("task").expect("it is there")
}

pub(super) fn change(id: TaskId, event: TaskEvent) -> TaskChange {
    TaskChange::new(id, event, RULES)
}

pub(super) async fn apply(fx: &Fixture, change: TaskChange) -> ChangeAnswer {
    fx.store.change_task(change, fx.now()).await.expect("change_task")
}

/// Takes a step that must be taken.
pub(super) async fn stepped(fx: &Fixture, id: TaskId, event: TaskEvent) -> Task {
    match apply(fx, change(id, event)).await {
        ChangeAnswer::Changed { task, .. } => *task,
        other => panic!("expected a step, got {other:?}"),
    }
}

pub(super) fn accepted(external: &str) -> TaskEvent {
    let look_after = Duration::from_secs(10);
    TaskEvent::Accepted { external_task_id: external.to_owned(), look_after }
}

pub(super) fn produced() -> TaskEvent {
    TaskEvent::Produced(Produced {
        result_url: Some("/results/x/0".to_owned()),
        result_data: Some(json(r#"{"seconds":5}"#)),
        files: Vec::new(),
    })
}

pub(super) fn failed(code: &str) -> TaskEvent {
    TaskEvent::Failed { error: TaskError::new(code, "it \0 broke") }
}

/// A task that its generator has.
pub(super) async fn polling(fx: &Fixture, in_project: &str, number: u32) -> Task {
    let made = made(fx, in_project, number).await;
    stepped(fx, made.id, TaskEvent::Sending).await;
    stepped(fx, made.id, accepted(&format!("ext-{in_project}-{number}"))).await
}

/// What a document is told, as far as the database is concerned.
pub(super) fn update(in_project: &str) -> NewUpdate {
    NewUpdate {
        project: project(in_project),
        payload: Bytes::from_static(b"told"),
        origin: UpdateOrigin::Task,
        rules: AppendRules::default(),
    }
}

pub(super) async fn head_of(fx: &Fixture, in_project: &str) -> i64 {
    fx.store.room(project(in_project)).await.expect("room").expect("it is there").head_seq
}

/// The jobs of a kind and a key that are not over.
pub(super) async fn live_jobs(fx: &Fixture, kind_name: &str, key: &str) -> Vec<Job> {
    let filter = ListFilter { kind: Some(kind(kind_name)), ..ListFilter::default() };
    let mut jobs = fx.list(Scope::All, filter).await;
    let is_live = |job: &Job| !matches!(job, Job::Finished(_));
    jobs.retain(|job| is_live(job) && job.facts().key.as_ref().is_some_and(|k| k.as_str() == key));
    jobs
}

/// The lease of the round of a room.
pub(super) async fn round(fx: &Fixture) -> LeaseRef {
    fx.claim_one(POLLING_KIND).await.lease_ref()
}

pub(super) async fn log_of(fx: &Fixture, id: TaskId) -> Vec<(Option<String>, String)> {
    let log = fx.store.transitions(TASK_ENTITY.to_owned(), id.get()).await.expect("transitions");
    log.into_iter().map(|step| (step.from_state, step.to_state)).collect()
}

/// What the rules say is logged.
pub(super) fn steps(logged: &[Transition]) -> Vec<(Option<String>, String)> {
    logged.iter().map(|step| (step.from_state.clone(), step.to_state.clone())).collect()
}
