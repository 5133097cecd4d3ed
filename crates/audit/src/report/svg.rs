//! Pictures: rings, the waterfall of requests, the history.

use super::HistoryPoint;
use super::markup::{Esc, Markup, when};
use crate::text::{bytes, ellipsis, millis};
use crate::verdict::{Category, Facts, Light, RequestFact};

const ROWS_MAX: usize = 60;
const POINTS_MAX: usize = 200;

pub(super) fn color(score: u8) -> &'static str {
    match Light::of(score) {
        Light::Red => "#c62828",
        Light::Yellow => "#b26a00",
        Light::Green => "#1b7f3b",
    }
}

/// A ring that is filled as far as the score, with the number in it.
pub(super) fn ring(score: u8, size_px: u32) -> String {
    const RADIUS: f64 = 52.0;
    let around = 2.0 * std::f64::consts::PI * RADIUS;
    let filled = around * f64::from(score.min(100)) / 100.0;
    let color = color(score);
    // A round end would show as a dot where nothing is filled.
    let cap = if score == 0 { "butt" } else { "round" };
    format!(
        "<svg width=\"{size_px}\" height=\"{size_px}\" viewBox=\"0 0 120 120\" role=\"img\" aria-label=\"{score} of 100\">\
         <circle cx=\"60\" cy=\"60\" r=\"{RADIUS}\" fill=\"none\" stroke=\"#e6e8ec\" stroke-width=\"11\"/>\
         <circle cx=\"60\" cy=\"60\" r=\"{RADIUS}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"11\" stroke-linecap=\"{cap}\" stroke-dasharray=\"{filled:.1} {around:.1}\" transform=\"rotate(-90 60 60)\"/>\
         <text x=\"60\" y=\"60\" dy=\".36em\" text-anchor=\"middle\" font-size=\"38\" font-weight=\"700\" fill=\"{color}\">{score}</text></svg>"
    )
}

/// The parts of a request, their colours and what they are called.
pub(super) const PHASES: [(&str, &str); 5] = [
    ("DNS", "#7e57c2"),
    ("connect", "#ef8f00"),
    ("TLS", "#c2185b"),
    ("wait", "#9aa5b1"),
    ("download", "#1976d2"),
];

pub(super) fn phases(request: &RequestFact) -> [u64; 5] {
    [request.dns_ms, request.connect_ms, request.tls_ms, request.wait_ms, request.download_ms]
}

/// The last moment of the waterfall, never zero.
pub(super) fn waterfall_ms(facts: &Facts) -> u64 {
    let end = |it: &RequestFact| {
        phases(it).iter().fold(it.began_ms, |sum, part| sum.saturating_add(*part))
    };
    facts.requests.iter().take(ROWS_MAX).map(end).max().unwrap_or(0).max(1)
}

/// What is told of a request in little room: the end of its path says more than its host.
pub(super) fn short_url(url: &str, chars_max: usize) -> String {
    let Ok(parsed) = url::Url::parse(url) else { return ellipsis(url, chars_max) };
    let path = parsed.path();
    let name = path.trim_end_matches('/').rsplit('/').next().filter(|it| !it.is_empty());
    let text = match (parsed.host_str(), name) {
        (Some(host), Some(name)) => format!("{host}/…/{name}"),
        (Some(host), None) => host.to_owned(),
        _ => url.to_owned(),
    };
    let text = text.replace("/…/", if path.matches('/').count() > 1 { "/…/" } else { "/" });
    if text.chars().count() <= chars_max {
        text
    } else {
        ellipsis(name.unwrap_or(&text), chars_max)
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of an audit are far below 2^52")]
pub(super) fn waterfall(facts: &Facts) -> String {
    const LEFT: f64 = 250.0;
    const WIDTH: f64 = 560.0;
    const ROW: f64 = 22.0;
    const TOP: f64 = 30.0;
    let rows = facts.requests.len().min(ROWS_MAX);
    let height = TOP + ROW * rows as f64 + 8.0;
    let end = waterfall_ms(facts);
    let x = |ms: u64| LEFT + WIDTH * ms as f64 / end as f64;
    let mut svg = Markup::default();
    svg.add(format_args!("<svg viewBox=\"0 0 940 {height}\" width=\"100%\" role=\"img\" aria-label=\"Requests over time\" font-size=\"11.5\">"));
    for part in 0..=4 {
        let ms = end * part / 4;
        let at = x(ms);
        svg.add(format_args!("<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"20\" y2=\"{height}\" stroke=\"#e6e8ec\"/><text x=\"{at:.1}\" y=\"13\" text-anchor=\"middle\" fill=\"#667085\">{}</text>", millis(ms)));
    }
    for (request, row) in facts.requests.iter().take(ROWS_MAX).zip(0_u32..) {
        let y = TOP + ROW * f64::from(row);
        let middle = y + 14.0;
        if row % 2 == 1 {
            svg.add(format_args!("<rect x=\"0\" y=\"{y}\" width=\"940\" height=\"{ROW}\" fill=\"#0b1f33\" fill-opacity=\".025\"/>"));
        }
        let weight = if request.is_blocking { " font-weight=\"700\"" } else { "" };
        svg.add(format_args!(
            "<text x=\"4\" y=\"{middle}\" fill=\"#1d2939\"{weight}>{}<title>{}</title></text>",
            Esc(&short_url(&request.url, 36)),
            Esc(&request.url)
        ));
        let mut at = request.began_ms;
        for (length, (_, color)) in phases(request).into_iter().zip(PHASES) {
            let width =
                (x(at.saturating_add(length)) - x(at)).max(if length > 0 { 1.0 } else { 0.0 });
            if width > 0.0 {
                svg.add(format_args!("<rect x=\"{:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"12\" fill=\"{color}\"/>", x(at), y + 5.0));
            }
            at = at.saturating_add(length);
        }
        let said = match (&request.problem, request.status) {
            (Some(_), _) => "not fetched".to_owned(),
            (None, Some(status)) if status >= 400 => format!("status {status}"),
            _ => bytes(request.transfer_bytes),
        };
        let color = if request.problem.is_some() || request.status.is_some_and(|it| it >= 400) {
            "#c62828"
        } else {
            "#475467"
        };
        svg.add(format_args!(
            "<text x=\"934\" y=\"{middle}\" text-anchor=\"end\" fill=\"{color}\">{said}</text>"
        ));
    }
    svg.raw("</svg>");
    svg.done()
}

/// A plot of the scores over time, as a self-contained SVG picture.
#[expect(clippy::cast_precision_loss, reason = "microseconds between audits are far below 2^52")]
pub fn history_svg(points: &[HistoryPoint]) -> String {
    const LEFT: f64 = 40.0;
    const RIGHT: f64 = 880.0;
    const TOP: f64 = 16.0;
    const BOTTOM: f64 = 216.0;
    let points = &points[points.len().saturating_sub(POINTS_MAX)..];
    let mut svg = Markup::default();
    svg.raw("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 250\" width=\"100%\" role=\"img\" aria-label=\"Scores over time\" font-family=\"system-ui, sans-serif\" font-size=\"12\">");
    for score in [0, 25, 50, 75, 100_u8] {
        let y = BOTTOM - (BOTTOM - TOP) * f64::from(score) / 100.0;
        svg.add(format_args!("<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#e6e8ec\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#667085\">{score}</text>", LEFT - 8.0, y + 4.0));
    }
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        svg.raw("<text x=\"460\" y=\"120\" text-anchor=\"middle\" fill=\"#667085\">No audits yet</text></svg>");
        return svg.done();
    };
    let span = (last.at.as_micros() - first.at.as_micros()).max(1) as f64;
    let place = |point: &HistoryPoint, score: u8| {
        let share = (point.at.as_micros() - first.at.as_micros()) as f64 / span;
        let share = if points.len() == 1 { 0.5 } else { share.clamp(0.0, 1.0) };
        let y = BOTTOM - (BOTTOM - TOP) * f64::from(score.min(100)) / 100.0;
        (LEFT + (RIGHT - LEFT) * share, y)
    };
    let path = |score: &dyn Fn(&HistoryPoint) -> Option<u8>| -> String {
        let places = points.iter().filter_map(|it| Some(place(it, score(it)?)));
        places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
    };
    for category in Category::ALL {
        let score = |it: &HistoryPoint| {
            it.scores.iter().find(|(known, _)| *known == category).map(|it| it.1)
        };
        let line = path(&score);
        if !line.is_empty() {
            svg.add(format_args!("<polyline points=\"{line}\" fill=\"none\" stroke=\"#98a2b3\" stroke-opacity=\".55\" stroke-width=\"1.2\"><title>{}</title></polyline>", category.title()));
        }
    }
    svg.add(format_args!("<polyline points=\"{}\" fill=\"none\" stroke=\"#1d4ed8\" stroke-width=\"3\" stroke-linejoin=\"round\"/>", path(&|it| Some(it.overall))));
    for point in points {
        let (x, y) = place(point, point.overall);
        svg.add(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#fff\" stroke=\"#1d4ed8\" stroke-width=\"2\"><title>{}: {}</title></circle>", when(point.at), point.overall));
    }
    svg.add(format_args!("<text x=\"{LEFT}\" y=\"240\" fill=\"#667085\">{}</text><text x=\"{RIGHT}\" y=\"240\" text-anchor=\"end\" fill=\"#667085\">{}</text></svg>", when(first.at), when(last.at)));
    svg.done()
}
