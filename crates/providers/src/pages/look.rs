//! One look at a page: the page first, then what belongs to it, then the browser.

use std::collections::HashMap;
use std::time::Duration;

use roundsman_core::audits::observed::{
    BrowserSeen, FOREIGN_ORIGIN, Fetched, Headers, Hop, Observed, Seen,
};
use roundsman_core::audits::robots::Robots;
use roundsman_core::ports::{
    ObserveError, ObserveErrorKind as Kind, ObserveProgress, ObserveStep, ObserveWish,
};
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::Url;

use super::browser::Browsers;
use super::exchange::{Accept, Answer, Appetite, Client, Eaten, origin};
use super::options::PagesOptions;
use super::references::references;
use super::robots::Known;
use super::sheets::Letters;
use super::trouble::{of_egress, trouble};
use crate::egress::{EgressError, EgressGuard};

const ACCEPT_PAGE: Accept = Accept::kinds(
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
);
const ACCEPT_SITEMAP: Accept = Accept::kinds("application/xml,text/xml,text/plain;q=0.8,*/*;q=0.5");
/// What begins like this is no page, whatever its header says.
const NOT_PAGES: [(&[u8], &str); 8] = [
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "an image, sound or film"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a compressed file"),
    (b"\x7fELF", "a program"),
];

pub(super) struct Look<'a> {
    pub(super) client: Client<'a>,
    pub(super) guard: &'a EgressGuard,
    pub(super) options: &'a PagesOptions,
    pub(super) browsers: &'a Browsers,
    pub(super) progress: &'a dyn ObserveProgress,
    pub(super) wish: &'a ObserveWish,
    /// By the monotonic clock.
    pub(super) ends: Duration,
    pub(super) robots: Mutex<HashMap<String, Known>>,
}

impl Look<'_> {
    pub(super) async fn run(&self, asked: Url) -> Result<Observed, ObserveError> {
        let began_at = self.client.clock().now();
        self.progress.step(ObserveStep::Page);
        let time_max = self.left().min(self.options.limits.page_time_max);
        let late = || trouble(Kind::Timeout, format!("no page within {time_max:?}"));
        let looked = timeout(time_max, self.page(asked.clone())).await;
        let (hops, page) = looked.map_err(|_| late())??;
        let url = Url::parse(&page.url)
            .map_err(|_| trouble(Kind::ProtocolError, "the page has no address"))?;

        self.progress.step(ObserveStep::Robots);
        let known = timeout(self.left(), self.robots_of(&url)).await.ok();
        self.progress.step(ObserveStep::Sitemap);
        let (sitemaps, plain_http, foreign_origin) = tokio::join!(
            self.sitemaps(&url, known.as_ref()),
            self.plain_http(&url, &page),
            self.foreign_origin(&url),
        );
        let source = String::from_utf8_lossy(&page.body);
        let letters = Letters::of(&source);
        let found = references(&source, &url, &letters);
        drop(source);
        let (resources, resources_left_out) =
            self.resources(found, &letters, &url, known.as_ref()).await;
        let browser = self.browser(&url).await;
        let robots = known.map_or_else(no_time, |known| known.seen);
        Ok(Observed {
            asked_url: asked.into(),
            began_at,
            took: self.client.clock().monotonic().saturating_sub(self.client.began),
            hops,
            page,
            plain_http,
            foreign_origin,
            robots,
            sitemaps,
            resources,
            resources_left_out,
            browser,
        })
    }

    /// What is left of the time.
    pub(super) fn left(&self) -> Duration {
        self.ends.saturating_sub(self.client.clock().monotonic())
    }

    /// The page and what led to it.
    async fn page(&self, asked: Url) -> Result<(Vec<Hop>, Fetched), ObserveError> {
        let (hops, answer) = self.follow(asked, ACCEPT_PAGE, self.wish.obey_robots).await?;
        if !(200..300).contains(&answer.status) {
            let detail = format!("{} answered {}", answer.url, answer.status);
            return Err(trouble(Kind::HttpStatus, detail));
        }
        let bytes_max = self.options.limits.body_bytes_max;
        let appetite = Appetite { decoded_bytes_max: bytes_max, kept_bytes_max: bytes_max };
        let page = self.client.eat(answer, appetite).await?.fetched;
        check_html(&page)?;
        if !page.is_whole {
            let detail = format!("the page is larger than {bytes_max} bytes");
            return Err(trouble(Kind::TooLarge, detail));
        }
        Ok((hops, page))
    }

    /// Asks, and follows where that leads, checking each place anew.
    pub(super) async fn follow(
        &self,
        mut url: Url,
        accept: Accept,
        obey_robots: bool,
    ) -> Result<(Vec<Hop>, Answer), ObserveError> {
        let mut hops = Vec::new();
        for _ in 0..=self.options.limits.redirects_max {
            if obey_robots {
                // Boxed: robots.txt is fetched by the same way.
                Box::pin(self.robots_of(&url)).await.allows(&url)?;
            }
            let answer = self.client.ask(&url, accept).await?;
            let Some(next) = answer.redirect() else { return Ok((hops, answer)) };
            let next = next?;
            hops.push(self.client.hop(answer, Some(&next)).await);
            // A connection that is used again is not resolved again, so this is asked here.
            let checked = self.guard.check(next.as_str());
            url = checked.map_err(|refusal| of_egress(EgressError::Refused(refusal)))?;
        }
        let most = self.options.limits.redirects_max;
        Err(trouble(Kind::TooManyRedirects, format!("more than {most} redirects")))
    }

    pub(super) async fn fetch(
        &self,
        url: Url,
        accept: Accept,
        appetite: Appetite,
    ) -> Result<Eaten, ObserveError> {
        let checked = self.guard.check(url.as_str());
        let url = checked.map_err(|refusal| of_egress(EgressError::Refused(refusal)))?;
        let (_, answer) = self.follow(url, accept, false).await?;
        self.client.eat(answer, appetite).await
    }

    /// Those that robots.txt names or, without them, the one at the usual place.
    async fn sitemaps(&self, page: &Url, known: Option<&Known>) -> Vec<Seen<Fetched>> {
        let limits = &self.options.limits;
        let rules = known.and_then(|known| known.rules.as_ref().ok());
        let named = rules.map(Robots::sitemaps).unwrap_or_default();
        let mut urls: Vec<Url> = named.iter().filter_map(|link| page.join(link).ok()).collect();
        if urls.is_empty() {
            urls.extend(Url::parse(&format!("{}/sitemap.xml", origin(page))));
        }
        let bytes_max = limits.sitemap_bytes_max;
        let appetite = Appetite { decoded_bytes_max: bytes_max, kept_bytes_max: bytes_max };
        let mut sitemaps = Vec::new();
        for url in urls.into_iter().take(limits.sitemaps_max) {
            let fetched = timeout(self.left(), self.fetch(url, ACCEPT_SITEMAP, appetite)).await;
            sitemaps.push(match fetched {
                Ok(Ok(eaten)) => Seen::Seen(eaten.fetched),
                Ok(Err(error)) => Seen::Missing(error.to_string()),
                Err(_) => no_time(),
            });
        }
        sitemaps
    }

    /// What who comes without encryption sees first.
    async fn plain_http(&self, url: &Url, page: &Fetched) -> Seen<Vec<Hop>> {
        if url.scheme() != "https" {
            // It is the page itself.
            return Seen::Seen(vec![Hop {
                url: page.url.clone(),
                status: page.status,
                location: None,
                headers: page.headers.clone(),
                timing: page.timing,
            }]);
        }
        let mut plain = url.clone();
        let is_plain = plain.set_scheme("http").is_ok()
            && plain.set_port(Some(self.options.plain_http_port)).is_ok();
        if !is_plain {
            return Seen::Missing("there is no such address in plain http".to_owned());
        }
        let probe = async {
            let (mut hops, answer) = self.follow(plain, ACCEPT_PAGE, false).await?;
            hops.push(self.client.hop(answer, None).await);
            Ok::<_, ObserveError>(hops)
        };
        match timeout(self.left(), probe).await {
            Ok(Ok(hops)) => Seen::Seen(hops),
            Ok(Err(error)) => Seen::Missing(error.to_string()),
            Err(_) => no_time(),
        }
    }

    /// What the page answers to a script of somebody else's page.
    async fn foreign_origin(&self, url: &Url) -> Seen<Headers> {
        let accept = Accept { origin: Some(FOREIGN_ORIGIN), ..ACCEPT_PAGE };
        let asking = async {
            let answer = self.client.ask(url, accept).await?;
            Ok::<_, ObserveError>(self.client.hop(answer, None).await.headers)
        };
        match timeout(self.left(), asking).await {
            Ok(Ok(headers)) => Seen::Seen(headers),
            Ok(Err(error)) => Seen::Missing(error.to_string()),
            Err(_) => no_time(),
        }
    }

    async fn browser(&self, url: &Url) -> Seen<BrowserSeen> {
        if !self.wish.in_browser {
            return Seen::Missing("measuring in a browser was not asked for".to_owned());
        }
        self.progress.step(ObserveStep::Browser);
        self.browsers.measure(url, self.guard, self.left()).await
    }
}

pub(super) fn no_time<T>() -> Seen<T> {
    Seen::Missing("there was no time left".to_owned())
}

/// A page is what says that it is HTML and does not begin like something else; what says nothing must
/// begin like HTML.
fn check_html(page: &Fetched) -> Result<(), ObserveError> {
    let kind = page.headers.first("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let begins_as = NOT_PAGES.iter().find(|(begin, _)| page.body.starts_with(begin));
    let begins_as = begins_as.map(|(_, what)| *what);
    match (kind.as_str(), begins_as) {
        ("text/html" | "application/xhtml+xml", None) => Ok(()),
        ("text/html" | "application/xhtml+xml", Some(what)) => {
            Err(trouble(Kind::NotHtml, format!("it says that it is HTML and is {what}")))
        }
        ("", None) if begins_like_html(&page.body) => Ok(()),
        ("", _) => Err(trouble(Kind::NotHtml, "it does not say what it is")),
        (kind, _) => {
            let kind: String = kind.chars().filter(|c| !c.is_control()).take(80).collect();
            Err(trouble(Kind::NotHtml, format!("it is {kind}")))
        }
    }
}

fn begins_like_html(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    body.first() == Some(&b'<')
}
