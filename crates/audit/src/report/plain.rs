//! The report for a terminal.

use super::markup::{is_odd, when};
use super::story::{change_sentence, impact_title, issues, measurements, signed, summary};
use crate::compare::Comparison;
use crate::verdict::{Impact, Verdict};

const WIDTH_MIN: usize = 40;
const EVIDENCE_SHOWN: usize = 3;
const BAR_CHARS: usize = 20;

/// A table for a terminal. `width_columns` is the terminal's. Foreign text cannot move the cursor or
/// change colours: controls are replaced.
pub fn report_text(
    verdict: &Verdict,
    comparison: Option<&Comparison>,
    width_columns: usize,
) -> String {
    let width = width_columns.max(WIDTH_MIN);
    let issues = issues(verdict);
    let mut lines = vec![
        format!("{}  {} of 100", clean(&verdict.final_url), verdict.overall),
        format!("looked at {} in {} ms", when(verdict.looked_at), verdict.took_ms),
        String::new(),
    ];
    for scored in &verdict.categories {
        let filled = usize::from(scored.score.min(100)) * BAR_CHARS / 100;
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR_CHARS - filled));
        let change =
            comparison.and_then(|it| it.categories.iter().find(|it| it.0 == scored.category));
        let change = change.map(|it| format!("  {}", signed(it.1))).unwrap_or_default();
        let grade = match scored.category {
            crate::verdict::Category::Security => format!("  {}", verdict.security_grade),
            _ => String::new(),
        };
        lines.push(format!(
            "  {:<16} {bar} {:>3}{grade}{change}",
            scored.category.title(),
            scored.score
        ));
    }
    lines.push(String::new());
    wrap(&mut lines, &summary(verdict, &issues), width, "");
    if let Some(comparison) = comparison {
        wrap(&mut lines, &change_sentence(comparison), width, "");
    }
    for impact in [Impact::High, Impact::Medium, Impact::Low] {
        let of_impact: Vec<_> = issues.iter().filter(|it| it.impact == impact).collect();
        if of_impact.is_empty() {
            continue;
        }
        lines.push(String::new());
        lines.push(format!("{} ({})", impact_title(impact), of_impact.len()));
        for issue in of_impact {
            let names: Vec<&str> = issue.categories.iter().map(|it| it.title()).collect();
            let title = format!("✗ {} [{}]", issue.main.title, names.join(", "));
            wrap(&mut lines, &title, width, "  ");
            wrap(&mut lines, &issue.main.how_to_fix, width, "      ");
            for it in issue.evidence.iter().take(EVIDENCE_SHOWN) {
                let place = it.line.map(|line| format!("line {line}: ")).unwrap_or_default();
                let text = crate::text::ellipsis(
                    &format!("{place}{}", clean(&it.text)),
                    width.saturating_sub(8),
                );
                lines.push(format!("      · {text}"));
            }
        }
    }
    lines.push(String::new());
    for (name, value) in measurements(verdict) {
        lines.push(format!("  {name:<28} {}", clean(&value)));
    }
    for it in &verdict.facts.missing {
        wrap(&mut lines, &format!("Not measured: {} ({})", it.what, it.reason), width, "  ");
    }
    lines.push(String::new());
    lines.join("\n")
}

fn clean(text: &str) -> String {
    text.chars().map(|c| if is_odd(c) { '\u{fffd}' } else { c }).collect()
}

/// Breaks between words; a word that is longer than the line stays whole.
fn wrap(lines: &mut Vec<String>, text: &str, width: usize, indent: &str) {
    let mut line = indent.to_owned();
    for word in clean(text).split_whitespace() {
        let is_empty = line.trim().is_empty();
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
        }
        if !line.trim().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.trim().is_empty() {
        lines.push(line);
    }
}
