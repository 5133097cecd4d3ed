//! What a report tells beside the findings.

use std::time::Duration;

use roundsman_core::audits::observed::{
    BrowserSeen, HttpVersion, Resource, ResourceKind, Seen, Timing,
};

use crate::page::Page;
use crate::performance::{Estimate, whole_ms};
use crate::text::{count, ellipsis, squeezed};
use crate::verdict::{BrowserFacts, Facts, Missing, Redirect, RequestFact};

const REQUESTS_MAX: usize = 150;
const HEADERS_MAX: usize = 100;
const REDIRECTS_MAX: usize = 30;
const CONSOLE_ERRORS_MAX: usize = 20;
const TEXT_CHARS_MAX: usize = 500;
const URL_CHARS_MAX: usize = 2_000;

pub(crate) fn gather(page: &Page<'_>, estimate: &Estimate) -> Facts {
    let seen = page.seen;
    let tls = seen.page.tls.as_ref();
    let answers = || seen.resources.iter().filter_map(|it| it.answer.as_option());
    let fetched: u64 = answers().map(|it| it.transfer_bytes).sum();
    let requests = 1 + seen.hops.len() + answers().count();
    let title = page.dom.first("title").map(|it| squeezed(&it.raw_text()));
    Facts {
        status: seen.page.status,
        title: title.filter(|it| !it.is_empty()).map(|it| ellipsis(&it, TEXT_CHARS_MAX)),
        ttfb_ms: ms(seen.page.timing.first_byte()),
        fcp_est_ms: whole_ms(estimate.first_paint_ms),
        lcp_est_ms: whole_ms(estimate.largest_paint_ms),
        browser: seen.browser.as_option().map(browser),
        total_bytes: seen.page.transfer_bytes.saturating_add(fetched),
        request_count: u32::try_from(requests).unwrap_or(u32::MAX),
        http_version: version(seen.page.http_version).to_owned(),
        tls_version: tls.map(|it| it.version.clone()),
        cert_expires_at: tls.and_then(|it| it.valid_until),
        cert_issuer: tls.map(|it| ellipsis(&it.issuer, TEXT_CHARS_MAX)),
        redirects: redirects(page),
        headers: headers(page),
        requests: requests_of(page),
        requests_left_out: seen.resources_left_out,
        missing: missing(page),
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn version(version: HttpVersion) -> &'static str {
    match version {
        HttpVersion::Http10 => "HTTP/1.0",
        HttpVersion::Http11 => "HTTP/1.1",
        HttpVersion::Http2 => "HTTP/2",
    }
}

fn redirects(page: &Page<'_>) -> Vec<Redirect> {
    let hops = page.seen.hops.iter().take(REDIRECTS_MAX);
    let redirect = |hop: &roundsman_core::audits::observed::Hop| Redirect {
        from: ellipsis(&hop.url, URL_CHARS_MAX),
        to: hop.location.as_ref().map(|it| ellipsis(it, URL_CHARS_MAX)),
        status: hop.status,
        took_ms: ms(hop.timing.total()),
    };
    hops.map(redirect).collect()
}

/// A cookie's value is somebody's session: only its name and attributes are kept.
fn headers(page: &Page<'_>) -> Vec<(String, String)> {
    let kept = page.seen.page.headers.0.iter().take(HEADERS_MAX).map(|(name, value)| {
        let value = if name == "set-cookie" { without_value(value) } else { value.clone() };
        (ellipsis(name, TEXT_CHARS_MAX), ellipsis(&value, URL_CHARS_MAX))
    });
    kept.collect()
}

fn without_value(cookie: &str) -> String {
    let (pair, attributes) =
        cookie.split_once(';').map_or((cookie, ""), |(pair, rest)| (pair, rest));
    let name = pair.split('=').next().unwrap_or_default();
    if attributes.is_empty() { format!("{name}=…") } else { format!("{name}=…;{attributes}") }
}

fn requests_of(page: &Page<'_>) -> Vec<RequestFact> {
    let document = &page.seen.page;
    let first = request(&document.url, "document", &document.timing);
    let first = RequestFact {
        status: Some(document.status),
        transfer_bytes: document.transfer_bytes,
        ..first
    };
    let others = page.seen.resources.iter().map(resource);
    std::iter::once(first).chain(others).take(REQUESTS_MAX).collect()
}

fn resource(resource: &Resource) -> RequestFact {
    let is_blocking = resource.placement.is_blocking;
    let kind = kind(resource.kind);
    match &resource.answer {
        Seen::Seen(answer) => RequestFact {
            status: Some(answer.status),
            transfer_bytes: answer.transfer_bytes,
            is_blocking,
            ..request(&resource.url, kind, &answer.timing)
        },
        Seen::Missing(reason) => RequestFact {
            problem: Some(ellipsis(reason, TEXT_CHARS_MAX)),
            is_blocking,
            ..request(&resource.url, kind, &Timing::default())
        },
    }
}

fn request(url: &str, kind: &str, timing: &Timing) -> RequestFact {
    RequestFact {
        url: ellipsis(url, URL_CHARS_MAX),
        kind: kind.to_owned(),
        status: None,
        problem: None,
        transfer_bytes: 0,
        is_blocking: false,
        began_ms: ms(timing.began),
        dns_ms: ms(timing.dns),
        connect_ms: ms(timing.connect),
        tls_ms: ms(timing.tls),
        wait_ms: ms(timing.wait),
        download_ms: ms(timing.download),
    }
}

fn kind(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Stylesheet => "stylesheet",
        ResourceKind::Script => "script",
        ResourceKind::Image => "image",
        ResourceKind::Font => "font",
        ResourceKind::Icon => "icon",
        ResourceKind::Media => "media",
        ResourceKind::Frame => "frame",
        ResourceKind::Manifest => "manifest",
        ResourceKind::Preload => "preload",
    }
}

fn browser(seen: &BrowserSeen) -> BrowserFacts {
    BrowserFacts {
        name: ellipsis(&seen.browser, TEXT_CHARS_MAX),
        first_contentful_paint_ms: seen.first_contentful_paint.map(ms),
        largest_contentful_paint_ms: seen.largest_contentful_paint.map(ms),
        largest_element: seen.largest_element.as_ref().map(|it| ellipsis(it, TEXT_CHARS_MAX)),
        layout_shift: if seen.layout_shift.is_finite() { seen.layout_shift } else { 0.0 },
        blocking_time_ms: ms(seen.blocking_time),
        dom_content_loaded_ms: seen.dom_content_loaded.map(ms),
        load_ms: seen.load.map(ms),
        transfer_bytes: seen.transfer_bytes,
        requests: seen.requests,
        console_errors: seen
            .console_errors
            .iter()
            .take(CONSOLE_ERRORS_MAX)
            .map(|it| ellipsis(it, TEXT_CHARS_MAX))
            .collect(),
    }
}

/// What was not seen, so that a reader does not take silence for a good sign.
fn missing(page: &Page<'_>) -> Vec<Missing> {
    let seen = page.seen;
    let mut missing = Vec::new();
    let mut add = |what: &str, reason: &str| {
        missing.push(Missing { what: what.to_owned(), reason: ellipsis(reason, TEXT_CHARS_MAX) });
    };
    if let Seen::Missing(reason) = &seen.browser {
        add(
            "Measurements in a browser: paint times, layout shift, blocking time, console errors, screenshot",
            reason,
        );
    }
    if let Seen::Missing(reason) = &seen.robots {
        add("robots.txt", reason);
    }
    if let Seen::Missing(reason) = &seen.foreign_origin {
        add("How the page answers scripts of other sites (CORS)", reason);
    }
    if seen.resources_left_out > 0 {
        let left_out = usize::try_from(seen.resources_left_out).unwrap_or(usize::MAX);
        let what = format!("{} more that the page refers to", count(left_out, "file"));
        add(&what, "the budget of the audit was used up");
    }
    let failed = seen.resources.iter().filter(|it| it.answer.as_option().is_none()).count();
    if failed > 0 {
        add(
            &format!("{} that could not be fetched", count(failed, "file")),
            "see the list of requests",
        );
    }
    if !page.is_html {
        let kind = page.header("content-type").unwrap_or("unknown");
        add(
            "Everything that is read from a page",
            &format!("the answer is no HTML page but {kind}"),
        );
    }
    if !seen.page.is_whole || page.dom.is_cut {
        add("The end of the page", "it is larger or deeper than what is looked at");
    }
    missing
}
