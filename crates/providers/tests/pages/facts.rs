//! What is seen is what was there.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::audits::observed::ResourceKind::{Icon, Image, Script, Stylesheet};
use roundsman_core::audits::observed::{FOREIGN_ORIGIN, HttpVersion, ImageSeen, ResourceKind};
use roundsman_core::ports::{ObserveErrorKind as Kind, ObserveStep, Pages};
use roundsman_testkit::site::Door;

use super::{Steps, lab, lab_with, reason, wish};

#[tokio::test]
async fn a_page_is_seen_with_all_that_belongs_to_it() {
    let lab = lab().await;
    lab.site.plain_leads_to(lab.site.url_at("site.test", Door::Secure, "").trim_end_matches('/'));
    let steps = Arc::new(Steps::default());
    let url = lab.site.url_at("site.test", Door::Secure, "/");
    let seen = lab.pages.observe(wish(&url[8..]), steps.clone()).await.unwrap();

    assert_eq!((seen.asked_url.as_str(), seen.page.url.as_str()), (url.as_str(), url.as_str()));
    assert!(seen.hops.is_empty());
    let page = &seen.page;
    assert_eq!((page.status, page.is_whole, page.http_version), (200, true, HttpVersion::Http2));
    assert!(page.body.starts_with(b"<!doctype html>"));
    assert_eq!(page.headers.first("content-encoding"), Some("gzip"));
    assert!(page.transfer_bytes < page.body.len() as u64 / 2 + 200, "{}", page.transfer_bytes);
    assert!(page.headers.first("set-cookie").unwrap().starts_with("__Host-session"));
    let timing = page.timing;
    assert!(timing.wait > Duration::ZERO && timing.total() < Duration::from_secs(20), "{timing:?}");

    let plain = seen.plain_http.as_option().unwrap();
    assert_eq!(plain.iter().map(|hop| hop.status).collect::<Vec<_>>(), [301, 200]);
    assert_eq!(plain[0].location.as_deref(), Some(url.as_str()));
    let foreign = seen.foreign_origin.as_option().unwrap();
    assert_eq!(foreign.first("x-frame-options"), Some("DENY"));
    let strangers: Vec<_> =
        lab.site.requests().into_iter().filter(|asked| asked.header("origin").is_some()).collect();
    assert_eq!(strangers.len(), 1);
    assert_eq!(strangers[0].header("origin"), Some(FOREIGN_ORIGIN));
    assert_eq!(seen.robots.as_option().unwrap().status, 200);
    assert!(seen.sitemaps[0].as_option().unwrap().body.starts_with(b"<?xml"));
    assert_eq!(reason(&seen.browser), "measuring in a browser was not asked for");

    let parts: Vec<_> =
        seen.resources.iter().map(|part| (part.kind, &part.url[url.len()..])).collect();
    let expected = [
        (Icon, "favicon.ico"),
        (Stylesheet, "css/site.css"),
        (Script, "js/app.js"),
        (Image, "img/hero.webp"),
        (Image, "img/hero.avif"),
    ];
    assert_eq!(parts, expected);
    let answers: Vec<_> =
        seen.resources.iter().map(|part| part.answer.as_option().unwrap()).collect();
    assert!(answers.iter().all(|answer| answer.status == 200));
    let images: Vec<Option<ImageSeen>> =
        answers.iter().map(|answer| answer.image.clone()).collect();
    let image = |format: &str, width, height| {
        Some(ImageSeen {
            format: format.to_owned(),
            width_px: Some(width),
            height_px: Some(height),
        })
    };
    assert_eq!(
        images,
        [image("ico", 16, 16), None, None, image("webp", 64, 48), image("avif", 64, 48)]
    );
    assert!(answers[1].body.as_ref().unwrap().starts_with(b"/* The look"));
    assert!(answers[3].body.is_none() && answers[3].decoded_bytes == 200);
    assert_eq!(seen.resources_left_out, 0);
    let steps = steps.0.lock().unwrap().clone();
    assert_eq!(steps[..3], [ObserveStep::Page, ObserveStep::Robots, ObserveStep::Sitemap]);
    assert_eq!(steps.last(), Some(&ObserveStep::Resources { done: 5, of: 5 }));
}

#[tokio::test]
async fn a_connection_is_used_again_and_its_phases_are_told() {
    let lab = lab().await;
    let seen = lab.look(Door::Secure, "/").await.unwrap();
    // robots.txt came first and paid for the connection.
    let first = seen.robots.as_option().unwrap().timing;
    assert!(first.connect > Duration::ZERO && first.tls > Duration::ZERO, "{first:?}");
    let page = seen.page.timing;
    assert_eq!(
        (page.dns, page.connect, page.tls),
        (Duration::ZERO, Duration::ZERO, Duration::ZERO)
    );
    assert!(page.began >= first.began + first.total() / 2, "{page:?} {first:?}");
    assert!(lab.site.connections() <= 2, "HTTP/2 and the look at plain http");
    assert!(lab.site.requests().iter().any(|asked| asked.version == "HTTP/2.0"));

    let mut alone = wish(&lab.site.url(Door::SecureHttp1, "/redirect/0"));
    alone.obey_robots = false;
    let seen = lab.look_as(alone).await.unwrap();
    assert_eq!(seen.page.http_version, HttpVersion::Http11);
    assert!(seen.hops[0].timing.tls > Duration::ZERO);
    assert_eq!(seen.page.timing.tls, Duration::ZERO, "the redirect's connection is used again");
}

#[tokio::test]
async fn tls_is_told_and_a_certificate_that_is_not_trusted_is_explained() {
    let lab = lab().await;
    let seen = lab.look(Door::Secure, "/").await.unwrap();
    let tls = seen.page.tls.unwrap();
    assert_eq!((tls.version.as_str(), tls.problem), ("1.3", None));
    assert!(tls.cipher.starts_with("TLS13_"), "{}", tls.cipher);
    assert_eq!(tls.issuer, "CN=Roundsman test authority");
    assert_eq!(tls.names, ["localhost", "site.test", "*.site.test", "127.0.0.1"]);
    assert_eq!(tls.valid_from.unwrap().to_string(), "2025-01-01T00:00:00.000000Z");
    assert_eq!(tls.valid_until.unwrap().to_string(), "2080-01-01T00:00:00.000000Z");
    let old = lab.look(Door::Tls12, "/").await.unwrap().page.tls.unwrap();
    assert_eq!(old.version, "1.2");
    for (door, words) in [
        (Door::Expired, ["has expired", "until 2021-01-01"]),
        (Door::NotYetValid, ["not valid yet", "from 2090-01-01"]),
        (Door::OtherName, ["for other names", "for other.test"]),
        (Door::Untrusted, ["issuer is not trusted", "An authority that nobody knows"]),
    ] {
        let (kind, detail) = lab.trouble(door, "/").await;
        assert_eq!(kind, Kind::TlsError, "{door:?}");
        assert!(words.iter().all(|word| detail.contains(word)), "{door:?}: {detail}");
    }
    // Nobody is there, or somebody who does not speak TLS.
    let plain = lab.site.url(Door::Plain, "/").replace("http:", "https:");
    assert_eq!(lab.look_as(wish(&plain)).await.unwrap_err().kind, Kind::TlsError);
    let nobody = lab.look_as(wish("http://127.0.0.1:9/")).await.unwrap_err();
    assert_eq!(nobody.kind, Kind::ConnectFailure);
}

#[tokio::test]
async fn the_budget_of_parts_is_kept_and_what_is_left_out_is_counted() {
    let lab = lab_with(|options| {
        options.limits.resources_max = 10;
        options.limits.resources_bytes_max = 200;
    })
    .await;
    let seen = lab.look(Door::Plain, "/heavy/25").await.unwrap();
    assert_eq!((seen.resources.len(), seen.resources_left_out), (10, 15));
    let fetched = seen.resources.iter().filter(|part| part.answer.as_option().is_some()).count();
    assert!((6..=9).contains(&fetched), "{fetched} of 74 bytes each, six of them at once");
    let last = reason(&seen.resources[9].answer);
    assert!(last.contains("budget"), "{last}");
    // A page over plain http is what plain http answers.
    assert_eq!(seen.plain_http.as_option().unwrap()[0].url, seen.page.url);
    assert_eq!(seen.page.tls, None);
}

#[tokio::test]
async fn a_poor_page_is_seen_as_it_is() {
    let lab = lab().await;
    let seen = lab.look(Door::Plain, "/poor").await.unwrap();
    assert_eq!(seen.page.headers.all("set-cookie").count(), 2, "both cookies");
    let of = |end: &str| {
        let found = seen.resources.iter().find(|part| part.url.ends_with(end));
        found.unwrap_or_else(|| panic!("{end} is missing"))
    };
    assert!(of("slow.js").placement.is_blocking && of("slow.js").placement.in_head);
    assert_eq!(of("slow.js").placement.line, 6);
    assert!(!of("print.css").placement.is_blocking);
    assert_eq!(of("missing.css").answer.as_option().unwrap().status, 404);
    assert!(reason(&of("insecure.png").answer).contains("connect_failure"));
    assert_eq!(of("/frame").kind, ResourceKind::Frame);
    assert_eq!(of("photo.jpg").answer.as_option().unwrap().image.as_ref().unwrap().format, "jpeg");
}
