//! What the process counts, for Prometheus.
//!
//! Invariant: the number of series is bounded. Kinds and error codes come from users, so only the
//! first so many get a label of their own and the rest share `other`.

mod audits;
mod presence;
mod recordings;
mod requests;
mod rooms;
mod tasks;
mod transcripts;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use roundsman_core::Timestamp;
use roundsman_core::bots::BotStatus;
use roundsman_core::jobs::{
    ErrorCode, FinishedState, Job, JobState, KindName, RunOutcome, RunningJob,
};
use roundsman_core::ports::{Enqueued, KindDepth, SweepReport};

use crate::health::LoopReport;
use audits::AuditMetrics;
use presence::PresenceMetrics;
use recordings::RecordingMetrics;
use requests::RequestMetrics;
use rooms::RoomMetrics;
use tasks::TaskMetrics;
use transcripts::TranscriptMetrics;

/// Kinds (and, apart from them, error codes) that get a label of their own.
const LABELS_MAX: usize = 200;

/// The end of one run.
#[derive(Debug, Clone)]
pub struct EndedRun {
    pub kind: KindName,
    pub took_secs: f64,
    /// What its job is now.
    pub state: JobState,
    pub error: Option<ErrorCode>,
}

/// All metrics of a process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Mutex<Registry>,
    kinds: Mutex<HashSet<String>>,
    codes: Mutex<HashSet<String>>,
    enqueued: Family<KindLabel, Counter>,
    coalesced: Family<KindLabel, Counter>,
    claimed: Family<KindLabel, Counter>,
    finished: Family<StateLabels, Counter>,
    retries: Family<KindLabel, Counter>,
    rescues: Family<StateLabels, Counter>,
    failures: Family<CodeLabels, Counter>,
    pickup: Family<KindLabel, Histogram>,
    processing: Family<KindLabel, Histogram>,
    depth: Family<StateLabels, Gauge>,
    oldest_age: Family<KindLabel, Gauge<f64, std::sync::atomic::AtomicU64>>,
    lease_lost: Counter,
    dead: Family<KindLabel, Counter>,
    dead_kept: Family<KindLabel, Gauge>,
    schedules_fired: Counter,
    schedules_missed: Counter,
    bus_failures: Counter,
    limit_hits: Family<LimitLabel, Counter>,
    pruned: Counter,
    loop_silent: Family<LoopLabel, Gauge<f64, std::sync::atomic::AtomicU64>>,
    bots_live: Family<StatusLabel, Gauge>,
    bots_ended: Family<StatusLabel, Counter>,
    bot_beats: Counter,
    bot_orphans: Counter,
    launcher_calls: Family<ResultLabel, Counter>,
    webhook_deliveries: Family<ResultLabel, Counter>,
    transcripts: TranscriptMetrics,
    presence: PresenceMetrics,
    recordings: RecordingMetrics,
    audits: AuditMetrics,
    requests: RequestMetrics,
    rooms: RoomMetrics,
    tasks: TaskMetrics,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    kind: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    kind: String,
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LoopLabel {
    name: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        // From a fraction of a millisecond to about an hour.
        let seconds = || Histogram::new(exponential_buckets(0.000_25, 4.0, 12));
        let metrics = Metrics {
            inner: Arc::new(Inner {
                registry: Mutex::new(Registry::with_prefix("roundsman")),
                kinds: Mutex::default(),
                codes: Mutex::default(),
                enqueued: Family::default(),
                coalesced: Family::default(),
                claimed: Family::default(),
                finished: Family::default(),
                retries: Family::default(),
                rescues: Family::default(),
                failures: Family::default(),
                pickup: Family::new_with_constructor(seconds),
                processing: Family::new_with_constructor(seconds),
                depth: Family::default(),
                oldest_age: Family::default(),
                lease_lost: Counter::default(),
                dead: Family::default(),
                dead_kept: Family::default(),
                schedules_fired: Counter::default(),
                schedules_missed: Counter::default(),
                bus_failures: Counter::default(),
                limit_hits: Family::default(),
                pruned: Counter::default(),
                loop_silent: Family::default(),
                bots_live: Family::default(),
                bots_ended: Family::default(),
                bot_beats: Counter::default(),
                bot_orphans: Counter::default(),
                launcher_calls: Family::default(),
                webhook_deliveries: Family::default(),
                transcripts: TranscriptMetrics::default(),
                presence: PresenceMetrics::default(),
                recordings: RecordingMetrics::default(),
                audits: AuditMetrics::default(),
                requests: RequestMetrics::default(),
                rooms: RoomMetrics::default(),
                tasks: TaskMetrics::default(),
            }),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&self) {
        let m = &self.inner;
        let mut registry = m.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let r = &mut *registry;
        r.register("jobs_enqueued", "Jobs written", m.enqueued.clone());
        r.register("jobs_coalesced", "Triggers that joined a waiting job", m.coalesced.clone());
        r.register("jobs_claimed", "Jobs handed to a worker", m.claimed.clone());
        r.register("jobs_finished", "Jobs that ended, by state", m.finished.clone());
        r.register("jobs_retries", "Attempts that failed and wait for the next", m.retries.clone());
        r.register("jobs_rescues", "Jobs taken from silent holders", m.rescues.clone());
        r.register("jobs_failures", "Failed attempts by error code", m.failures.clone());
        r.register("jobs_pickup_seconds", "From due to claimed", m.pickup.clone());
        r.register("jobs_processing_seconds", "From claimed to settled", m.processing.clone());
        r.register("jobs_depth", "Jobs by state; counts stop at 100000", m.depth.clone());
        r.register("jobs_oldest_age_seconds", "Age of the oldest due job", m.oldest_age.clone());
        r.register("leases_lost", "Writes refused because a lease was gone", m.lease_lost.clone());
        r.register("jobs_dead", "Jobs that failed for good", m.dead.clone());
        r.register("jobs_dead_kept", "Failed jobs that are kept", m.dead_kept.clone());
        r.register("schedules_fired", "Jobs that schedules enqueued", m.schedules_fired.clone());
        r.register("schedules_missed", "Times without a job", m.schedules_missed.clone());
        r.register("bus_failures", "Messages the bus did not take", m.bus_failures.clone());
        r.register("limit_hits", "Requests refused by a limit", m.limit_hits.clone());
        r.register("rows_pruned", "Rows deleted after their retention", m.pruned.clone());
        r.register("loop_silent_seconds", "Since a loop got on", m.loop_silent.clone());
        r.register("bots_live", "Bots that are not over, by status", m.bots_live.clone());
        r.register("bots_ended", "Bots that are over, by status", m.bots_ended.clone());
        r.register("bot_heartbeats", "Heartbeats of bots", m.bot_beats.clone());
        r.register("bot_orphans_removed", "Workloads of no live bot", m.bot_orphans.clone());
        r.register("launcher_calls", "What launchers said", m.launcher_calls.clone());
        r.register("webhook_deliveries", "Tries by result", m.webhook_deliveries.clone());
        m.transcripts.register(r);
        m.presence.register(r);
        m.recordings.register(r);
        m.audits.register(r);
        m.requests.register(r);
        m.rooms.register(r);
        m.tasks.register(r);
    }

    /// The metrics in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.inner.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }

    pub fn enqueued<'a>(&self, jobs: impl Iterator<Item = (&'a KindName, &'a Enqueued)>) {
        for (kind, job) in jobs {
            let family = if job.coalesced { &self.inner.coalesced } else { &self.inner.enqueued };
            family.get_or_create(&self.kind(kind)).inc();
        }
    }

    /// Jobs were handed to a worker. A batch is mostly of one kind, whose series are looked up once.
    pub fn claimed(&self, jobs: &[RunningJob], now: Timestamp) {
        for same_kind in jobs.chunk_by(|a, b| a.facts.kind == b.facts.kind) {
            let label = self.kind(&same_kind[0].facts.kind);
            self.inner.claimed.get_or_create(&label).inc_by(same_kind.len() as u64);
            let pickup = self.inner.pickup.get_or_create(&label);
            for job in same_kind {
                pickup.observe(now.since(job.facts.run_at).as_secs_f64());
            }
        }
    }

    /// A run ended and its job is now as shown.
    pub fn settled(&self, kind: &KindName, job: &Job) {
        if let Some(run) = job.facts().runs.runs.last() {
            let took = run.ended_at.since(run.started_at).as_secs_f64();
            self.inner.processing.get_or_create(&self.kind(kind)).observe(took);
            if let Some(error) = &run.error {
                self.failure(kind, &error.code);
            }
            if run.outcome == RunOutcome::Retry && matches!(job, Job::Waiting(_)) {
                self.retried(kind);
            }
        }
        if let Job::Finished(job) = job {
            let state = match job.state {
                FinishedState::Completed { .. } => JobState::Completed,
                FinishedState::Failed { .. } => JobState::Failed,
                FinishedState::Cancelled { .. } => JobState::Cancelled,
            };
            self.finished(kind, state);
        }
    }

    /// Runs in this process ended.
    pub fn ran(&self, ended: &[EndedRun]) {
        let alike = |a: &EndedRun, b: &EndedRun| (&a.kind, a.state) == (&b.kind, b.state);
        for same in ended.chunk_by(alike) {
            let EndedRun { kind, state, .. } = &same[0];
            let processing = self.inner.processing.get_or_create(&self.kind(kind)).clone();
            if state.is_terminal() {
                let labels = self.state(kind, *state);
                self.inner.finished.get_or_create(&labels).inc_by(same.len() as u64);
                self.died(kind, *state, same.len() as u64);
            }
            for run in same {
                processing.observe(run.took_secs);
                if let Some(code) = &run.error {
                    self.failure(kind, code);
                    if !state.is_terminal() {
                        self.retried(kind);
                    }
                }
            }
        }
    }

    pub fn rescued(&self, report: &SweepReport) {
        for (kind, state) in &report.rescued {
            let labels = self.state(kind, *state);
            self.inner.rescues.get_or_create(&labels).inc();
            if state.is_terminal() {
                self.inner.finished.get_or_create(&labels).inc();
                self.died(kind, *state, 1);
            }
        }
    }

    /// Replaces the depth gauges by what the database says now.
    pub fn depths(&self, depths: &[KindDepth], now: Timestamp) {
        self.inner.depth.clear();
        self.inner.oldest_age.clear();
        for depth in depths {
            let counts = [
                (JobState::Scheduled, depth.scheduled),
                (JobState::Pending, depth.pending),
                (JobState::Processing, depth.processing),
            ];
            for (state, count) in counts {
                let gauge = self.inner.depth.get_or_create(&self.state(&depth.kind, state)).clone();
                gauge.inc_by(i64::try_from(count).unwrap_or(i64::MAX));
            }
            let age = depth.oldest_due_at.map_or(0.0, |due_at| now.since(due_at).as_secs_f64());
            let label = self.kind(&depth.kind);
            let gauge = self.inner.oldest_age.get_or_create(&label).clone();
            gauge.set(gauge.get().max(age));
        }
    }

    pub fn lease_lost(&self) {
        self.inner.lease_lost.inc();
    }

    /// Replaces the gauges of failed jobs by what the database says now.
    pub fn dead_kept(&self, counts: &[(KindName, u64)]) {
        self.inner.dead_kept.clear();
        for (kind, count) in counts {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.inner.dead_kept.get_or_create(&self.kind(kind)).inc_by(count);
        }
    }

    /// A schedule's times came.
    pub fn schedule_fired(&self, jobs: u64, missed: u64) {
        self.inner.schedules_fired.inc_by(jobs);
        self.inner.schedules_missed.inc_by(missed);
    }

    pub fn bus_failed(&self) {
        self.inner.bus_failures.inc();
    }

    pub fn limit_hit(&self, limit: &'static str) {
        self.inner.limit_hits.get_or_create(&LimitLabel { limit }).inc();
    }

    pub fn pruned(&self, rows: u64) {
        self.inner.pruned.inc_by(rows);
    }

    /// How long each loop has made no progress.
    pub fn loops(&self, reports: &[LoopReport]) {
        for report in reports {
            let gauge = self.inner.loop_silent.get_or_create(&LoopLabel { name: report.name });
            gauge.set(report.silent_for.as_secs_f64());
        }
    }

    /// Replaces the gauges of live bots by what the database says now.
    pub fn bots_live(&self, counts: &[(BotStatus, u64)]) {
        self.inner.bots_live.clear();
        for (status, count) in counts {
            let label = StatusLabel { status: status.as_str() };
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.inner.bots_live.get_or_create(&label).set(count);
        }
    }

    pub fn bot_ended(&self, status: BotStatus) {
        self.inner.bots_ended.get_or_create(&StatusLabel { status: status.as_str() }).inc();
    }

    pub fn bot_beat(&self) {
        self.inner.bot_beats.inc();
    }

    pub fn bot_orphan_removed(&self) {
        self.inner.bot_orphans.inc();
    }

    /// A launcher answered, or did not.
    pub fn launcher_called(&self, result: &'static str) {
        self.inner.launcher_calls.get_or_create(&ResultLabel { result }).inc();
    }

    /// An event was sent to an endpoint, or could not be.
    pub fn webhook_tried(&self, result: &'static str) {
        self.inner.webhook_deliveries.get_or_create(&ResultLabel { result }).inc();
    }

    fn died(&self, kind: &KindName, state: JobState, jobs: u64) {
        if state == JobState::Failed {
            self.inner.dead.get_or_create(&self.kind(kind)).inc_by(jobs);
        }
    }

    fn finished(&self, kind: &KindName, state: JobState) {
        self.died(kind, state, 1);
        self.inner.finished.get_or_create(&self.state(kind, state)).inc();
    }

    fn retried(&self, kind: &KindName) {
        self.inner.retries.get_or_create(&self.kind(kind)).inc();
    }

    fn failure(&self, kind: &KindName, code: &ErrorCode) {
        let code = bounded(&self.inner.codes, code.as_str());
        let KindLabel { kind } = self.kind(kind);
        self.inner.failures.get_or_create(&CodeLabels { kind, code }).inc();
    }

    fn kind(&self, kind: &KindName) -> KindLabel {
        KindLabel { kind: bounded(&self.inner.kinds, kind.as_str()) }
    }

    fn state(&self, kind: &KindName, state: JobState) -> StateLabels {
        StateLabels { kind: bounded(&self.inner.kinds, kind.as_str()), state: state.as_str() }
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// The label itself while there is room for it.
fn bounded(known: &Mutex<HashSet<String>>, label: &str) -> String {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.contains(label) {
        return label.to_owned();
    }
    if known.len() >= LABELS_MAX {
        return "other".to_owned();
    }
    known.insert(label.to_owned());
    label.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_series_is_bounded() {
        let metrics = Metrics::default();
        for number in 0..10 * LABELS_MAX {
            let kind = KindName::new(&format!("k{number}")).unwrap();
            metrics.retried(&kind);
        }
        let series =
            metrics.encode().lines().filter(|line| line.contains("retries_total{")).count();
        assert_eq!(series, LABELS_MAX + 1);
    }

    #[test]
    fn depths_replace_each_other() {
        let metrics = Metrics::default();
        let kind = KindName::new("render").unwrap();
        let depth = |pending| KindDepth {
            kind: kind.clone(),
            scheduled: 0,
            pending,
            processing: 0,
            oldest_due_at: None,
        };
        metrics.depths(&[depth(5)], Timestamp::EPOCH);
        metrics.depths(&[depth(3)], Timestamp::EPOCH);
        let text = metrics.encode();
        assert!(
            text.contains("roundsman_jobs_depth{kind=\"render\",state=\"pending\"} 3"),
            "{text}"
        );
    }

    #[test]
    fn loops_that_stand_still_are_seen() {
        let clock = Arc::new(roundsman_testkit::ManualClock::at(Timestamp::EPOCH));
        let health = crate::health::Health::new(clock.clone());
        health.register_trying("transcripts.segments", std::time::Duration::from_secs(15));
        clock.advance(std::time::Duration::from_secs(90));
        let metrics = Metrics::default();
        metrics.loops(&health.report());
        let text = metrics.encode();
        let line = "roundsman_loop_silent_seconds{name=\"transcripts.segments\"} 90.0";
        assert!(text.contains(line), "{text}");
    }
}
