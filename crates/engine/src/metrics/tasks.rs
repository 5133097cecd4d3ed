//! What is counted about tasks and alarms.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use roundsman_core::tasks::TaskStatus;

use super::Metrics;

#[derive(Default)]
pub(super) struct TaskMetrics {
    created: Family<ServiceLabel, Counter>,
    submitted: Family<CallLabels, Counter>,
    polled: Family<CallLabels, Counter>,
    rounds: Counter,
    looks: Counter,
    ended: Family<EndLabels, Counter>,
    unknown: Counter,
    live: Family<StatusLabel, Gauge>,
    documents_failed: Counter,
    jobs_lost: Counter,
    fired: Counter,
    failing: Counter,
}

/// Services are configured: there are few.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServiceLabel {
    service: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    service: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    service: String,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

impl TaskMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("tasks_created", "Tasks that were made, by service", self.created.clone());
        r.register("task_submissions", "Submissions, by what came of them", self.submitted.clone());
        r.register("task_polls", "Looks at tasks, by what was learned", self.polled.clone());
        r.register("task_rounds", "Rounds of rooms over their tasks", self.rounds.clone());
        r.register("task_rounds_looks", "Tasks that rounds looked at", self.looks.clone());
        r.register("tasks_ended", "Tasks that are over, by status", self.ended.clone());
        let unknown = self.unknown.clone();
        r.register("tasks_submit_unknown", "Tasks that may have been paid for in vain", unknown);
        r.register("tasks", "Tasks that are not over, by status", self.live.clone());
        let failed = self.documents_failed.clone();
        r.register("task_documents_failed", "Ends that a document could not be told of", failed);
        r.register(
            "task_jobs_lost",
            "Jobs of tasks that the sweep set again",
            self.jobs_lost.clone(),
        );
        r.register("alarms_fired", "Alarms of users that have fired", self.fired.clone());
        r.register("alarms_failing", "Runs of alarms that keep failing", self.failing.clone());
    }
}

impl Metrics {
    pub fn task_created(&self, service: &str) {
        let label = ServiceLabel { service: service.to_owned() };
        self.inner.tasks.created.get_or_create(&label).inc();
    }

    /// A task was sent, and what came of it.
    pub fn task_submitted(&self, service: &str, result: &'static str) {
        let labels = CallLabels { service: service.to_owned(), result };
        self.inner.tasks.submitted.get_or_create(&labels).inc();
    }

    /// A task was looked at, and what was learned.
    pub fn task_polled(&self, service: &str, result: &'static str) {
        let labels = CallLabels { service: service.to_owned(), result };
        self.inner.tasks.polled.get_or_create(&labels).inc();
    }

    /// A room has looked at so many of its tasks.
    pub fn task_round(&self, looks: usize) {
        self.inner.tasks.rounds.inc();
        self.inner.tasks.looks.inc_by(looks as u64);
    }

    pub fn task_ended(&self, service: &str, status: TaskStatus, code: Option<&str>) {
        let labels = EndLabels { service: service.to_owned(), status: status.as_str() };
        self.inner.tasks.ended.get_or_create(&labels).inc();
        if code == Some(roundsman_core::tasks::SUBMIT_UNKNOWN) {
            self.inner.tasks.unknown.inc();
        }
    }

    /// Replaces the gauges by what the database says now.
    pub fn set_tasks(&self, counts: &[(TaskStatus, u64)]) {
        self.inner.tasks.live.clear();
        for (status, count) in counts {
            let label = StatusLabel { status: status.as_str() };
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.inner.tasks.live.get_or_create(&label).set(count);
        }
    }

    /// A document could not be told of the end of a task.
    pub fn task_document_failed(&self) {
        self.inner.tasks.documents_failed.inc();
    }

    pub fn task_jobs_lost(&self, jobs: u64) {
        self.inner.tasks.jobs_lost.inc_by(jobs);
    }

    pub fn alarm_fired(&self) {
        self.inner.tasks.fired.inc();
    }

    /// An alarm that has come to nothing many times is tried again.
    pub fn alarm_failing(&self) {
        self.inner.tasks.failing.inc();
    }
}
