//! One running server: its parts, put together from the configuration.
//!
//! Invariant: parts are made here and handed down; none of them looks for another by itself.

mod admin_token;
mod audits;
mod bots;
mod bus;
mod catalog;
mod executors;
mod failpoints;
mod launcher;
mod loops;
mod presence;
mod recordings;
mod rooms;
mod store;
mod tasks;
mod transcripts;

use std::sync::Arc;

use anyhow::Context;
use roundsman_core::daily::WebhookSecret;
use roundsman_core::jobs::{KindCatalog, LeaseOwner, Role as JobRole, WorkerName};
use roundsman_core::ports::{Clock, Database, EnqueueRequest, JobStore, Random, Store};
use roundsman_engine::alarms::Alarms;
use roundsman_engine::audits::{Audits, audit_wishes};
use roundsman_engine::bots::Bots;
use roundsman_engine::clock::DatabaseClock;
use roundsman_engine::health::Health;
use roundsman_engine::jobs::{
    HandlerRegistry, Housekeeping, JobLimits, Jobs, JobsDeps, ScheduleKeeper, Worker, WorkerDeps,
    WorkerOptions,
};
use roundsman_engine::metrics::Metrics;
use roundsman_engine::presence::{Intake, Presence};
use roundsman_engine::random::OsRandom;
use roundsman_engine::recordings::Recordings;
use roundsman_engine::rooms::Rooms;
use roundsman_engine::tasks::Tasks;
use roundsman_engine::transcripts::{Transcripts, transcript_wishes};
use roundsman_engine::users::{AdminToken, Authenticator, AuthenticatorOptions, Users};
use roundsman_engine::wake::Wakes;
use roundsman_engine::webhooks::Webhooks;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use audits::pages;
pub(crate) use catalog::catalog;
pub(crate) use store::{Access, open_postgres, open_store, postgres_config};

use crate::config::{Config, Role, Roles};

/// How long frames are kept for clients that come back.
const FRAMES_KEPT: std::time::Duration = std::time::Duration::from_secs(600);

/// Everything a server runs on.
pub(crate) struct Node {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<DatabaseClock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) wakes: Wakes,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) jobs: Jobs,
    pub(crate) users: Users,
    pub(crate) authenticator: Authenticator,
    pub(crate) bots: Bots,
    pub(crate) webhooks: Webhooks,
    pub(crate) transcripts: Transcripts,
    pub(crate) presence: Presence,
    pub(crate) recordings: Recordings,
    pub(crate) audits: Audits,
    pub(crate) rooms: Rooms,
    pub(crate) task_service: Tasks,
    pub(crate) alarms: Alarms,
    pub(crate) intake: Arc<Intake>,
    /// What Daily signs its events with; none closes their route.
    pub(crate) daily_secrets: Arc<[WebhookSecret]>,
    streams: Option<transcripts::Streams>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) bus: bus::NodeBus,
    /// Shown once, when it was made at this start.
    pub(crate) new_admin_token: Option<String>,
    pub(crate) tasks: TaskTracker,
    roles: Roles,
    owner: LeaseOwner,
}

impl Node {
    /// Opens the database, announces this process and makes all parts. Nothing runs yet.
    #[expect(clippy::too_many_lines, reason = "a line or two for each part, in their order")]
    pub(crate) async fn build(config: &Config, stop: &CancellationToken) -> anyhow::Result<Node> {
        failpoints::install(config.failpoints.as_deref())?;
        let tasks = TaskTracker::new();
        let random: Arc<dyn Random> = Arc::new(OsRandom);
        let catalog = Arc::new(catalog(config));
        let store = open_store(config, catalog.clone(), Access::Server).await?;
        let clock = Arc::new(DatabaseClock::start());
        clock.sync(as_database(&store)).await.context("cannot ask the database for the time")?;
        let metrics = Metrics::default();
        let name = node_name(random.as_ref());
        let bus = bus::NodeBus::start(config, &name, &random, &tasks, stop).await?;
        let wakes = bus.wakes();
        let admin = admin_token::load_or_make(config, random.as_ref())?;
        let authenticator = authenticator(config, admin.token, &store, &clock);
        let parts = bots::Parts {
            config,
            store: &store,
            clock: clock.clone(),
            random: &random,
            bus: bus.bus.clone(),
            wakes: &wakes,
            metrics: &metrics,
            tasks: &tasks,
        };
        let jobs = jobs(&parts, catalog);
        let keys = bots::Keys::load(&parts).await?;
        let meeting_keys = keys.meeting.clone();
        let said = transcripts::NodeTranscripts::build(&parts, &name, meeting_keys, stop).await?;
        let node_bots = bots::NodeBots::build(&parts, &keys, &said.service)?;
        let rooms = presence::NodePresence::build(&parts, &said.service)?;
        let heard = recordings::NodeRecordings::build(&parts, &said.service, rooms.recordings)?;
        let audited = audits::NodeAudits::build(&parts)?;
        let shared = rooms::NodeRooms::build(&parts, &authenticator);
        let made = tasks::NodeTasks::build(&parts, &shared.rooms).await?;
        let health = Health::new(clock.clone());
        let owner = announce(store.as_ref(), clock.as_ref(), random.as_ref()).await?;
        let others = node_bots.handlers.into_iter().chain([said.handler]).chain(rooms.handlers);
        let others = others.chain(heard.handlers).chain(audited.handlers).chain(shared.handlers);
        let others = others.chain(made.handlers);
        let deps =
            worker_deps(&parts, &health, others.fold(handlers(&parts), HandlerRegistry::with));
        let worker = Arc::new(Worker::new(deps, worker_options(config, &name, owner)));
        Ok(Node {
            users: Users::new(store.clone(), clock.clone(), random.clone(), authenticator.clone()),
            store,
            clock,
            random,
            wakes,
            metrics,
            health,
            jobs,
            authenticator,
            bots: node_bots.bots,
            webhooks: node_bots.webhooks,
            transcripts: said.service,
            presence: rooms.presence,
            recordings: heard.recordings,
            audits: audited.audits,
            rooms: shared.rooms,
            task_service: made.tasks,
            alarms: made.alarms,
            intake: rooms.intake,
            daily_secrets: rooms.secrets,
            streams: said.streams,
            worker,
            bus,
            new_admin_token: admin.made,
            tasks,
            roles: config.server.roles.clone(),
            owner,
        })
    }

    /// Makes sure that the periodic jobs exist; those that do are joined.
    pub(crate) async fn seed_periodic_jobs(&self, config: &Config) -> anyhow::Result<()> {
        if !self.roles.has(Role::Scheduler) {
            return Ok(());
        }
        let now = self.clock.now();
        let mut jobs = vec![Housekeeping::wish(now)];
        jobs.extend(bots::NodeBots::wishes(now));
        jobs.extend(transcript_wishes(now));
        jobs.extend(presence::NodePresence::wishes(config, now));
        jobs.extend(recordings::NodeRecordings::wishes(config, now));
        jobs.extend(audit_wishes(now));
        jobs.extend(tasks::NodeTasks::wishes(now));
        let request = EnqueueRequest { jobs, idempotency: None };
        JobStore::enqueue(self.store.as_ref(), request, now).await?;
        Ok(())
    }
}

async fn announce(
    store: &dyn Store,
    clock: &dyn Clock,
    random: &dyn Random,
) -> anyhow::Result<LeaseOwner> {
    let start = store.begin_process(random.below(u64::MAX), clock.now()).await?;
    if start.rescued > 0 {
        tracing::info!(jobs = start.rescued, "took over jobs of a server that ended without them");
    }
    Ok(start.owner)
}

fn authenticator(
    config: &Config,
    admin: AdminToken,
    store: &Arc<dyn Store>,
    clock: &Arc<DatabaseClock>,
) -> Authenticator {
    let options = AuthenticatorOptions { admin: Some(admin), cache_for: config.auth.token_cache };
    Authenticator::new(store.clone(), clock.clone(), options)
}

fn handlers(parts: &bots::Parts<'_>) -> HandlerRegistry {
    let bots::Parts { config, store, clock, random, metrics, wakes, .. } = parts;
    let housekeeping = Housekeeping {
        every: config.jobs.prune,
        rows_max: u32::try_from(config.jobs.prune_rows_max).unwrap_or(u32::MAX),
        completed_for: config.jobs.retention_completed,
        failed_for: config.jobs.retention_failed,
        failed_of_kinds: config.jobs.retention_failed_kinds.clone(),
        cancelled_for: config.jobs.retention_cancelled,
        idempotency_for: config.jobs.idempotency,
        frames_for: FRAMES_KEPT,
    };
    let (store, clock) = (Arc::clone(store), clock.clone());
    let metrics = Metrics::clone(metrics);
    let prune =
        housekeeping.handler(store.clone(), clock.clone(), Arc::clone(random), metrics.clone());
    let keeper = ScheduleKeeper { store, clock, wakes: Wakes::clone(wakes), metrics };
    HandlerRegistry::default().with(prune).with(Arc::new(keeper))
}

fn jobs(parts: &bots::Parts<'_>, catalog: Arc<KindCatalog>) -> Jobs {
    Jobs::new(JobsDeps {
        store: parts.store.clone(),
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        catalog,
        wakes: parts.wakes.clone(),
        metrics: parts.metrics.clone(),
        limits: limits(parts.config),
        tasks: parts.tasks.clone(),
    })
}

fn worker_deps(parts: &bots::Parts<'_>, health: &Health, handlers: HandlerRegistry) -> WorkerDeps {
    WorkerDeps {
        store: parts.store.clone(),
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        wakes: parts.wakes.clone(),
        metrics: parts.metrics.clone(),
        health: health.clone(),
        handlers,
        tasks: parts.tasks.clone(),
    }
}

fn worker_options(config: &Config, name: &str, owner: LeaseOwner) -> WorkerOptions {
    let roles = &config.server.roles;
    let mut claimed = Vec::new();
    if roles.has(Role::Worker) {
        claimed.push(JobRole::Worker);
    }
    if roles.has(Role::Scheduler) {
        claimed.push(JobRole::Scheduler);
    }
    WorkerOptions {
        name: WorkerName::new(name),
        owner,
        roles: claimed,
        slots: config.jobs.slots,
        claim_max: u32::try_from(config.jobs.claim_max).unwrap_or(u32::MAX),
        poll_every: config.jobs.poll,
    }
}

fn limits(config: &Config) -> JobLimits {
    JobLimits {
        payload_bytes_max: config.jobs.payload_bytes_max,
        result_bytes_max: config.jobs.result_bytes_max,
        jobs_per_request_max: config.server.jobs_per_request_max,
        claim_max: u32::try_from(config.jobs.claim_max).unwrap_or(u32::MAX),
        wait_max: config.jobs.wait_max,
        poll_every: config.jobs.poll,
        ..JobLimits::default()
    }
}

/// A name that no earlier start had: a worker must never be taken for its predecessor.
fn node_name(random: &dyn Random) -> String {
    let mut bytes = [0u8; 6];
    random.fill(&mut bytes);
    format!("node-{}-{}", std::process::id(), hex::encode(bytes))
}

fn as_database(store: &Arc<dyn Store>) -> &dyn Database {
    store.as_ref()
}
