//! Measures pages in a real browser.
//!
//! Invariants:
//! - The browser reaches nothing but a proxy of ours, which asks the guard about every address and
//!   connects to the one that it saw. Names are resolved there and nowhere else.
//! - Every measurement has a browser of its own with a fresh profile, which is gone before the
//!   answer is given, or soon after whoever waited for it has gone.
//! - A browser that is missing, slow, greedy or broken makes a measurement missing, never a look.

mod cdp;
mod chromium;
mod measure;
mod proxy;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roundsman_core::audits::observed::{BrowserSeen, Seen};
use roundsman_core::ports::Clock;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::Url;
use x509_parser::prelude::{FromDer, X509Certificate};

use self::cdp::CdpError;
use self::chromium::{Chromium, ChromiumError};
use self::measure::measure;
use self::proxy::Proxy;
use crate::egress::EgressGuard;
use crate::wait;

/// Between two looks at how much memory the browser has taken.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// Which browser, and how much of the machine it may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserOptions {
    /// The browser; otherwise the first that is found.
    pub chromium: Option<PathBuf>,
    /// Where to look for it: folders as in `PATH`.
    pub search_path: String,
    /// Browsers at the same time.
    pub at_once_max: usize,
    /// For one measurement.
    pub time_max: Duration,
    pub memory_bytes_max: u64,
    /// In both directions, of one measurement.
    pub traffic_bytes_max: u64,
    pub screenshot_bytes_max: usize,
    pub viewport_width_px: u32,
    pub viewport_height_px: u32,
}

impl Default for BrowserOptions {
    fn default() -> Self {
        BrowserOptions {
            chromium: None,
            search_path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
            at_once_max: 1,
            time_max: Duration::from_secs(20),
            memory_bytes_max: 1024 * 1024 * 1024,
            traffic_bytes_max: 100 * 1024 * 1024,
            screenshot_bytes_max: 2 * 1024 * 1024,
            viewport_width_px: 1280,
            viewport_height_px: 800,
        }
    }
}

/// Starts browsers, a few at once.
pub(super) struct Browsers {
    options: BrowserOptions,
    /// Keys that are trusted in addition: SHA-256 in base64, as the browser takes them.
    trusted_keys: Vec<String>,
    places: Semaphore,
    clock: Arc<dyn Clock>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
enum BrowserError {
    #[error("{0}")]
    Chromium(#[from] ChromiumError),
    #[error("{0}")]
    Cdp(#[from] CdpError),
    #[error("the way to the network cannot be opened: {0}")]
    Proxy(std::io::Error),
    #[error("the browser cannot load the page: {0}")]
    NotLoaded(String),
    #[error("the page crashed the browser")]
    Crashed,
    #[error("the browser says something that is no measurement")]
    Odd,
    #[error("the browser took more than {0} bytes of memory")]
    Greedy(u64),
}

impl Browsers {
    pub(super) fn new(
        options: BrowserOptions,
        extra_pem: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let places = Semaphore::new(options.at_once_max.max(1));
        let trusted_keys = extra_pem.map(key_hashes).unwrap_or_default();
        Browsers { options, trusted_keys, places, clock }
    }

    pub(super) fn program(&self) -> Option<PathBuf> {
        chromium::find(&self.options)
    }

    /// Loads a page in a browser of its own. Takes its time from what is left of the look's.
    pub(super) async fn measure(
        &self,
        url: &Url,
        guard: &EgressGuard,
        left: Duration,
    ) -> Seen<BrowserSeen> {
        let Some(program) = self.program() else {
            return Seen::Missing("there is no Chromium on this machine".to_owned());
        };
        let began = self.clock.monotonic();
        let Ok(Ok(_place)) = timeout(left, self.places.acquire()).await else {
            return Seen::Missing("the browser was busy with other pages".to_owned());
        };
        let waited = self.clock.monotonic().saturating_sub(began);
        let time_max = self.options.time_max.min(left.saturating_sub(waited));
        let measured = timeout(time_max, self.measure_with(program, url, guard)).await;
        match measured {
            Ok(Ok(seen)) => Seen::Seen(seen),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a page was not measured in the browser");
                Seen::Missing(error.to_string())
            }
            Err(_) => Seen::Missing(format!("the browser was not done within {time_max:?}")),
        }
    }

    async fn measure_with(
        &self,
        program: PathBuf,
        url: &Url,
        guard: &EgressGuard,
    ) -> Result<BrowserSeen, BrowserError> {
        let proxy = Proxy::start(guard.clone(), self.options.traffic_bytes_max);
        let proxy = proxy.await.map_err(BrowserError::Proxy)?;
        let (mut chromium, endpoint) =
            Chromium::start(&program, proxy.port(), &self.trusted_keys).await?;
        let measured = tokio::select! {
            biased;
            measured = measure(&endpoint, url, &proxy, &self.options) => measured,
            () = self.until_greedy(&chromium) => {
                Err(BrowserError::Greedy(self.options.memory_bytes_max))
            }
        };
        chromium.end().await;
        measured
    }

    async fn until_greedy(&self, chromium: &Chromium) {
        while chromium.memory_bytes() <= self.options.memory_bytes_max {
            wait::rest(WATCH_EVERY).await;
        }
    }
}

fn key_hashes(pem: &str) -> Vec<String> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).flatten();
    let hash = |der: CertificateDer<'_>| {
        let (_, certificate) = X509Certificate::from_der(&der).ok()?;
        Some(STANDARD.encode(Sha256::digest(certificate.public_key().raw)))
    };
    certificates.filter_map(hash).collect()
}
