//! The reports of a whole page with many defects.

use super::*;
use crate::verdict::Category;
use crate::{
    HistoryPoint, ReportContext, compare, history_svg, report_html, report_pdf, report_text,
};

/// A page that somebody really could have written, with a bit of everything.
pub(crate) const POOR: &str = r#"<html>
<head>
<title></title>
<meta name="viewport" content="width=device-width, maximum-scale=1">
<script src="https://cdn.example.net/jquery.js"></script>
<link rel="stylesheet" href="/style.css">
</head>
<body>
<h1>Köln Räder &amp; Ко: Велосипеды 自転車</h1>
<h1>Welcome</h1>
<h4>News</h4>
<img src="http://poor.example/photo.png">
<img src="/banner.gif" width="900" height="100">
<table width="960"><tr><td style="font-size: 9px; color: #aaa; background: #fff">small print</td></tr></table>
<a href="javascript:open()">click here</a> <a href="/shop">read more</a>
<a href="/x"></a>
<form><input name="email"><input type="password" onpaste="return false"></form>
<p>"><script>alert('report')</script></p>
<img src="x" onerror="alert(1)">
<script type="application/ld+json">{"@type": "Shop",}</script>
</body>
</html>
"#;

pub(crate) fn poor() -> Observed {
    let mut seen = seen(POOR);
    let url = "https://poor.example/start?q=<b>";
    seen.asked_url = "http://poor.example/".to_owned();
    seen.hops = vec![
        hop("http://poor.example/", Some("http://www.poor.example/")),
        hop("http://www.poor.example/", Some(url)),
    ];
    seen.page.url = url.to_owned();
    seen.page.headers = headers(&[
        ("content-type", "text/html"),
        ("server", "Apache/2.2 <img src=x onerror=alert(2)>"),
        ("set-cookie", "PHPSESSID=secretvalue; path=/"),
        ("x-powered-by", "PHP/5.6"),
    ]);
    seen.page.http_version = HttpVersion::Http11;
    seen.page.timing = timing(60, 1_240);
    seen.page.transfer_bytes = 48_000;
    seen.page.tls.as_mut().unwrap().valid_until = Some(NOW + Duration::from_secs(9 * 86_400));
    seen.plain_http = Seen::Seen(seen.hops.clone());
    seen.robots = Seen::Missing("connection reset".to_owned());
    seen.sitemaps = vec![Seen::Missing("not found".to_owned())];
    let mut resources = vec![
        resource("https://cdn.example.net/jquery.js", ResourceKind::Script, 310_000),
        resource("https://poor.example/style.css", ResourceKind::Stylesheet, 64_000),
        resource("https://poor.example/photo.png", ResourceKind::Image, 1_900_000),
        resource("https://poor.example/banner.gif", ResourceKind::Image, 240_000),
        resource("https://poor.example/x", ResourceKind::Image, 300),
    ];
    for (resource, at) in resources.iter_mut().zip(0_u64..) {
        let Seen::Seen(answer) = &mut resource.answer else { continue };
        answer.headers = Headers::default();
        answer.timing = timing(1_360 + at * 90, 60 + at * 45);
        answer.timing.download = Duration::from_millis(answer.transfer_bytes / 2_000);
        resource.placement.is_blocking = at < 2;
        resource.placement.line = 5;
        if at == 4 {
            answer.status = 404;
        }
    }
    seen.resources = resources;
    seen.resources.push(Resource {
        answer: Seen::Missing("timeout".to_owned()),
        ..resource("https://slow.example/tracker.js", ResourceKind::Script, 0)
    });
    seen.resources_left_out = 7;
    seen
}

fn history() -> Vec<HistoryPoint> {
    let point = |(days, overall): (u64, u8)| HistoryPoint {
        at: NOW - Duration::from_secs(days * 86_400),
        overall,
        scores: Category::ALL
            .iter()
            .zip(0_u8..)
            .map(|(it, n)| (*it, (overall + n * 3).min(100)))
            .collect(),
    };
    [(30, 31), (23, 36), (16, 35), (9, 52), (2, 48), (0, 41)].map(point).to_vec()
}

#[test]
fn the_page_lets_no_foreign_markup_through() {
    let now = verdict(&poor());
    let before = verdict(&seen(SOUND));
    let comparison = compare(&before, &now);
    let history = history();
    let context = ReportContext {
        comparison: Some(&comparison),
        screenshot_png: Some(b"png"),
        history: &history,
    };
    let html = report_html(&now, &context);
    for forbidden in
        ["<script", "<img src=x", "onerror=\"", "<b>", "secretvalue", "http-equiv=\"refresh"]
    {
        let html = html.replace("<b>How to fix it.</b>", "").replace("<b>bold</b>", "");
        let html = Category::ALL
            .iter()
            .fold(html, |html, it| html.replace(&format!("<b>{}</b>", it.title()), ""));
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    let lower = html.to_lowercase();
    for outside in ["src=\"http", "href=\"http", "url(http", "@import", "<link", "<iframe"] {
        assert!(!lower.contains(outside), "{outside}");
    }
    assert!(html.contains("Велосипеды") || html.contains("poor.example"));
    let text = report_text(&now, Some(&comparison), 100);
    assert!(!text.contains('\u{1b}') && text.contains("poor.example"));
    assert!(report_pdf(&now, &context).len() > 1_000);
    assert!(history_svg(&history).starts_with("<svg"));
    assert!(history_svg(&[]).contains("No audits yet"));
}
