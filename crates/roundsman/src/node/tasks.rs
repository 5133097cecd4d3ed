//! Tasks and alarms of this node: the services for the edge, and the handlers for the worker.

use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{KindSpec, NewJob};
use roundsman_engine::alarms::{AlarmWork, Alarms, alarm_spec};
use roundsman_engine::jobs::Handler;
use roundsman_engine::rooms::Rooms;
use roundsman_engine::tasks::{TaskNews, TaskOptions, TaskWork, Tasks, task_specs, task_wishes};

use super::bots::Parts;
use crate::config::Config;

/// In the data folder: what is being fetched.
const WORK_FOLDER: &str = "results";

pub(super) struct NodeTasks {
    pub(super) tasks: Tasks,
    pub(super) alarms: Alarms,
    pub(super) handlers: Vec<Arc<dyn Handler>>,
}

impl NodeTasks {
    pub(super) async fn build(parts: &Parts<'_>, rooms: &Rooms) -> anyhow::Result<NodeTasks> {
        let work = TaskWork {
            tasks: parts.store.clone(),
            rooms: parts.store.clone(),
            documents: Arc::new(rooms.clone()),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            wakes: parts.wakes.clone(),
            metrics: parts.metrics.clone(),
            executors: super::executors::build(parts)?,
            media: super::recordings::media(parts)?,
            options: options(parts.config),
            news: TaskNews::default(),
        };
        work.clear_left().await;
        let firing = AlarmWork {
            clock: parts.clock.clone(),
            wakes: parts.wakes.clone(),
            metrics: parts.metrics.clone(),
        };
        let alarms = Alarms {
            alarms: parts.store.clone(),
            rooms: parts.store.clone(),
            tasks: parts.store.clone(),
            clock: parts.clock.clone(),
            wakes: parts.wakes.clone(),
            alarms_per_room_max: parts.config.tasks.alarms_per_room_max,
        };
        let handlers = work.handlers().into_iter().chain([firing.handler()]).collect();
        Ok(NodeTasks { tasks: Tasks::new(&work, parts.store.clone()), alarms, handlers })
    }

    /// The wishes that keep the periodic jobs alive.
    pub(super) fn wishes(now: Timestamp) -> Vec<NewJob> {
        task_wishes(now)
    }
}

/// The policies of all kinds of jobs about tasks and alarms.
pub(super) fn specs(config: &Config) -> Vec<KindSpec> {
    task_specs(&options(config)).into_iter().chain([alarm_spec()]).collect()
}

fn options(config: &Config) -> TaskOptions {
    let settings = &config.tasks;
    TaskOptions {
        rules: settings.rules,
        submit_wait: settings.submit_wait,
        submit_attempts_max: settings.submit_attempts_max,
        poll_time_max: settings.poll_time_max,
        polls_at_once_max: settings.polls_at_once_max,
        rooms_at_once_max: settings.rooms_at_once_max,
        submits_at_once_max: settings.submits_at_once_max,
        collects_at_once_max: settings.collects_at_once_max,
        collect_attempts_max: settings.collect_attempts_max,
        sweep_every: settings.sweep,
        keep_for: settings.keep_for,
        tasks_per_project_max: settings.per_project_max,
        public_url: config.server.public_url.clone(),
        ..TaskOptions::new(config.server.data.join(WORK_FOLDER))
    }
}
