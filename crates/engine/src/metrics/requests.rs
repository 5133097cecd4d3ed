//! What is counted about requests.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::Metrics;

pub(super) struct RequestMetrics {
    seconds: Family<RequestLabels, Histogram>,
}

/// Bounded by our own routes: a path that leads nowhere has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    method: &'static str,
    status: &'static str,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        // From a sixteenth of a millisecond to about a minute.
        let seconds = || Histogram::new(exponential_buckets(0.000_062_5, 4.0, 11));
        RequestMetrics { seconds: Family::new_with_constructor(seconds) }
    }
}

impl RequestMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("http_request_seconds", "From head to answer", self.seconds.clone());
    }
}

impl Metrics {
    /// A request was answered. `route` is ours, with the names of its parameters.
    pub fn request(&self, route: &str, method: &str, status: u16, took: Duration) {
        let method = match method {
            "GET" => "GET",
            "POST" => "POST",
            "PUT" => "PUT",
            "PATCH" => "PATCH",
            "DELETE" => "DELETE",
            _ => "other",
        };
        let status = match status {
            ..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            500.. => "5xx",
        };
        let labels = RequestLabels { route: route.to_owned(), method, status };
        self.inner.requests.seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_kind_of_answer() {
        let metrics = Metrics::default();
        for status in [200, 202, 404] {
            metrics.request("/jobs/{id}", "GET", status, Duration::from_micros(500));
        }
        let text = metrics.encode();
        let count = |status: &str| {
            let name = "roundsman_http_request_seconds_count";
            let labels = format!("{{route=\"/jobs/{{id}}\",method=\"GET\",status=\"{status}\"}}");
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{labels} ")));
            line.and_then(|value| value.parse::<u32>().ok())
        };
        assert_eq!((count("2xx"), count("4xx"), count("5xx")), (Some(2), Some(1), None));
    }
}
