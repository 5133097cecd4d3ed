//! The limits of the job service that an operator may move.

use std::time::Duration;

/// Each is checked where a request enters; what hits one gets a clear error.
#[derive(Debug, Clone, Copy)]
pub struct JobLimits {
    pub payload_bytes_max: usize,
    pub result_bytes_max: usize,
    /// Jobs in one enqueue request.
    pub jobs_per_request_max: usize,
    /// Jobs in one claim.
    pub claim_max: u32,
    /// How long a claim may wait for work.
    pub wait_max: Duration,
    /// How often a waiting worker looks at the database although nobody woke it.
    pub poll_every: Duration,
    /// The largest number of attempts a request may ask for.
    pub attempts_max: u32,
}

impl Default for JobLimits {
    fn default() -> Self {
        JobLimits {
            payload_bytes_max: 256 * 1024,
            result_bytes_max: 1024 * 1024,
            jobs_per_request_max: 10_000,
            claim_max: 1_000,
            wait_max: Duration::from_secs(30),
            poll_every: Duration::from_secs(5),
            attempts_max: 1_000,
        }
    }
}
