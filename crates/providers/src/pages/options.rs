//! How pages are looked at, and where that ends.

use std::time::Duration;

use super::browser::BrowserOptions;
use crate::egress::EgressGuard;

/// What a look needs to know beside what to look at.
#[derive(Clone)]
pub struct PagesOptions {
    /// Decides about every address, of redirects and of what the browser asks for too.
    pub guard: EgressGuard,
    /// Trusted in addition to the system's certificates.
    pub extra_pem: Option<String>,
    /// Sent as `User-Agent`.
    pub agent: String,
    pub limits: PageLimits,
    pub politeness: Politeness,
    /// Where plain http is looked for beside a page with https: 80 but in tests.
    pub plain_http_port: u16,
    pub browser: BrowserOptions,
}

impl PagesOptions {
    pub fn new(guard: EgressGuard) -> Self {
        PagesOptions {
            guard,
            extra_pem: None,
            agent: format!("Mozilla/5.0 (compatible; {})", crate::http::AGENT),
            limits: PageLimits::default(),
            politeness: Politeness::default(),
            plain_http_port: 80,
            browser: BrowserOptions::default(),
        }
    }
}

/// Where one look ends. The time of the whole look comes with each wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimits {
    pub redirects_max: u32,
    /// For the page with what leads to it, whatever the look has left.
    pub page_time_max: Duration,
    /// To one address.
    pub connect_max: Duration,
    pub tls_max: Duration,
    /// From the request to the head of the answer.
    pub answer_max: Duration,
    pub head_bytes_max: usize,
    /// Decoded; of the page itself.
    pub body_bytes_max: u64,
    /// Slower than this for [`slow_for`](PageLimits::slow_for) is too slow.
    pub bytes_per_sec_min: u64,
    pub slow_for: Duration,
    /// How many of the page's references are followed.
    pub resources_max: usize,
    pub resources_at_once_max: usize,
    /// Decoded; of one of them.
    pub resource_bytes_max: u64,
    /// Transferred; of all of them.
    pub resources_bytes_max: u64,
    /// Of scripts and stylesheets, kept to be judged.
    pub resources_kept_bytes_max: u64,
    pub resources_time_max: Duration,
    pub sitemaps_max: usize,
    pub sitemap_bytes_max: u64,
}

impl Default for PageLimits {
    fn default() -> Self {
        PageLimits {
            redirects_max: 5,
            page_time_max: Duration::from_secs(30),
            connect_max: Duration::from_secs(5),
            tls_max: Duration::from_secs(5),
            answer_max: Duration::from_secs(15),
            head_bytes_max: 16 * 1024,
            body_bytes_max: 10 * 1024 * 1024,
            bytes_per_sec_min: 1024,
            slow_for: Duration::from_secs(5),
            resources_max: 60,
            resources_at_once_max: 6,
            resource_bytes_max: 5 * 1024 * 1024,
            resources_bytes_max: 30 * 1024 * 1024,
            resources_kept_bytes_max: 6 * 1024 * 1024,
            resources_time_max: Duration::from_secs(15),
            sitemaps_max: 2,
            sitemap_bytes_max: 2 * 1024 * 1024,
        }
    }
}

/// How a host is treated by all looks of this process together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Politeness {
    /// Requests at once, and looks at once.
    pub host_concurrency_max: usize,
    /// Between the beginnings of two requests.
    pub host_delay: Duration,
    /// How long a look waits for others at the same host before it gives up.
    pub host_wait_max: Duration,
}

impl Default for Politeness {
    fn default() -> Self {
        Politeness {
            host_concurrency_max: 2,
            host_delay: Duration::from_millis(50),
            host_wait_max: Duration::from_secs(300),
        }
    }
}
