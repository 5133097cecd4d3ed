//! The tests of MDN's HTTP Observatory with its modifiers and grades, and what else an encrypted
//! connection shows.
//!
//! A page begins with 100 points. Bonuses count only if 90 are left after the penalties. Where the
//! Observatory asks its own list of preloaded hosts, we know the preloaded suffixes only.

mod cookies;
mod csp;
mod headers;
mod isolation;
mod sri;
mod transport;

pub(crate) use transport::loads_insecurely;

use crate::finding::Rule;
use crate::page::Page;
use crate::verdict::{Category, Finding};

const START_POINTS: i32 = 100;
const POINTS_FOR_BONUS_MIN: i32 = 90;

pub(crate) struct Security {
    pub(crate) findings: Vec<Finding>,
    /// May be above 100.
    pub(crate) points: i32,
    pub(crate) grade: &'static str,
}

pub(crate) fn check(page: &Page<'_>) -> Security {
    let policy = csp::Policies::read(page);
    let hsts = transport::Hsts::read(page);
    let mut findings = vec![
        csp::check(page, &policy),
        cookies::check(page, &hsts),
        headers::cors(page),
        transport::redirection(page),
        headers::referrer_policy(page),
        transport::hsts(&hsts, page),
        sri::check(page),
        headers::content_type_options(page),
        headers::frame_options(page, &policy),
        isolation::resource_policy(page),
        isolation::embedder_policy(page),
        isolation::opener_policy(page),
    ];
    let points = points(findings.iter().filter_map(|it| it.modifier));
    findings.extend(transport::informative(page));
    Security { findings, points, grade: grade(points) }
}

pub(crate) fn points(modifiers: impl Iterator<Item = i32> + Clone) -> i32 {
    let penalties: i32 = modifiers.clone().filter(|it| *it < 0).sum();
    let bonuses: i32 = modifiers.filter(|it| *it > 0).sum();
    let points = START_POINTS + penalties;
    (if points >= POINTS_FOR_BONUS_MIN { points + bonuses } else { points }).max(0)
}

/// By the points rounded down to five.
pub(crate) fn grade(points: i32) -> &'static str {
    match points {
        100.. => "A+",
        90.. => "A",
        85.. => "A-",
        80.. => "B+",
        70.. => "B",
        65.. => "B-",
        60.. => "C+",
        50.. => "C",
        45.. => "C-",
        40.. => "D+",
        30.. => "D",
        25.. => "D-",
        _ => "F",
    }
}

/// One result of a test of the Observatory.
struct Result {
    modifier: i32,
    /// What is so, for people.
    says: &'static str,
}

impl Result {
    const fn new(modifier: i32, says: &'static str) -> Self {
        Result { modifier, says }
    }
}

/// A penalty fails; everything else passes. The worst penalty there is has no score left.
fn graded(rule: &Rule, result: &Result) -> Finding {
    let finding = if result.modifier < 0 { rule.failed() } else { rule.passed() };
    let score = u8::try_from((100 + 2 * result.modifier.min(0)).max(0)).unwrap_or(0);
    let finding = finding.saying(result.says);
    Finding { score: Some(score), modifier: Some(result.modifier), ..finding }
}

/// A rule of this category. The points come from modifiers, so there is no weight.
const fn rule(key: &'static str, topic: &'static str, texts: [&'static str; 4]) -> Rule {
    let [good, bad, why, fix] = texts;
    Rule { key, category: Category::Security, topic, weight: 0.0, good, bad, why, fix }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_are_the_published_ones() {
        let table = [
            (135, "A+"),
            (100, "A+"),
            (95, "A"),
            (90, "A"),
            (85, "A-"),
            (80, "B+"),
            (75, "B"),
            (70, "B"),
            (65, "B-"),
            (60, "C+"),
            (55, "C"),
            (50, "C"),
            (45, "C-"),
            (40, "D+"),
            (35, "D"),
            (30, "D"),
            (25, "D-"),
            (20, "F"),
            (5, "F"),
            (0, "F"),
        ];
        for (points, expected) in table {
            assert_eq!(grade(points), expected, "{points}");
        }
    }

    #[test]
    fn bonuses_need_ninety_points() {
        for (modifiers, expected) in [
            (&[][..], 100),
            (&[5, 10], 115),
            (&[-10, 5], 95),
            (&[-10, -5, 5, 10], 85),
            (&[-50, -40, -30], 0),
        ] {
            assert_eq!(points(modifiers.iter().copied()), expected, "{modifiers:?}");
        }
    }
}
