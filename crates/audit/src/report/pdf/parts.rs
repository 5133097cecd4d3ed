//! The parts of the document, in the order of the page.

use super::canvas::{BOLD, Canvas, Color, LEFT, REGULAR, RULE, SMALL, SOFT, Style, WIDTH, color};
use super::picture::Picture;
use crate::report::ReportContext;
use crate::report::story::{Issue, device, impact_title, measurements as measured, signed};
use crate::report::svg::{phases, short_url, waterfall_ms};
use crate::text::{bytes, millis};
use crate::verdict::{Category, Impact, Verdict};

const FIRST_THINGS: usize = 3;
const EVIDENCE_SHOWN: usize = 5;
const ROWS_MAX: usize = 60;
const CHANGES_SHOWN: usize = 12;
const RIGHT: f32 = LEFT + WIDTH;

pub(super) fn categories(canvas: &mut Canvas, verdict: &Verdict, context: &ReportContext<'_>) {
    const ROW: f32 = 19.0;
    const BAR: f32 = 92.0;
    canvas.skip(12.0);
    let top = canvas.y();
    let half = WIDTH / 2.0;
    let rows = verdict.categories.len().div_ceil(2);
    for (scored, place) in verdict.categories.iter().zip(0_u16..) {
        let is_left = usize::from(place) < rows;
        let row = if is_left { place } else { place - u16::try_from(rows).unwrap_or(place) };
        let x = if is_left { LEFT } else { LEFT + half + 6.0 };
        let y = top + f32::from(row) * ROW;
        canvas.line_at(x, y + 10.0, 90.0, BOLD, scored.category.title());
        canvas.rect(x + 92.0, y + 3.5, BAR, 8.0, RULE);
        let filled = BAR * f32::from(scored.score.min(100)) / 100.0;
        canvas.rect(x + 92.0, y + 3.5, filled, 8.0, color(scored.score));
        let number = Style { color: color(scored.score), ..BOLD };
        canvas.line_right(x + 92.0 + BAR + 24.0, y + 10.5, number, &scored.score.to_string());
        let change = context
            .comparison
            .and_then(|it| it.categories.iter().find(|it| it.0 == scored.category));
        let mut note = change.map(|it| signed(it.1)).unwrap_or_default();
        if scored.category == Category::Security {
            note = format!("{} {note}", verdict.security_grade);
        }
        canvas.line_at(x + 92.0 + BAR + 29.0, y + 10.5, 30.0, SMALL, note.trim());
    }
    canvas.move_to(top + ROW * f32::from(u16::try_from(rows).unwrap_or(5)));
}

pub(super) fn first_things(canvas: &mut Canvas, issues: &[Issue<'_>]) {
    if issues.is_empty() {
        return;
    }
    canvas.heading("Do this first");
    for (issue, number) in issues.iter().take(FIRST_THINGS).zip(1..) {
        canvas.need(40.0);
        canvas.paragraph(LEFT, WIDTH, BOLD, &format!("{number}. {}", issue.main.title));
        canvas.paragraph(
            LEFT + 14.0,
            WIDTH - 14.0,
            Style { color: SOFT, ..REGULAR },
            &issue.main.how_to_fix,
        );
        canvas.skip(5.0);
    }
}

fn impact_color(impact: Impact) -> Color {
    match impact {
        Impact::High => (0.78, 0.16, 0.16),
        Impact::Medium => (0.85, 0.51, 0.0),
        Impact::Low | Impact::None => (0.48, 0.53, 0.60),
    }
}

pub(super) fn findings(canvas: &mut Canvas, issues: &[Issue<'_>]) {
    canvas.heading("What to mend");
    if issues.is_empty() {
        canvas.paragraph(LEFT, WIDTH, REGULAR, "Nothing was found that needs mending.");
    }
    for impact in [Impact::High, Impact::Medium, Impact::Low] {
        let of_impact: Vec<_> = issues.iter().filter(|it| it.impact == impact).collect();
        if of_impact.is_empty() {
            continue;
        }
        canvas.need(90.0);
        let style = Style { size_pt: 11.0, color: impact_color(impact), ..BOLD };
        canvas.paragraph(
            LEFT,
            WIDTH,
            style,
            &format!("{} ({})", impact_title(impact), of_impact.len()),
        );
        canvas.skip(5.0);
        for it in of_impact {
            issue(canvas, it);
        }
    }
}

fn issue(canvas: &mut Canvas, issue: &Issue<'_>) {
    let x = LEFT + 10.0;
    let width = WIDTH - 10.0;
    canvas.need(62.0);
    let top = canvas.y();
    canvas.rect(LEFT, top + 1.0, 3.0, 11.0, impact_color(issue.impact));
    canvas.paragraph(x, width, Style { size_pt: 10.5, ..BOLD }, &issue.main.title);
    let names: Vec<&str> = issue.categories.iter().map(|it| it.title()).collect();
    let cost = if issue.points_lost >= 0.1 {
        format!(" · costs {:.1} points", issue.points_lost)
    } else {
        String::new()
    };
    canvas.paragraph(x, width, SMALL, &format!("{}{cost}", names.join(", ")));
    canvas.paragraph(x, width, REGULAR, &issue.main.explanation);
    canvas.skip(2.0);
    let fix = format!("How to fix it. {}", issue.main.how_to_fix);
    canvas.boxed(x, width, REGULAR, (0.93, 0.955, 1.0), &fix);
    for it in issue.evidence.iter().take(EVIDENCE_SHOWN) {
        let place = it.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        canvas.paragraph(x + 6.0, width - 6.0, SMALL, &format!("{place}{}", it.text));
    }
    let hidden = issue.evidence.len().saturating_sub(EVIDENCE_SHOWN)
        + usize::try_from(issue.evidence_left_out).unwrap_or(0);
    if hidden > 0 {
        canvas.paragraph(x + 6.0, width - 6.0, SMALL, &format!("and {hidden} more"));
    }
    canvas.skip(9.0);
}

pub(super) fn comparison(canvas: &mut Canvas, context: &ReportContext<'_>) {
    let Some(comparison) = context.comparison else { return };
    canvas.heading("Since the previous audit");
    for (title, changes, score) in
        [("Mended", &comparison.mended, 100), ("Newly broken", &comparison.broken, 0)]
    {
        canvas.need(30.0);
        canvas.paragraph(LEFT, WIDTH, Style { color: color(score), ..BOLD }, title);
        if changes.is_empty() {
            canvas.paragraph(LEFT + 10.0, WIDTH - 10.0, SMALL, "nothing");
        }
        for change in changes.iter().take(CHANGES_SHOWN) {
            let text = format!("{} ({})", change.title, change.category.title());
            canvas.paragraph(LEFT + 10.0, WIDTH - 10.0, REGULAR, &text);
        }
        if changes.len() > CHANGES_SHOWN {
            let more = format!("and {} more", changes.len() - CHANGES_SHOWN);
            canvas.paragraph(LEFT + 10.0, WIDTH - 10.0, SMALL, &more);
        }
        canvas.skip(5.0);
    }
}

fn row(canvas: &mut Canvas, name: &str, value: &str) {
    const NAME_WIDTH: f32 = 210.0;
    let height = Canvas::line_height(REGULAR) + 2.5;
    canvas.need(height);
    let y = canvas.y() + 10.0;
    canvas.line_at(LEFT, y, NAME_WIDTH, Style { color: SOFT, ..REGULAR }, name);
    canvas.line_at(LEFT + NAME_WIDTH + 8.0, y, WIDTH - NAME_WIDTH - 8.0, REGULAR, value);
    canvas.skip(height);
    canvas.rule();
    canvas.skip(1.0);
}

pub(super) fn measurements(canvas: &mut Canvas, verdict: &Verdict) {
    canvas.heading("Measurements");
    for (name, value) in measured(verdict) {
        row(canvas, &name, &value);
    }
    for it in &verdict.facts.redirects {
        row(
            canvas,
            &format!("Redirect ({}, {} ms)", it.status, it.took_ms),
            &format!("{} → {}", it.from, it.to.as_deref().unwrap_or("?")),
        );
    }
}

pub(super) fn screenshot(canvas: &mut Canvas, picture: &Picture) {
    const HEIGHT_MAX: f32 = 420.0;
    let (width, height) = picture.size();
    let scale = (WIDTH / width).min(HEIGHT_MAX / height);
    canvas.need(height * scale + 60.0);
    canvas.heading("What visitors see");
    let y = canvas.y();
    canvas.rect(LEFT - 0.5, y - 0.5, width * scale + 1.0, height * scale + 1.0, RULE);
    canvas.picture(LEFT, y, width * scale, height * scale);
    canvas.skip(height * scale + 6.0);
}

const PHASES: [(&str, Color); 5] = [
    ("DNS", (0.49, 0.34, 0.76)),
    ("connect", (0.94, 0.56, 0.0)),
    ("TLS", (0.76, 0.09, 0.36)),
    ("wait", (0.60, 0.65, 0.69)),
    ("download", (0.10, 0.46, 0.82)),
];

#[expect(clippy::cast_precision_loss, reason = "milliseconds of an audit, for a picture")]
pub(super) fn waterfall(canvas: &mut Canvas, verdict: &Verdict) {
    const NAMES: f32 = 160.0;
    const BARS: f32 = WIDTH - NAMES - 70.0;
    const ROW: f32 = 13.0;
    canvas.heading("How the page loads");
    let mut x = LEFT;
    for (name, color) in PHASES {
        let y = canvas.y();
        canvas.rect(x, y + 2.0, 7.0, 7.0, color);
        canvas.line_at(x + 10.0, y + 9.0, 60.0, SMALL, name);
        x += 22.0 + canvas.width(SMALL, name);
    }
    canvas.skip(17.0);
    let end = waterfall_ms(&verdict.facts) as f32;
    for request in verdict.facts.requests.iter().take(ROWS_MAX) {
        canvas.need(ROW);
        let y = canvas.y();
        let style = Style { is_bold: request.is_blocking, ..SMALL };
        canvas.line_at(LEFT, y + 9.0, NAMES - 6.0, style, &short_url(&request.url, 40));
        let mut at = request.began_ms as f32;
        for (length, (_, color)) in phases(request).into_iter().zip(PHASES) {
            let length = length as f32;
            canvas.rect(LEFT + NAMES + BARS * at / end, y + 2.5, BARS * length / end, 7.5, color);
            at += length;
        }
        let (said, is_bad) = match (&request.problem, request.status) {
            (Some(_), _) => ("not fetched".to_owned(), true),
            (None, Some(status)) if status >= 400 => (format!("status {status}"), true),
            _ => (bytes(request.transfer_bytes), false),
        };
        let style = if is_bad { Style { color: color(0), ..SMALL } } else { SMALL };
        canvas.line_right(RIGHT, y + 9.0, style, &said);
        canvas.skip(ROW);
    }
    let whole = format!(
        "Bold names block painting. The bars span {}.",
        millis(waterfall_ms(&verdict.facts))
    );
    canvas.skip(3.0);
    canvas.paragraph(LEFT, WIDTH, SMALL, &whole);
}

#[expect(clippy::cast_precision_loss, reason = "microseconds between audits, for a picture")]
pub(super) fn history(canvas: &mut Canvas, context: &ReportContext<'_>) {
    const HEIGHT: f32 = 110.0;
    let (Some(first), Some(last)) = (context.history.first(), context.history.last()) else {
        return;
    };
    if context.history.len() < 2 {
        return;
    }
    canvas.need(HEIGHT + 84.0);
    canvas.heading("History");
    canvas.skip(6.0);
    let top = canvas.y();
    let left = LEFT + 24.0;
    for score in [0, 50, 100_u8] {
        let y = top + HEIGHT * (1.0 - f32::from(score) / 100.0);
        canvas.rect(left, y, RIGHT - left, 0.5, RULE);
        canvas.line_right(left - 5.0, y + 3.0, SMALL, &score.to_string());
    }
    let span = (last.at.as_micros() - first.at.as_micros()).max(1) as f32;
    let place = |it: &crate::HistoryPoint| {
        let share = ((it.at.as_micros() - first.at.as_micros()) as f32 / span).clamp(0.0, 1.0);
        (
            left + (RIGHT - left) * share,
            top + HEIGHT * (1.0 - f32::from(it.overall.min(100)) / 100.0),
        )
    };
    let points: Vec<_> = context.history.iter().map(place).collect();
    canvas.polyline(&points, 2.0, (0.11, 0.31, 0.85));
    for (x, y) in points {
        canvas.disc(x, y, 2.5, (0.11, 0.31, 0.85));
    }
    let y = top + HEIGHT + 14.0;
    canvas.line_at(left, y, 140.0, SMALL, &crate::report::markup::when(first.at));
    canvas.line_right(RIGHT, y, SMALL, &crate::report::markup::when(last.at));
    canvas.move_to(y + 4.0);
}

pub(super) fn fourteen(canvas: &mut Canvas, verdict: &Verdict) {
    canvas.need(150.0);
    canvas.heading("The fourteen basic checks");
    for finding in &verdict.checks {
        let Some(check) = verdict.raw_data.checks.get(&finding.key) else { continue };
        let title = finding.title.as_str();
        canvas.need(15.0);
        let y = canvas.y();
        canvas.disc(LEFT + 4.0, y + 6.5, 3.5, color(check.score));
        canvas.line_at(LEFT + 14.0, y + 10.0, WIDTH - 60.0, REGULAR, title);
        canvas.line_right(RIGHT, y + 10.0, REGULAR, &check.score.to_string());
        canvas.skip(15.0);
    }
}

pub(super) fn missing(canvas: &mut Canvas, verdict: &Verdict) {
    if verdict.facts.missing.is_empty() {
        return;
    }
    canvas.heading("What was not measured");
    for it in &verdict.facts.missing {
        canvas.paragraph(LEFT, WIDTH, BOLD, &it.what);
        canvas.paragraph(LEFT, WIDTH, Style { color: SOFT, ..REGULAR }, &it.reason);
        canvas.skip(4.0);
    }
}

pub(super) fn method(canvas: &mut Canvas, verdict: &Verdict) {
    let weights: Vec<String> =
        Category::ALL.iter().map(|it| format!("{} {} %", it.title(), it.weight())).collect();
    canvas.heading("How it is scored");
    let mut text = format!(
        "The overall score is the mean of the categories by these weights: {}. Performance, search engines, accessibility \
         and best practices are weighted as Lighthouse weights them; security is graded as MDN's HTTP Observatory grades \
         it. Times marked as estimated are worked out for {} and were not measured. Made by Roundsman, rules of version {}.",
        weights.join(", "),
        device(verdict.device),
        verdict.engine_version
    );
    if canvas.has_unknown() {
        text.push_str(" Letters that this document has no picture for show as boxes; the HTML report shows them all.");
    }
    canvas.paragraph(LEFT, WIDTH, SMALL, &text);
}
