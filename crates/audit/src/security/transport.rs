//! The connection itself: whether http leads to https, whether browsers insist on it, and what the
//! certificate says.

use std::time::Duration;

use roundsman_core::audits::observed::{Hop, Seen};
use url::Url;

use super::{Result, graded, rule};
use crate::finding::Rule;
use crate::hosts::{host_of, is_hsts_preloaded};
use crate::page::Page;
use crate::verdict::{Finding, Impact};

/// The Observatory says six months, which are 15768000 s, and lets 180 days pass as well.
const HSTS_SECS_MIN: u64 = 15_552_000;
const CERTIFICATE_SOON: Duration = Duration::from_secs(21 * 24 * 3600);

const HSTS: Rule = rule(
    "security_hsts",
    "hsts",
    [
        "Browsers insist on https",
        "Browsers do not insist on https",
        "Strict-Transport-Security makes browsers refuse plain http, which the first request of a visitor would otherwise use.",
        "Send Strict-Transport-Security: max-age=31536000; includeSubDomains with every answer over https. Begin with a short time and raise it.",
    ],
);

const REDIRECTION: Rule = rule(
    "security_redirection",
    "http_redirect",
    [
        "Plain http leads to https",
        "Plain http does not lead straight to https",
        "A visitor who types the address comes over plain http first, where everybody on the way can change what is answered.",
        "Answer every request on port 80 with a permanent redirect to the same host over https, and only then to anywhere else.",
    ],
);

const TLS_VERSION: Rule = rule(
    "security_tls_version",
    "tls_version",
    [
        "The connection uses a current version of TLS",
        "The connection uses an old version of TLS",
        "Old versions have known weaknesses, and 1.3 also connects faster.",
        "Allow TLS 1.3 and 1.2 on the server and nothing older.",
    ],
);

const CERTIFICATE: Rule = rule(
    "security_certificate",
    "certificate",
    [
        "The certificate is valid",
        "The certificate is not valid or ends soon",
        "When the certificate ends, browsers show visitors a warning instead of the page.",
        "Renew the certificate and let that happen by itself (ACME), well before its end.",
    ],
);

const MIXED: Rule = rule(
    "security_mixed_content",
    "mixed_content",
    [
        "Nothing on the page comes over plain http",
        "Parts of the page come over plain http",
        "Browsers block scripts that come over plain http in a page that does not, and warn of images.",
        "Refer to everything with https://. Content-Security-Policy: upgrade-insecure-requests helps until all is changed.",
    ],
);

/// What the page says of insisting on https.
pub(super) enum Hsts {
    Preloaded,
    MaxAge(u64),
    Invalid,
    Missing,
    NoHttps,
    BadCertificate,
}

impl Hsts {
    pub(super) fn read(page: &Page<'_>) -> Self {
        if !page.is_https() {
            return Hsts::NoHttps;
        }
        if host_of(&page.url).is_some_and(|host| is_hsts_preloaded(&host)) {
            return Hsts::Preloaded;
        }
        if page.seen.page.tls.as_ref().is_some_and(|tls| tls.problem.is_some()) {
            return Hsts::BadCertificate;
        }
        page.header("strict-transport-security").map_or(Hsts::Missing, Hsts::parse)
    }

    fn parse(header: &str) -> Self {
        if header.contains(',') {
            return Hsts::Invalid;
        }
        let max_age = header.split(';').find_map(|part| {
            let (name, value) = part.trim().split_once('=')?;
            let value = value.trim().trim_matches('"');
            name.trim().eq_ignore_ascii_case("max-age").then(|| value.parse().ok())?
        });
        max_age.map_or(Hsts::Invalid, Hsts::MaxAge)
    }

    pub(super) fn is_good(&self) -> bool {
        self.result().modifier >= 0
    }

    fn result(&self) -> Result {
        match self {
            Hsts::Preloaded => {
                Result::new(5, "Browsers know beforehand that the site is https only.")
            }
            Hsts::MaxAge(secs) if *secs >= HSTS_SECS_MIN => {
                Result::new(0, "Browsers insist on https for six months or more.")
            }
            Hsts::MaxAge(_) => {
                Result::new(-10, "Browsers insist on https for less than six months.")
            }
            Hsts::Invalid => Result::new(-20, "The header cannot be read."),
            Hsts::Missing => Result::new(-20, "The header is not set."),
            Hsts::NoHttps => Result::new(-20, "The site is not served over https."),
            Hsts::BadCertificate => Result::new(
                -20,
                "The certificate is not trusted, so browsers pass over the header.",
            ),
        }
    }
}

pub(super) fn hsts(hsts: &Hsts, page: &Page<'_>) -> Finding {
    let value = page.header("strict-transport-security");
    super::headers::with_value(graded(&HSTS, &hsts.result()), "strict-transport-security", value)
}

pub(super) fn redirection(page: &Page<'_>) -> Finding {
    let has_bad_certificate = page.seen.page.tls.as_ref().is_some_and(|it| it.problem.is_some());
    match &page.seen.plain_http {
        Seen::Missing(reason) => {
            let finding = graded(&REDIRECTION, &Result::new(0, "Nothing answers over plain http."));
            finding.with_text(reason)
        }
        Seen::Seen(hops) => {
            let finding = graded(&REDIRECTION, &redirection_result(hops, has_bad_certificate));
            hops.iter().fold(finding, |it, hop| {
                let to = hop.location.as_deref().unwrap_or("here");
                it.with_text(&format!("{} {} → {to}", hop.status, hop.url))
            })
        }
    }
}

fn redirection_result(hops: &[Hop], has_bad_certificate: bool) -> Result {
    let ends = hops.last().and_then(|hop| hop.location.as_deref());
    let route: Vec<Url> = hops
        .iter()
        .map(|hop| hop.url.as_str())
        .chain(ends)
        .filter_map(|it| Url::parse(it).ok())
        .collect();
    let host = |at: usize| route.get(at).and_then(host_of);
    let scheme = |at: usize| route.get(at).map(Url::scheme);
    if route.is_empty() {
        return Result::new(0, "Nothing answers over plain http.");
    }
    if (0..route.len()).all(|at| host(at).is_some_and(|host| is_hsts_preloaded(&host))) {
        return Result::new(
            0,
            "Browsers know beforehand that all hosts on the way are https only.",
        );
    }
    if route.len() == 1 {
        return Result::new(-20, "Plain http is answered without leading to https.");
    }
    if scheme(route.len() - 1) != Some("https") {
        return Result::new(-20, "Plain http leads elsewhere, but not to https.");
    }
    if has_bad_certificate {
        return Result::new(
            -20,
            "Plain http leads to https with a certificate that is not trusted.",
        );
    }
    if scheme(1) == Some("http") {
        return Result::new(
            -10,
            "Plain http leads to https only after another step over plain http.",
        );
    }
    if host(0) != host(1) {
        return Result::new(
            -5,
            "Plain http leads to https on another host, so the first host is never protected.",
        );
    }
    Result::new(0, "Plain http leads to https on the same host.")
}

/// What the Observatory does not grade.
pub(super) fn informative(page: &Page<'_>) -> Vec<Finding> {
    vec![tls_version(page), certificate(page), mixed_content(page)]
}

fn tls_version(page: &Page<'_>) -> Finding {
    let Some(tls) = &page.seen.page.tls else { return TLS_VERSION.not_applicable() };
    let is_current = matches!(tls.version.as_str(), "1.2" | "1.3");
    let said = format!("TLS {} with {}", tls.version, tls.cipher);
    TLS_VERSION.passed_if(is_current).with_text(&said).mattering(Impact::High)
}

fn certificate(page: &Page<'_>) -> Finding {
    let Some(tls) = &page.seen.page.tls else { return CERTIFICATE.not_applicable() };
    let now = page.seen.began_at;
    let (impact, says) = match (&tls.problem, tls.valid_until) {
        (Some(problem), _) => (Impact::High, format!("The certificate is not trusted: {problem}.")),
        (None, Some(until)) if until <= now => {
            (Impact::High, "The certificate has ended.".to_owned())
        }
        (None, Some(until)) if until.since(now) < CERTIFICATE_SOON => {
            let days = until.since(now).as_secs() / (24 * 3600);
            (Impact::Medium, format!("The certificate ends in {days} days."))
        }
        (None, Some(until)) => {
            let days = until.since(now).as_secs() / (24 * 3600);
            (Impact::None, format!("The certificate is valid for another {days} days."))
        }
        (None, None) => return CERTIFICATE.not_measured("The certificate's dates are not known."),
    };
    let finding = CERTIFICATE.passed_if(impact == Impact::None).saying(&says).mattering(impact);
    let until = tls.valid_until.map(|it| {
        let date = it.to_string();
        format!("valid until {}", date.get(..10).unwrap_or(&date))
    });
    let finding = finding.with_text(&format!("issued by {}", tls.issuer));
    until.iter().fold(finding, |it, until| it.with_text(until))
}

/// What a page over https refers to over plain http.
fn mixed_content(page: &Page<'_>) -> Finding {
    if !page.is_https() {
        return MIXED.not_applicable();
    }
    let mixed: Vec<_> = page.dom.elements().filter(|it| loads_insecurely(page, *it)).collect();
    MIXED.passed_if(mixed.is_empty()).seen_at(&mixed).mattering(Impact::High)
}

/// Whether the element loads something over plain http. A link that is only followed does not.
pub(crate) fn loads_insecurely(page: &Page<'_>, element: crate::dom::Element<'_>) -> bool {
    let name = match element.name() {
        "img" | "script" | "iframe" | "audio" | "video" | "source" | "embed" | "track"
        | "input" => "src",
        "object" => "data",
        "link" => "href",
        "form" => "action",
        _ => return false,
    };
    let loads = ["stylesheet", "icon", "preload", "manifest", "modulepreload", "apple-touch-icon"];
    if element.is("link") && !loads.iter().any(|rel| element.has_word("rel", rel)) {
        return false;
    }
    let url = element.filled(name).and_then(|it| page.resolve(it));
    url.is_some_and(|url| url.scheme() == "http")
}

#[cfg(test)]
mod tests {
    use roundsman_core::audits::observed::{Headers, Timing};

    use super::*;

    #[test]
    fn hsts_has_the_published_modifiers() {
        for (header, expected) in [
            ("max-age=15768000", 0),
            ("max-age=31536000; includeSubDomains; preload", 0),
            ("Max-Age=\"31536000\"", 0),
            ("max-age=15551999", -10),
            ("max-age=0", -10),
            ("includeSubDomains", -20),
            ("max-age=forever", -20),
            ("max-age=31536000, max-age=31536000", -20),
        ] {
            assert_eq!(Hsts::parse(header).result().modifier, expected, "{header}");
        }
        for (hsts, expected) in [
            (Hsts::Preloaded, 5),
            (Hsts::Missing, -20),
            (Hsts::NoHttps, -20),
            (Hsts::BadCertificate, -20),
        ] {
            assert_eq!(hsts.result().modifier, expected);
        }
    }

    #[test]
    fn redirection_has_the_published_modifiers() {
        let route = |urls: &[&str]| -> Vec<Hop> {
            let next = urls.iter().skip(1).map(|it| Some((*it).to_owned())).chain([None]);
            let hop = |(url, location): (&&str, Option<String>)| Hop {
                url: (*url).to_owned(),
                status: if location.is_some() { 301 } else { 200 },
                location,
                headers: Headers::default(),
                timing: Timing::default(),
            };
            urls.iter().zip(next).map(hop).collect()
        };
        for (urls, is_bad, expected) in [
            (&["http://a.test/", "https://a.test/"][..], false, 0),
            (&["http://a.dev/"], false, 0),
            (&["http://a.test/"], false, -20),
            (&["http://a.test/", "http://b.test/"], false, -20),
            (&["http://a.test/", "https://www.a.test/"], false, -5),
            (&["http://a.test/", "http://www.a.test/", "https://www.a.test/"], false, -10),
            (&["http://a.test/", "https://a.test/"], true, -20),
        ] {
            assert_eq!(redirection_result(&route(urls), is_bad).modifier, expected, "{urls:?}");
        }
    }
}
