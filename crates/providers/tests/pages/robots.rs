//! Who is asked not to look does not look, unless told to.

use roundsman_core::ports::ObserveErrorKind as Kind;
use roundsman_testkit::site::{Door, RobotsRule};

use super::{lab, reason, wish};

#[tokio::test]
async fn what_robots_txt_forbids_is_not_asked_for() {
    let lab = lab().await;
    let forbid = "User-agent: roundsman\nDisallow: /\n\nUser-agent: *\nAllow: /\n";
    lab.site.set_robots(RobotsRule::Text(forbid.to_owned()));
    let (kind, detail) = lab.trouble(Door::Secure, "/").await;
    assert_eq!(kind, Kind::ForbiddenByRobots, "{detail}");
    assert_eq!((lab.site.count("/robots.txt"), lab.site.count("/")), (1, 0));

    let mut anyway = wish(&lab.site.url(Door::Secure, "/"));
    anyway.obey_robots = false;
    let seen = lab.look_as(anyway).await.unwrap();
    assert_eq!(seen.robots.as_option().unwrap().body, forbid.as_bytes());

    let parts = "User-agent: *\nDisallow: /img/\nAllow: /img/hero.webp\n";
    lab.site.set_robots(RobotsRule::Text(parts.to_owned()));
    let seen = lab.look(Door::Secure, "/").await.unwrap();
    let forbidden: Vec<&str> = seen
        .resources
        .iter()
        .filter(|part| reason(&part.answer).contains("forbidden_by_robots"))
        .map(|part| part.url.as_str())
        .collect();
    assert_eq!(forbidden, [lab.site.url(Door::Secure, "/img/hero.avif")]);
    // A redirect to what is forbidden is followed no further.
    lab.site.set_robots(RobotsRule::Text("User-agent: *\nDisallow: /poor\n".to_owned()));
    let (kind, _) = lab.trouble(Door::Secure, "/redirect-to?url=/poor").await;
    assert_eq!((kind, lab.site.count("/poor")), (Kind::ForbiddenByRobots, 0));
}

#[tokio::test]
async fn a_robots_txt_that_is_not_there_allows_and_one_that_fails_does_not() {
    let lab = lab().await;
    for status in [404, 403, 410, 429] {
        lab.site.set_robots(RobotsRule::Status(status));
        let seen = lab.look(Door::Secure, "/").await.unwrap();
        assert_eq!(seen.robots.as_option().unwrap().status, status);
        assert_eq!(seen.sitemaps.len(), 1, "the usual place");
        assert!(seen.sitemaps[0].as_option().unwrap().url.ends_with("/sitemap.xml"));
    }
    lab.site.forget();
    lab.site.set_robots(RobotsRule::Status(503));
    let (kind, detail) = lab.trouble(Door::Secure, "/").await;
    assert_eq!(kind, Kind::HttpStatus);
    assert!(detail.contains("robots.txt answered 503"), "{detail}");
    assert_eq!(lab.site.count("/"), 0);
    // However it redirects, as many times as everything else.
    lab.site.set_robots(RobotsRule::RedirectsTo("/loop".to_owned()));
    assert!(reason(&lab.look(Door::Secure, "/").await.unwrap().robots).contains("redirects"));
}
