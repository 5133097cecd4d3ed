//! Downloads files from addresses that the provider named.
//!
//! Invariants: a download that broke off goes on where it ended, if the source shows that it still
//! has the same content; nothing is downloaded beyond the limits; redirects are followed by hand,
//! and never from a secured address to one that is not.
//!
//! The rules about addresses that users name do not hold for recordings: their links come from the
//! provider, and lead to its buckets or, for some, to one in the operator's own network. A
//! [`Source`] may ask for them.

mod partial;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue};
use roundsman_core::ports::{Fetched, MediaError, MediaFetcher};
use tokio::time::timeout;
use url::Url;

use self::partial::{Mark, Partial};
use super::{InvalidCertificates, failed};
use crate::egress::{EgressError, EgressGuard};
use crate::http::{self, CallError, Exchange, FileBody, Place, StreamedCall, Tls};

const REDIRECTS_MAX: u32 = 5;
/// How often a connection may break before anything came through it.
const FRUITLESS_MAX: u32 = 3;

/// How much is downloaded, and how patiently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    pub bytes_max: u64,
    /// For the whole file.
    pub time_max: Duration,
    /// For an answer to begin.
    pub answer_max: Duration,
    /// Slower than this for [`slow_for`](FetchLimits::slow_for) is too slow.
    pub bytes_per_sec_min: u64,
    pub slow_for: Duration,
}

impl Default for FetchLimits {
    fn default() -> Self {
        FetchLimits {
            bytes_max: 16 * 1024 * 1024 * 1024,
            time_max: Duration::from_secs(3 * 3600),
            answer_max: Duration::from_secs(30),
            bytes_per_sec_min: 8 * 1024,
            slow_for: Duration::from_secs(30),
        }
    }
}

/// Downloads over HTTP.
#[derive(Debug)]
pub struct HttpMediaFetcher {
    tls: Tls,
    limits: FetchLimits,
}

/// Where a file is read, and what is needed for it.
pub(crate) struct Source<'a> {
    pub(crate) url: Url,
    /// Sent to the origin of the link, and to no other that a redirect leads to.
    pub(crate) headers: HeaderMap,
    /// What decides about addresses of that origin; `None` for one that is trusted.
    pub(crate) guard: Option<&'a EgressGuard>,
    /// What decides about others; `None` if all are trusted.
    pub(crate) elsewhere: Option<&'a EgressGuard>,
}

/// Why a download did not come to its end.
enum Stopped {
    /// The connection broke; what came through is there.
    Broken(String),
    For(MediaError),
}

impl HttpMediaFetcher {
    /// Trusts the system's certificates and, in addition, those in `extra_pem`.
    pub fn new(limits: FetchLimits, extra_pem: Option<&str>) -> Result<Self, InvalidCertificates> {
        let tls = Tls::new(extra_pem).map_err(|error| InvalidCertificates(error.to_string()))?;
        Ok(HttpMediaFetcher { tls, limits })
    }

    /// Downloads into a file, going on where it ends if a part is there already and the source can.
    pub(crate) async fn download_from(
        &self,
        source: &Source<'_>,
        to: &Path,
    ) -> Result<Fetched, MediaError> {
        let time_max = self.limits.time_max;
        let too_slow = || MediaError::Failed(format!("not downloaded within {time_max:?}"));
        timeout(time_max, self.fetch(source, to)).await.unwrap_or_else(|_| Err(too_slow()))
    }

    async fn fetch(&self, source: &Source<'_>, to: &Path) -> Result<Fetched, MediaError> {
        let mut partial = Partial::open(to).await.map_err(|error| failed(&error))?;
        let mut fruitless = 0;
        loop {
            let before = partial.bytes();
            let stopped = match self.go_on(source, &mut partial).await {
                Ok(()) => return Ok(partial.fetched()),
                Err(stopped) => stopped,
            };
            partial.make_safe().await.map_err(|error| failed(&error))?;
            let reason = match stopped {
                Stopped::Broken(reason) => reason,
                Stopped::For(error) => return Err(error),
            };
            fruitless = if partial.bytes() > before { 0 } else { fruitless + 1 };
            if fruitless == FRUITLESS_MAX {
                return Err(MediaError::Failed(reason));
            }
            tracing::debug!(bytes = partial.bytes(), reason, "a download broke off and goes on");
        }
    }

    /// One answer, to its end.
    async fn go_on(&self, source: &Source<'_>, partial: &mut Partial) -> Result<(), Stopped> {
        let mut answer = self.ask(source, partial).await?;
        match answer.status {
            200 => {
                let mark = mark_of(&answer);
                self.check_size(mark.bytes_total.unwrap_or(0))?;
                partial.begin(mark).await.map_err(|error| Stopped::For(failed(&error)))?;
            }
            206 => {
                let range = answer.header("content-range").and_then(parse_range);
                let range = range.ok_or_else(|| odd("a part without saying which"))?;
                self.check_range(range, partial).await?;
            }
            // There is less than we have: it is another content.
            416 => {
                let begun = partial.begin(Mark::default()).await;
                begun.map_err(|error| Stopped::For(failed(&error)))?;
                return Err(Stopped::Broken("the source has become shorter".to_owned()));
            }
            status => return Err(Stopped::For(refusal(status))),
        }
        self.take(&mut answer, partial).await?;
        match partial.mark().bytes_total {
            Some(total) if partial.bytes() != total => {
                let bytes = partial.bytes();
                Err(Stopped::Broken(format!("{bytes} bytes came instead of {total}")))
            }
            _ => Ok(()),
        }
    }

    /// Asks for what is missing, and follows where that leads.
    async fn ask(&self, source: &Source<'_>, partial: &Partial) -> Result<Exchange, Stopped> {
        let mut url = source.url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let is_there = url.origin() == source.url.origin();
            let guard = if is_there { source.guard } else { source.elsewhere };
            let place = self.place(&url, guard).await?;
            let call = StreamedCall {
                method: Method::GET,
                place,
                headers: range_headers(partial),
                extra: if is_there { source.headers.clone() } else { HeaderMap::new() },
                body: FileBody::default(),
            };
            let answer =
                http::begin(call, self.limits.answer_max).await.map_err(|error| broken(&error))?;
            if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let next = answer.header("location").and_then(|location| url.join(location).ok());
            let next = next.ok_or_else(|| refused("a redirect leads nowhere"))?;
            if url.scheme() == "https" && next.scheme() != "https" {
                return Err(refused("a redirect leads away from a secured address"));
            }
            url = next;
        }
        Err(refused("there are too many redirects"))
    }

    /// Where an address leads, if it may be connected to.
    async fn place(&self, url: &Url, guard: Option<&EgressGuard>) -> Result<Place, Stopped> {
        let Some(guard) = guard else {
            let place = Place::of(url, &self.tls);
            return place.ok_or_else(|| refused("the provider's link leads nowhere"));
        };
        match guard.resolve(url.as_str()).await {
            Ok(target) => Ok(Place::pinned(target, &self.tls)),
            Err(EgressError::Refused(reason)) => Err(refused(&format!("its address: {reason}"))),
            Err(error) => Err(Stopped::Broken(error.to_string())),
        }
    }

    /// What comes must be what was asked for, of the same content.
    async fn check_range(
        &self,
        (start, total): (u64, Option<u64>),
        partial: &mut Partial,
    ) -> Result<(), Stopped> {
        self.check_size(total.unwrap_or(0))?;
        let known = partial.mark().bytes_total;
        let same =
            start == partial.bytes() && (known.is_none() || total.is_none() || known == total);
        if !same {
            let begun = partial.begin(Mark::default()).await;
            begun.map_err(|error| Stopped::For(failed(&error)))?;
            return Err(Stopped::Broken("the source has another content than before".to_owned()));
        }
        Ok(())
    }

    /// Reads the body. Every stretch of time must bring its share.
    async fn take(&self, answer: &mut Exchange, partial: &mut Partial) -> Result<(), Stopped> {
        let FetchLimits { slow_for, bytes_per_sec_min, .. } = self.limits;
        let share = bytes_per_sec_min.saturating_mul(slow_for.as_secs().max(1));
        loop {
            let stretch = async {
                let enough_at = partial.bytes().saturating_add(share);
                while partial.bytes() < enough_at {
                    let Some(piece) = answer.piece().await.map_err(|error| broken(&error))? else {
                        return Ok(true);
                    };
                    self.check_size(partial.bytes() + piece.len() as u64)?;
                    let written = partial.write(&piece).await;
                    written.map_err(|error| Stopped::For(failed(&error)))?;
                }
                Ok(false)
            };
            let is_whole = timeout(slow_for, stretch).await.unwrap_or_else(|_| {
                let reason = format!("slower than {bytes_per_sec_min} bytes per second");
                Err(Stopped::For(MediaError::Failed(reason)))
            })?;
            if is_whole {
                let safe = partial.make_safe().await;
                return safe.map_err(|error| Stopped::For(failed(&error)));
            }
        }
    }

    fn check_size(&self, bytes: u64) -> Result<(), Stopped> {
        let bytes_max = self.limits.bytes_max;
        if bytes <= bytes_max {
            return Ok(());
        }
        Err(refused(&format!("the file is larger than the limit of {bytes_max} bytes")))
    }
}

#[async_trait]
impl MediaFetcher for HttpMediaFetcher {
    async fn download(&self, link: &str, to: &Path) -> Result<Fetched, MediaError> {
        let url = Url::parse(link)
            .map_err(|_| MediaError::Refused("the provider's link is no URL".to_owned()))?;
        let source = Source { url, headers: HeaderMap::new(), guard: None, elsewhere: None };
        self.download_from(&source, to).await
    }
}

fn range_headers(partial: &Partial) -> Vec<(&'static str, HeaderValue)> {
    // Compressed it would have other bytes and another length.
    let mut headers = vec![("accept-encoding", HeaderValue::from_static("identity"))];
    if partial.bytes() == 0 {
        return headers;
    }
    let condition = match &partial.mark().etag {
        None => None,
        Some(etag) => match HeaderValue::from_str(etag) {
            Ok(etag) => Some(("if-range", etag)),
            Err(_) => return headers,
        },
    };
    if let Ok(range) = HeaderValue::from_str(&format!("bytes={}-", partial.bytes())) {
        headers.push(("range", range));
        headers.extend(condition);
    }
    headers
}

/// What the source of a whole answer is known by.
fn mark_of(answer: &Exchange) -> Mark {
    // A weak one says that two contents mean the same, not that they have the same bytes.
    let is_strong = |etag: &&str| etag.starts_with('"');
    let etag = answer.header("etag").filter(is_strong).map(str::to_owned);
    let bytes_total = answer.header("content-length").and_then(|length| length.parse().ok());
    Mark::new(etag, bytes_total)
}

/// Reads `bytes 5-9/10`: where it begins, and how much there is in all if that is known.
fn parse_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    Some((start.parse().ok()?, total))
}

fn refusal(status: u16) -> MediaError {
    match status {
        404 | 410 => MediaError::NotFound,
        // A link that has expired; the next one may be good.
        401 | 403 | 408 | 429 | 500.. => MediaError::Failed(format!("the source says {status}")),
        400..500 => MediaError::Refused(format!("the source says {status}")),
        _ => MediaError::Failed(format!("the source says {status}")),
    }
}

fn refused(reason: &str) -> Stopped {
    Stopped::For(MediaError::Refused(reason.to_owned()))
}

fn odd(what: &str) -> Stopped {
    Stopped::For(MediaError::Failed(format!("the source sends {what}")))
}

fn broken(error: &CallError) -> Stopped {
    Stopped::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(parse_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(parse_range("bytes 5-9/*"), Some((5, None)));
        for odd in ["", "bytes", "bytes */10", "bytes 5-9", "5-9/10", "bytes a-b/c"] {
            assert_eq!(parse_range(odd), None, "{odd}");
        }
    }
}
