//! What is counted about transcripts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use roundsman_core::ports::{SettledSegments, StreamState};

use super::Metrics;

#[derive(Default)]
pub(super) struct TranscriptMetrics {
    messages: Family<OutcomeLabel, Counter>,
    segments_told: Counter,
    segments_changed: Counter,
    frames: Counter,
    kept: Counter,
    dropped: Family<ReasonLabel, Counter>,
    settle_failures: Counter,
    dead_letters: Family<StreamLabel, Counter>,
    stream_lag: Family<StreamLabel, Gauge>,
    stream_pending: Family<StreamLabel, Gauge>,
    stream_entries: Family<StreamLabel, Gauge>,
    live_segments: Gauge,
    listeners: Gauge,
    listener_resets: Counter,
    listener_coalesced: Counter,
    cache_failures: Counter,
    cache_repairs: Counter,
    republished: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// There are as many as the configuration names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StreamLabel {
    stream: String,
}

impl TranscriptMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("ingest_messages", "Messages of producers, by outcome", self.messages.clone());
        r.register("segments_told", "Segments in messages", self.segments_told.clone());
        r.register("segments_changed", "Segments that changed", self.segments_changed.clone());
        r.register("transcript_frames", "Frames about transcripts", self.frames.clone());
        r.register("segments_kept", "Segments that became final", self.kept.clone());
        r.register("segments_dropped", "Segments the filter refused", self.dropped.clone());
        let failures = self.settle_failures.clone();
        r.register("settle_failures", "Meetings that could not be made final", failures);
        r.register("dead_letters", "Messages that were put away", self.dead_letters.clone());
        r.register("stream_lag", "Entries not yet read", self.stream_lag.clone());
        r.register("stream_pending", "Entries not acknowledged", self.stream_pending.clone());
        r.register("stream_entries", "Entries in the stream", self.stream_entries.clone());
        r.register("live_segments", "Segments that may change", self.live_segments.clone());
        r.register("listeners", "Listeners of this node", self.listeners.clone());
        r.register("listener_resets", "Listeners that start over", self.listener_resets.clone());
        let coalesced = self.listener_coalesced.clone();
        r.register("listener_coalesced", "Frames that went into others", coalesced);
        r.register("cache_failures", "Writes the cache did not take", self.cache_failures.clone());
        r.register("cache_repairs", "Values the cache had wrong", self.cache_repairs.clone());
        r.register("frames_republished", "Frames published again", self.republished.clone());
    }
}

impl Metrics {
    /// A producer's message was taken, or why not.
    pub fn message_ingested(&self, outcome: &'static str) {
        self.inner.transcripts.messages.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub fn segments_ingested(&self, told: u64, changed: u64) {
        self.inner.transcripts.segments_told.inc_by(told);
        self.inner.transcripts.segments_changed.inc_by(changed);
    }

    pub fn transcript_frames(&self, frames: usize) {
        self.inner.transcripts.frames.inc_by(frames as u64);
    }

    /// Segments became final, or were refused.
    pub fn segments_settled(&self, settled: &SettledSegments) {
        let transcripts = &self.inner.transcripts;
        transcripts.kept.inc_by(u64::from(settled.kept));
        for (reason, count) in &settled.dropped {
            let label = ReasonLabel { reason: reason.as_str() };
            transcripts.dropped.get_or_create(&label).inc_by(u64::from(*count));
        }
    }

    /// So many meetings of one round could not be made final.
    pub fn settle_failed(&self, meetings: u32) {
        self.inner.transcripts.settle_failures.inc_by(u64::from(meetings));
    }

    pub fn dead_lettered(&self, stream: &str, letters: usize) {
        let label = StreamLabel { stream: stream.to_owned() };
        self.inner.transcripts.dead_letters.get_or_create(&label).inc_by(letters as u64);
    }

    /// How a stream stands.
    pub fn stream_state(&self, stream: &str, state: &StreamState) {
        let transcripts = &self.inner.transcripts;
        let gauges = [
            (&transcripts.stream_lag, state.lag),
            (&transcripts.stream_pending, state.pending),
            (&transcripts.stream_entries, state.entries),
        ];
        for (gauge, value) in gauges {
            let label = StreamLabel { stream: stream.to_owned() };
            gauge.get_or_create(&label).set(gauge_value(value));
        }
    }

    pub fn live_segments(&self, segments: u64) {
        self.inner.transcripts.live_segments.set(gauge_value(segments));
    }

    /// A listener came.
    pub fn listener_added(&self) {
        self.inner.transcripts.listeners.inc();
    }

    /// A listener went.
    pub fn listener_removed(&self) {
        self.inner.transcripts.listeners.dec();
    }

    pub fn listener_reset(&self) {
        self.inner.transcripts.listener_resets.inc();
    }

    /// So many frames were not sent because a later one says what they said.
    pub fn listener_coalesced(&self, frames: usize) {
        self.inner.transcripts.listener_coalesced.inc_by(frames as u64);
    }

    pub fn cache_failed(&self) {
        self.inner.transcripts.cache_failures.inc();
    }

    pub fn cache_repaired(&self, values: u64) {
        self.inner.transcripts.cache_repairs.inc_by(values);
    }

    pub fn frames_republished(&self, frames: u64) {
        self.inner.transcripts.republished.inc_by(frames);
    }
}

fn gauge_value(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
