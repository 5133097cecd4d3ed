//! What the source alone shows of whether everybody can use the page, with the weights of axe's rules.

mod contrast;
mod names;
mod structure;

use crate::finding::Rule;
use crate::page::Page;
use crate::verdict::{Category, Finding};

const CRITICAL: f64 = 10.0;
const SERIOUS: f64 = 7.0;
const MODERATE: f64 = 3.0;

const fn rule(
    key: &'static str,
    topic: &'static str,
    weight: f64,
    texts: [&'static str; 4],
) -> Rule {
    let [good, bad, why, fix] = texts;
    Rule { key, category: Category::Accessibility, topic, weight, good, bad, why, fix }
}

pub(crate) fn check(page: &Page<'_>) -> Vec<Finding> {
    let mut findings = names::check(page);
    findings.extend(structure::check(page));
    findings.push(contrast::check(page));
    findings
}
