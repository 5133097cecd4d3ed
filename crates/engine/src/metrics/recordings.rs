//! What is counted about recordings.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use roundsman_core::recordings::RecordingStatus;

use super::Metrics;

#[derive(Default)]
pub(super) struct RecordingMetrics {
    announced: Family<AnnouncedLabels, Counter>,
    suppressed: Counter,
    live: Family<StatusLabel, Gauge>,
    completed: Counter,
    failed: Family<CodeLabel, Counter>,
    segments: Counter,
    files_downloaded: Counter,
    bytes_downloaded: Counter,
    files_heard: Counter,
    pages: Family<ResultLabel, Counter>,
    erased: Family<ResultLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnnouncedLabels {
    via: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

/// Codes are ours: there are few.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

impl RecordingMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("recordings_announced", "Announcements, by way", self.announced.clone());
        let suppressed = self.suppressed.clone();
        r.register("recordings_suppressed", "Duplicates that began nothing", suppressed);
        r.register("recordings", "Recordings that are not done, by status", self.live.clone());
        r.register("recordings_completed", "Recordings with a transcript", self.completed.clone());
        r.register("recordings_failed", "Recordings that were given up", self.failed.clone());
        r.register("recording_segments", "Segments of recordings", self.segments.clone());
        let files = self.files_downloaded.clone();
        r.register("recording_files_downloaded", "Files of recordings downloaded", files);
        let bytes = self.bytes_downloaded.clone();
        r.register("recording_bytes_downloaded", "Bytes of recordings downloaded", bytes);
        r.register(
            "recording_files_heard",
            "Files that were transcribed",
            self.files_heard.clone(),
        );
        r.register("recording_pages", "Pages of the provider's list", self.pages.clone());
        r.register("recordings_erased", "Recordings whose media were deleted", self.erased.clone());
    }
}

impl Metrics {
    /// A recording was announced, and what that came to.
    pub fn recording_announced(&self, via: &'static str, outcome: &'static str) {
        let labels = AnnouncedLabels { via, outcome };
        self.inner.recordings.announced.get_or_create(&labels).inc();
    }

    /// A duplicate has begun nothing.
    pub fn recording_suppressed(&self) {
        self.inner.recordings.suppressed.inc();
    }

    /// Replaces the gauges by what the database says now.
    pub fn recordings_live(&self, counts: &[(RecordingStatus, u64)]) {
        self.inner.recordings.live.clear();
        for (status, count) in counts {
            let label = StatusLabel { status: status.as_str() };
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.inner.recordings.live.get_or_create(&label).set(count);
        }
    }

    pub fn recording_completed(&self, segments: usize) {
        self.inner.recordings.completed.inc();
        self.inner.recordings.segments.inc_by(segments as u64);
    }

    pub fn recording_failed(&self, code: &'static str) {
        self.inner.recordings.failed.get_or_create(&CodeLabel { code }).inc();
    }

    pub fn recording_downloaded(&self, bytes: u64) {
        self.inner.recordings.files_downloaded.inc();
        self.inner.recordings.bytes_downloaded.inc_by(bytes);
    }

    pub fn recording_heard(&self) {
        self.inner.recordings.files_heard.inc();
    }

    /// A page of the provider's list was read, or could not be.
    pub fn recordings_page_read(&self, is_read: bool) {
        let result = if is_read { "read" } else { "failed" };
        self.inner.recordings.pages.get_or_create(&ResultLabel { result }).inc();
    }

    /// The media of a recording were deleted, or could not be.
    pub fn recording_erased(&self, is_erased: bool) {
        let result = if is_erased { "erased" } else { "failed" };
        self.inner.recordings.erased.get_or_create(&ResultLabel { result }).inc();
    }
}
