//! What every report tells, in whatever form.

use crate::compare::Comparison;
use crate::finding::impact_of;
use crate::text::{bytes, millis};
use crate::verdict::{Category, Device, Evidence, Finding, Impact, Light, Outcome, Verdict};

/// A defect: all findings of one topic, told once.
pub(super) struct Issue<'a> {
    /// The one of them that costs most.
    pub(super) main: &'a Finding,
    pub(super) categories: Vec<Category>,
    pub(super) impact: Impact,
    pub(super) points_lost: f64,
    pub(super) evidence: Vec<&'a Evidence>,
    pub(super) evidence_left_out: u32,
}

/// What is wrong, worst first.
pub(super) fn issues(verdict: &Verdict) -> Vec<Issue<'_>> {
    let mut issues: Vec<Issue<'_>> = Vec::new();
    for finding in verdict.checks.iter().filter(|it| it.outcome == Outcome::Failed) {
        match issues.iter_mut().find(|it| it.main.topic == finding.topic) {
            Some(issue) => issue.join(finding),
            None => issues.push(Issue::new(finding)),
        }
    }
    issues.sort_by(|one, other| {
        let by_impact = other.impact.cmp(&one.impact);
        by_impact.then(other.points_lost.total_cmp(&one.points_lost))
    });
    issues
}

impl<'a> Issue<'a> {
    fn new(finding: &'a Finding) -> Self {
        Issue {
            main: finding,
            categories: vec![finding.category],
            impact: finding.impact,
            points_lost: finding.points_lost,
            evidence: finding.evidence.iter().collect(),
            evidence_left_out: finding.evidence_left_out,
        }
    }

    fn join(&mut self, finding: &'a Finding) {
        if finding.points_lost > self.main.points_lost {
            self.main = finding;
        }
        if !self.categories.contains(&finding.category) {
            self.categories.push(finding.category);
        }
        self.points_lost += finding.points_lost;
        self.impact = self.impact.max(finding.impact).max(impact_of(self.points_lost));
        if self.evidence.is_empty() {
            self.evidence = finding.evidence.iter().collect();
            self.evidence_left_out = finding.evidence_left_out;
        }
    }
}

pub(super) fn impact_title(impact: Impact) -> &'static str {
    match impact {
        Impact::High => "High impact",
        Impact::Medium => "Medium impact",
        Impact::Low | Impact::None => "Low impact",
    }
}

/// The paragraph below the overall score.
pub(super) fn summary(verdict: &Verdict, issues: &[Issue<'_>]) -> String {
    let state = match Light::of(verdict.overall) {
        Light::Green => "The page is in good shape.",
        Light::Yellow => "The page works, and there is room for improvement.",
        Light::Red => "The page needs attention.",
    };
    let high = issues.iter().filter(|it| it.impact == Impact::High).count();
    let passed = verdict.checks.iter().filter(|it| it.outcome == Outcome::Passed).count();
    let best = verdict.categories.iter().max_by_key(|it| it.score);
    let worst = verdict.categories.iter().min_by_key(|it| it.score);
    let span = match (best, worst) {
        (Some(best), Some(worst)) if best.score > worst.score => format!(
            " Strongest is {} ({}), weakest is {} ({}).",
            best.category.title(),
            best.score,
            worst.category.title(),
            worst.score
        ),
        _ => String::new(),
    };
    let found = match (issues.len(), high) {
        (0, _) => "nothing to mend was found".to_owned(),
        (1, 0) => "1 thing to mend was found".to_owned(),
        (all, 0) => format!("{all} things to mend were found, none of high impact"),
        (all, 1) => format!("{all} things to mend were found, 1 of high impact"),
        (all, high) => format!("{all} things to mend were found, {high} of high impact"),
    };
    format!("{state} {passed} checks passed; {found}.{span}")
}

pub(super) fn device(device: Device) -> &'static str {
    match device {
        Device::Mobile => "a phone on slow 4G",
        Device::Desktop => "a desktop computer",
    }
}

/// What was measured, name and value.
pub(super) fn measurements(verdict: &Verdict) -> Vec<(String, String)> {
    let facts = &verdict.facts;
    let mut rows = vec![
        ("Answer".to_owned(), format!("status {} over {}", facts.status, facts.http_version)),
        ("Time to first byte".to_owned(), millis(facts.ttfb_ms)),
        ("First paint (estimated)".to_owned(), millis(facts.fcp_est_ms)),
        ("Largest paint (estimated)".to_owned(), millis(facts.lcp_est_ms)),
        (
            "Transferred".to_owned(),
            format!("{} in {} requests", bytes(facts.total_bytes), facts.request_count),
        ),
    ];
    let mut add =
        |name: &str, value: Option<String>| rows.extend(value.map(|it| (name.to_owned(), it)));
    add("Encryption", facts.tls_version.as_ref().map(|it| format!("TLS {it}")));
    let until = facts.cert_expires_at.map(|it| {
        let date = it.to_string();
        date.get(..10).unwrap_or(&date).to_owned()
    });
    add("Certificate valid until", until);
    add(
        "Security grade",
        Some(format!("{} ({} points)", verdict.security_grade, verdict.security_points)),
    );
    if let Some(browser) = &facts.browser {
        add("Measured in", Some(browser.name.clone()));
        add("First paint (measured)", browser.first_contentful_paint_ms.map(millis));
        add("Largest paint (measured)", browser.largest_contentful_paint_ms.map(millis));
        add("Largest element", browser.largest_element.clone());
        add("Layout shift (measured)", Some(format!("{:.3}", browser.layout_shift)));
        add("Blocking time (measured)", Some(millis(browser.blocking_time_ms)));
        add("Loaded (measured)", browser.load_ms.map(millis));
        add(
            "Transferred in the browser",
            Some(format!("{} in {} requests", bytes(browser.transfer_bytes), browser.requests)),
        );
        add("Console errors", Some(browser.console_errors.len().to_string()));
    }
    rows
}

/// What changed, in one sentence.
pub(super) fn change_sentence(comparison: &Comparison) -> String {
    let moved = match comparison.overall {
        0 => "The score is the same as".to_owned(),
        up if up > 0 => format!("{up} points better than"),
        down => format!("{} points worse than", -down),
    };
    let other = if comparison.is_other_engine {
        " The rules of the audit have changed since, so not every difference is the page's."
    } else {
        ""
    };
    format!(
        "{moved} on {} ({}): {} mended, {} newly broken.{other}",
        super::markup::when(comparison.previous_at),
        comparison.previous_overall,
        comparison.mended.len(),
        comparison.broken.len()
    )
}

/// `+3`, `-2`, `±0`.
pub(super) fn signed(number: i16) -> String {
    match number {
        0 => "±0".to_owned(),
        1.. => format!("+{number}"),
        _ => format!("−{}", -i32::from(number)),
    }
}

/// The host of an address, for headings.
pub(super) fn host(url: &str) -> String {
    url::Url::parse(url)
        .ok()
        .and_then(|it| it.host_str().map(str::to_owned))
        .unwrap_or_else(|| url.to_owned())
}

/// Whether the first is told before the second.
pub(super) fn is_in_order(one: &Issue<'_>, other: &Issue<'_>) -> bool {
    (one.impact, one.points_lost) >= (other.impact, other.points_lost)
}
