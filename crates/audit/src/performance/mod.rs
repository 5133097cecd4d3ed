//! How fast the page is: measures scored by Lighthouse's curves, and what makes it slow.

mod caching;
mod curve;
mod estimate;
mod images;
mod loading;

use std::time::Duration;

use crate::finding::{Rule, rounded};
use crate::original::Speed;
use crate::page::Page;
use crate::text::millis;
use crate::verdict::{Category, Device, Finding, Impact};
use curve::Curve;
pub(crate) use estimate::Estimate;

/// Lighthouse's weights of the measures.
const FIRST_PAINT_WEIGHT: f64 = 10.0;
const LARGEST_PAINT_WEIGHT: f64 = 25.0;
const BLOCKING_TIME_WEIGHT: f64 = 30.0;
const LAYOUT_SHIFT_WEIGHT: f64 = 25.0;
const SPEED_INDEX_WEIGHT: f64 = 10.0;

pub(crate) struct Performance {
    pub(crate) findings: Vec<Finding>,
    pub(crate) speed: Speed,
    pub(crate) estimate: Estimate,
}

/// A rule of this category. Only the two of the original have weight in it.
const fn rule(key: &'static str, topic: &'static str, texts: [&'static str; 4]) -> Rule {
    let [good, bad, why, fix] = texts;
    Rule { key, category: Category::Performance, topic, weight: 0.0, good, bad, why, fix }
}

const FIRST_PAINT: Rule = rule(
    "performance_first_contentful_paint",
    "first_paint",
    [
        "Something is painted early",
        "It takes long until anything is painted",
        "Until the first text or image appears, visitors do not know whether the page works at all.",
        "Answer faster, avoid redirects, and load what blocks painting later or inline it.",
    ],
);

const LARGEST_PAINT: Rule = rule(
    "performance_largest_contentful_paint",
    "largest_paint",
    [
        "The main part of the page is painted early",
        "It takes long until the main part of the page is painted",
        "The largest image or text is what visitors came for. Search engines measure it, too.",
        "Make the largest image smaller, preload it, and do not load it lazily.",
    ],
);

const LAYOUT_SHIFT: Rule = rule(
    "performance_layout_shift",
    "image_dimensions",
    [
        "The page stays where it is while it loads",
        "The page jumps while it loads",
        "When something moves as it loads, visitors lose their place and hit the wrong button.",
        "Give images, videos and frames a width and a height, and keep room for what comes later.",
    ],
);

const SPEED_INDEX: Rule = rule(
    "performance_speed_index",
    "first_paint",
    [
        "The page fills quickly",
        "The page fills slowly",
        "The sooner most of the page can be seen, the faster it feels.",
        "Send what is seen first in the page itself, and everything else after it.",
    ],
);

const BLOCKING_TIME: Rule = rule(
    "performance_blocking_time",
    "javascript",
    [
        "Scripts leave room for visitors",
        "Scripts keep the page from answering",
        "While a script runs, nothing that visitors do has an effect.",
        "Send less script, split long tasks, and load what is not needed at once later.",
    ],
);

pub(crate) fn check(page: &Page<'_>, device: Device) -> Performance {
    let unsized_images = images::without_dimensions(page);
    let estimate = estimate::estimate(page, unsized_images.len(), device);
    let measures = measures(page, &estimate, device);
    let weights: f64 = measures.iter().map(|it| it.weight).sum();
    let sum: f64 = measures.iter().map(|it| it.weight * it.score).sum();
    let lcp_ms =
        whole_ms(measured_paints(page, device).map_or(estimate.largest_paint_ms, |it| it.1));
    let is_measured = measured_paints(page, device).is_some();
    let speed = Speed { score: rounded(sum / weights * 100.0), lcp_ms, is_measured, device };
    let mut findings: Vec<Finding> = measures.into_iter().map(|it| it.finding).collect();
    if page.seen.browser.as_option().is_none() {
        findings.push(BLOCKING_TIME.not_measured("Only a browser can measure this, and none did."));
    }
    findings.extend(loading::check(page));
    findings.extend(caching::check(page));
    findings.extend(images::check(page, &unsized_images));
    Performance { findings, speed, estimate }
}

struct Measure {
    weight: f64,
    score: f64,
    finding: Finding,
}

impl Measure {
    fn new(rule: &Rule, weight: f64, score: f64, says: &str) -> Self {
        let percent = rounded(score * 100.0);
        let impact = if score < 0.5 { Impact::High } else { Impact::Medium };
        let finding = rule.scored(percent).saying(says).mattering(impact);
        Measure { weight, score, finding }
    }
}

/// The browser that measures has no slow network. Its times stand for a desktop; for a phone, times
/// that depend on the network are estimated.
fn measured_paints(page: &Page<'_>, device: Device) -> Option<(f64, f64)> {
    let browser = page.seen.browser.as_option().filter(|_| device == Device::Desktop)?;
    let first = millis_of(browser.first_contentful_paint?);
    Some((first, browser.largest_contentful_paint.map_or(first, millis_of)))
}

fn millis_of(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn measures(page: &Page<'_>, estimate: &Estimate, device: Device) -> Vec<Measure> {
    let (first, largest, how) = match measured_paints(page, device) {
        Some((first, largest)) => (first, largest, "measured in a browser"),
        None => (estimate.first_paint_ms, estimate.largest_paint_ms, "estimated"),
    };
    let said = |value: f64| format!("About {} ({how}).", millis(whole_ms(value)));
    let paint = |rule, weight, curve: Curve, value: f64| {
        Measure::new(rule, weight, curve.score(value), &said(value))
    };
    let mut all = vec![
        paint(&FIRST_PAINT, FIRST_PAINT_WEIGHT, Curve::first_paint(device), first),
        paint(&LARGEST_PAINT, LARGEST_PAINT_WEIGHT, Curve::largest_paint(device), largest),
        paint(&SPEED_INDEX, SPEED_INDEX_WEIGHT, Curve::speed_index(device), first),
    ];
    let browser = page.seen.browser.as_option();
    let (shift, how) = match browser {
        Some(browser) => (browser.layout_shift, "measured in a browser"),
        None => (estimate.layout_shift, "estimated from images without dimensions"),
    };
    let says = format!("A shift of about {shift:.2} ({how}).");
    let score = Curve::layout_shift().score(shift);
    all.push(Measure::new(&LAYOUT_SHIFT, LAYOUT_SHIFT_WEIGHT, score, &says));
    if let Some(browser) = browser {
        let blocked = millis_of(browser.blocking_time);
        let says =
            format!("Blocked for {} in all (measured in a browser).", millis(whole_ms(blocked)));
        let score = Curve::blocking_time(device).score(blocked);
        all.push(Measure::new(&BLOCKING_TIME, BLOCKING_TIME_WEIGHT, score, &says));
    }
    all
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to a day, and never negative"
)]
pub(crate) fn whole_ms(value: f64) -> u64 {
    const DAY_MS: f64 = 86_400_000.0;
    value.round().clamp(0.0, DAY_MS) as u64
}
