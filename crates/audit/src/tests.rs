//! Pages for the tests: a sound one, and changes to it.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::audits::observed::{
    Fetched, Headers, Hop, HttpVersion, Observed, Placement, Resource, ResourceAnswer,
    ResourceKind, Seen, Timing, TlsSeen,
};

use crate::verdict::{Finding, Outcome, Verdict};
use crate::{JudgeOptions, judge};

pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_769_860_800_000_000);

/// A page that passes everything that applies to it.
pub(crate) const SOUND: &str = r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Bright Bikes: repair and rental in Ghent</title>
<meta name="description" content="We repair and rent bicycles in the centre of Ghent, also at the weekend.">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="canonical" href="https://bright.example/">
</head>
<body>
<a href="#content">Skip to the content</a>
<header><img src="/logo.svg" alt="Bright Bikes" width="120" height="40"></header>
<main id="content">
<h1>Bicycles that run</h1>
<p>Repair within a day.</p>
<h2>Write to us</h2>
<form action="/contact" method="post">
<label for="mail">Your address</label> <input id="mail" name="email" type="email">
<label>Message <textarea name="text"></textarea></label>
<button type="submit">Get started</button>
</form>
<a href="mailto:hello@bright.example">hello@bright.example</a>
</main>
<footer>
<a href="https://www.facebook.com/bright">Bright Bikes at Facebook</a>
<a href="https://www.instagram.com/bright">Bright Bikes at Instagram</a>
<a href="https://maps.google.com/?cid=1">Directions to the workshop</a>
</footer>
</body>
</html>
"##;

pub(crate) fn timing(began_ms: u64, wait_ms: u64) -> Timing {
    Timing {
        began: Duration::from_millis(began_ms),
        dns: Duration::from_millis(4),
        connect: Duration::from_millis(10),
        tls: Duration::from_millis(12),
        wait: Duration::from_millis(wait_ms),
        download: Duration::from_millis(8),
    }
}

pub(crate) fn headers(pairs: &[(&str, &str)]) -> Headers {
    Headers(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

pub(crate) fn fetched(url: &str, status: u16, all: &[(&str, &str)], body: &str) -> Fetched {
    Fetched {
        url: url.to_owned(),
        status,
        headers: headers(all),
        body: body.as_bytes().to_vec(),
        is_whole: true,
        transfer_bytes: u64::try_from(body.len() / 3).unwrap(),
        http_version: HttpVersion::Http2,
        tls: url.starts_with("https").then(tls),
        timing: timing(0, 80),
    }
}

pub(crate) fn tls() -> TlsSeen {
    TlsSeen {
        version: "1.3".to_owned(),
        cipher: "TLS13_AES_256_GCM_SHA384".to_owned(),
        valid_from: Some(NOW - Duration::from_secs(30 * 86_400)),
        valid_until: Some(NOW + Duration::from_secs(60 * 86_400)),
        issuer: "CN=R11,O=Let's Encrypt,C=US".to_owned(),
        names: vec!["bright.example".to_owned()],
        problem: None,
    }
}

pub(crate) const SOUND_HEADERS: [(&str, &str); 9] = [
    ("content-type", "text/html; charset=utf-8"),
    ("content-encoding", "br"),
    ("strict-transport-security", "max-age=31536000; includeSubDomains"),
    (
        "content-security-policy",
        "default-src 'none'; img-src 'self'; form-action 'self'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-embedder-policy", "require-corp"),
    ("cross-origin-opener-policy", "same-origin"),
];

pub(crate) fn hop(url: &str, location: Option<&str>) -> Hop {
    Hop {
        url: url.to_owned(),
        status: if location.is_some() { 301 } else { 200 },
        location: location.map(str::to_owned),
        headers: Headers::default(),
        timing: timing(0, 20),
    }
}

/// The page with this source, otherwise sound.
pub(crate) fn seen(html: &str) -> Observed {
    let url = "https://bright.example/";
    Observed {
        asked_url: url.to_owned(),
        began_at: NOW,
        took: Duration::from_millis(900),
        hops: Vec::new(),
        page: fetched(url, 200, &SOUND_HEADERS, html),
        plain_http: Seen::Seen(vec![hop("http://bright.example/", Some(url)), hop(url, None)]),
        foreign_origin: Seen::Seen(Headers::default()),
        robots: Seen::Seen(fetched(
            "https://bright.example/robots.txt",
            200,
            &[("content-type", "text/plain")],
            "User-agent: *\nDisallow: /private\nSitemap: https://bright.example/sitemap.xml\n",
        )),
        sitemaps: vec![Seen::Seen(fetched(
            "https://bright.example/sitemap.xml",
            200,
            &[("content-type", "application/xml")],
            "<urlset></urlset>",
        ))],
        resources: vec![resource("https://bright.example/logo.svg", ResourceKind::Image, 1_800)],
        resources_left_out: 0,
        browser: Seen::Missing("no browser was asked for".to_owned()),
    }
}

pub(crate) fn resource(url: &str, kind: ResourceKind, bytes: u64) -> Resource {
    let content_type = match kind {
        ResourceKind::Script => "text/javascript",
        ResourceKind::Stylesheet => "text/css",
        _ => "image/svg+xml",
    };
    Resource {
        url: url.to_owned(),
        kind,
        placement: Placement { line: 12, in_head: false, is_blocking: false },
        answer: Seen::Seen(ResourceAnswer {
            status: 200,
            final_url: url.to_owned(),
            headers: headers(&[
                ("content-type", content_type),
                ("content-encoding", "br"),
                ("cache-control", "public, max-age=31536000, immutable"),
            ]),
            transfer_bytes: bytes,
            decoded_bytes: bytes,
            http_version: HttpVersion::Http2,
            timing: timing(120, 30),
            body: None,
            image: None,
        }),
    }
}

/// The sound page with one text of it replaced, which must be there.
pub(crate) fn changed(from: &str, to: &str) -> Observed {
    assert!(SOUND.contains(from), "{from} is not in the page");
    seen(&SOUND.replace(from, to))
}

/// The sound page with something more at the beginning of its content.
pub(crate) fn with(more: &str) -> Observed {
    changed("<p>Repair", &format!("{more}\n<p>Repair"))
}

pub(crate) fn verdict(seen: &Observed) -> Verdict {
    judge(seen, &JudgeOptions::default())
}

pub(crate) fn finding<'a>(verdict: &'a Verdict, key: &str) -> &'a Finding {
    verdict.checks.iter().find(|it| it.key == key).unwrap_or_else(|| panic!("no check {key}"))
}

pub(crate) fn outcome(seen: &Observed, key: &str) -> Outcome {
    finding(&verdict(seen), key).outcome
}

mod each_check;
mod original_defects;
mod reports;
mod whole;
