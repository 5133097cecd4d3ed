//! What is where on the site, and how it is answered.

use std::convert::Infallible;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response};
use reqwest::Url;

use super::body::{Sending, SiteBody};
use super::{Door, RobotsRule, SiteRequest, State, defects, lock};
use crate::real_time;

/// What a site that cares sends with its pages.
const CAREFUL: [(&str, &str); 9] = [
    ("strict-transport-security", "max-age=63072000; includeSubDomains; preload"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-embedder-policy", "require-corp"),
    ("cache-control", "public, max-age=600"),
];
const HTML: &str = "text/html; charset=utf-8";

/// An answer before it is sent.
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    sending: Sending,
}

impl Reply {
    fn new(status: u16, kind: &str, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", kind.to_owned())];
        Reply { status, headers, sending: Sending::Whole(body.into()) }
    }

    fn html(body: impl Into<Bytes>) -> Self {
        Reply::new(200, HTML, body)
    }

    fn missing() -> Self {
        Reply::new(404, "text/plain", "not here")
    }

    fn redirect(status: u16, to: &str) -> Self {
        Reply::new(status, "text/plain", "elsewhere").with("location", to)
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn careful(mut self) -> Self {
        self.headers.extend(CAREFUL.map(|(name, value)| (name, value.to_owned())));
        self
    }

    /// As a server does that compresses what it sends.
    fn compressed(mut self, accepts_gzip: bool) -> Self {
        if let Sending::Whole(body) = &self.sending
            && accepts_gzip
        {
            self.sending = Sending::Whole(gzip(body).into());
            return self.with("content-encoding", "gzip").with("vary", "accept-encoding");
        }
        self
    }

    fn stored(self) -> Self {
        self.with("cache-control", "public, max-age=31536000, immutable")
    }
}

pub(super) async fn answer(
    request: Request<Incoming>,
    door: Door,
    state: Arc<State>,
) -> Result<Response<SiteBody>, Infallible> {
    let pair = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let uri = request.uri();
    let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let seen = SiteRequest {
        door,
        method: request.method().to_string(),
        path_and_query: path_and_query.clone(),
        version: format!("{:?}", request.version()),
        headers: request.headers().iter().map(pair).collect(),
    };
    let accepts_gzip = seen.header("accept-encoding").is_some_and(|known| known.contains("gzip"));
    let answering = state.begin(seen);
    let leads_to = lock(&state.plain_leads_to).clone();
    let reply = match leads_to.filter(|_| door == Door::Plain) {
        Some(origin) => Reply::redirect(301, &format!("{origin}{path_and_query}")),
        None if path_and_query == "/robots.txt" => robots(&state).await,
        None => route(&path_and_query, accepts_gzip).await,
    };
    let mut response = Response::new(SiteBody::new(reply.sending, answering));
    *response.status_mut() = reply.status.try_into().unwrap_or_default();
    for (name, value) in reply.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().append(HeaderName::from_static(name), value);
        }
    }
    Ok(response)
}

async fn robots(state: &State) -> Reply {
    let rule = lock(&state.robots).clone();
    match rule {
        RobotsRule::Friendly => {
            Reply::new(200, "text/plain", "User-agent: *\nAllow: /\n\nSitemap: /sitemap.xml\n")
        }
        RobotsRule::Text(text) => Reply::new(200, "text/plain", text),
        RobotsRule::Status(status) => Reply::new(status, "text/plain", "no"),
        RobotsRule::RedirectsTo(to) => Reply::redirect(302, &to),
        RobotsRule::Hangs => std::future::pending().await,
    }
}

async fn route(path_and_query: &str, accepts_gzip: bool) -> Reply {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let words: Vec<&str> = path.split('/').skip(1).collect();
    match words.as_slice() {
        [""] => page(None, accepts_gzip),
        ["defect", name] => page(Some(name), accepts_gzip),
        ["poor"] => Reply::html(include_str!("assets/poor.html"))
            .with("set-cookie", "session=abc123; Path=/")
            .with("set-cookie", "theme=dark; SameSite=None")
            .with("server", "Apache/2.2.3 (Unix) PHP/4.4.9"),
        ["busy"] => Reply::html(include_str!("assets/busy.html")),
        ["inside"] => inside(query),
        // With the stylesheet that the query names.
        ["sheet"] => {
            Reply::html(format!("<!doctype html><link rel=\"stylesheet\" href=\"{query}\">"))
        }
        ["styled"] => Reply::html(include_str!("assets/styled.html")),
        ["css", "inside.css"] => {
            let canary = query.strip_prefix("canary=").unwrap_or_default();
            let text = include_str!("assets/inside.css");
            Reply::new(200, "text/css", text.replace("CANARY", canary))
        }
        // Each imports the next, and has a font.
        ["css", "chain", number] => {
            let number: u32 = number.parse().unwrap_or(0);
            let next = number.saturating_add(1);
            let font = format!("@font-face {{ src: url(/fonts/{number}.woff2) }}");
            Reply::new(200, "text/css", format!("@import \"{next}\"; {font}"))
        }
        ["heavy", count] => heavy(count, ""),
        ["delayed", count] => heavy(count, "/delay/30"),
        ["delay", millis, rest @ ..] => {
            real_time::pause(Duration::from_millis(millis.parse().unwrap_or(0))).await;
            file(rest)
        }
        ["without", header] => {
            let mut reply = page(None, accepts_gzip);
            reply.headers.retain(|(name, _)| name != header);
            reply
        }
        ["status", code] => Reply::new(code.parse().unwrap_or(500), HTML, "<p>A status</p>"),
        ["redirect-to"] => {
            let place = Url::parse(&format!("http://x/?{query}")).ok();
            let value = |wanted: &str| {
                let place = place.as_ref()?;
                place.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value)
            };
            let status = value("status").and_then(|status| status.parse().ok());
            Reply::redirect(status.unwrap_or(302), &value("url").unwrap_or_default())
        }
        ["redirect", "0"] => Reply::redirect(302, "/"),
        ["redirect", left] => {
            let left: u32 = left.parse().unwrap_or(1);
            Reply::redirect(302, &format!("/redirect/{}", left - 1))
        }
        ["loop"] => Reply::redirect(307, "/loop"),
        ["sitemap.xml"] => Reply::new(200, "application/xml", include_str!("assets/sitemap.xml")),
        ["xxe.xml"] => Reply::new(200, "application/xml", include_str!("assets/xxe.xml")),
        ["frame"] => Reply::html("<!doctype html><title>A frame</title><p>Framed</p>"),
        ["bomb" | "flood" | "lie" | "encoded", what] => trick(words[0], what),
        other => file(other),
    }
}

fn page(defect: Option<&str>, accepts_gzip: bool) -> Reply {
    let Some(text) = defects::page(defect) else { return Reply::missing() };
    Reply::html(text)
        .careful()
        .with("set-cookie", "__Host-session=abc; Path=/; Secure; HttpOnly; SameSite=Strict")
        .compressed(accepts_gzip)
}

/// Reaches for an address that it must not reach.
fn inside(query: &str) -> Reply {
    let canary = query.strip_prefix("canary=").unwrap_or_default();
    let port = canary.rsplit(':').next().unwrap_or_default();
    let text = include_str!("assets/inside.html");
    Reply::html(text.replace("CANARY", canary).replace("PORT", port))
}

fn heavy(count: &str, prefix: &str) -> Reply {
    let count: usize = count.parse().unwrap_or(0).min(10_000);
    let image = |n| format!("<img src=\"{prefix}/img/dot.gif?{n}\" alt=\"\">\n");
    let images: String = (0..count).map(image).collect();
    Reply::html(format!("<!doctype html><title>Heavy</title>\n{images}"))
}

fn file(words: &[&str]) -> Reply {
    let (kind, body): (_, &'static [u8]) = match words {
        ["css", "site.css"] => ("text/css", include_bytes!("assets/site.css")),
        ["css", "print.css"] => ("text/css", b"body { color: black }"),
        ["css", "styled.css"] => ("text/css", include_bytes!("assets/styled.css")),
        ["css", "parts", "base.css"] => ("text/css", include_bytes!("assets/base.css")),
        ["fonts", _] => ("font/woff2", b"wOF2 and nothing that anybody draws"),
        ["js", "app.js"] => ("text/javascript", include_bytes!("assets/app.js")),
        ["js", "slow.js"] => ("text/javascript", b"// slow\n"),
        ["js", "error.js"] => ("text/javascript", include_bytes!("assets/error.js")),
        ["img", "hero.png"] => ("image/png", include_bytes!("assets/hero.png")),
        ["img", "hero.webp"] => ("image/webp", include_bytes!("assets/hero.webp")),
        ["img", "hero.avif"] => ("image/avif", include_bytes!("assets/hero.avif")),
        ["img", "photo.jpg"] => ("image/jpeg", include_bytes!("assets/photo.jpg")),
        ["img", "dot.gif"] => ("image/gif", include_bytes!("assets/dot.gif")),
        ["favicon.ico"] => ("image/x-icon", include_bytes!("assets/favicon.ico")),
        _ => return Reply::missing(),
    };
    Reply::new(200, kind, body).with("x-content-type-options", "nosniff").stored()
}

/// What no decent server does.
fn trick(kind: &str, what: &str) -> Reply {
    let endless = |piece: Bytes, every| Reply {
        sending: Sending::again(piece, u64::MAX, every),
        ..Reply::html("")
    };
    match (kind, what) {
        // A gigabyte or ten, once decoded. Files, because tests look at the memory of the process.
        ("bomb", "gzip") => {
            let member: &'static [u8] = include_bytes!("assets/blank.gz");
            let reply = Reply::html("").with("content-encoding", "gzip");
            Reply { sending: Sending::again(member, 1024, Duration::ZERO), ..reply }
        }
        ("bomb", "twice") => {
            let body: &'static [u8] = include_bytes!("assets/blank-twice.gz");
            Reply::html(body).with("content-encoding", "gzip, gzip")
        }
        ("bomb", "br") => {
            let body: &'static [u8] = include_bytes!("assets/bomb.br");
            Reply::html(body).with("content-encoding", "br")
        }
        ("bomb", "zstd") => Reply::html(zstd_bomb()).with("content-encoding", "zstd"),
        ("flood", "endless") => endless(vec![b'x'; 16 * 1024].into(), Duration::ZERO),
        ("flood", "slow") => endless("x".into(), Duration::from_secs(1)),
        ("flood", "headers") => {
            let mut reply = Reply::html("<p>Many headers</p>");
            let value = "v".repeat(1024);
            reply.headers.extend((0..1024).map(|_| ("x-flood", value.clone())));
            reply
        }
        ("flood", "stall") => Reply { sending: Sending::Never, ..Reply::html("") },
        ("flood", "deep") => Reply::html("<div>".repeat(500_000)),
        ("lie", "png-as-html") => Reply::html(&include_bytes!("assets/hero.png")[..]),
        ("lie", "html-as-png") => Reply::new(200, "image/png", include_str!("assets/clean.html")),
        ("lie", "charset") => {
            Reply::new(200, "text/html; charset=utf-16", &b"<p>\xff\xfe\xc3\x28</p>"[..])
        }
        ("lie", "broken") => {
            Reply::html("<<<p <a href=<img src=x>\0</title><![CDATA[<!--".repeat(50))
        }
        ("lie", "no-type") => {
            Reply { headers: Vec::new(), ..Reply::html("<!doctype html><title>Untyped</title>") }
        }
        ("lie", "not-gzip") => Reply::html("<p>plain</p>").with("content-encoding", "gzip"),
        ("encoded", "gzip") => Reply::html("<p>compressed</p>").compressed(true),
        _ => Reply::missing(),
    }
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(plain).and_then(|()| encoder.try_finish());
    written.map(|()| encoder.get_ref().clone()).unwrap_or_default()
}

/// One frame of blocks that each repeat one byte 128 KiB times.
fn zstd_bomb() -> Vec<u8> {
    const BLOCK_BYTES: u32 = 128 * 1024;
    const BLOCKS: u32 = 80 * 1024;
    // The magic number, no content size, a window of 128 KiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for block in 0..BLOCKS {
        let is_last = u32::from(block + 1 == BLOCKS);
        let header = (BLOCK_BYTES << 3) | (1 << 1) | is_last;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(b' ');
    }
    frame
}
