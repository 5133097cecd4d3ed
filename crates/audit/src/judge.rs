//! From what was seen to the verdict.

use roundsman_core::audits::observed::Observed;

use crate::finding::{impact_of, rounded, weighted_score};
use crate::page::Page;
use crate::verdict::{
    Category, CategoryScore, Device, ENGINE_VERSION, Finding, Light, Outcome, RawData, Verdict,
};
use crate::{
    accessibility, best_practices, facts, mobile, original, performance, search, security,
};

#[derive(Debug, Clone, Default)]
pub struct JudgeOptions {
    pub device: Device,
}

/// The same look always gives the same verdict.
pub fn judge(seen: &Observed, options: &JudgeOptions) -> Verdict {
    let page = Page::read(seen);
    let performance = performance::check(&page, options.device);
    let original = original::check(&page, &performance.speed, &performance.findings);
    let security = security::check(&page);
    let facts = facts::gather(&page, &performance.estimate);

    let mut checks = original.findings;
    checks.extend(performance.findings);
    checks.extend(search::check(&page));
    checks.extend(security.findings);
    checks.extend(accessibility::check(&page));
    checks.extend(best_practices::check(&page));
    checks.extend(mobile::check(&page));

    let score = |category| match category {
        Category::Performance
        | Category::Seo
        | Category::Conversion
        | Category::Branding
        | Category::Presence => original::category_score(&original.checks, category),
        Category::Security => u8::try_from(security.points.clamp(0, 100)).unwrap_or(0),
        _ => weighted_score(&checks, category),
    };
    let categories = Category::ALL.map(|category| {
        let score = score(category);
        CategoryScore { category, score, light: Light::of(score) }
    });
    weigh(&mut checks);
    checks.sort_by_key(|it| it.category);
    Verdict {
        engine_version: ENGINE_VERSION,
        asked_url: seen.asked_url.clone(),
        final_url: seen.page.url.clone(),
        looked_at: seen.began_at,
        took_ms: u64::try_from(seen.took.as_millis()).unwrap_or(u64::MAX),
        device: options.device,
        overall: overall(&categories),
        categories: categories.to_vec(),
        security_grade: security.grade.to_owned(),
        security_points: security.points,
        checks,
        raw_data: RawData {
            checks: original.checks,
            final_url: seen.page.url.clone(),
            timestamp: seen.began_at,
        },
        facts,
    }
}

fn overall(categories: &[CategoryScore]) -> u8 {
    let sum = categories
        .iter()
        .map(|it| f64::from(it.score) * f64::from(it.category.weight()))
        .sum::<f64>();
    rounded(sum / 100.0)
}

/// What each finding costs of the overall score, and from that how much it matters.
fn weigh(checks: &mut [Finding]) {
    let sums = Category::ALL.map(|category| {
        let scored = checks.iter().filter(|it| it.category == category && it.score.is_some());
        (category, scored.map(|it| it.weight).sum::<f64>())
    });
    for finding in checks.iter_mut().filter(|it| it.outcome == Outcome::Failed) {
        let share = f64::from(finding.category.weight());
        let sum = sums.iter().find(|(it, _)| *it == finding.category).map_or(0.0, |it| it.1);
        let lost = f64::from(100 - finding.score.unwrap_or(0).min(100)) / 100.0;
        let points = match finding.modifier {
            Some(modifier) => f64::from(modifier.min(0).abs()) / 100.0 * share,
            None if sum > 0.0 => finding.weight / sum * lost * share,
            None => 0.0,
        };
        finding.points_lost = (points * 100.0).round() / 100.0;
        finding.impact = finding.impact.max(impact_of(finding.points_lost));
    }
}
