//! What stylesheets refer to belongs to the page, within the same budget and behind the same guard.

use roundsman_core::audits::observed::ResourceKind::{Font, Image, Stylesheet};
use roundsman_core::audits::observed::{Observed, ResourceKind};
use roundsman_testkit::site::{Door, RobotsRule};

use super::{Canary, lab, lab_with, reason};

/// Kind and path of each part, with `!` if it blocks.
fn parts(seen: &Observed) -> Vec<(ResourceKind, String)> {
    let path = |url: &str| {
        let place = url.match_indices('/').nth(2).map_or(0, |(at, _)| at);
        url[place..].to_owned()
    };
    let part = |part: &roundsman_core::audits::observed::Resource| {
        let mark = if part.placement.is_blocking { "!" } else { "" };
        (part.kind, format!("{}{mark}", path(&part.url)))
    };
    seen.resources.iter().map(part).collect()
}

#[tokio::test]
async fn imports_and_fonts_are_fetched_as_a_browser_would() {
    let lab = lab().await;
    let seen = lab.look(Door::Plain, "/styled").await.unwrap();
    let expected = [
        (Stylesheet, "/redirect-to?url=/css/styled.css!"),
        (Font, "/fonts/text.woff2"),
        (Stylesheet, "/css/chain/1!"),
        (Font, "/fonts/own.woff2"),
        (Image, "/img/dot.gif"),
        // Of the sheets that the page names.
        (Stylesheet, "/css/parts/base.css!"),
        (Stylesheet, "/css/print.css"),
        (Font, "/fonts/latin.woff2"),
        (Stylesheet, "/css/chain/2!"),
        (Font, "/fonts/1.woff2"),
        // Of those, and so on.
        (Stylesheet, "/css/styled.css!"),
        (Font, "/fonts/base.woff2?v=1"),
        (Stylesheet, "/css/chain/3!"),
        (Font, "/fonts/2.woff2"),
        (Stylesheet, "/css/chain/4!"),
        (Font, "/fonts/3.woff2"),
        (Stylesheet, "/css/chain/5!"),
        (Font, "/fonts/4.woff2"),
    ];
    let expected: Vec<_> = expected.map(|(kind, path)| (kind, path.to_owned())).into();
    assert_eq!(parts(&seen), expected);
    assert_eq!(seen.resources_left_out, 2, "the next of the chain, and a font: it may have no end");
    for part in &seen.resources {
        let answer = part.answer.as_option().unwrap_or_else(|| panic!("{part:?}"));
        assert_eq!(answer.status, 200, "{}", part.url);
        assert_eq!(answer.body.is_some(), part.kind == Stylesheet, "{}", part.url);
        assert!(answer.transfer_bytes > 0);
        // Whatever a sheet asks for stands where the page names the sheet.
        assert!((4..=7).contains(&part.placement.line) || part.kind == Image, "{part:?}");
    }
    // Each once, however often it is named.
    for path in ["/css/parts/base.css", "/fonts/text.woff2", "/css/styled.css"] {
        let times = if path == "/css/styled.css" { 2 } else { 1 };
        assert_eq!(lab.site.count(path), times, "{path}");
    }
    for path in ["/fonts/cyrillic.woff2", "/fonts/text.eot", "/fonts/text.woff", "/css/no.css"] {
        assert_eq!(lab.site.count(path), 0, "{path}");
    }
}

#[tokio::test]
async fn sheets_have_no_budget_of_their_own() {
    let lab = lab_with(|options| options.limits.resources_max = 7).await;
    let seen = lab.look(Door::Plain, "/styled").await.unwrap();
    assert_eq!(
        parts(&seen)[5..],
        [
            (Stylesheet, "/css/parts/base.css!".to_owned()),
            (Stylesheet, "/css/print.css".to_owned()),
        ]
    );
    assert_eq!(seen.resources_left_out, 5);
    assert_eq!(lab.site.count("/fonts/latin.woff2"), 0);
    // Nor of bytes: what is there is used up by what comes first.
    let lab = lab_with(|options| options.limits.resources_bytes_max = 200).await;
    let seen = lab.look(Door::Plain, "/styled").await.unwrap();
    let last = seen.resources.last().unwrap();
    assert!(reason(&last.answer).contains("budget"), "{last:?}");
    // A sheet that is too large to be kept is weighed and not read.
    let lab = lab_with(|options| options.limits.resources_kept_bytes_max = 10).await;
    let seen = lab.look(Door::Plain, "/styled").await.unwrap();
    assert_eq!(seen.resources.len(), 5);
}

#[tokio::test]
async fn sheets_ask_for_nothing_that_is_forbidden() {
    let lab = lab().await;
    lab.site.set_robots(RobotsRule::Text("User-agent: *\nDisallow: /fonts/\n".to_owned()));
    let seen = lab.look(Door::Plain, "/styled").await.unwrap();
    let fonts: Vec<_> = seen.resources.iter().filter(|part| part.kind == Font).collect();
    assert!(fonts.len() > 5);
    for font in fonts {
        assert!(reason(&font.answer).contains("forbidden_by_robots"), "{font:?}");
    }
    assert!(lab.site.requests().iter().all(|asked| !asked.path_and_query.contains("/fonts/")));
}

#[tokio::test]
async fn a_1_sheets_reach_nothing_inside() {
    let lab = lab().await;
    let canary = Canary::at("127.0.0.2:0").await;
    let sheet = format!("/css/inside.css?canary={}", canary.address);
    let page = format!("/sheet?{sheet}");
    let seen = lab.look(Door::Plain, &page).await.unwrap();
    let blocked: Vec<&str> = seen.resources[1..].iter().map(|part| reason(&part.answer)).collect();
    assert_eq!(blocked.len(), 3, "{seen:?}");
    assert!(blocked.iter().all(|reason| reason.contains("blocked_target")), "{blocked:?}");
    assert_eq!(canary.connects(), 0);
}
