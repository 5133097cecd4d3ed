//! What could be sent smaller, or not again.

use roundsman_core::audits::observed::{Headers, Resource, ResourceAnswer, ResourceKind};

use super::estimate::answered;
use super::rule;
use crate::css;
use crate::finding::Rule;
use crate::page::Page;
use crate::text::{bytes, count};
use crate::verdict::{EvidenceKind, Finding, Impact};

/// Less than one packet is saved by compressing less than this.
const SAVED_BYTES_MIN: u64 = 1_400;
/// What text usually shrinks to a third of.
const COMPRESSION_DIVISOR: u64 = 3;
const CACHE_SECS_MIN: u64 = 7 * 24 * 3600;
/// The share of spaces and line ends, in percent, that code written for people has.
const BLANK_PERCENT_MAX: usize = 18;
const CODE_BYTES_MIN: usize = 4 * 1024;

const COMPRESSION: Rule = rule(
    "performance_compression",
    "compression",
    [
        "Text is sent compressed",
        "Text is sent without compression",
        "Compressed text is a third of the size or less.",
        "Switch on brotli or gzip for HTML, CSS, JavaScript, SVG and JSON in the web server.",
    ],
);

const CACHING: Rule = rule(
    "performance_caching",
    "caching",
    [
        "Files may be kept for long",
        "Files are loaded anew at every visit",
        "What browsers may keep does not have to be loaded the second time.",
        "Send Cache-Control: public, max-age=31536000, immutable with files whose name changes with their content.",
    ],
);

const MINIFIED: Rule = rule(
    "performance_minified",
    "minified",
    [
        "Scripts and styles are minified",
        "Scripts or styles are not minified",
        "Comments and spaces are for people; visitors load them for nothing.",
        "Let the build minify JavaScript and CSS.",
    ],
);

const FONTS: Rule = rule(
    "performance_font_display",
    "font_display",
    [
        "Text is shown while fonts load",
        "Text stays invisible while fonts load",
        "Without font-display, browsers show nothing instead of text for up to three seconds.",
        "Add font-display: swap (or optional) to every @font-face.",
    ],
);

pub(super) fn check(page: &Page<'_>) -> Vec<Finding> {
    vec![compression(page), caching(page), minified(page), fonts(page)]
}

fn is_text(headers: &Headers, kind: Option<ResourceKind>) -> bool {
    let content_type = headers.first("content-type").unwrap_or_default().to_ascii_lowercase();
    let is_named =
        ["text/", "javascript", "json", "xml", "svg"].iter().any(|it| content_type.contains(it));
    is_named || matches!(kind, None | Some(ResourceKind::Script | ResourceKind::Stylesheet))
}

fn compression(page: &Page<'_>) -> Finding {
    let document = &page.seen.page;
    let size = u64::try_from(document.body.len()).unwrap_or(u64::MAX);
    let all = answered(page).map(|(it, answer)| {
        (it.url.as_str(), &answer.headers, answer.decoded_bytes, Some(it.kind))
    });
    let mut wasteful = Vec::new();
    let mut saved = 0;
    for (url, headers, size, kind) in
        all.chain([(document.url.as_str(), &document.headers, size, None)])
    {
        let saving = size - size / COMPRESSION_DIVISOR;
        if is_text(headers, kind)
            && headers.first("content-encoding").is_none()
            && saving >= SAVED_BYTES_MIN
        {
            saved += saving;
            wasteful.push((url, size));
        }
    }
    let finding = COMPRESSION.passed_if(wasteful.is_empty());
    let finding = if wasteful.is_empty() {
        finding
    } else {
        finding.saying(&format!("About {} could be saved.", bytes(saved)))
    };
    let finding = wasteful.iter().fold(finding, |it, (url, size)| {
        it.with(EvidenceKind::Url, &format!("{} {url}", bytes(*size)), None)
    });
    finding.mattering(if saved > 50 * 1024 { Impact::High } else { Impact::Medium })
}

/// For how long an answer may be kept. None if it must be asked for each time.
fn cache_secs(headers: &Headers) -> Option<u64> {
    let control = headers.all("cache-control").collect::<Vec<_>>().join(",").to_ascii_lowercase();
    let has = |word: &str| control.split(',').any(|it| it.trim() == word);
    if has("no-store") || has("no-cache") {
        return None;
    }
    if has("immutable") {
        return Some(CACHE_SECS_MIN);
    }
    let max_age =
        control.split(',').find_map(|it| it.trim().strip_prefix("max-age=")?.parse().ok());
    max_age.or_else(|| headers.first("expires").map(|_| CACHE_SECS_MIN))
}

fn caching(page: &Page<'_>) -> Finding {
    let is_static = |(it, answer): &(&Resource, &ResourceAnswer)| {
        answer.status == 200 && it.kind != ResourceKind::Frame
    };
    let files: Vec<_> = answered(page).filter(is_static).collect();
    if files.is_empty() {
        return CACHING.not_applicable();
    }
    let is_short =
        |answer: &ResourceAnswer| cache_secs(&answer.headers).is_none_or(|it| it < CACHE_SECS_MIN);
    let short: Vec<_> = files.iter().filter(|(_, answer)| is_short(answer)).collect();
    let finding = CACHING.passed_if(short.is_empty());
    let finding = finding.saying(&format!(
        "{} of {} may be kept for less than a week.",
        short.len(),
        count(files.len(), "file")
    ));
    let finding = short.iter().fold(finding, |it, (resource, answer)| {
        let said = answer.headers.first("cache-control").unwrap_or("no cache-control");
        it.with(EvidenceKind::Url, &format!("{} ({said})", resource.url), None)
    });
    finding.mattering(Impact::Medium)
}

fn minified(page: &Page<'_>) -> Finding {
    let code: Vec<_> = answered(page)
        .filter(|(it, _)| matches!(it.kind, ResourceKind::Script | ResourceKind::Stylesheet))
        .filter_map(|(it, answer)| Some((it, answer.body.as_deref()?)))
        .filter(|(_, body)| body.len() >= CODE_BYTES_MIN)
        .collect();
    if code.is_empty() {
        return MINIFIED.not_applicable();
    }
    let is_blank = |byte: &&u8| byte.is_ascii_whitespace();
    let loose: Vec<_> = code
        .iter()
        .filter(|(_, body)| {
            body.iter().filter(is_blank).count() * 100 > BLANK_PERCENT_MAX * body.len()
        })
        .collect();
    let finding = MINIFIED.passed_if(loose.is_empty());
    let finding = loose.iter().fold(finding, |it, (resource, _)| it.with_url(&resource.url));
    finding.mattering(Impact::Low)
}

fn fonts(page: &Page<'_>) -> Finding {
    let sheets = css::sheets(page);
    let faces: Vec<_> = sheets
        .iter()
        .flat_map(|sheet| css::blocks(&sheet.text, "@font-face").map(move |it| (sheet, it)))
        .collect();
    if faces.is_empty() {
        return FONTS.not_applicable();
    }
    let silent: Vec<_> = faces.iter().filter(|(_, face)| !face.contains("font-display")).collect();
    let finding = FONTS.passed_if(silent.is_empty());
    let finding = silent.iter().fold(finding, |it, (sheet, face)| {
        let family = css::declaration(face, "font-family").unwrap_or("a font");
        it.with(EvidenceKind::Text, &format!("{family} in {}", sheet.name), sheet.line)
    });
    finding.mattering(Impact::Low)
}
