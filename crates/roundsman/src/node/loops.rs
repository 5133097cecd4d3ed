//! The loops that run beside the worker.

use std::time::Duration;

use roundsman_core::ports::{Clock, Random, StoreError};
use roundsman_engine::clock::SYNC_EVERY;
use roundsman_engine::health::Health;
use roundsman_engine::jobs::Sweeper;
use roundsman_engine::wake::rest;
use tokio_util::sync::CancellationToken;

use super::{Node, as_database};
use crate::config::{Config, Role};

/// How often it is written down when tokens were last used.
const USAGE_EVERY: Duration = Duration::from_secs(10);
/// How often it is seen to that others can tell whether this process lives.
const ALIVE_EVERY: Duration = Duration::from_secs(2);
/// How often frames are looked for that the bus has lost.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often it is noted which frames were published.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// How often files are looked for that somebody has left of recordings.
const TIDY_EVERY: Duration = Duration::from_secs(10);
/// How often tokens and versions of rooms are looked for that are no longer needed.
const ROOMS_PRUNE_EVERY: Duration = Duration::from_secs(600);
/// How often it is looked whether an alarm of a room was lost.
const ROOMS_REARM_EVERY: Duration = Duration::from_secs(60);
/// A loop counts as one that comes round this often at most: a round that waits once for something
/// that is away, such as Redis, is no sign that it is stuck.
const WELL_WITHIN_MIN: Duration = Duration::from_secs(5);

impl Node {
    /// Starts every loop that the node's roles call for.
    pub(crate) fn spawn_loops(&self, config: &Config, stop: &CancellationToken) {
        self.bus.spawn_loops(&self.tasks, &self.metrics, stop);
        self.spawn_clock(stop);
        self.spawn_alive(stop);
        self.spawn_usage(stop);
        self.spawn_depths(config.metrics.sample, stop);
        self.spawn_frames(stop);
        self.spawn_tidy(stop);
        self.spawn_rooms(config, stop);
        self.spawn_task_counts(config.metrics.sample, stop);
        self.tasks.spawn(self.intake.clone().run(self.health.clone(), stop.clone()));
        if config.server.roles.has(Role::Scheduler) {
            self.spawn_sweeper(config.jobs.sweep, stop);
        }
    }

    fn spawn_clock(&self, stop: &CancellationToken) {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let beat = Beat::new("clock", SYNC_EVERY, self, stop);
        self.tasks.spawn(beat.run(async move || clock.sync(as_database(&store)).await));
    }

    fn spawn_alive(&self, stop: &CancellationToken) {
        let (store, clock, owner) = (self.store.clone(), self.clock.clone(), self.owner);
        let beat = Beat::new("process.alive", ALIVE_EVERY, self, stop);
        self.tasks.spawn(beat.run(async move || store.keep_process(owner, clock.now()).await));
    }

    fn spawn_sweeper(&self, every: Duration, stop: &CancellationToken) {
        let sweeper = Sweeper::new(
            self.store.clone(),
            self.clock.clone(),
            self.random.clone(),
            self.wakes.clone(),
            self.metrics.clone(),
        );
        let beat = Beat::new("jobs.sweep", every, self, stop);
        self.tasks.spawn(beat.run(async move || sweeper.tick().await.map(|_| ())));
    }

    fn spawn_depths(&self, every: Duration, stop: &CancellationToken) {
        let (store, clock, metrics) =
            (self.store.clone(), self.clock.clone(), self.metrics.clone());
        let health = self.health.clone();
        let beat = Beat::new("jobs.depths", every, self, stop);
        self.tasks.spawn(beat.run(async move || {
            // Before the database is asked: it may be what they wait for.
            metrics.loops(&health.report());
            let now = clock.now();
            metrics.depths(&store.depths(now).await?, now);
            metrics.dead_kept(&store.dead_counts().await?);
            Ok(())
        }));
    }

    /// Looks for frames that the bus has lost, and notes which ones it was given.
    fn spawn_frames(&self, stop: &CancellationToken) {
        let transcripts = self.transcripts.clone();
        let beat = Beat::new("transcripts.look", LOOK_EVERY, self, stop);
        self.tasks.spawn(beat.run(async move || transcripts.look().await));
        let transcripts = self.transcripts.clone();
        let beat = Beat::new("transcripts.note", NOTE_EVERY, self, stop);
        self.tasks.spawn(beat.run(async move || transcripts.tick().await));
    }

    fn spawn_tidy(&self, stop: &CancellationToken) {
        let recordings = self.recordings.clone();
        let beat = Beat::new("recordings.tidy", TIDY_EVERY, self, stop);
        self.tasks.spawn(beat.run(async move || recordings.tidy().await));
    }

    fn spawn_task_counts(&self, every: Duration, stop: &CancellationToken) {
        let tasks = self.task_service.clone();
        let beat = Beat::new("tasks.count", every, self, stop);
        self.tasks.spawn(beat.run(async move || tasks.count().await));
    }

    /// Compares documents in memory with the database and, where housekeeping is done, deletes what of
    /// rooms is no longer needed.
    fn spawn_rooms(&self, config: &Config, stop: &CancellationToken) {
        let rooms = self.rooms.clone();
        let beat = Beat::new("rooms.look", config.rooms.look, self, stop);
        self.tasks.spawn(beat.run(async move || rooms.look().await));
        if !config.server.roles.has(Role::Scheduler) {
            return;
        }
        let rooms = self.rooms.clone();
        let rows_max = u32::try_from(config.jobs.prune_rows_max).unwrap_or(u32::MAX);
        let beat = Beat::new("rooms.prune", ROOMS_PRUNE_EVERY, self, stop);
        self.tasks.spawn(beat.run(async move || rooms.prune(rows_max).await.map(|_| ())));
        let rooms = self.rooms.clone();
        let beat = Beat::new("rooms.rearm", ROOMS_REARM_EVERY, self, stop);
        self.tasks.spawn(beat.run(async move || rooms.rearm().await.map(|_| ())));
    }

    fn spawn_usage(&self, stop: &CancellationToken) {
        let authenticator = self.authenticator.clone();
        let beat = Beat::new("users.usage", USAGE_EVERY, self, stop);
        self.tasks.spawn(beat.run(async move || authenticator.flush_usage().await));
    }
}

/// The shell of a loop that comes round at an interval.
struct Beat {
    name: &'static str,
    every: Duration,
    health: Health,
    random: std::sync::Arc<dyn Random>,
    stop: CancellationToken,
}

impl Beat {
    fn new(name: &'static str, every: Duration, node: &Node, stop: &CancellationToken) -> Self {
        let (health, random) = (node.health.clone(), node.random.clone());
        Beat { name, every, health, random, stop: stop.clone() }
    }

    async fn run(self, mut tick: impl AsyncFnMut() -> Result<(), StoreError>) {
        let pulse = self.health.register(self.name, self.every.max(WELL_WITHIN_MIN));
        loop {
            match tick().await {
                Ok(()) => pulse.beat(),
                Err(error) => {
                    pulse.failed(&error);
                    tracing::warn!(name = self.name, %error, "a round failed");
                }
            }
            // A tenth of jitter keeps the nodes from coming round together.
            let spread = u64::try_from(self.every.as_micros() / 10).unwrap_or(u64::MAX);
            let late = Duration::from_micros(self.random.below(spread.saturating_add(1)));
            if !rest(self.every + late, &self.stop).await {
                return;
            }
        }
    }
}
