//! A server that floods, stalls or lies costs a bounded amount of memory and time.

use std::time::Duration;

use roundsman_core::ports::ObserveErrorKind as Kind;
use roundsman_providers::pages::PageLimits;
use roundsman_testkit::site::{Door, RobotsRule};
use tokio::time::timeout;

use super::{lab, lab_with, reason, wish};

const GROWTH_BYTES_MAX: u64 = 20 * 1024 * 1024;

/// The most memory that this process had since it was last asked to forget.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

#[tokio::test]
async fn a_4_bombs_and_floods_end_early_and_small() {
    let lab = lab().await;
    // What is needed once is there before it is looked at.
    lab.look(Door::Plain, "/").await.unwrap();
    lab.look(Door::Secure, "/").await.unwrap();
    for path in ["/bomb/gzip", "/bomb/twice", "/bomb/br", "/bomb/zstd", "/flood/endless"] {
        for door in [Door::Plain, Door::Secure] {
            forget_peak();
            let before = peak_bytes();
            let limit = Duration::from_secs(31);
            let (kind, detail) = timeout(limit, lab.trouble(door, path)).await.unwrap();
            let growth = peak_bytes() - before;
            assert_eq!(kind, Kind::TooLarge, "{path} {door:?}: {detail}");
            assert!(growth < GROWTH_BYTES_MAX, "{path} {door:?}: {growth} bytes");
        }
    }
    assert_eq!(lab.trouble(Door::Plain, "/flood/headers").await.0, Kind::TooLarge);
    let (kind, detail) = lab.trouble(Door::Secure, "/flood/headers").await;
    assert!(matches!(kind, Kind::TooLarge | Kind::ProtocolError), "{kind}: {detail}");
}

#[tokio::test]
async fn a_4_who_is_slow_is_not_waited_for() {
    let lab = lab_with(|options| {
        options.limits.slow_for = Duration::from_secs(1);
        options.limits.answer_max = Duration::from_secs(1);
        options.limits.tls_max = Duration::from_millis(300);
    })
    .await;
    let limit = Duration::from_secs(10);
    for (door, path, words) in [
        (Door::Plain, "/flood/slow", "slower than"),
        (Door::Secure, "/flood/slow", "slower than"),
        (Door::Plain, "/flood/stall", "slower than"),
        (Door::Silent, "/", "TLS handshake"),
        (Door::Plain, "/delay/5000/img/dot.gif", "no answer"),
    ] {
        let (kind, detail) = timeout(limit, lab.trouble(door, path)).await.unwrap();
        assert_eq!(kind, Kind::Timeout, "{path}: {detail}");
        assert!(detail.contains(words), "{path}: {detail}");
    }
    lab.site.set_robots(RobotsRule::Hangs);
    let (kind, _) = timeout(limit, lab.trouble(Door::Plain, "/")).await.unwrap();
    assert_eq!(kind, Kind::Timeout, "robots.txt that is not answered");
}

#[tokio::test]
async fn a_4_a_whole_look_has_an_end() {
    let lab =
        lab_with(|options| options.limits.resources_time_max = Duration::from_millis(100)).await;
    let mut short = wish(&lab.site.url(Door::Plain, "/delay/5000/img/dot.gif"));
    short.time_max = Duration::from_millis(300);
    let error = lab.look_as(short.clone()).await.unwrap_err();
    assert_eq!(error.kind, Kind::Timeout, "{error}");
    // What belongs to the page is left out when time runs out; the page is not.
    let seen = lab.look(Door::Plain, "/delayed/50").await.unwrap();
    assert_eq!(seen.resources.len(), 50);
    let missing = seen.resources.iter().filter(|part| reason(&part.answer).contains("no time"));
    assert!(missing.count() > 0);
    assert!(seen.took < Duration::from_secs(10), "{:?}", seen.took);
}

#[test]
fn a_4_the_limits_are_those_that_were_promised() {
    let limits = PageLimits::default();
    assert_eq!((limits.redirects_max, limits.page_time_max), (5, Duration::from_secs(30)));
    assert_eq!(
        (limits.connect_max, limits.tls_max),
        (Duration::from_secs(5), Duration::from_secs(5))
    );
    assert_eq!(limits.head_bytes_max, 16 * 1024);
    assert_eq!(limits.body_bytes_max, 10 * 1024 * 1024);
    assert!(limits.bytes_per_sec_min >= 1024 && limits.slow_for <= Duration::from_secs(5));
}

#[tokio::test]
async fn a_5_lies_are_seen_through_or_do_no_harm() {
    let lab = lab().await;
    for (path, kind) in [
        ("/lie/png-as-html", Kind::NotHtml),
        ("/lie/html-as-png", Kind::NotHtml),
        ("/img/hero.png", Kind::NotHtml),
        ("/lie/not-gzip", Kind::ProtocolError),
        ("/status/404", Kind::HttpStatus),
        ("/status/503", Kind::HttpStatus),
        ("/status/304", Kind::HttpStatus),
    ] {
        let trouble = lab.trouble(Door::Plain, path).await;
        assert_eq!(trouble.0, kind, "{path}: {}", trouble.1);
    }
    for path in ["/lie/charset", "/lie/broken", "/lie/no-type", "/flood/deep"] {
        let seen = lab.look(Door::Plain, path).await;
        assert!(seen.is_ok(), "{path}: {:?}", seen.err());
    }
    lab.site.set_robots(RobotsRule::Text("Sitemap: /xxe.xml".to_owned()));
    let seen = lab.look(Door::Plain, "/").await.unwrap();
    let sitemap = seen.sitemaps[0].as_option().unwrap();
    // It is kept as it came: nobody here expands it.
    assert!(String::from_utf8_lossy(&sitemap.body).contains("&stolen;"));
}
