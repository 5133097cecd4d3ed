//! What is counted about audits.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use roundsman_core::audits::observed::Observed;

use super::Metrics;

pub(super) struct AuditMetrics {
    created: Counter,
    attempts: Family<CodeLabel, Counter>,
    phases: Family<PhaseLabel, Histogram>,
    recurred: Family<ResultLabel, Counter>,
}

/// Codes are ours: there are few.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

impl Default for AuditMetrics {
    fn default() -> Self {
        // From a millisecond to about two minutes.
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 18));
        AuditMetrics {
            created: Counter::default(),
            attempts: Family::default(),
            phases: Family::new_with_constructor(seconds),
            recurred: Family::default(),
        }
    }
}

impl AuditMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("audits_created", "Audits that users asked for", self.created.clone());
        r.register("audit_attempts", "Attempts by what they came to", self.attempts.clone());
        r.register("audit_phase_seconds", "Parts of an audit", self.phases.clone());
        r.register("audits_recurred", "Times of recurring audits", self.recurred.clone());
    }
}

impl Metrics {
    pub fn audit_created(&self) {
        self.inner.audits.created.inc();
    }

    /// An attempt ended: `completed`, or with the code of its error.
    pub fn audit_attempt(&self, code: &str) {
        let code = CodeLabel { code: code.to_owned() };
        self.inner.audits.attempts.get_or_create(&code).inc();
    }

    pub fn audit_phase(&self, phase: &'static str, took: Duration) {
        let phase = PhaseLabel { phase };
        self.inner.audits.phases.get_or_create(&phase).observe(took.as_secs_f64());
    }

    /// How long the parts of a look took.
    pub fn audit_looked(&self, seen: &Observed) {
        let page = seen.page.timing;
        for (phase, took) in [
            ("dns", page.dns),
            ("connect", page.connect),
            ("tls", page.tls),
            ("wait", page.wait),
            ("download", page.download),
            ("look", seen.took),
        ] {
            self.audit_phase(phase, took);
        }
    }

    /// The time of a recurring audit came.
    pub fn audit_recurred(&self, result: &'static str) {
        self.inner.audits.recurred.get_or_create(&ResultLabel { result }).inc();
    }
}
