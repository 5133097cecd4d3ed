//! What must hold for whatever a site answers: an input is headers, one per line, an empty line, and the
//! page. The same headers and the same body stand for robots.txt and for what a script's file is.

use std::time::Duration;

use roundsman_audit::{
    Category, JudgeOptions, Outcome, ReportContext, Verdict, compare, judge, report_html,
    report_pdf, report_text,
};
use roundsman_core::Timestamp;
use roundsman_core::audits::observed::{
    Fetched, Headers, Hop, HttpVersion, ImageSeen, Observed, Placement, Resource, ResourceAnswer,
    ResourceKind, Seen, Timing,
};

const NOW: Timestamp = Timestamp::from_micros(1_769_860_800_000_000);
const HEADERS_MAX: usize = 40;

/// Panics if something does not hold.
pub(crate) fn check(data: &[u8]) {
    let seen = observed(data);
    let verdict = judge(&seen, &JudgeOptions::default());
    assert_eq!(
        judge(&seen, &JudgeOptions::default()),
        verdict,
        "the same look is the same verdict"
    );
    check_verdict(&verdict);
    let stored = serde_json::to_string(&verdict).expect("a verdict can be stored");
    let read: Verdict = serde_json::from_str(&stored).expect("a verdict can be read");
    assert_eq!(read.checks.len(), verdict.checks.len());
    let comparison = compare(&verdict, &verdict);
    assert!(
        comparison.broken.is_empty() && comparison.mended.is_empty() && comparison.overall == 0
    );
    let context = ReportContext {
        comparison: Some(&comparison),
        screenshot_png: Some(data),
        ..ReportContext::default()
    };
    let page = report_html(&verdict, &context);
    assert!(!page.contains("<script"), "nothing foreign runs in a report");
    assert!(report_pdf(&verdict, &context).starts_with(b"%PDF-"));
    let text = report_text(&verdict, Some(&comparison), 80);
    assert!(!text.contains('\u{1b}'), "nothing foreign moves the cursor");
}

fn check_verdict(verdict: &Verdict) {
    assert_eq!(verdict.categories.len(), Category::ALL.len());
    assert!(verdict.overall <= 100 && verdict.categories.iter().all(|it| it.score <= 100));
    assert_eq!(verdict.raw_data.checks.len(), 14);
    for finding in &verdict.checks {
        assert!(finding.score.is_none_or(|it| it <= 100));
        assert!(finding.points_lost.is_finite() && finding.points_lost >= 0.0);
        assert_eq!(finding.outcome == Outcome::Failed, !finding.how_to_fix.is_empty());
    }
}

fn observed(data: &[u8]) -> Observed {
    let at = data.windows(2).position(|it| it == b"\n\n").unwrap_or(0);
    let (head, body) = data.split_at(at);
    let head = String::from_utf8_lossy(head).into_owned();
    let pairs = head.lines().filter_map(|line| line.split_once(':')).take(HEADERS_MAX);
    let pairs = pairs.map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()));
    let headers = Headers(pairs.collect());
    let url = headers.first("location").unwrap_or("https://www.example.co.uk/a/b?c=d").to_owned();
    let page = Fetched {
        url: url.clone(),
        status: 200,
        headers: headers.clone(),
        body: body.to_vec(),
        is_whole: true,
        transfer_bytes: 1_000,
        http_version: HttpVersion::Http11,
        tls: None,
        timing: Timing { wait: Duration::from_millis(90), ..Timing::default() },
    };
    let hop = Hop {
        url: url.clone(),
        status: 301,
        location: Some(head.clone()),
        headers: headers.clone(),
        timing: Timing::default(),
    };
    let resource = |kind| Resource {
        url: url.clone(),
        kind,
        placement: Placement { line: 1, in_head: true, is_blocking: true },
        answer: Seen::Seen(ResourceAnswer {
            status: 200,
            final_url: url.clone(),
            headers: headers.clone(),
            transfer_bytes: 9_000,
            decoded_bytes: 90_000,
            http_version: HttpVersion::Http2,
            timing: Timing::default(),
            body: Some(body.to_vec()),
            image: Some(ImageSeen { format: head.clone(), width_px: Some(0), height_px: None }),
        }),
    };
    let kinds = [ResourceKind::Script, ResourceKind::Stylesheet, ResourceKind::Image];
    Observed {
        asked_url: head.clone(),
        began_at: NOW,
        took: Duration::from_millis(5),
        hops: vec![hop.clone()],
        plain_http: Seen::Seen(vec![hop]),
        foreign_origin: Seen::Seen(headers.clone()),
        robots: Seen::Seen(page.clone()),
        sitemaps: vec![Seen::Seen(page.clone())],
        resources: kinds.map(resource).to_vec(),
        resources_left_out: 1,
        browser: Seen::Missing(head),
        page,
    }
}
