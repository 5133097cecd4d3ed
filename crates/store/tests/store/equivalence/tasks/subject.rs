//! One store under comparison, and what is done to it.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use roundsman_core::Timestamp;
use roundsman_core::alarms::{AlarmName, AlarmWish, SetMode, USER_ALARM_KIND, fired};
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    Job, JobId, Json, Lane, LeaseNo, LeaseOwner, LeaseRef, NewJob, Outcome, RunningJob, Settle,
    WorkerName,
};
use roundsman_core::ports::{
    ClaimRequest, EnqueueRequest, LaneDemand, ListFilter, ListPage, Scope, Store, StoreError,
    TaskChange, TaskFilter,
};
use roundsman_core::rooms::{AppendRules, NewUpdate, ProjectId, UpdateOrigin};
use roundsman_core::tasks::{
    COLLECT_KIND, KeptFile, NewTask, POLLING_KIND, Produced, SUBMIT_KIND, Task, TaskError,
    TaskEvent, TaskId, TaskRules, TaskStage, TaskType,
};
use roundsman_core::users::{NewUser, UserId};
use roundsman_store::conformance::{ADA, RENDER, json, kind};

use super::super::START;
use super::ops::{Event, Lease, Op, Pick, Version};

const PROJECTS: [&str; 4] = ["p", "p/q", "P", "ä 😀 '\""];
const SERVICES: [&str; 2] = ["kling", "gemini"];
const NAMES: [&str; 4] = ["wake", "Wake", "a.b", "z"];
const ALARMS_MAX: u32 = 2;
const SLOTS_MAX: u32 = 2;
const RULES: TaskRules = TaskRules {
    poll_every: Duration::from_secs(10),
    deadline: Duration::from_secs(7200),
    max_retries: 3,
};

pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) store: Arc<dyn Store>,
    user: UserId,
    made: usize,
    /// The projects whose rounds an operator has taken away, until the sweep has been there.
    lost: BTreeSet<ProjectId>,
    _keep: Box<dyn Any>,
}

impl Subject {
    pub(super) async fn new(name: &'static str, store: Arc<dyn Store>, keep: impl Any) -> Self {
        let person = NewUser {
            email: "ada@example.org".to_owned(),
            name: None,
            image_url: None,
            max_concurrent_bots: 1,
        };
        let (user, _) = store.find_or_create_user(person, START).await.expect("a user");
        for project in 0..PROJECTS.len() {
            let project = project_of(u8::try_from(project).expect("it works"));
            store.open_room(user.id, project, START).await.expect("a room");
        }
        let keep = Box::new(keep);
        Subject { name, store, user: user.id, made: 0, lost: BTreeSet::new(), _keep: keep }
    }

    /// Does what `op` says and tells what was answered.
    pub(super) async fn perform(&mut self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        match op {
            Op::Advance { .. } => Ok(String::new()),
            Op::Create { project, service, count } => {
                let wishes = (0..*count).map(|_| self.wish(*project, *service, now)).collect();
                Ok(format!("{:?}", self.store.create_tasks(wishes, now).await?))
            }
            Op::Step { .. } => self.step(op, now).await,
            Op::Hint { task } => {
                let Some(task) = self.task(*task).await? else { return Ok(String::new()) };
                let external = task.external_task_id.unwrap_or_default();
                let hinted = self.store.hint_task(task.external_service, external, now).await?;
                Ok(format!("hinted {} {hinted:?}", hinted.is_some()))
            }
            Op::Fire { kind, again } => self.fire(*kind, *again, now).await,
            Op::Lose { project } => self.lose(*project, now).await,
            Op::Rearm { rows_max } => self.sweep(*rows_max, now).await,
            Op::Tell { with_update } => {
                let Some(task) = self.store.untold_tasks(1).await?.pop() else {
                    return Ok(String::new());
                };
                let update = with_update.then(|| update(&task));
                let told = self.store.tell_task(task.id, update, now).await?;
                Ok(format!("told {} {told:?}", told.is_some()))
            }
            Op::Prune { age_secs, rows_max } => {
                let before = now - Duration::from_secs(*age_secs);
                let pruned = self.store.prune_tasks(before, *rows_max).await?;
                Ok(format!("pruned {} {pruned}", pruned > 0))
            }
            Op::SetAlarm { project, name, secs, replace } => {
                let wish = AlarmWish {
                    project: project_of(*project),
                    owner: self.user,
                    name: name_of(*name),
                    at: now + Duration::from_secs(*secs),
                    payload: json(&secs.to_string()),
                    mode: if *replace { SetMode::Replace } else { SetMode::Earliest },
                };
                Ok(format!("set {}", self.store.set_alarm(wish, ALARMS_MAX, now).await?))
            }
            Op::CancelAlarm { project, name } => {
                let (project, name) = (project_of(*project), name_of(*name));
                Ok(format!("cancelled {}", self.store.cancel_alarm(project, name, now).await?))
            }
        }
    }

    async fn step(&mut self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        let Op::Step { task, event, version, lease, told, slots } = op else {
            return Ok(String::new());
        };
        let Some(known) = self.task(*task).await? else {
            let change = TaskChange::new(TaskId::new(99), TaskEvent::Cancelled, RULES);
            return Ok(format!("{:?}", self.store.change_task(change, now).await?));
        };
        let mut change = TaskChange::new(known.id, event_of(*event, &known, now), RULES);
        change.version = match version {
            Version::Any => None,
            Version::Current => Some(known.version),
            Version::Old => Some(known.version - 1),
        };
        change.guard = self.lease(*lease, now).await?;
        change.update = told.then(|| update(&known));
        change.slots_max = slots.then_some(SLOTS_MAX);
        Ok(format!("{:?}", self.store.change_task(change, now).await?))
    }

    /// Claims what is due of a kind and ends it.
    async fn fire(
        &mut self,
        pick: Pick,
        again: bool,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let kinds = [POLLING_KIND, USER_ALARM_KIND, SUBMIT_KIND, COLLECT_KIND];
        let kind = kinds[usize::from(pick) % kinds.len()];
        let mut jobs = self.claim(kind, now).await?;
        jobs.sort_by(|a, b| a.facts.key.cmp(&b.facts.key));
        let mut settles = Vec::new();
        for job in &jobs {
            // What has something to come back for does so, and so do all jobs of single tasks.
            let waits = kind != USER_ALARM_KIND && (again || self.has_work(kind, job).await?);
            let outcome = if waits || (again && kind == USER_ALARM_KIND) {
                Outcome::Again { at: now + RULES.poll_every, payload: None }
            } else {
                Outcome::Done { result: Json::null() }
            };
            let effects = fired(&job.facts, now).map(|fired| fired.effects).unwrap_or_default();
            // Numbers of jobs differ between databases, and so do the names of events.
            let effects = Effects { frames: effects.frames, ..Effects::default() };
            settles.push(Settle { lease: job.lease_ref(), outcome, effects });
        }
        let settled = self.store.settle(settles, 0, now).await?;
        let keys: Vec<_> = jobs.iter().map(|job| job.facts.key.clone()).collect();
        Ok(format!("{keys:?} {settled:?}"))
    }

    async fn has_work(&self, kind: &str, job: &RunningJob) -> Result<bool, StoreError> {
        let Some(key) = &job.facts.key else { return Ok(false) };
        if kind == POLLING_KIND {
            let project = ProjectId::new(key.as_str()).expect("a project");
            return Ok(!self.store.task_looks(project, 1).await?.is_empty());
        }
        let id = TaskId::parse(key.as_str()).expect("a task");
        let task = self.store.task(Scope::All, id).await?;
        Ok(task.is_some_and(|task| match task.stage {
            TaskStage::Waiting | TaskStage::Sending => kind == SUBMIT_KIND,
            TaskStage::Collecting => kind == COLLECT_KIND,
            TaskStage::Polling | TaskStage::Over => false,
        }))
    }

    /// Goes through all tasks, a few at a time.
    async fn sweep(&mut self, rows_max: u32, now: Timestamp) -> Result<String, StoreError> {
        let (mut after, mut jobs, mut rounds) = (None, 0, 0);
        loop {
            let rearmed = self.store.rearm_tasks(after, rows_max, now).await?;
            (jobs, rounds) = (jobs + rearmed.jobs, rounds + 1);
            after = rearmed.next_after;
            if after.is_none() {
                self.lost.clear();
                return Ok(format!("rearmed {} {jobs} in {rounds}", jobs > 0));
            }
        }
    }

    /// An operator cancels the round of a room; the sweep sets it again.
    async fn lose(&mut self, pick: Pick, now: Timestamp) -> Result<String, StoreError> {
        let project = project_of(pick);
        let filter = ListFilter { kind: Some(kind(POLLING_KIND)), ..ListFilter::default() };
        let page = ListPage { before: None, rows_max: 200 };
        let jobs = self.store.jobs(Scope::All, filter, page, now).await?;
        let is_it = |job: &&Job| {
            matches!(job, Job::Waiting(_))
                && job.facts().key.as_ref().is_some_and(|key| key.as_str() == project.as_str())
        };
        let Some(job) = jobs.iter().find(is_it) else { return Ok(String::new()) };
        self.lost.insert(project);
        Ok(format!("{:?}", self.store.cancel(Scope::All, job.facts().id, now).await?))
    }

    /// Everything that anybody can read.
    pub(super) async fn look(&self, now: Timestamp) -> Result<String, StoreError> {
        let store = &self.store;
        let mut seen = vec![
            format!("{:#?}", store.tasks(Scope::All, TaskFilter::default(), None, 1000).await?),
            format!("{:?}", store.task_counts().await?),
            format!("{:?}", store.untold_tasks(3).await?),
        ];
        let projects: Vec<ProjectId> = (0..4).map(project_of).collect();
        seen.push(format!("{:?}", store.tasks_pending(projects.clone(), 3).await?));
        for project in projects {
            seen.push(format!("{:?}", store.alarms(project.clone(), 10).await?));
            seen.push(format!("{:?}", store.task_looks(project.clone(), 5).await?));
            seen.push(format!("{:?}", store.room(project.clone()).await?));
            let frames = store.frames(format!("room:{project}"), 0, 1000).await?;
            seen.push(format!("{} frames at {now:?}", frames.len()));
        }
        Ok(seen.join("\n"))
    }

    /// L1: whoever waits has a round that comes in time, unless an operator has taken it away.
    pub(super) async fn nobody_is_left(&self, now: Timestamp) -> Result<(), String> {
        let wrong = |error: StoreError| error.to_string();
        for place in 0..4 {
            let project = project_of(place);
            if self.lost.contains(&project) {
                continue;
            }
            let looks = self.store.task_looks(project.clone(), 1000).await.map_err(wrong)?;
            if looks.is_empty() {
                continue;
            }
            let alarms = self.store.alarms(project.clone(), 100).await.map_err(wrong)?;
            let round = alarms.iter().find(|alarm| alarm.name == "task_polling");
            if round.is_none_or(|alarm| alarm.at > now + RULES.poll_every) {
                return Err(format!("{}: nobody comes back for {project}: {alarms:?}", self.name));
            }
        }
        Ok(())
    }

    fn wish(&mut self, project: Pick, service: Pick, now: Timestamp) -> NewTask {
        self.made += 1;
        let number = self.made;
        NewTask {
            user_id: self.user,
            project_id: project_of(project),
            task_type: TaskType::new("video").expect("a type"),
            params: json(r#"{"prompt":"a cat"}"#),
            node_id: number.is_multiple_of(2).then(|| format!("n{number}")),
            external_service: SERVICES[usize::from(service) % SERVICES.len()].to_owned(),
            submit_key: format!("s{number}"),
            result_key: format!("r{number}"),
            max_retries: RULES.max_retries,
            retry_of: None,
            deadline_at: now + RULES.deadline,
            first_look_at: now + RULES.poll_every,
        }
    }

    async fn task(&self, pick: Pick) -> Result<Option<Task>, StoreError> {
        if self.made == 0 {
            return Ok(None);
        }
        let number = usize::from(pick) % self.made + 1;
        self.store.task(Scope::All, TaskId::new(i64::try_from(number).expect("it works"))).await
    }

    async fn claim(&self, kind_name: &str, now: Timestamp) -> Result<Vec<RunningJob>, StoreError> {
        let user = if kind_name == RENDER { ADA } else { UserId::SYSTEM };
        let demand = LaneDemand {
            lane: Lane::of(user, &kind(kind_name)),
            max: 100,
            lease_ttl: Duration::from_secs(300),
            deadline: None,
        };
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands: vec![demand],
            total_max: 100,
        };
        Ok(self.store.claim(request, now).await?.jobs)
    }

    async fn lease(&self, lease: Lease, now: Timestamp) -> Result<Option<LeaseRef>, StoreError> {
        match lease {
            Lease::None => Ok(None),
            Lease::Lost => {
                Ok(Some(LeaseRef { id: JobId::new(1), lease_no: LeaseNo::new(i64::MAX - 1) }))
            }
            Lease::Held => {
                let wish = NewJob {
                    user_id: ADA,
                    kind: kind(RENDER),
                    key: None,
                    payload: Json::null(),
                    priority: 0,
                    run_at: now,
                    max_attempts: None,
                    tenant: None,
                };
                let request = EnqueueRequest { jobs: vec![wish], idempotency: None };
                self.store.enqueue(request, now).await?;
                let job = self.claim(RENDER, now).await?.pop();
                Ok(job.map(|job| job.lease_ref()))
            }
        }
    }
}

fn project_of(pick: Pick) -> ProjectId {
    ProjectId::new(PROJECTS[usize::from(pick) % PROJECTS.len()]).expect("a project")
}

fn name_of(pick: Pick) -> AlarmName {
    AlarmName::new(NAMES[usize::from(pick) % NAMES.len()]).expect("a name")
}

fn update(task: &Task) -> NewUpdate {
    NewUpdate {
        project: task.project_id.clone(),
        payload: Bytes::from(task.id.to_string()),
        origin: UpdateOrigin::Task,
        rules: AppendRules::default(),
    }
}

/// Documents link to it, so its task stays.
fn kept() -> KeptFile {
    KeptFile { blob: "a/b".to_owned(), bytes: 3, sha256: "x".to_owned(), media_type: None }
}

fn event_of(event: Event, task: &Task, now: Timestamp) -> TaskEvent {
    let error = || TaskError::new("broken", "it's \"broken\" 😀");
    let look_after = Duration::from_secs(5);
    match event {
        Event::Sending => TaskEvent::Sending,
        Event::NotSent => TaskEvent::NotSent { error: error() },
        Event::Accepted => {
            TaskEvent::Accepted { external_task_id: format!("x{}", task.id.get()), look_after }
        }
        Event::Unfinished => {
            TaskEvent::Unfinished { look_after, asked_at: now - Duration::from_secs(1) }
        }
        Event::PollFailed => {
            TaskEvent::PollFailed { error: error(), look_after: None, is_counted: true }
        }
        Event::TooEarly => TaskEvent::PollFailed {
            error: error(),
            look_after: Some(look_after),
            is_counted: false,
        },
        Event::Ready => TaskEvent::Ready,
        Event::Produced => TaskEvent::Produced(Produced {
            result_url: Some("/r".to_owned()),
            result_data: Some(json(r#"{"a":1}"#)),
            files: (task.id.get() % 2 == 0).then(kept).into_iter().collect(),
        }),
        Event::Failed => TaskEvent::Failed { error: error() },
        Event::Overdue => TaskEvent::Overdue,
        Event::Cancelled => TaskEvent::Cancelled,
    }
}
