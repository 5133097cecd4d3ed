//! The parts of the report below its head.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::ReportContext;
use super::markup::{Esc, Markup};
use super::story::{Issue, impact_title, measurements as measured};
use super::svg::{PHASES, color, history_svg, waterfall as waterfall_svg};
use crate::compare::Change;
use crate::verdict::{Category, Evidence, EvidenceKind, Impact, Outcome, Verdict};

/// More of it would make the report too large to send.
const SCREENSHOT_BYTES_MAX: usize = 4 * 1024 * 1024;
const EVIDENCE_SHOWN: usize = 5;
const CHANGES_SHOWN: usize = 12;

pub(super) fn findings(page: &mut Markup, issues: &[Issue<'_>]) {
    page.raw("<h2>What to mend</h2>\n");
    if issues.is_empty() {
        page.raw("<p class=\"card\">Nothing was found that needs mending.</p>\n");
    }
    for (impact, color) in
        [(Impact::High, "#c62828"), (Impact::Medium, "#d98200"), (Impact::Low, "#7a8699")]
    {
        let of_impact: Vec<_> = issues.iter().filter(|it| it.impact == impact).collect();
        if of_impact.is_empty() {
            continue;
        }
        page.add(format_args!(
            "<p class=\"level\"><i class=\"dot\" style=\"background:{color}\"></i>{} <span class=\"n\">{}</span></p>\n",
            impact_title(impact),
            of_impact.len()
        ));
        for it in of_impact {
            issue(page, it);
        }
    }
}

fn issue(page: &mut Markup, issue: &Issue<'_>) {
    let class = match issue.impact {
        Impact::High => "high",
        Impact::Medium => "medium",
        Impact::Low | Impact::None => "low",
    };
    page.add(format_args!(
        "<article class=\"card issue {class}\"><header><h3>{}</h3><span class=\"tags\">",
        Esc(&issue.main.title)
    ));
    for category in &issue.categories {
        page.add(format_args!("<span class=\"tag\">{}</span>", category.title()));
    }
    if issue.points_lost >= 0.1 {
        page.add(format_args!(
            "<span class=\"tag cost\">costs {:.1} points</span>",
            issue.points_lost
        ));
    }
    page.add(format_args!(
        "</span></header><p class=\"why\">{}</p><p class=\"fix\"><b>How to fix it.</b> {}</p>",
        Esc(&issue.main.explanation),
        Esc(&issue.main.how_to_fix)
    ));
    evidence(page, &issue.evidence, issue.evidence_left_out);
    page.raw("</article>\n");
}

fn evidence(page: &mut Markup, all: &[&Evidence], left_out: u32) {
    if all.is_empty() {
        return;
    }
    page.raw("<ul class=\"proof\">");
    for it in all.iter().take(EVIDENCE_SHOWN) {
        let place = match (it.line, it.kind) {
            (Some(line), _) => format!("line {line}"),
            (None, EvidenceKind::Header) => "header".to_owned(),
            (None, EvidenceKind::Url) => "file".to_owned(),
            (None, _) => "seen".to_owned(),
        };
        page.add(format_args!("<li><i>{place}</i><span>{}</span></li>", Esc(&it.text)));
    }
    page.raw("</ul>");
    let hidden = all.len().saturating_sub(EVIDENCE_SHOWN) + usize::try_from(left_out).unwrap_or(0);
    if hidden > 0 {
        page.add(format_args!("<p class=\"more\">and {hidden} more</p>"));
    }
}

pub(super) fn comparison(page: &mut Markup, context: &ReportContext<'_>) {
    let Some(comparison) = context.comparison else { return };
    page.raw("<h2>Since the previous audit</h2>\n<div class=\"cols\">");
    for (title, changes, class) in
        [("Mended", &comparison.mended, "up"), ("Newly broken", &comparison.broken, "down")]
    {
        page.add(format_args!("<div class=\"card\"><h3 class=\"{class}\">{title}</h3>"));
        changes_list(page, changes);
        page.raw("</div>");
    }
    page.raw("</div>\n");
}

fn changes_list(page: &mut Markup, changes: &[Change]) {
    if changes.is_empty() {
        page.raw("<p class=\"more\">nothing</p>");
        return;
    }
    page.raw("<table>");
    for change in changes.iter().take(CHANGES_SHOWN) {
        page.add(format_args!(
            "<tr><td>{}</td><td class=\"n\"><span class=\"tag\">{}</span></td></tr>",
            Esc(&change.title),
            change.category.title()
        ));
    }
    page.raw("</table>");
    if changes.len() > CHANGES_SHOWN {
        page.add(format_args!("<p class=\"more\">and {} more</p>", changes.len() - CHANGES_SHOWN));
    }
}

pub(super) fn measurements(page: &mut Markup, verdict: &Verdict) {
    page.raw("<h2>Measurements</h2>\n<div class=\"cols\">");
    let rows = measured(verdict);
    let (left, right) = rows.split_at(rows.len().div_ceil(2));
    for half in [left, right] {
        page.raw("<div class=\"card\"><table>");
        for (name, value) in half {
            page.add(format_args!(
                "<tr><th>{}</th><td class=\"n\">{}</td></tr>",
                Esc(name),
                Esc(value)
            ));
        }
        page.raw("</table></div>");
    }
    page.raw("</div>\n");
    if !verdict.facts.redirects.is_empty() {
        page.raw("<div class=\"card\"><h3>Redirects</h3><table>");
        for it in &verdict.facts.redirects {
            page.add(format_args!(
                "<tr><td>{} → {}</td><td class=\"n\">{} in {} ms</td></tr>",
                Esc(&it.from),
                Esc(it.to.as_deref().unwrap_or("?")),
                it.status,
                it.took_ms
            ));
        }
        page.raw("</table></div>\n");
    }
}

pub(super) fn screenshot(page: &mut Markup, context: &ReportContext<'_>) {
    let Some(png) = context.screenshot_png.filter(|it| it.len() <= SCREENSHOT_BYTES_MAX) else {
        return;
    };
    page.raw("<h2>What visitors see</h2>\n<div class=\"card\"><img class=\"shot\" alt=\"Screenshot of the page\" src=\"data:image/png;base64,");
    page.raw(&BASE64_STANDARD.encode(png));
    page.raw("\"></div>\n");
}

pub(super) fn waterfall(page: &mut Markup, verdict: &Verdict) {
    page.raw("<h2>How the page loads</h2>\n<div class=\"card\"><p class=\"legend\">");
    for (name, color) in PHASES {
        page.add(format_args!("<span><i style=\"background:{color}\"></i>{name}</span>"));
    }
    page.raw("<span><b>bold</b> blocks painting</span></p>");
    page.raw(&waterfall_svg(&verdict.facts));
    page.raw("</div>\n");
}

pub(super) fn history(page: &mut Markup, context: &ReportContext<'_>) {
    if context.history.len() > 1 {
        page.raw("<h2>History</h2>\n<div class=\"card\">");
        page.raw(&history_svg(context.history));
        page.raw("</div>\n");
    }
}

/// The original's checks as its users know them.
pub(super) fn fourteen(page: &mut Markup, verdict: &Verdict) {
    page.raw("<h2>The fourteen basic checks</h2>\n<div class=\"card\"><table>");
    for finding in &verdict.checks {
        let Some(check) = verdict.raw_data.checks.get(&finding.key) else { continue };
        let (title, category) = (finding.title.as_str(), finding.category);
        page.add(format_args!(
            "<tr><td><i class=\"dot\" style=\"background:{}\"></i> {}</td><td>{}</td><td class=\"n\">{}</td></tr>",
            color(check.score),
            Esc(title),
            category.title(),
            check.score
        ));
    }
    page.raw("</table></div>\n");
}

pub(super) fn passed(page: &mut Markup, verdict: &Verdict) {
    let of = |outcome: Outcome| verdict.checks.iter().filter(move |it| it.outcome == outcome);
    let rest = of(Outcome::NotApplicable).count();
    page.add(format_args!(
        "<h2>What is in order</h2>\n<div class=\"card\"><p>{} checks passed; {rest} do not apply to this page.</p>",
        of(Outcome::Passed).count()
    ));
    for category in Category::ALL {
        let titles: Vec<_> = of(Outcome::Passed).filter(|it| it.category == category).collect();
        if titles.is_empty() {
            continue;
        }
        page.add(format_args!(
            "<details><summary>{} ({})</summary><ul class=\"passed\">",
            category.title(),
            titles.len()
        ));
        for it in titles {
            page.add(format_args!("<li>{}</li>", Esc(&it.title)));
        }
        page.raw("</ul></details>");
    }
    page.raw("</div>\n");
}

pub(super) fn missing(page: &mut Markup, verdict: &Verdict) {
    if verdict.facts.missing.is_empty() {
        return;
    }
    page.raw("<h2>What was not measured</h2>\n<div class=\"card\"><table>");
    for it in &verdict.facts.missing {
        page.add(format_args!("<tr><td>{}</td><td>{}</td></tr>", Esc(&it.what), Esc(&it.reason)));
    }
    page.raw("</table></div>\n");
}

pub(super) fn method(page: &mut Markup, verdict: &Verdict) {
    let weights: Vec<String> =
        Category::ALL.iter().map(|it| format!("{} {} %", it.title(), it.weight())).collect();
    page.add(format_args!(
        "<footer><p>The overall score is the mean of the categories by these weights: {}. Performance, search engines, \
         accessibility and best practices are weighted as Lighthouse weights them; security is graded as MDN's HTTP \
         Observatory grades it. Times marked as estimated are worked out for {} and were not measured.</p>\
         <p>Made by Roundsman, rules of version {}.</p></footer>\n",
        Esc(&weights.join(", ")),
        super::story::device(verdict.device),
        verdict.engine_version
    ));
}
