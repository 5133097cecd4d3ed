//! What a load came to.

use std::time::Duration;

use bench_support::{per_second, percentile};

pub(crate) struct Load {
    /// Milliseconds, sorted.
    latencies: Vec<f64>,
    took: Duration,
}

impl Load {
    pub(crate) fn new(latencies: impl IntoIterator<Item = Duration>, took: Duration) -> Load {
        let millis = |latency: Duration| latency.as_secs_f64() * 1e3;
        let mut latencies: Vec<f64> = latencies.into_iter().map(millis).collect();
        latencies.sort_by(f64::total_cmp);
        Load { latencies, took }
    }

    pub(crate) fn per_second(&self) -> f64 {
        per_second(self.latencies.len(), self.took)
    }

    /// Milliseconds that this share of the requests took at most.
    pub(crate) fn within(&self, share: f64) -> f64 {
        percentile(&self.latencies, share)
    }

    /// Of a hundred requests, how many took no more milliseconds than this.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more than 52 bits")]
    pub(crate) fn percent_within(&self, millis: f64) -> f64 {
        let soon = self.latencies.partition_point(|latency| *latency <= millis);
        100.0 * soon as f64 / self.latencies.len() as f64
    }

    /// Of all requests together, what one has cost.
    pub(crate) fn micros_each(&self, processor: Duration) -> f64 {
        1e6 / per_second(self.latencies.len(), processor)
    }
}
