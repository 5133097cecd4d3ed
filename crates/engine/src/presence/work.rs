//! The jobs of presence, as a node puts them together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{JobError, JobFacts, Json, KindSpec, Lane, NewJob, Outcome};
use roundsman_core::ports::{
    Clock, EnqueueAnswer, EnqueueRequest, LookWritten, NewSubscription, Random, Store, StoreError,
    VideoRooms,
};
use roundsman_core::presence::{
    PROCESS_KIND, PresenceRules, RECONCILE_KIND, SUBSCRIPTION_KIND, VANISHED_AT_ONCE_FLAGGED,
};

use super::poll::{poll_spec, poller};
use super::process::{Processor, judge, judge_spec, process_spec};
use super::reconcile::{Reconciler, reconcile_spec};
use super::subscription::{Subscriptions, subscription_spec};
use super::{Intake, IntakeOptions, PresenceLimits};
use crate::jobs::{Handler, periodic_wish};
use crate::metrics::Metrics;
use crate::transcripts::Transcripts;
use crate::wake::Wakes;

/// What the jobs of presence are made of.
#[derive(Clone)]
pub struct PresenceWork {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub wakes: Wakes,
    pub metrics: Metrics,
    pub rooms: Arc<dyn VideoRooms>,
    /// Where whoever listens to a meeting hears who comes and goes.
    pub transcripts: Transcripts,
    pub rules: PresenceRules,
    pub limits: PresenceLimits,
}

/// How often the periodic jobs come round, and how long things are kept.
#[derive(Debug, Clone)]
pub struct PresenceOptions {
    /// All rooms are compared with the record.
    pub reconcile_every: Duration,
    /// Meetings that may be over are decided about.
    pub process_every: Duration,
    /// The provider is asked whether it still sends events.
    pub subscription_every: Duration,
    /// Events are kept this long for whoever wants to see them.
    pub inbox_for: Duration,
    /// Where the provider is to send its events; `None` if nobody can be reached.
    pub subscription: Option<NewSubscription>,
}

impl Default for PresenceOptions {
    fn default() -> Self {
        PresenceOptions {
            reconcile_every: Duration::from_secs(30),
            process_every: Duration::from_secs(60),
            subscription_every: Duration::from_secs(300),
            inbox_for: Duration::from_secs(7 * 24 * 3600),
            subscription: None,
        }
    }
}

/// The policies of all kinds of jobs about presence.
pub fn presence_specs(limits: &PresenceLimits) -> Vec<KindSpec> {
    vec![
        poll_spec(limits.looks_at_once_max),
        reconcile_spec(),
        process_spec(),
        judge_spec(),
        subscription_spec(),
    ]
}

/// The wishes that keep the periodic jobs alive; every start repeats them.
pub fn presence_wishes(now: Timestamp) -> Vec<NewJob> {
    [RECONCILE_KIND, PROCESS_KIND, SUBSCRIPTION_KIND].map(|kind| periodic_wish(kind, now)).into()
}

impl PresenceWork {
    /// The handlers of all kinds of jobs about presence.
    pub fn handlers(&self, options: &PresenceOptions) -> Vec<Arc<dyn Handler>> {
        vec![
            self.poller(),
            self.reconciler(options).handler(),
            self.processor(options).handler(),
            self.judge(),
            self.subscriptions(options).handler(),
        ]
    }

    /// Looks at one room.
    pub fn poller(&self) -> Arc<dyn Handler> {
        poller(self)
    }

    /// Compares all rooms with the record.
    pub fn reconciler(&self, options: &PresenceOptions) -> Reconciler {
        Reconciler::new(self, options.reconcile_every)
    }

    /// Finds meetings that may be over.
    pub fn processor(&self, options: &PresenceOptions) -> Processor {
        Processor::new(self, options.process_every, options.inbox_for)
    }

    /// Decides about one meeting.
    pub fn judge(&self) -> Arc<dyn Handler> {
        judge(self)
    }

    /// Keeps the provider's events coming.
    pub fn subscriptions(&self, options: &PresenceOptions) -> Subscriptions {
        Subscriptions::new(self, options.subscription.clone(), options.subscription_every)
    }

    /// Hears the provider's events.
    pub fn intake(&self, options: IntakeOptions) -> Arc<Intake> {
        Intake::new(self, options)
    }

    /// A meeting has changed: tells whoever listens, and counts.
    pub(super) fn announce(&self, written: &LookWritten) {
        self.transcripts.announce(written.meeting.id, &written.frames);
        self.metrics.presence_changed(&written.tally);
        let (meeting, tally) = (written.meeting.id.get(), &written.tally);
        if tally.vanished >= VANISHED_AT_ONCE_FLAGGED {
            self.metrics.presence_flagged();
            let vanished = tally.vanished;
            tracing::warn!(meeting, vanished, "many left at once, and no event says so");
        }
        if tally.reopened > 0 {
            let reopened = tally.reopened;
            tracing::info!(meeting, reopened, "sessions are there that were taken for over");
        }
        if tally.healed {
            tracing::warn!(meeting, "a meeting is open again: people are in it");
        }
        if let Some(reason) = tally.ended {
            tracing::info!(meeting, reason = reason.as_str(), "a meeting is over");
        }
    }
}

impl std::fmt::Debug for PresenceWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rules, limits, .. } = self;
        let mut shown = f.debug_struct("PresenceWork");
        shown.field("rules", rules).field("limits", limits).finish_non_exhaustive()
    }
}

/// Enqueues wishes of the system with one statement and wakes whoever can work on them.
pub(super) async fn enqueue(work: &PresenceWork, jobs: Vec<NewJob>) -> Result<(), StoreError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let kinds: Vec<_> = jobs.iter().map(|job| job.kind.clone()).collect();
    let mut lanes: BTreeMap<Lane, usize> = BTreeMap::new();
    for job in &jobs {
        *lanes.entry(job.base_lane()).or_default() += 1;
    }
    let request = EnqueueRequest { jobs, idempotency: None };
    if let EnqueueAnswer::Stored(jobs) = work.store.enqueue(request, work.clock.now()).await? {
        work.metrics.enqueued(kinds.iter().zip(&jobs));
    }
    work.wakes.signal(lanes);
    Ok(())
}

/// The meeting that a job is about.
pub(super) fn meeting_of(job: &JobFacts) -> Option<MeetingId> {
    job.key.as_ref()?.as_str().parse().ok().map(MeetingId::new)
}

pub(super) fn done() -> Outcome {
    Outcome::Done { result: Json::null() }
}

/// The database did not do what it should: the job is tried again.
pub(super) fn storage_failed(error: &StoreError) -> Outcome {
    Outcome::Retry { error: JobError::new("storage", error.to_string()), after: None }
}
