//! Tasks and alarms.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::alarms::{
    Alarm, AlarmName, AlarmWish, SetMode, USER_ALARM_KIND, alarm_key, alarm_of_job, alarm_wish,
    is_alarm_of, replace,
};
use roundsman_core::effects::LoggedTransition;
use roundsman_core::jobs::{
    CancelCause, FinishedJob, FinishedState, Job, JobFacts, JobKey, KindCatalog, KindName, NewJob,
};
use roundsman_core::ports::{
    AlarmStore, AppendAnswer, ChangeAnswer, Rearmed, Scope, StoreError, TaskChange, TaskFilter,
    TaskStore,
};
use roundsman_core::rooms::{AppendedUpdate, NewUpdate, ProjectId};
use roundsman_core::tasks::{
    NewTask, Stepped, TASK_ENTITY, Task, TaskEvent, TaskId, TaskLook, TaskStage, TaskStatus,
    collect_wish, new_task, polling_wish, step, submit_wish,
};
use roundsman_core::users::UserId;

use super::{Reference, State, sees};

#[async_trait]
impl TaskStore for Reference {
    async fn create_tasks(
        &self,
        wishes: Vec<NewTask>,
        now: Timestamp,
    ) -> Result<Vec<Task>, StoreError> {
        let mut state = self.lock();
        let mut made = Vec::new();
        for wish in wishes {
            state.last_task += 1;
            let id = TaskId::new(state.last_task);
            let Stepped { task, effects } = new_task(id, wish, now);
            state.tasks.insert(id, task.clone());
            state.apply(&self.rules, effects, now);
            made.push(task);
        }
        Ok(made)
    }

    async fn task(&self, scope: Scope, id: TaskId) -> Result<Option<Task>, StoreError> {
        let state = self.lock();
        Ok(state.tasks.get(&id).filter(|task| sees(scope, task.user_id)).cloned())
    }

    async fn tasks_by_id(&self, ids: Vec<TaskId>) -> Result<Vec<Task>, StoreError> {
        let state = self.lock();
        Ok(ids.iter().filter_map(|id| state.tasks.get(id).cloned()).collect())
    }

    async fn task_of_result(&self, result_key: String) -> Result<Option<Task>, StoreError> {
        let state = self.lock();
        Ok(state.tasks.values().find(|task| task.result_key == result_key).cloned())
    }

    async fn tasks(
        &self,
        scope: Scope,
        filter: TaskFilter,
        before: Option<TaskId>,
        rows_max: u32,
    ) -> Result<Vec<Task>, StoreError> {
        let wanted = |task: &&Task| {
            sees(scope, task.user_id)
                && filter.project.as_ref().is_none_or(|project| task.project_id == *project)
                && filter.status.is_none_or(|status| task.status == status)
                && before.is_none_or(|before| task.id < before)
        };
        let state = self.lock();
        let found = state.tasks.values().rev().filter(wanted).take(rows_max as usize);
        Ok(found.cloned().collect())
    }

    async fn change_task(
        &self,
        change: TaskChange,
        now: Timestamp,
    ) -> Result<ChangeAnswer, StoreError> {
        let mut state = self.lock();
        let Stepped { mut task, effects } = match state.decide(&change, now) {
            Ok(stepped) => stepped,
            Err(answer) => return Ok(answer),
        };
        let mut appended = None;
        if task.status.is_over() {
            appended = change.update.and_then(|update| state.append_told(&self.rules, update, now));
            task.applied_at = (appended.is_some() || change.is_told).then_some(now);
        }
        state.tasks.insert(task.id, task.clone());
        let frames = state.apply(&self.rules, effects, now);
        Ok(ChangeAnswer::Changed { task: task.into(), frames, appended })
    }

    async fn task_looks(
        &self,
        project: ProjectId,
        rows_max: u32,
    ) -> Result<Vec<TaskLook>, StoreError> {
        let state = self.lock();
        let looks = state.active().filter(|task| task.project_id == project).map(|task| TaskLook {
            id: task.id,
            stage: task.stage,
            retry_count: task.retry_count,
            next_poll_at: task.next_poll_at,
            deadline_at: task.deadline_at,
        });
        Ok(looks.take(rows_max as usize).collect())
    }

    async fn tasks_pending(
        &self,
        projects: Vec<ProjectId>,
        count_max: u32,
    ) -> Result<Vec<u64>, StoreError> {
        let state = self.lock();
        let count = |project: &ProjectId| {
            let pending = state.active().filter(|task| task.project_id == *project);
            pending.take(count_max as usize).count() as u64
        };
        Ok(projects.iter().map(count).collect())
    }

    async fn hint_task(
        &self,
        service: String,
        external_task_id: String,
        now: Timestamp,
    ) -> Result<Option<ProjectId>, StoreError> {
        let mut state = self.lock();
        let mut projects = Vec::new();
        for task in state.tasks.values_mut() {
            let is_meant = task.external_service == service
                && task.external_task_id.as_ref() == Some(&external_task_id)
                && task.stage == TaskStage::Polling;
            if is_meant {
                task.hinted_at = task.hinted_at.max(Some(now));
                task.next_poll_at = task.next_poll_at.map(|at| at.min(now));
                projects.push(task.project_id.clone());
            }
        }
        for project in &projects {
            state.enqueue(&self.rules, polling_wish(project, now), now);
        }
        Ok(projects.into_iter().next())
    }

    async fn rearm_tasks(
        &self,
        after: Option<TaskId>,
        rows_max: u32,
        now: Timestamp,
    ) -> Result<Rearmed, StoreError> {
        let mut state = self.lock();
        let waits = state.active().filter(|task| after.is_none_or(|after| task.id > after));
        let waits: Vec<Task> = waits.take(rows_max as usize).cloned().collect();
        let mut jobs = 0;
        for task in &waits {
            for wish in jobs_of(task, now) {
                if !state.has_job(&wish) {
                    state.enqueue(&self.rules, wish, now);
                    jobs += 1;
                }
            }
        }
        let is_full = waits.len() >= rows_max as usize;
        Ok(Rearmed { jobs, next_after: waits.last().filter(|_| is_full).map(|task| task.id) })
    }

    async fn untold_tasks(&self, rows_max: u32) -> Result<Vec<Task>, StoreError> {
        let state = self.lock();
        let untold = state.tasks.values().filter(|task| is_untold(task));
        Ok(untold.take(rows_max as usize).cloned().collect())
    }

    async fn tell_task(
        &self,
        id: TaskId,
        update: Option<NewUpdate>,
        now: Timestamp,
    ) -> Result<Option<AppendedUpdate>, StoreError> {
        let mut state = self.lock();
        if !state.tasks.get(&id).is_some_and(is_untold) {
            return Ok(None);
        }
        let has_update = update.is_some();
        let appended = update.and_then(|update| state.append_told(&self.rules, update, now));
        if (appended.is_some() || !has_update)
            && let Some(task) = state.tasks.get_mut(&id)
        {
            task.applied_at = Some(now);
        }
        Ok(appended)
    }

    async fn prune_tasks(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let is_old = |task: &&Task| {
            task.files.is_empty()
                && task.applied_at.is_some()
                && task.completed_at.is_some_and(|ended| ended < before)
        };
        let mut old: Vec<_> = state.tasks.values().filter(is_old).collect();
        old.sort_by_key(|task| (task.completed_at, task.id));
        let old: Vec<TaskId> = old.iter().take(rows_max as usize).map(|task| task.id).collect();
        for id in &old {
            state.tasks.remove(id);
        }
        let is_theirs = |step: &LoggedTransition| {
            step.entity == TASK_ENTITY && old.contains(&TaskId::new(step.entity_id))
        };
        state.transitions.retain(|step| !is_theirs(step));
        Ok(old.len() as u64)
    }

    async fn task_counts(&self) -> Result<Vec<(TaskStatus, u64)>, StoreError> {
        let state = self.lock();
        let mut counts: BTreeMap<&str, (TaskStatus, u64)> = BTreeMap::new();
        for task in state.active() {
            counts.entry(task.status.as_str()).or_insert((task.status, 0)).1 += 1;
        }
        Ok(counts.into_values().collect())
    }
}

#[async_trait]
impl AlarmStore for Reference {
    async fn set_alarm(
        &self,
        wish: AlarmWish,
        alarms_max: u32,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let job = alarm_wish(&wish);
        let known = state.waiting_with_key(job.user_id, &job.kind, job.key.as_ref());
        if let (Some(id), SetMode::Replace) = (known, wish.mode) {
            let waiting = state.waiting.get_mut(&id).expect("whoever has a key here waits");
            replace(waiting, job, now);
            return Ok(true);
        }
        let is_of_users = |facts: &&JobFacts| {
            facts.kind.as_str() == USER_ALARM_KIND && is_alarm_of(facts, &wish.project)
        };
        let set = state.waiting.values().map(|waiting| &waiting.facts).filter(is_of_users).count();
        if known.is_none() && set >= alarms_max as usize {
            return Ok(false);
        }
        state.enqueue(&self.rules, job, now);
        Ok(true)
    }

    async fn cancel_alarm(
        &self,
        project: ProjectId,
        name: AlarmName,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let kind = KindName::new(USER_ALARM_KIND).expect("a kind");
        let key = JobKey::new(&alarm_key(&project, &name)).ok();
        let Some(id) = state.waiting_with_key(UserId::SYSTEM, &kind, key.as_ref()) else {
            return Ok(false);
        };
        let facts = state.waiting.remove(&id).expect("it waits").facts;
        let cancelled = FinishedState::Cancelled { cause: CancelCause::Requested };
        let ended = FinishedJob { facts, state: cancelled, finished_at: now, progress: None };
        state.finished.insert(id, ended);
        Ok(true)
    }

    async fn alarms(&self, project: ProjectId, rows_max: u32) -> Result<Vec<Alarm>, StoreError> {
        let state = self.lock();
        let waiting = state.waiting.values().map(|job| Job::Waiting(job.clone()));
        let running = state.running.values().map(|job| Job::Running(Box::new(job.clone())));
        let jobs = waiting.chain(running).filter(|job| is_alarm_of(job.facts(), &project));
        let mut alarms: Vec<Alarm> = jobs.filter_map(|job| alarm_of_job(&job)).collect();
        alarms.sort_by(|a, b| (a.at, &a.name, a.is_firing).cmp(&(b.at, &b.name, b.is_firing)));
        alarms.truncate(rows_max as usize);
        Ok(alarms)
    }
}

impl State {
    /// Stores what a document is told; `None` if it has no place there.
    fn append_told(
        &mut self,
        rules: &KindCatalog,
        update: NewUpdate,
        now: Timestamp,
    ) -> Option<AppendedUpdate> {
        let (project, payload) = (update.project.clone(), update.payload.clone());
        match self.append_update(rules, update, now) {
            AppendAnswer::Appended { seq } => Some(AppendedUpdate { project, seq, payload }),
            AppendAnswer::Full(_) | AppendAnswer::NoSuchRoom => None,
        }
    }

    fn active(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values().filter(|task| !task.status.is_over())
    }

    fn decide(&self, change: &TaskChange, now: Timestamp) -> Result<Stepped, ChangeAnswer> {
        if change.guard.is_some_and(|guard| !self.holds(guard)) {
            return Err(ChangeAnswer::LeaseLost);
        }
        let known = self.tasks.get(&change.id).cloned().ok_or(ChangeAnswer::NotFound)?;
        let takes_slot = |task: &&Task| {
            task.external_service == known.external_service
                && task.id != known.id
                && matches!(task.stage, TaskStage::Sending | TaskStage::Polling)
        };
        let taken = self.tasks.values().filter(takes_slot).count();
        let is_full = change.slots_max.is_some_and(|max| taken >= max as usize);
        if change.event == TaskEvent::Sending && is_full {
            return Err(ChangeAnswer::NoSlot);
        }
        if known.status.is_over() {
            return Err(ChangeAnswer::Unchanged(known.into()));
        }
        if change.version.is_some_and(|seen| seen != known.version) {
            return Err(ChangeAnswer::Stale(known.into()));
        }
        match step(known.clone(), change.event.clone(), change.rules, now) {
            Ok(Some(stepped)) => Ok(stepped),
            Ok(None) => Err(ChangeAnswer::Unchanged(known.into())),
            Err(_) => Err(ChangeAnswer::Stale(known.into())),
        }
    }

    fn has_job(&self, wish: &NewJob) -> bool {
        let is_it = |user: UserId, kind: &KindName, key: Option<&JobKey>| {
            user == wish.user_id && *kind == wish.kind && key == wish.key.as_ref()
        };
        let waits = self.waiting.values().map(|job| &job.facts);
        let mut all = waits.chain(self.running.values().map(|job| &job.facts));
        all.any(|facts| is_it(facts.user_id, &facts.kind, facts.key.as_ref()))
    }
}

fn jobs_of(task: &Task, now: Timestamp) -> Vec<NewJob> {
    let own = match task.stage {
        TaskStage::Waiting | TaskStage::Sending => Some(submit_wish(task.id, now)),
        TaskStage::Collecting => Some(collect_wish(task.id, now)),
        TaskStage::Polling | TaskStage::Over => None,
    };
    own.into_iter().chain([polling_wish(&task.project_id, now)]).collect()
}

fn is_untold(task: &Task) -> bool {
    task.status.is_over() && task.applied_at.is_none()
}
