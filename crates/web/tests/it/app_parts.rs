//! What the services of a test's server are made of.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use roundsman_bus::{BusLimits, LocalBus};
use roundsman_core::bots::{CallbackKey, MeetingTokens};
use roundsman_core::jobs::{KindCatalog, KindName, KindSpec, MergeRule, RetryPolicy, Role};
use roundsman_core::ports::{Bus, Clock, Random};
use roundsman_core::presence::PresenceRules;
use roundsman_core::transcripts::{FilterConfig, TranscriptionFilter};
use roundsman_engine::audits::{AuditSettings, audit_specs};
use roundsman_engine::bots::{Bots, BotsDeps};
use roundsman_engine::jobs::{JobLimits, Jobs, JobsDeps};
use roundsman_engine::metrics::Metrics;
use roundsman_engine::presence::{PresenceLimits, PresenceWork, presence_specs};
use roundsman_engine::transcripts::{TranscriptLimits, Transcripts, TranscriptsDeps};
use roundsman_engine::wake::Wakes;
use roundsman_engine::webhooks::Webhooks;
use roundsman_store::sqlite::{SqliteOptions, SqliteStore};
use roundsman_testkit::{ManualClock, SeededRandom};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app_presence::TestRooms;
use crate::webhooks::Mailbox;

pub(crate) const MEETING_KEY: &[u8] = b"a key for the tokens of meetings";

pub(crate) struct Parts {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) wakes: Wakes,
    pub(crate) metrics: Metrics,
    pub(crate) stopping: CancellationToken,
    pub(crate) meeting_tokens: MeetingTokens,
    pub(crate) transcripts: Transcripts,
    pub(crate) bus: Arc<dyn Bus>,
    catalog: Arc<KindCatalog>,
}

impl Parts {
    /// The database is in memory, or in a file where others can get at it.
    pub(crate) fn new(clock: Arc<ManualClock>, file: Option<&Path>) -> Self {
        let catalog = Arc::new(catalog());
        let opened = match file {
            Some(file) => SqliteStore::open(&SqliteOptions::new(file), catalog.clone()),
            None => SqliteStore::open_in_memory_inline(catalog.clone()),
        };
        let store = Arc::new(opened.unwrap());
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(7));
        let (metrics, stopping) = (Metrics::default(), CancellationToken::new());
        let bus: Arc<dyn Bus> = Arc::new(LocalBus::new(&BusLimits::default(), &stopping));
        let meeting_tokens = MeetingTokens::new(MEETING_KEY);
        let transcripts = Transcripts::new(TranscriptsDeps {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            bus: bus.clone(),
            cache: None,
            metrics: metrics.clone(),
            tokens: meeting_tokens.clone(),
            filter: Arc::new(TranscriptionFilter::new(FilterConfig::default()).unwrap()),
            limits: TranscriptLimits::default(),
            tasks: TaskTracker::new(),
        });
        let wakes = Wakes::local();
        Parts {
            store,
            clock,
            random,
            wakes,
            metrics,
            stopping,
            meeting_tokens,
            transcripts,
            bus,
            catalog,
        }
    }

    pub(crate) fn jobs(&self) -> Jobs {
        Jobs::new(JobsDeps {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            catalog: self.catalog.clone(),
            wakes: self.wakes.clone(),
            metrics: self.metrics.clone(),
            tasks: TaskTracker::new(),
            limits: job_limits(),
        })
    }

    pub(crate) fn bots(&self, callback_key: &CallbackKey) -> Bots {
        Bots::new(BotsDeps {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            bus: self.bus.clone(),
            wakes: self.wakes.clone(),
            metrics: self.metrics.clone(),
            callback_key: callback_key.clone(),
            transcripts: self.transcripts.clone(),
            tasks: TaskTracker::new(),
        })
    }

    pub(crate) fn webhooks(&self) -> Webhooks {
        let (store, clock, random) = (self.store.clone(), self.clock.clone(), self.random.clone());
        Webhooks::new(store, clock, random, Arc::new(Mailbox), self.wakes.clone())
    }

    pub(crate) fn presence_work(&self, rooms: Arc<TestRooms>) -> PresenceWork {
        PresenceWork {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            wakes: self.wakes.clone(),
            metrics: self.metrics.clone(),
            rooms,
            transcripts: self.transcripts.clone(),
            rules: PresenceRules::default(),
            limits: PresenceLimits::default(),
        }
    }
}

fn job_limits() -> JobLimits {
    JobLimits {
        payload_bytes_max: 1024,
        jobs_per_request_max: 100,
        // Far longer than a test is given: a claim that is not woken fails it.
        poll_every: Duration::from_mins(10),
        ..JobLimits::default()
    }
}

fn catalog() -> KindCatalog {
    let mut specs = presence_specs(&PresenceLimits::default());
    specs.extend(audit_specs(&AuditSettings::default()));
    specs.into_iter().fold(KindCatalog::new(kind_defaults()), KindCatalog::with)
}

fn kind_defaults() -> KindSpec {
    KindSpec {
        kind: KindName::new("default").unwrap(),
        lease_ttl: Duration::from_mins(5),
        heartbeat_every: Duration::from_secs(30),
        deadline: None,
        max_attempts: Some(3),
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_mins(5) },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    }
}
