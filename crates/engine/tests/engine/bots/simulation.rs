//! Many bots, random lives, lost answers, restarts: whatever happens, every bot ends, nothing is
//! left running, and no user ever has more than they may.

use std::collections::BTreeMap;

use roundsman_core::bots::{BotEvent, ConnectionId, MeetingId, Stage, WorkloadId};
use roundsman_core::ports::{
    BotStore, BotTarget, Clock, ConfigChange, MeetingFilter, MeetingPage, Random,
};
use roundsman_core::users::UserId;
use roundsman_engine::jobs::Sweeper;
use roundsman_testkit::SeededRandom;

use super::launcher::Mishap;
use super::{BotWorld, exit, fresh_id, new_user, wish};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{secs, until_running};

on_every_database! {
    every_life_ends_whatever_happens
}

const STEPS: usize = 500;
const BOTS_PER_USER_MAX: i32 = 3;

/// Calls whose answers may be lost, or that may find the database away.
const STORE_CALLS: [&str; 12] = [
    "reserve_bot",
    "bot",
    "bot_event",
    "bot_heartbeats",
    "wish_stop",
    "bot_launched",
    "next_attempt",
    "note_runtime",
    "sweep_bots",
    "live_workloads",
    "finish_meeting",
    "settle",
];
const LAUNCHER_CALLS: [&str; 5] = ["ensure", "look", "list", "terminate", "remove"];

async fn every_life_ends_whatever_happens(backend: Backend) {
    // A server takes ten times as long for the same life.
    let seeds = match backend {
        Backend::Sqlite => 8,
        Backend::Postgres => 2,
    };
    for seed in 0..seeds {
        let mut life = Life::begin(backend, seed).await;
        for _ in 0..STEPS {
            life.step().await;
            life.check_limits().await;
        }
        life.end().await;
    }
}

struct Life {
    seed: u64,
    random: SeededRandom,
    bots: BotWorld,
    jobs_sweeper: Sweeper,
    users: Vec<UserId>,
    connections: BTreeMap<MeetingId, ConnectionId>,
}

impl Life {
    async fn begin(backend: Backend, seed: u64) -> Self {
        let bots = BotWorld::with_limit(backend, BOTS_PER_USER_MAX).await;
        let mut users = vec![bots.user];
        for email in ["bob@example.org", "eve@example.org"] {
            users.push(new_user(&bots.world, email, BOTS_PER_USER_MAX).await);
        }
        let jobs_sweeper = bots.world.sweeper();
        let connections = BTreeMap::new();
        Life { seed, random: SeededRandom::new(seed), bots, jobs_sweeper, users, connections }
    }

    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).unwrap()
    }

    fn pick<T: Clone>(&self, items: &[T]) -> Option<T> {
        (!items.is_empty()).then(|| items[self.below(items.len())].clone())
    }

    async fn step(&mut self) {
        match self.below(20) {
            0..=2 => self.start().await,
            3..=6 => self.callback().await,
            7..=8 => self.heartbeat().await,
            9 => self.workload_ends(),
            10 => self.stop().await,
            11 => self.configure().await,
            12..=14 => {
                self.bots.world.clock.advance(secs(self.random.below(40)));
                self.work().await;
            }
            15 => drop(self.bots.sweeper.tick().await),
            16 => drop(self.jobs_sweeper.tick().await),
            17 => self.something_breaks(),
            18 => {
                self.bots.world.store.mend();
                self.bots.launcher.mend();
                self.bots.launcher.show_all();
            }
            _ => {
                self.bots.restart();
                self.jobs_sweeper = self.bots.world.sweeper();
            }
        }
    }

    async fn start(&mut self) {
        let user = self.pick(&self.users).unwrap();
        let native_id = fresh_id(&self.bots.world);
        if let Ok(record) = self.bots.bots.start(user, wish(&native_id)).await {
            self.connections.insert(record.meeting.id, record.bot.connection_id);
        }
    }

    /// A workload that runs says something, sensible or not.
    async fn callback(&self) {
        let Some((workload, token, connection)) = self.speaker() else { return };
        let event = match self.below(8) {
            0 | 1 => BotEvent::Started,
            2 => BotEvent::AtStage(Stage::AwaitingAdmission),
            3 | 4 => BotEvent::Joined,
            5 => BotEvent::Leaving,
            _ => {
                let code = [0, 1, 137, 143][self.below(4)];
                self.bots.launcher.exit(workload, Some(code));
                exit(code)
            }
        };
        let beats = self.below(2) == 0;
        drop(self.bots.bots.callback(&token, &connection, event, beats).await);
    }

    async fn heartbeat(&self) {
        let Some((_, token, connection)) = self.speaker() else { return };
        let progress = Some(i64::try_from(self.below(1000)).unwrap());
        drop(self.bots.bots.heartbeat(&token, &connection, progress, Some(1)).await);
    }

    fn speaker(&self) -> Option<(WorkloadId, String, String)> {
        let mut running = self.bots.launcher.all();
        running.retain(|workload| self.bots.launcher.is_running(*workload));
        let workload = self.pick(&running)?;
        let connection = self.connections.get(&workload.meeting_id)?;
        let token = self.bots.key.token(workload, connection);
        Some((workload, token, connection.as_str().to_owned()))
    }

    fn workload_ends(&self) {
        let Some(workload) = self.pick(&self.bots.launcher.all()) else { return };
        match self.below(4) {
            0 => self.bots.launcher.vanish(workload),
            1 => self.bots.launcher.exit(workload, None),
            2 => self.bots.launcher.put(WorkloadId { attempt: 7, ..workload }),
            _ => self.bots.launcher.exit(workload, Some(1)),
        }
    }

    async fn stop(&self) {
        let Some((meeting, user)) = self.meeting() else { return };
        drop(self.bots.bots.stop(user, BotTarget::Meeting(meeting)).await);
    }

    async fn configure(&self) {
        let Some((meeting, user)) = self.meeting() else { return };
        let change = ConfigChange { language: Some("en".to_owned()), ..ConfigChange::default() };
        drop(self.bots.bots.configure(user, BotTarget::Meeting(meeting), change).await);
    }

    fn meeting(&self) -> Option<(MeetingId, UserId)> {
        let meetings: Vec<MeetingId> = self.connections.keys().copied().collect();
        Some((self.pick(&meetings)?, self.pick(&self.users)?))
    }

    fn something_breaks(&self) {
        let (world, launcher) = (&self.bots.world, &self.bots.launcher);
        match self.below(6) {
            0 => world.store.set(self.pick(&STORE_CALLS).unwrap(), Fault::Down),
            1 | 2 => world.store.set(self.pick(&STORE_CALLS).unwrap(), Fault::AnswerLost),
            3 => launcher.set(self.pick(&LAUNCHER_CALLS).unwrap(), Mishap::Down),
            4 => launcher.set(self.pick(&LAUNCHER_CALLS).unwrap(), Mishap::AnswerLost),
            _ => match self.pick(&launcher.all()) {
                Some(workload) if self.below(2) == 0 => launcher.hide(workload),
                _ => launcher.set("ensure", Mishap::Refuses("no such image")),
            },
        }
    }

    /// Runs what is due once; a database that is away is tried again in a later step.
    async fn work(&self) {
        drop(self.bots.worker.claim_tick().await);
        until_running(&self.bots.worker, 0).await;
        drop(self.bots.worker.settle_tick().await);
    }

    async fn check_limits(&self) {
        for user in &self.users {
            let live = self.of_user(*user, true).await;
            assert!(live <= usize::try_from(BOTS_PER_USER_MAX).unwrap(), "seed {}", self.seed);
        }
    }

    async fn of_user(&self, user: UserId, live: bool) -> usize {
        let filter = MeetingFilter { live, ..MeetingFilter::default() };
        let page = MeetingPage { before: None, skip: 0, rows_max: 1000 };
        self.bots.bots.meetings(user, filter, page).await.unwrap().len()
    }

    /// A bot without heartbeats lives as long as its workload runs: somebody has to end it.
    async fn stop_those_without_heartbeats(&self) {
        for record in self.bots.world.store.live_bots(None, 1000).await.unwrap() {
            if record.bot.beats {
                continue;
            }
            if self.below(2) == 0 {
                self.bots.launcher.exit(record.workload(), Some(0));
            } else {
                let target = BotTarget::Meeting(record.meeting.id);
                self.bots.bots.stop(record.meeting.user_id, target).await.unwrap();
            }
        }
    }

    /// Everything is mended and nobody speaks any more: what is live must end by itself.
    async fn end(mut self) {
        self.bots.world.store.mend();
        self.bots.launcher.mend();
        self.bots.launcher.show_all();
        self.bots.restart();
        self.jobs_sweeper = self.bots.world.sweeper();
        self.stop_those_without_heartbeats().await;
        for half_minute in 0..60 {
            self.bots.world.clock.advance(secs(30));
            self.jobs_sweeper.tick().await.unwrap();
            self.bots.run_due().await;
            if half_minute % 2 == 1 {
                self.bots.sweep().await;
                self.bots.run_due().await;
            }
        }
        let mut bots_ended = 0;
        for user in &self.users {
            assert_eq!(self.of_user(*user, true).await, 0, "seed {}", self.seed);
            bots_ended += self.of_user(*user, false).await;
        }
        assert!(bots_ended > 10, "seed {} saw {bots_ended} bots", self.seed);
        assert_eq!(self.bots.launcher.all(), [], "seed {}", self.seed);
        for meeting in self.connections.keys() {
            let record = self.bots.record(*meeting).await;
            assert!(record.bot.finished_at.is_some(), "seed {}: {record:?}", self.seed);
            assert!(record.meeting.end_time.unwrap() <= self.bots.world.clock.now());
        }
        self.bots.check().await;
    }
}
