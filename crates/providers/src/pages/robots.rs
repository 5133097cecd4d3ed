//! A look's knowledge of robots.txt, per origin.
//!
//! What RFC 9309 says is done: no robots.txt (4xx) allows everything; one that cannot be had
//! because of its server (5xx) allows nothing, and one that cannot be had because of the network ends
//! the look with the network's error, for the page would be asked over the same network.

use roundsman_core::audits::observed::{Fetched, Seen};
use roundsman_core::audits::robots::{BYTES_MAX, Robots, RobotsAnswer};
use roundsman_core::ports::{ObserveError, ObserveErrorKind as Kind};
use url::{Position, Url};

use super::ROBOTS_NAME;
use super::exchange::{Accept, Appetite, origin};
use super::look::Look;
use super::trouble::trouble;

const ACCEPT: Accept = Accept::kinds("text/plain,*/*;q=0.5");

/// What one origin's robots.txt is.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) seen: Seen<Fetched>,
    pub(super) rules: Result<Robots, ObserveError>,
}

impl Known {
    pub(super) fn allows(&self, url: &Url) -> Result<(), ObserveError> {
        let rules = self.rules.as_ref().map_err(Clone::clone)?;
        if rules.allows(ROBOTS_NAME, &url[Position::BeforePath..Position::AfterQuery]) {
            return Ok(());
        }
        let detail = format!("{}/robots.txt forbids {}", origin(url), url.path());
        Err(trouble(Kind::ForbiddenByRobots, detail))
    }
}

impl Look<'_> {
    /// The robots.txt that holds for a URL; asked for once.
    pub(super) async fn robots_of(&self, url: &Url) -> Known {
        let mut all = self.robots.lock().await;
        if let Some(known) = all.get(origin(url)) {
            return known.clone();
        }
        let known = self.read_robots(url).await;
        all.insert(origin(url).to_owned(), known.clone());
        known
    }

    async fn read_robots(&self, url: &Url) -> Known {
        let wanted = format!("{}/robots.txt", origin(url));
        let fetched = match Url::parse(&wanted) {
            Ok(wanted) => self.fetch(wanted, ACCEPT, appetite()).await,
            Err(_) => Err(trouble(Kind::InvalidUrl, "there is no place for a robots.txt")),
        };
        match fetched {
            Ok(eaten) => {
                let fetched = eaten.fetched;
                let rules = match RobotsAnswer::of_status(fetched.status) {
                    RobotsAnswer::Rules => Ok(Robots::parse(&fetched.body)),
                    RobotsAnswer::Unavailable => Ok(Robots::default()),
                    RobotsAnswer::Unreachable => Err(unreachable(fetched.status)),
                };
                Known { seen: Seen::Seen(fetched), rules }
            }
            // As many redirects as we follow lead to none.
            Err(error) if error.kind == Kind::TooManyRedirects => {
                Known { seen: Seen::Missing(error.detail), rules: Ok(Robots::default()) }
            }
            Err(error) => Known { seen: Seen::Missing(error.to_string()), rules: Err(error) },
        }
    }
}

fn appetite() -> Appetite {
    let bytes_max = BYTES_MAX as u64;
    Appetite { decoded_bytes_max: bytes_max, kept_bytes_max: bytes_max }
}

fn unreachable(status: u16) -> ObserveError {
    let detail = format!(
        "robots.txt answered {status}; until it can be read nothing may be asked for (RFC 9309)"
    );
    trouble(Kind::HttpStatus, detail)
}
