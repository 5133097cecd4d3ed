//! Whether search engines may look at the page.

use roundsman_core::Timestamp;
use roundsman_core::audits::observed::Seen;
use roundsman_core::audits::robots::Robots;
use url::Url;

use super::rule;
use crate::finding::Rule;
use crate::page::Page;
use crate::text::decode;
use crate::verdict::{EvidenceKind, Finding};

/// So that it is 31 % of the category by itself.
const CRAWLABLE_WEIGHT: f64 = 93.0 / 23.0;
const ROBOTS_LINES_MAX: usize = 10_000;

const CRAWLABLE: Rule = rule(
    "search_is_crawlable",
    "is_crawlable",
    CRAWLABLE_WEIGHT,
    [
        "Search engines may list the page",
        "Search engines are told not to list the page",
        "A page that may not be crawled or listed is not found.",
        "Remove noindex from the page and the X-Robots-Tag header, and do not disallow the page in robots.txt, unless that is what you want.",
    ],
);

const ROBOTS: Rule = rule(
    "search_robots_txt",
    "robots_txt",
    1.0,
    [
        "robots.txt can be read",
        "robots.txt cannot be read",
        "A line that crawlers do not understand is passed over, and may be the one that mattered.",
        "Correct the lines named below; an empty robots.txt is fine, too.",
    ],
);

/// Names that speak to all crawlers or to the big ones.
const ROBOT_METAS: [&str; 5] = ["robots", "googlebot", "bingbot", "duckduckbot", "archive.org_bot"];
const CRAWLERS: [&str; 4] = ["googlebot", "bingbot", "duckduckbot", "archive.org_bot"];
const DIRECTIVES: [&str; 11] = [
    "user-agent",
    "disallow",
    "allow",
    "sitemap",
    "crawl-delay",
    "clean-param",
    "host",
    "request-rate",
    "visit-time",
    "noindex",
    "content-signal",
];

pub(super) fn is_crawlable(page: &Page<'_>) -> Finding {
    let now = page.seen.began_at;
    let metas: Vec<_> = ROBOT_METAS
        .iter()
        .flat_map(|name| page.metas(name))
        .filter(|it| it.filled("content").is_some_and(|content| forbids(content, now)))
        .collect();
    let headers: Vec<&str> =
        page.seen.page.headers.all("x-robots-tag").filter(|it| forbids_header(it, now)).collect();
    let robots = page.seen.robots.as_option().filter(|it| it.status == 200);
    let blocked = robots.is_some_and(|robots| {
        let rules = Robots::parse(&robots.body);
        let path = &page.url[url::Position::BeforePath..url::Position::AfterQuery];
        !CRAWLERS.iter().any(|crawler| rules.allows(crawler, path))
    });
    let is_good = metas.is_empty() && headers.is_empty() && !blocked;
    let finding = CRAWLABLE.passed_if(is_good).seen_at(&metas);
    let finding = headers.iter().fold(finding, |it, value| it.with_header("x-robots-tag", value));
    if blocked {
        finding.with_text("robots.txt disallows this page for all big search engines")
    } else {
        finding
    }
}

/// `noindex`, `none`, or a time after which the page is not to be shown.
fn forbids(content: &str, now: Timestamp) -> bool {
    let content = content.to_ascii_lowercase();
    let is_past = |it: &str| {
        let date = it.trim().strip_prefix("unavailable_after:")?.trim();
        Timestamp::parse_rfc3339(&date.to_ascii_uppercase()).ok().map(|at| at < now)
    };
    content
        .split(',')
        .any(|it| matches!(it.trim(), "noindex" | "none") || is_past(it).unwrap_or(false))
}

/// A header may begin with the name of the crawler that it is for; one for another is not for all.
fn forbids_header(value: &str, now: Timestamp) -> bool {
    match value.split_once(':') {
        Some((name, rest)) if !name.trim().eq_ignore_ascii_case("unavailable_after") => {
            let name = name.trim().to_ascii_lowercase();
            CRAWLERS.contains(&name.as_str()) && forbids(rest, now)
        }
        _ => forbids(value, now),
    }
}

fn lines(robots: &str) -> impl Iterator<Item = (usize, &str)> {
    let clean = |line: &'_ str| -> usize { line.find('#').unwrap_or(line.len()) };
    let lines = robots.trim_start_matches('\u{feff}').lines().take(ROBOTS_LINES_MAX).zip(1..);
    lines
        .map(move |(line, number)| (number, line[..clean(line)].trim()))
        .filter(|(_, it)| !it.is_empty())
}

pub(super) fn robots(page: &Page<'_>) -> Finding {
    let robots = match &page.seen.robots {
        Seen::Seen(robots) => robots,
        Seen::Missing(reason) => {
            return ROBOTS.not_measured(&format!("robots.txt could not be fetched: {reason}."));
        }
    };
    match robots.status {
        500.. => {
            return ROBOTS
                .failed()
                .with_text(&format!("robots.txt was answered with {}", robots.status));
        }
        400..500 => return ROBOTS.not_applicable(),
        _ => {}
    }
    let text = decode(&robots.body, None);
    let faults: Vec<_> = faults(&text);
    faults.iter().fold(ROBOTS.passed_if(faults.is_empty()), |it, (number, line, why)| {
        it.with(EvidenceKind::Text, &format!("{line} ({why})"), Some(*number))
    })
}

fn faults(robots: &str) -> Vec<(u32, &str, &'static str)> {
    let mut has_agent = false;
    let mut faults = Vec::new();
    for (number, line) in lines(robots) {
        let fault = match line.split_once(':') {
            None => Some("no directive"),
            Some((name, value)) => {
                let name = name.trim().to_ascii_lowercase();
                has_agent |= name == "user-agent";
                directive_fault(&name, value.trim(), has_agent)
            }
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        faults.extend(fault.map(|fault| (number, line, fault)));
    }
    faults
}

fn directive_fault(name: &str, value: &str, has_agent: bool) -> Option<&'static str> {
    if !DIRECTIVES.contains(&name) {
        return Some("unknown directive");
    }
    match name {
        "user-agent" if value.is_empty() => Some("no crawler is named"),
        "allow" | "disallow" if !has_agent => Some("no user-agent before it"),
        "allow" | "disallow" => {
            let is_path = value.is_empty() || value.starts_with('/') || value.starts_with('*');
            let is_ended = value.find('$').is_none_or(|at| at + 1 == value.len());
            match (is_path, is_ended) {
                (false, _) => Some("must begin with / or *"),
                (_, false) => Some("$ may only be last"),
                _ => None,
            }
        }
        "sitemap" => {
            let url = Url::parse(value).ok();
            let is_good = url.is_some_and(|it| matches!(it.scheme(), "http" | "https" | "ftp"));
            (!is_good).then_some("not a whole address")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_robots_are_found_with_their_line() {
        let text = "# fine\nUser-agent: *\nDisallow: /a # note\nDisalow: /b\nDisallow: c\nDisallow: /$x\nSitemap: /s.xml\nnonsense\n";
        let lines: Vec<u32> = faults(text).iter().map(|(number, ..)| *number).collect();
        assert_eq!(lines, [4, 5, 6, 7, 8]);
        assert_eq!(faults("Disallow: /").len(), 1);
        assert!(faults("").is_empty());
    }
}
