//! What the database says of the world, and the rules that it is held to.

use std::collections::BTreeSet;
use std::hash::Hash;

use roundsman_core::Timestamp;
use roundsman_core::alarms::Alarm;
use roundsman_core::jobs::Job;
use roundsman_core::ports::{
    AlarmStore, JobStore, ListFilter, ListPage, RoomStore, Scope, TaskFilter, TaskStore,
};
use roundsman_core::rooms::AlarmType;
use roundsman_core::tasks::{POLLING_KIND, Task, TaskLook, TaskStage};

use super::{BACKOFF_MAX, Held, POLL_EVERY, World, now};
use crate::support::kind;
use crate::tasks::simulation::rules::{LOOKED_AFTER, TOLD_ONCE, hold};

impl World {
    pub(super) fn is_at_rest(&self) -> Result<bool, String> {
        for room in 0..self.rooms.len() {
            if !self.looks(room)?.is_empty() || !self.rounds(room)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The log of a room's document has every end once.
    pub(super) fn check_told(&mut self, room: usize) -> Held {
        let project = self.rooms[room].project.clone();
        let Some(stored) = now(self.store.load_room(project.clone()))? else { return Ok(()) };
        let mut told = BTreeSet::new();
        for update in &stored.updates {
            let said = String::from_utf8_lossy(&update.payload).into_owned();
            let task = said.split(' ').next().unwrap_or_default().to_owned();
            hold!(TOLD_ONCE, told.insert(task), "again: {said}");
        }
        self.summary.ended += told.len() as u64;
        let filter = TaskFilter { project: Some(project), status: None };
        for task in now(self.store.tasks(Scope::All, filter, None, 10_000))? {
            let id = task.id.to_string();
            hold!(TOLD_ONCE, told.contains(&id), "nothing was said of {id}");
        }
        Ok(())
    }

    /// Holds a room, or all of them, to the first rule.
    pub(super) fn check(&mut self, room: Option<usize>) -> Held {
        let all = 0..self.rooms.len();
        for room in all.filter(|place| room.is_none_or(|room| room == *place)) {
            let looks = self.looks(room)?;
            looks.len().hash(&mut self.digest);
            if looks.is_empty() {
                continue;
            }
            self.disturb(room);
            let rounds = self.rounds(room)?;
            if let Some(robbed) = &mut self.rooms[room].robbed {
                // A sweep leaves a room alone whose round runs, although that may have decided before.
                if rounds.iter().any(|round| round.is_firing) {
                    *robbed = self.summary.steps;
                }
                continue;
            }
            let is_held = self.is_in_time(&looks, &rounds);
            hold!(LOOKED_AFTER, is_held, "room {room}: {looks:?}, alarms: {rounds:?}");
        }
        Ok(())
    }

    /// The usual pause, or longer if nobody need be asked before, or if the round itself has failed.
    fn is_in_time(&self, looks: &[TaskLook], rounds: &[Alarm]) -> bool {
        let usual = self.now() + POLL_EVERY;
        let first = looks.iter().map(|look| asked_at(look).unwrap_or(usual)).min();
        let limit = first.unwrap_or(usual).max(usual);
        rounds.iter().any(|round| {
            let fails = round.attempts_failed > 0 && round.at <= self.now() + BACKOFF_MAX;
            round.is_firing || round.at <= limit || fails
        })
    }

    /// A sweep that began in this step has ended: rooms that had lost their alarm before have one. It
    /// may be one that was set before somebody asked for an earlier one, which is lost, too; then it
    /// takes until its time.
    pub(super) fn swept(&mut self, began: u64) -> Held {
        for room in 0..self.rooms.len() {
            if self.rooms[room].robbed.is_none_or(|robbed| robbed >= began) {
                continue;
            }
            let (looks, rounds) = (self.looks(room)?, self.rounds(room)?);
            let is_set = looks.is_empty() || !rounds.is_empty();
            hold!(LOOKED_AFTER, is_set, "room {room} was swept: {looks:?}");
            let is_in_time = looks.is_empty() || self.is_in_time(&looks, &rounds);
            self.rooms[room].robbed = (!is_in_time).then_some(self.summary.steps);
        }
        Ok(())
    }

    /// Rounds of this room that run now are not alone with it.
    pub(super) fn disturb(&mut self, room: usize) {
        for run in self.runs.iter_mut().filter(|run| run.room == Some(room)) {
            run.is_disturbed = true;
        }
    }

    pub(super) fn looks(&self, room: usize) -> Result<Vec<TaskLook>, String> {
        now(self.store.task_looks(self.rooms[room].project.clone(), 1_000))
    }

    /// The alarm `task_polling` of a room: set, firing, or both.
    pub(super) fn rounds(&self, room: usize) -> Result<Vec<Alarm>, String> {
        let mut alarms = now(self.store.alarms(self.rooms[room].project.clone(), 100))?;
        alarms.retain(|alarm| alarm.name == AlarmType::TaskPolling.as_str());
        Ok(alarms)
    }

    /// Takes the waiting round of a room away. `false` if there is none.
    pub(super) fn lose_alarm(&self, room: usize) -> Result<bool, String> {
        let project = self.rooms[room].project.as_str();
        let filter = ListFilter { kind: Some(kind(POLLING_KIND)), ..ListFilter::default() };
        let page = ListPage { before: None, rows_max: 1_000 };
        let jobs = now(self.store.jobs(Scope::All, filter, page, self.now()))?;
        let waits = |job: &&Job| {
            let key = job.facts().key.as_ref();
            matches!(job, Job::Waiting(_)) && key.is_some_and(|key| key.as_str() == project)
        };
        let Some(job) = jobs.iter().find(waits) else { return Ok(false) };
        now(self.store.cancel(Scope::All, job.facts().id, self.now()))?;
        Ok(true)
    }

    pub(super) fn room_of(&self, project: &str) -> Option<usize> {
        self.rooms.iter().position(|room| room.project.as_str() == project)
    }

    pub(super) fn newest_task(&self, room: usize) -> Result<i64, String> {
        Ok(self.tasks_of(room, 1)?.first().map_or(0, |task| task.id.get()))
    }

    pub(super) fn some_task(&self, room: usize) -> Result<Option<Task>, String> {
        let known = self.tasks_of(room, 8)?;
        Ok(self.pick(known.len()).map(|place| known[place].clone()))
    }

    pub(super) fn tasks_of(&self, room: usize, rows_max: u32) -> Result<Vec<Task>, String> {
        let project = Some(self.rooms[room].project.clone());
        let filter = TaskFilter { project, status: None };
        now(self.store.tasks(Scope::All, filter, None, rows_max))
    }
}

/// When a generator is asked after a task; `None` if that is not what it waits for.
fn asked_at(look: &TaskLook) -> Option<Timestamp> {
    look.next_poll_at.filter(|_| look.stage == TaskStage::Polling)
}
