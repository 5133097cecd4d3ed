//! What changed since the previous audit of the same page.

use roundsman_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::verdict::{Category, Finding, Outcome, Verdict};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub previous_at: Timestamp,
    pub previous_overall: u8,
    pub overall: i16,
    pub categories: Vec<(Category, i16)>,
    /// Failed now, and did not before.
    pub broken: Vec<Change>,
    /// Failed before, and passes now.
    pub mended: Vec<Change>,
    /// In milliseconds and bytes: now less before.
    pub ttfb_ms: i64,
    pub total_bytes: i64,
    /// The rules were others then, so differences may not be the page's.
    pub is_other_engine: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub key: String,
    pub category: Category,
    pub title: String,
}

pub fn compare(previous: &Verdict, now: &Verdict) -> Comparison {
    let difference = |now: u8, before: u8| i16::from(now) - i16::from(before);
    Comparison {
        previous_at: previous.looked_at,
        previous_overall: previous.overall,
        overall: difference(now.overall, previous.overall),
        categories: Category::ALL
            .iter()
            .map(|it| (*it, difference(now.score(*it), previous.score(*it))))
            .collect(),
        broken: newly(previous, now, Outcome::Failed),
        mended: newly(previous, now, Outcome::Passed),
        ttfb_ms: signed(now.facts.ttfb_ms) - signed(previous.facts.ttfb_ms),
        total_bytes: signed(now.facts.total_bytes) - signed(previous.facts.total_bytes),
        is_other_engine: previous.engine_version != now.engine_version,
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What has `outcome` now and had the opposite before. A check that did not apply before counts as
/// broken when it fails, but is no achievement when it passes. One finding for each topic.
fn newly(previous: &Verdict, now: &Verdict, outcome: Outcome) -> Vec<Change> {
    let before = |finding: &Finding| {
        previous.checks.iter().find(|it| it.key == finding.key).map(|it| it.outcome)
    };
    let mut topics = Vec::new();
    let mut changes = Vec::new();
    for finding in now.checks.iter().filter(|it| it.outcome == outcome) {
        let is_new = match before(finding) {
            None | Some(Outcome::NotMeasured) => false,
            Some(Outcome::NotApplicable) => outcome == Outcome::Failed,
            Some(was) => was != outcome,
        };
        if is_new && !topics.contains(&&finding.topic) {
            topics.push(&finding.topic);
            changes.push(Change {
                key: finding.key.clone(),
                category: finding.category,
                title: finding.title.clone(),
            });
        }
    }
    changes
}
