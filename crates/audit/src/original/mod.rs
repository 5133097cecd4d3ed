//! The fourteen checks and five categories of the original system, by its keys, rules and formulas,
//! without the false positives it had.

mod branding;
mod conversion;
mod presence;
mod seo;

use std::collections::BTreeMap;

use roundsman_core::audits::observed::Seen;
use serde_json::{Value, json};

use crate::finding::{Rule, rounded};
use crate::page::Page;
use crate::text::millis;
use crate::verdict::{Category, Device, Finding, OriginalCheck, Outcome};

/// What the fourteen say, and what is stored of them.
pub(crate) struct Original {
    pub(crate) findings: Vec<Finding>,
    pub(crate) checks: BTreeMap<String, OriginalCheck>,
}

/// One of the fourteen: what is stored and what is told.
struct Checked {
    finding: Finding,
    value: Value,
}

impl Checked {
    fn new(finding: Finding, value: Value) -> Self {
        Checked { finding, value }
    }
}

const PAGE_SPEED: Rule = Rule {
    key: "performance_page_speed_mobile",
    category: Category::Performance,
    topic: "page_speed",
    weight: 70.0,
    good: "The page is fast",
    bad: "The page is slow",
    why: "Visitors leave pages that keep them waiting, and search engines rank them lower.",
    fix: "Mend the findings about speed below, beginning with what blocks painting and what is heaviest.",
};

const HTTPS: Rule = Rule {
    key: "performance_https_security",
    category: Category::Performance,
    topic: "https",
    weight: 30.0,
    good: "The page is served over https",
    bad: "The page is not served over https",
    why: "Without encryption everybody on the way can read and change the page, and browsers call it not secure.",
    fix: "Get a certificate (Let's Encrypt gives them free of charge), serve the site over https and redirect plain http to it.",
};

/// The measured speed is passed in: it is the same score that the details below it explain.
pub(crate) fn check(page: &Page<'_>, speed: &Speed, details: &[Finding]) -> Original {
    let all = [
        page_speed(speed, details),
        https(page),
        seo::title(page),
        seo::description(page),
        seo::heading(page),
        seo::alt_text(page),
        seo::sitemap(page),
        conversion::buttons(page),
        conversion::form(page),
        conversion::contact(page),
        branding::logo(page),
        branding::domain(page),
        presence::social(page),
        presence::google(page),
    ];
    let mut original = Original { findings: Vec::new(), checks: BTreeMap::new() };
    for Checked { finding, value } in all {
        let stored = OriginalCheck {
            passed: finding.outcome == Outcome::Passed,
            score: finding.score.unwrap_or(0),
            value,
        };
        original.checks.insert(finding.key.clone(), stored);
        original.findings.push(finding);
    }
    original
}

/// What the speed score was made of.
pub(crate) struct Speed {
    pub(crate) score: u8,
    pub(crate) lcp_ms: u64,
    pub(crate) is_measured: bool,
    pub(crate) device: Device,
}

/// The original passes from 80 on.
const SPEED_PASSES: u8 = 80;

fn page_speed(speed: &Speed, details: &[Finding]) -> Checked {
    let how = match (speed.is_measured, speed.device) {
        (true, _) => "measured in a browser on the auditing machine",
        (false, Device::Mobile) => "estimated from what was fetched, for a phone on slow 4G",
        (false, Device::Desktop) => "estimated from what was fetched, for a desktop computer",
    };
    let finding =
        if speed.score >= SPEED_PASSES { PAGE_SPEED.passed() } else { PAGE_SPEED.failed() };
    let finding = Finding { score: Some(speed.score), ..finding }.saying(&format!(
        "The speed score is {} of 100; the largest part of the page is painted after about {} ({how}).",
        speed.score,
        millis(speed.lcp_ms)
    ));
    Checked::new(mended_by_details(finding, details), json!(speed.score))
}

/// Names what makes the page slow, worst first, instead of leaving that to the reader.
fn mended_by_details(finding: Finding, details: &[Finding]) -> Finding {
    const NAMED_MAX: usize = 4;
    let is_cause = |it: &&Finding| it.outcome == Outcome::Failed && !it.topic.ends_with("_paint");
    let mut causes: Vec<&Finding> = details.iter().filter(is_cause).collect();
    causes.sort_by_key(|it| std::cmp::Reverse(it.impact));
    if finding.outcome != Outcome::Failed || causes.is_empty() {
        return finding;
    }
    let names: Vec<&str> = causes.iter().take(NAMED_MAX).map(|it| it.title.as_str()).collect();
    let how_to_fix = format!("Begin with what makes it slow: {}.", names.join("; "));
    Finding { how_to_fix, ..finding }
}

/// The page was fetched under time limits, so that it came at all is the proof.
fn https(page: &Page<'_>) -> Checked {
    let problem = page.seen.page.tls.as_ref().and_then(|tls| tls.problem.as_deref());
    let finding = match (page.is_https(), problem) {
        (true, None) => HTTPS.passed(),
        (true, Some(problem)) => HTTPS
            .failed()
            .titled("The certificate is not trusted")
            .saying(&format!("Browsers warn of the certificate: {problem}.")),
        (false, _) => HTTPS.failed().with_url(page.url.as_str()),
    };
    Checked::new(finding, Value::Null)
}

/// The original's category formulas. Scores of absent checks are zero.
pub(crate) fn category_score(checks: &BTreeMap<String, OriginalCheck>, category: Category) -> u8 {
    let score = |key: &str| checks.get(key).map_or(0.0, |check| f64::from(check.score));
    let mean = |keys: &[&str]| {
        let count = f64::from(u32::try_from(keys.len()).unwrap_or(1));
        keys.iter().map(|key| score(key)).sum::<f64>() / count
    };
    rounded(match category {
        Category::Performance => 0.7 * score(PAGE_SPEED.key) + 0.3 * score(HTTPS.key),
        Category::Seo => mean(&[
            "seo_title_tag",
            "seo_meta_description",
            "seo_h1_heading",
            "seo_image_alt_text",
            "seo_sitemap",
        ]),
        Category::Conversion => mean(&[
            "conversion_cta_buttons",
            "conversion_form_presence",
            "conversion_contact_method",
        ]),
        Category::Branding => mean(&["branding_logo_presence", "branding_professional_domain"]),
        Category::Presence => mean(&["presence_social_media_links", "presence_google_presence"]),
        _ => 0.0,
    })
}

/// Whether something that was asked for is there: it was answered with 200.
fn is_there(answer: &Seen<roundsman_core::audits::observed::Fetched>) -> bool {
    answer.as_option().is_some_and(|it| it.status == 200)
}
