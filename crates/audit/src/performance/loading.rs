//! What stands between the request and the first paint.

use roundsman_core::audits::observed::{HttpVersion, ResourceKind};

use super::curve::Curve;
use super::estimate::answered;
use super::rule;
use crate::finding::Rule;
use crate::page::Page;
use crate::text::{bytes, count, millis};
use crate::verdict::{EvidenceKind, Finding, Impact};

const TTFB_MS_MAX: u128 = 600;
const ELEMENTS_MAX: usize = 1_400;
const DEPTH_MAX: u32 = 32;
/// Half of the phones that Lighthouse stands for take seconds to read more.
const SCRIPT_BYTES_MAX: u64 = 500 * 1024;

const TTFB: Rule = rule(
    "performance_server_response",
    "ttfb",
    [
        "The server answers quickly",
        "The server takes long to answer",
        "Nothing can be painted before the first byte is there.",
        "Cache whole pages or what they are made of, look for slow queries, and put the site closer to its visitors (CDN).",
    ],
);

const REDIRECTS: Rule = rule(
    "performance_redirects",
    "redirects",
    [
        "The page is reached without detours",
        "Redirects delay the page",
        "Each redirect is another way to the server and back, on a phone about 150 ms or more.",
        "Link to the final address everywhere, and join several redirects into one.",
    ],
);

const BLOCKING: Rule = rule(
    "performance_render_blocking",
    "render_blocking",
    [
        "Nothing blocks painting",
        "Scripts or styles block painting",
        "Browsers paint nothing until these are loaded.",
        "Load scripts with defer or async, inline the few styles that the first screen needs, and load the others later.",
    ],
);

const HTTP2: Rule = rule(
    "performance_http2",
    "http2",
    [
        "The server speaks HTTP/2",
        "The server does not speak HTTP/2",
        "HTTP/2 loads many files over one connection at the same time.",
        "Switch HTTP/2 on in the web server or the CDN; it needs https.",
    ],
);

const WEIGHT: Rule = rule(
    "performance_total_bytes",
    "total_bytes",
    [
        "The page is light",
        "The page is heavy",
        "Every byte takes time and, for many visitors, money.",
        "Look at the largest files first: smaller images, less script, fewer fonts.",
    ],
);

const SCRIPTS: Rule = rule(
    "performance_script_bytes",
    "javascript",
    [
        "The page has little script",
        "The page has much script",
        "Script is the most expensive kind of byte: it is loaded, read and run, and a phone does that slowly.",
        "Remove libraries that are hardly used, and load what is not needed at once only when it is.",
    ],
);

const DOM_SIZE: Rule = rule(
    "performance_dom_size",
    "dom_size",
    [
        "The page has a reasonable number of elements",
        "The page has very many elements",
        "Every change of style or layout has to look at all of them.",
        "Show long lists in parts, and remove wrappers that do nothing.",
    ],
);

const BROKEN: Rule = rule(
    "performance_broken_resources",
    "broken_resources",
    [
        "Everything that the page refers to is there",
        "Parts of the page could not be loaded",
        "What cannot be loaded costs time and leaves holes in the page.",
        "Correct the address or remove the reference.",
    ],
);

pub(super) fn check(page: &Page<'_>) -> Vec<Finding> {
    vec![
        ttfb(page),
        redirects(page),
        blocking(page),
        http2(page),
        weight(page),
        scripts(page),
        dom_size(page),
        broken(page),
    ]
}

fn ttfb(page: &Page<'_>) -> Finding {
    let waited = page.seen.page.timing.first_byte().as_millis();
    let said = millis(u64::try_from(waited).unwrap_or(u64::MAX));
    let finding = TTFB.passed_if(waited <= TTFB_MS_MAX);
    finding.saying(&format!("The first byte came after {said}.")).mattering(Impact::High)
}

fn redirects(page: &Page<'_>) -> Finding {
    let hops = &page.seen.hops;
    let finding = REDIRECTS.passed_if(hops.is_empty());
    let finding = hops.iter().fold(finding, |it, hop| {
        it.with_text(&format!(
            "{} {} → {}",
            hop.status,
            hop.url,
            hop.location.as_deref().unwrap_or("?")
        ))
    });
    finding.mattering(if hops.len() > 1 { Impact::Medium } else { Impact::Low })
}

fn blocking(page: &Page<'_>) -> Finding {
    let blocking: Vec<_> =
        page.seen.resources.iter().filter(|it| it.placement.is_blocking).collect();
    let finding = BLOCKING.passed_if(blocking.is_empty());
    let finding =
        finding.saying(&format!("{} before anything is painted.", count(blocking.len(), "file")));
    let impact = if blocking.len() > 3 { Impact::High } else { Impact::Medium };
    let finding = blocking.iter().fold(finding, |it, resource| {
        it.with(EvidenceKind::Url, &resource.url, Some(resource.placement.line))
    });
    finding.mattering(impact)
}

fn http2(page: &Page<'_>) -> Finding {
    let version = page.seen.page.http_version;
    HTTP2.passed_if(version >= HttpVersion::Http2).mattering(Impact::Medium)
}

fn weight(page: &Page<'_>) -> Finding {
    let mut all: Vec<(u64, &str)> =
        answered(page).map(|(it, answer)| (answer.transfer_bytes, it.url.as_str())).collect();
    all.push((page.seen.page.transfer_bytes, &page.seen.page.url));
    all.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let total: u64 = all.iter().map(|(bytes, _)| bytes).sum();
    #[expect(clippy::cast_precision_loss, reason = "sizes of pages are far below 2^52")]
    let score = Curve::total_bytes().score_percent(total as f64);
    let finding = WEIGHT.scored(score).saying(&format!(
        "{} in {}.",
        bytes(total),
        count(all.len(), "request")
    ));
    let heaviest = all.iter().take(5);
    let finding = heaviest.fold(finding, |it, (size, url)| {
        it.with(EvidenceKind::Url, &format!("{} {url}", bytes(*size)), None)
    });
    finding.mattering(Impact::High)
}

fn scripts(page: &Page<'_>) -> Finding {
    let scripts = answered(page).filter(|(it, _)| it.kind == ResourceKind::Script);
    let mut scripts: Vec<_> = scripts.map(|(it, answer)| (answer.decoded_bytes, &it.url)).collect();
    scripts.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let total: u64 = scripts.iter().map(|(bytes, _)| bytes).sum();
    let finding = SCRIPTS.passed_if(total <= SCRIPT_BYTES_MAX);
    let finding =
        finding.saying(&format!("{} of script in {}.", bytes(total), count(scripts.len(), "file")));
    let finding = scripts.iter().take(5).fold(finding, |it, (size, url)| {
        it.with(EvidenceKind::Url, &format!("{} {url}", bytes(*size)), None)
    });
    finding.mattering(Impact::Medium)
}

fn dom_size(page: &Page<'_>) -> Finding {
    let (elements, depth) = (page.dom.len(), page.dom.depth());
    let finding = DOM_SIZE.passed_if(elements <= ELEMENTS_MAX && depth <= DEPTH_MAX);
    finding.saying(&format!("{elements} elements, {depth} deep.")).mattering(Impact::Low)
}

fn broken(page: &Page<'_>) -> Finding {
    let broken: Vec<_> = answered(page).filter(|(_, it)| it.status >= 400).collect();
    let finding = BROKEN.passed_if(broken.is_empty());
    let finding = broken.iter().fold(finding, |it, (resource, answer)| {
        let text = format!("{} {}", answer.status, resource.url);
        it.with(EvidenceKind::Url, &text, Some(resource.placement.line))
    });
    finding.mattering(Impact::Medium)
}
