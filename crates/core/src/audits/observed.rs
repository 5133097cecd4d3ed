//! What was seen of a page: facts only, no judgement.
//!
//! Whoever fetches fills this in, whoever judges reads it, and neither knows the other. Everything is
//! bounded where it is gathered. What could not be seen is said with its reason ([`Seen`]), so that a
//! report can name it instead of guessing.

use std::time::Duration;

use crate::Timestamp;

/// The `Origin` of the second request for the page. Nobody has this name.
pub const FOREIGN_ORIGIN: &str = "https://somebody-else.invalid";

/// One look at a page and what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// As it was asked for, with a scheme.
    pub asked_url: String,
    pub began_at: Timestamp,
    pub took: Duration,
    /// What was asked before the page: one for each redirect, in their order.
    pub hops: Vec<Hop>,
    /// The page itself, after the redirects.
    pub page: Fetched,
    /// What plain http on the same host answered, and where that led. `Missing` if port 80 is not there.
    pub plain_http: Seen<Vec<Hop>>,
    /// What the page's headers were when it was asked for in the name of [`FOREIGN_ORIGIN`]: whether it
    /// lets strangers read it shows only then.
    pub foreign_origin: Seen<Headers>,
    pub robots: Seen<Fetched>,
    /// The first is `/sitemap.xml` or what robots.txt names.
    pub sitemaps: Vec<Seen<Fetched>>,
    /// What the page refers to, as far as the budget went, in the page's order.
    pub resources: Vec<Resource>,
    /// References that the budget did not allow to fetch.
    pub resources_left_out: u32,
    pub browser: Seen<BrowserSeen>,
}

/// Something that was looked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen<T> {
    Seen(T),
    /// It was not looked for, or looking failed. The reason is for people.
    Missing(String),
}

impl<T> Seen<T> {
    pub fn as_option(&self) -> Option<&T> {
        match self {
            Seen::Seen(value) => Some(value),
            Seen::Missing(_) => None,
        }
    }
}

/// An answer that led elsewhere, or (last of [`Observed::plain_http`]) the one at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Hop {
    pub url: String,
    pub status: u16,
    /// Where it led, resolved to a whole URL.
    pub location: Option<String>,
    pub headers: Headers,
    pub timing: Timing,
}

/// Headers as they came: names in lower case, order and repetition kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// All values of a header, in their order. `name` is in lower case.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetched {
    pub url: String,
    pub status: u16,
    pub headers: Headers,
    /// Decoded from its content encoding; not from its character set.
    pub body: Vec<u8>,
    /// False if the body was cut at the limit.
    pub is_whole: bool,
    /// As it was transferred.
    pub transfer_bytes: u64,
    pub http_version: HttpVersion,
    /// `None` for plain http.
    pub tls: Option<TlsSeen>,
    pub timing: Timing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpVersion {
    Http10,
    Http11,
    Http2,
}

/// What the encrypted connection showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSeen {
    /// `1.2` or `1.3`.
    pub version: String,
    pub cipher: String,
    pub valid_from: Option<Timestamp>,
    pub valid_until: Option<Timestamp>,
    /// As the certificate writes them.
    pub issuer: String,
    pub names: Vec<String>,
    /// Why the certificate is not trusted, if it is not. The page was then read all the same if that was asked for.
    pub problem: Option<String>,
}

/// How long each part of a request took. A connection that was used again has zeros at its front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Since the look began.
    pub began: Duration,
    pub dns: Duration,
    pub connect: Duration,
    pub tls: Duration,
    /// From the request to the answer's first byte.
    pub wait: Duration,
    pub download: Duration,
}

impl Timing {
    /// From the start of everything to the first byte.
    pub fn first_byte(&self) -> Duration {
        self.dns + self.connect + self.tls + self.wait
    }

    pub fn total(&self) -> Duration {
        self.first_byte() + self.download
    }
}

/// Something that the page refers to.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    pub url: String,
    pub kind: ResourceKind,
    /// How the page refers to it.
    pub placement: Placement,
    pub answer: Seen<ResourceAnswer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    Stylesheet,
    Script,
    Image,
    Font,
    Icon,
    Media,
    Frame,
    Manifest,
    Preload,
}

/// Where in the page the reference stands and what it does to painting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placement {
    /// The line of the page's source, from 1.
    pub line: u32,
    pub in_head: bool,
    /// The page cannot be painted before it is there.
    pub is_blocking: bool,
}

/// What came of a reference. Bodies of scripts and stylesheets are kept, up to the budget; of images only
/// what their header says.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceAnswer {
    pub status: u16,
    /// After redirects.
    pub final_url: String,
    pub headers: Headers,
    pub transfer_bytes: u64,
    pub decoded_bytes: u64,
    pub http_version: HttpVersion,
    pub timing: Timing,
    pub body: Option<Vec<u8>>,
    pub image: Option<ImageSeen>,
}

/// What an image's own header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSeen {
    /// `png`, `jpeg`, `webp`, `avif`, `gif`, `svg`.
    pub format: String,
    pub width_px: Option<u32>,
    pub height_px: Option<u32>,
}

/// What a real browser measured.
#[derive(Debug, Clone, PartialEq)]
pub struct BrowserSeen {
    pub first_paint: Option<Duration>,
    pub first_contentful_paint: Option<Duration>,
    pub largest_contentful_paint: Option<Duration>,
    /// What was painted last as the largest, as a selector.
    pub largest_element: Option<String>,
    pub layout_shift: f64,
    /// Beyond 50 ms, added up over the tasks that took longer.
    pub blocking_time: Duration,
    pub dom_content_loaded: Option<Duration>,
    pub load: Option<Duration>,
    pub transfer_bytes: u64,
    pub requests: u32,
    pub console_errors: Vec<String>,
    /// PNG, bounded.
    pub screenshot_png: Option<Vec<u8>>,
    pub viewport_width_px: u32,
    pub viewport_height_px: u32,
    /// The browser's own name and version.
    pub browser: String,
}
