//! What an operator chooses about Daily.

use std::time::Duration;

use secrecy::SecretString;

use crate::media::{InvalidS3Options, S3Options};

/// Where Daily is, and who asks it. Not `Debug`: it holds the key.
#[derive(Clone)]
pub struct DailyOptions {
    /// `https://api.daily.co/v1`.
    pub base_url: String,
    pub api_key: SecretString,
    /// Certificates to trust beside the system's, as PEM.
    pub ca_pem: Option<String>,
    /// For one request, connecting included.
    pub request_max: Duration,
    pub limits: DailyLimits,
    /// Whether the base gives links to single tracks (`access-link?s3_key=…`). Daily itself does
    /// not: raw tracks are in a bucket of its customer's.
    pub has_track_links: bool,
    /// The bucket into which Daily writes raw tracks; the key needs to read and to delete there.
    pub tracks: Option<S3Options>,
}

impl DailyOptions {
    pub fn new(base_url: String, api_key: SecretString) -> Self {
        DailyOptions {
            base_url,
            api_key,
            ca_pem: None,
            request_max: Duration::from_secs(10),
            limits: DailyLimits::default(),
            has_track_links: false,
            tracks: None,
        }
    }
}

/// Why Daily cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDailyOptions {
    #[error("Daily is named by https://host/path, such as https://api.daily.co/v1")]
    BaseUrl,
    #[error("the key for Daily is empty or has characters that no header can carry")]
    ApiKey,
    #[error("{0}")]
    Tls(String),
    #[error("the bucket of raw tracks: {0}")]
    Tracks(InvalidS3Options),
}

/// So many requests within so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub requests: usize,
    pub within: Duration,
}

/// How much is asked of Daily. The limits are the domain's: several nodes that all ask much divide
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DailyLimits {
    /// All requests.
    pub most: Vec<Rate>,
    /// Lists of recordings and deletions of rooms, beside that.
    pub scarce: Vec<Rate>,
    /// How many calls wait for their turn, of each urgency.
    pub queued_max: usize,
    /// How long a call waits for its turn.
    pub wait_max: Duration,
}

impl Default for DailyLimits {
    /// As Daily documents them, a little slower: requests do not arrive as evenly as they are sent, and
    /// those that arrive together count there.
    fn default() -> Self {
        let rate =
            |requests, secs: u64| Rate { requests, within: Duration::from_millis(secs * 1050) };
        DailyLimits {
            most: vec![rate(20, 1), rate(100, 5)],
            scarce: vec![rate(2, 1), rate(50, 30)],
            queued_max: 1000,
            wait_max: Duration::from_secs(30),
        }
    }
}
