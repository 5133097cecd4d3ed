//! How a check says what it found.

use crate::dom::Element;
use crate::text::ellipsis;
use crate::verdict::{Category, Evidence, EvidenceKind, Finding, Impact, Outcome};

const EVIDENCE_MAX: usize = 10;
const EVIDENCE_CHARS_MAX: usize = 300;
/// What Lighthouse calls good enough for a measure that has more than two values.
const PASSING_SCORE: u8 = 90;

/// What is the same of a check for every page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) key: &'static str,
    pub(crate) category: Category,
    pub(crate) topic: &'static str,
    /// Relative to the others of the category; zero if the check only informs.
    pub(crate) weight: f64,
    pub(crate) good: &'static str,
    pub(crate) bad: &'static str,
    /// Why it matters.
    pub(crate) why: &'static str,
    pub(crate) fix: &'static str,
}

impl Rule {
    fn finding(&self, outcome: Outcome, score: Option<u8>) -> Finding {
        let is_bad = outcome == Outcome::Failed;
        Finding {
            key: self.key.to_owned(),
            category: self.category,
            outcome,
            score,
            weight: self.weight,
            modifier: None,
            impact: Impact::None,
            points_lost: 0.0,
            topic: self.topic.to_owned(),
            title: if is_bad { self.bad } else { self.good }.to_owned(),
            explanation: self.why.to_owned(),
            how_to_fix: if is_bad { self.fix.to_owned() } else { String::new() },
            evidence: Vec::new(),
            evidence_left_out: 0,
        }
    }

    pub(crate) fn passed(&self) -> Finding {
        self.finding(Outcome::Passed, Some(100))
    }

    pub(crate) fn failed(&self) -> Finding {
        self.finding(Outcome::Failed, Some(0))
    }

    pub(crate) fn passed_if(&self, is_good: bool) -> Finding {
        if is_good { self.passed() } else { self.failed() }
    }

    pub(crate) fn not_applicable(&self) -> Finding {
        self.finding(Outcome::NotApplicable, None)
    }

    pub(crate) fn not_measured(&self, reason: &str) -> Finding {
        self.finding(Outcome::NotMeasured, None).saying(reason)
    }

    /// For measures: from 90 on it counts as passed.
    pub(crate) fn scored(&self, score: u8) -> Finding {
        let outcome = if score >= PASSING_SCORE { Outcome::Passed } else { Outcome::Failed };
        self.finding(outcome, Some(score))
    }

    /// Passes without offenders, and does not apply if nothing was looked at.
    pub(crate) fn without(&self, looked_at: usize, offenders: &[Element<'_>]) -> Finding {
        if looked_at == 0 {
            return self.not_applicable();
        }
        self.passed_if(offenders.is_empty()).seen_at(offenders)
    }
}

impl Finding {
    /// What is so on this page, in front of why it matters.
    pub(crate) fn saying(mut self, what: &str) -> Self {
        self.explanation = if self.explanation.is_empty() {
            what.to_owned()
        } else {
            format!("{what} {}", self.explanation)
        };
        self
    }

    pub(crate) fn seen_at(self, elements: &[Element<'_>]) -> Self {
        elements.iter().fold(self, |it, element| {
            it.with(EvidenceKind::Element, &element.start_tag(), Some(element.line()))
        })
    }

    pub(crate) fn with_url(self, url: &str) -> Self {
        self.with(EvidenceKind::Url, url, None)
    }

    pub(crate) fn with_text(self, text: &str) -> Self {
        self.with(EvidenceKind::Text, text, None)
    }

    pub(crate) fn with_header(self, name: &str, value: &str) -> Self {
        self.with(EvidenceKind::Header, &format!("{name}: {value}"), None)
    }

    pub(crate) fn with(mut self, kind: EvidenceKind, text: &str, line: Option<u32>) -> Self {
        if self.evidence.len() < EVIDENCE_MAX {
            let text = ellipsis(text, EVIDENCE_CHARS_MAX);
            self.evidence.push(Evidence { kind, text, line });
        } else {
            self.evidence_left_out += 1;
        }
        self
    }

    /// For checks without weight, which cost no points: how much they matter if they fail.
    pub(crate) fn mattering(mut self, impact: Impact) -> Self {
        if self.outcome == Outcome::Failed {
            self.impact = self.impact.max(impact);
        }
        self
    }

    pub(crate) fn titled(mut self, title: &str) -> Self {
        title.clone_into(&mut self.title);
        self
    }
}

/// How much a finding matters by what it costs of the overall score.
pub(crate) fn impact_of(points_lost: f64) -> Impact {
    const HIGH_POINTS: f64 = 3.0;
    const MEDIUM_POINTS: f64 = 1.0;
    if points_lost >= HIGH_POINTS {
        Impact::High
    } else if points_lost >= MEDIUM_POINTS {
        Impact::Medium
    } else {
        Impact::Low
    }
}

/// The weighted mean of the checks that apply, as Lighthouse has it. Nothing to complain about is 100.
pub(crate) fn weighted_score(findings: &[Finding], category: Category) -> u8 {
    let scored = || {
        let of_category = findings.iter().filter(|it| it.category == category);
        of_category.filter_map(|it| Some((it.weight, f64::from(it.score?))))
    };
    let weight: f64 = scored().map(|(weight, _)| weight).sum();
    if weight <= 0.0 {
        return 100;
    }
    rounded(scored().map(|(weight, score)| weight * score).sum::<f64>() / weight)
}

/// A score as it is shown.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what a score can be"
)]
pub(crate) fn rounded(score: f64) -> u8 {
    score.round().clamp(0.0, 100.0) as u8
}
