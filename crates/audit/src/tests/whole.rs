//! Whole pages: what is said of them is kept as golden files, and what must hold for every page is
//! tried with pages that nobody wrote.

use std::fmt::Write;

use proptest::prelude::*;
use roundsman_core::audits::observed::{BrowserSeen, Observed, Seen};

use super::reports::poor;
use super::*;
use crate::verdict::{Category, Impact, Outcome};
use crate::{Device, ReportContext, compare, report_html, report_pdf, report_text};

/// Scores and outcomes, without the words.
fn told(verdict: &Verdict) -> String {
    let mut text = format!(
        "overall {} security {} ({})\n",
        verdict.overall, verdict.security_grade, verdict.security_points
    );
    for it in &verdict.categories {
        let _ = writeln!(text, "{} {}", it.category.key(), it.score);
    }
    for it in verdict.checks.iter().filter(|it| it.outcome != Outcome::Passed) {
        let score = it.score.map_or("-".to_owned(), |it| it.to_string());
        let _ = writeln!(
            text,
            "{:?} {} {score} {:?} {}",
            it.outcome, it.key, it.impact, it.points_lost
        );
    }
    let facts = &verdict.facts;
    let _ = writeln!(
        text,
        "ttfb {} fcp {} lcp {} bytes {} requests {}",
        facts.ttfb_ms, facts.fcp_est_ms, facts.lcp_est_ms, facts.total_bytes, facts.request_count
    );
    text
}

#[test]
fn golden_verdicts() {
    insta::assert_snapshot!("sound", told(&verdict(&seen(SOUND))));
    insta::assert_snapshot!("poor", told(&verdict(&poor())));
    let empty = seen("");
    insta::assert_snapshot!("empty", told(&verdict(&empty)));
    let mut picture = seen("");
    picture.page.headers = headers(&[("content-type", "image/png")]);
    picture.page.body = b"\x89PNG\0\0".to_vec();
    insta::assert_snapshot!("not_a_page", told(&verdict(&picture)));
    insta::assert_snapshot!("browser", told(&verdict(&in_a_browser())));
}

#[test]
fn golden_reports() {
    let (before, now) = (verdict(&seen(SOUND)), verdict(&poor()));
    let comparison = compare(&before, &now);
    let context = ReportContext { comparison: Some(&comparison), ..ReportContext::default() };
    insta::assert_snapshot!("report_html", report_html(&now, &context));
    insta::assert_snapshot!("report_text", report_text(&now, Some(&comparison), 100));
}

fn in_a_browser() -> Observed {
    let mut seen = seen(SOUND);
    seen.browser = Seen::Seen(BrowserSeen {
        first_paint: Some(Duration::from_millis(180)),
        first_contentful_paint: Some(Duration::from_millis(190)),
        largest_contentful_paint: Some(Duration::from_millis(420)),
        largest_element: Some("header > img".to_owned()),
        layout_shift: 0.31,
        blocking_time: Duration::from_millis(900),
        dom_content_loaded: Some(Duration::from_millis(300)),
        load: Some(Duration::from_millis(500)),
        transfer_bytes: 9_000,
        requests: 3,
        console_errors: vec!["ReferenceError: x is not defined".to_owned()],
        screenshot_png: None,
        viewport_width_px: 412,
        viewport_height_px: 823,
        browser: "Chromium 130".to_owned(),
    });
    seen
}

#[test]
fn a_browser_s_measures_count_where_it_can_measure_them() {
    let phone = verdict(&in_a_browser());
    assert_eq!(finding(&phone, "performance_blocking_time").outcome, Outcome::Failed);
    assert_eq!(finding(&phone, "performance_layout_shift").outcome, Outcome::Failed);
    assert_eq!(finding(&phone, "best_practices_console_errors").outcome, Outcome::Failed);
    // The browser's network is not a phone's: paints stay estimated.
    assert!(
        finding(&phone, "performance_first_contentful_paint").explanation.contains("estimated")
    );
    let options = JudgeOptions { device: Device::Desktop };
    let desktop = judge(&in_a_browser(), &options);
    assert!(
        finding(&desktop, "performance_first_contentful_paint").explanation.contains("measured")
    );
    let without = verdict(&seen(SOUND));
    assert_eq!(finding(&without, "performance_blocking_time").outcome, Outcome::NotMeasured);
    assert!(without.facts.missing.iter().any(|it| it.what.contains("browser")));
}

#[test]
fn comparison_tells_what_changed() {
    let (good, bad) = (verdict(&seen(SOUND)), verdict(&poor()));
    let worse = compare(&good, &bad);
    assert!(worse.overall < 0 && worse.mended.is_empty() && worse.broken.len() > 20);
    let better = compare(&bad, &good);
    assert_eq!(better.overall, -worse.overall);
    assert!(better.broken.is_empty() && better.mended.len() > 15);
    let same = compare(&good, &good);
    assert!(same.broken.is_empty() && same.mended.is_empty() && same.overall == 0);
    let mut old = good.clone();
    old.engine_version = 0;
    assert!(compare(&old, &good).is_other_engine);
}

#[test]
fn a_verdict_survives_being_stored() {
    let verdict = verdict(&poor());
    let text = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
    assert!(!text.contains("secretvalue"), "a cookie's value is nobody's business");
}

/// What must hold whatever the page is. Also what the fuzzer checks.
fn check_verdict(verdict: &Verdict) {
    assert_eq!(verdict.categories.len(), Category::ALL.len());
    assert!(verdict.overall <= 100 && verdict.categories.iter().all(|it| it.score <= 100));
    assert_eq!(verdict.raw_data.checks.len(), 14);
    let mut keys: Vec<_> = verdict.checks.iter().map(|it| &it.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), verdict.checks.len(), "every key is there once");
    for it in &verdict.checks {
        assert_eq!(it.outcome == Outcome::Failed, it.impact != Impact::None, "{}", it.key);
        assert_eq!(it.outcome == Outcome::Failed, !it.how_to_fix.is_empty(), "{}", it.key);
        assert!(it.points_lost.is_finite() && it.points_lost >= 0.0);
        assert!(it.score.is_none_or(|it| it <= 100));
        assert!(it.evidence.len() <= 10 && it.evidence.iter().all(|it| it.text.len() <= 1_200));
    }
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<div style=\"color:#fff;background:#eee;font-size:1px\">".to_owned()),
        Just("<a href=\"//x\u{202e}\" class=cta>try".to_owned()),
        Just("<img src=data:, alt=\"\" width=1e999 height=-1>".to_owned()),
        Just("<svg><title>x</title><style><a></svg>".to_owned()),
        Just("<table><tr><b><form><input type=image>".to_owned()),
        Just(
            "<meta http-equiv=Content-Security-Policy content=\"default-src; ;;default-src\">"
                .to_owned()
        ),
        Just(
            "<base href=\"http://[\"><script src=a></script><link rel=canonical href=\"?\">"
                .to_owned()
        ),
        Just("<script type=application/ld+json>[{}</script>".to_owned()),
        Just("<template><h1></template><h6 tabindex=9999999999999999999>".to_owned()),
        "<?/?[a-z]{1,8}( [a-z]{1,4}=\"?.{0,6}\"?)?>?",
        ".{0,20}",
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_page_and_no_header_breaks_the_judge(
        html in pieces(),
        header in prop_oneof!["[ -~]{0,60}", "default-src[ -~]{0,40}", "max-age=[0-9]{0,30}"],
        robots in "(?s).{0,80}",
        body in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut seen = seen(&html);
        seen.page.body.extend(body);
        for name in ["content-security-policy", "strict-transport-security", "set-cookie", "x-robots-tag",
            "referrer-policy", "content-type", "cache-control", "x-frame-options"] {
            seen.page.headers.0.push((name.to_owned(), header.clone()));
        }
        if let Seen::Seen(it) = &mut seen.robots {
            it.body = robots.into_bytes();
        }
        let verdict = verdict(&seen);
        check_verdict(&verdict);
        prop_assert_eq!(&judge(&seen, &JudgeOptions::default()), &verdict);
        let context = ReportContext::default();
        let page = report_html(&verdict, &context);
        let is_clean = !page.contains("<script") && !page.contains('\u{202e}');
        prop_assert!(is_clean, "foreign markup got through");
        prop_assert!(report_pdf(&verdict, &context).starts_with(b"%PDF-"));
        report_text(&verdict, None, 10);
    }
}

/// The table of `docs/audit-scores.md`.
fn table() -> String {
    let mut text = String::from("| check | category | weight |\n|---|---|---|\n");
    for it in &verdict(&seen(SOUND)).checks {
        let weight = match it.modifier {
            Some(_) => "modifier".to_owned(),
            None => format!("{}", (it.weight * 100.0).round() / 100.0),
        };
        let _ = writeln!(text, "| `{}` | {} | {weight} |", it.key, it.category.key());
    }
    text
}

#[test]
fn the_published_weights_are_those_that_are_used() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/audit-scores.md");
    let document = std::fs::read_to_string(path).unwrap();
    assert!(
        document.contains(&table()),
        "docs/audit-scores.md is stale; its table is now:\n{}",
        table()
    );
    for category in Category::ALL {
        let row = format!("| `{}` | {} |", category.key(), category.weight());
        assert!(document.contains(&row), "docs/audit-scores.md lacks {row}");
    }
    assert_eq!(Category::ALL.iter().map(|it| u32::from(it.weight())).sum::<u32>(), 100);
}
