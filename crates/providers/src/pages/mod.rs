//! Looks at pages: what their servers answer, what belongs to them, and what a browser makes of them.
//!
//! Invariants:
//! - Nothing is connected to that the guard has not allowed a moment before, by the address that it
//!   saw: not for redirects, not for what a page refers to, not by the browser.
//! - Everything that comes is bounded in bytes and time before it is read, and after it was decoded.
//! - A host is asked by a few at once and not in a burst, whoever looks at it.
//! - What belongs to a page may be missing, with the reason; without the page there is no look.

mod browser;
mod certificate;
mod connection;
mod encoding;
mod exchange;
mod image;
mod look;
mod options;
mod parts;
mod polite;
mod references;
mod robots;
mod sheets;
mod trouble;

use std::sync::Arc;

use async_trait::async_trait;
use roundsman_core::audits::normal_url;
use roundsman_core::audits::observed::Observed;
use roundsman_core::ports::{
    Clock, ObserveError, ObserveErrorKind, ObserveProgress, ObserveWish, Pages,
};

use self::browser::Browsers;
use self::certificate::PageTls;
use self::connection::{Opener, Tasks};
use self::exchange::Client;
use self::look::Look;
use self::polite::Turns;
use self::trouble::{of_wish, trouble};

pub use self::browser::BrowserOptions;
pub use self::options::{PageLimits, PagesOptions, Politeness};

/// The name by which a robots.txt speaks to us.
pub const ROBOTS_NAME: &str = "roundsman";

/// Looks at pages over HTTP and, where it is wished and there is one, in a browser.
pub struct HttpPages {
    options: PagesOptions,
    tls: PageTls,
    turns: Turns,
    browsers: Browsers,
    clock: Arc<dyn Clock>,
}

/// The certificates to trust cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPagesOptions(String);

impl HttpPages {
    /// One for the whole process: politeness is kept here.
    pub fn new(options: PagesOptions, clock: Arc<dyn Clock>) -> Result<Self, InvalidPagesOptions> {
        let tls = PageTls::new(options.extra_pem.as_deref())
            .map_err(|error| InvalidPagesOptions(error.to_string()))?;
        let turns = Turns::new(options.politeness, clock.clone());
        let extra_pem = options.extra_pem.as_deref();
        let browsers = Browsers::new(options.browser.clone(), extra_pem, clock.clone());
        Ok(HttpPages { options, tls, turns, browsers, clock })
    }

    /// Whether there is a browser to measure in.
    pub fn has_browser(&self) -> bool {
        self.browsers.program().is_some()
    }
}

#[async_trait]
impl Pages for HttpPages {
    async fn observe(
        &self,
        wish: ObserveWish,
        progress: Arc<dyn ObserveProgress>,
    ) -> Result<Observed, ObserveError> {
        let options = &self.options;
        let guard = if wish.allow_private {
            options.guard.allowing_private()
        } else {
            options.guard.clone()
        };
        let url = normal_url(&wish.url).map_err(|error| {
            trouble(ObserveErrorKind::InvalidUrl, format!("the address {error}"))
        })?;
        let url = guard.check(&url).map_err(of_wish)?;
        // Waiting for others at the same host is no part of the look.
        let seat = self.turns.look(url.host_str().unwrap_or_default()).await;
        let _seat = seat.ok_or_else(|| {
            trouble(ObserveErrorKind::Timeout, "others who look at the same host take too long")
        })?;
        let began = self.clock.monotonic();
        let opener = Opener {
            guard: &guard,
            tls: &self.tls,
            limits: &options.limits,
            clock: self.clock.as_ref(),
            tasks: Tasks::default(),
        };
        let client = Client::new(opener, &self.turns, &options.agent, began);
        let look = Look {
            client,
            guard: &guard,
            options,
            browsers: &self.browsers,
            progress: progress.as_ref(),
            ends: began + wish.time_max,
            wish: &wish,
            robots: tokio::sync::Mutex::default(),
        };
        look.run(url).await
    }
}
