//! No look reaches inside: not by how an address is spelled, not by a redirect, not by a name that
//! changes its mind, not by what a page refers to.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use roundsman_core::ports::{ObserveErrorKind as Kind, Pages};
use roundsman_providers::egress::{EgressGuard, EgressOptions, Resolver};
use roundsman_providers::pages::HttpPages;
use roundsman_testkit::site::{Door, RobotsRule};
use roundsman_testkit::{RealClock, TestSite};
use url::Url;

use super::{Canary, Lab, Steps, lab, only_the_site, options, reason, wish};
use crate::egress::{LOCAL_NAMES, NOT_PUBLIC, scripted};

/// This machine, in spellings to which a port can be added.
const HERE: [&str; 24] = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "0",
    "0.0.0.0",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.0.0.1.",
    "１２７.0.0.1",
    "127。0。0。1",
    "%31%32%37.0.0.1",
    "localhost",
    "LOCALHOST.",
    "a.localhost",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]",
];
/// Names that lead here.
const NAMES: [(&str, &[&str]); 6] = [
    ("lvh.me", &["127.0.0.1"]),
    ("127.0.0.1.nip.io", &["127.0.0.1"]),
    ("six.test", &["::1"]),
    ("mapped.test", &["::ffff:127.0.0.1"]),
    ("metadata.test", &["169.254.169.254"]),
    // With a Cyrillic letter: another name, and what it leads to counts.
    ("xn--lcalhost-nbh", &["127.0.0.1"]),
];

#[tokio::test]
async fn a_1_addresses_inside_are_refused_before_anybody_is_connected_to() {
    let (guard, _) = scripted(EgressOptions::default(), &NAMES);
    let site = TestSite::start().await.unwrap();
    let pages = HttpPages::new(options(&site, guard), Arc::new(RealClock::default())).unwrap();
    let canary = Canary::at("127.0.0.1:0").await;
    let port = canary.address.port();
    let canary_six = Canary::at(&format!("[::1]:{port}")).await;
    let mut urls: Vec<String> =
        NOT_PUBLIC.iter().chain(&LOCAL_NAMES).map(|url| (*url).to_owned()).collect();
    urls.extend(urls.clone().iter().filter_map(|url| {
        let mut url = Url::parse(url).ok()?;
        url.set_port(Some(port)).ok()?;
        Some(url.to_string())
    }));
    let names = NAMES.map(|(name, _)| name);
    for host in HERE.iter().chain(&names).chain(&["l\u{43e}calhost"]) {
        urls.push(format!("http://{host}:{port}/"));
        urls.push(format!("https://{host}:{port}/"));
        urls.push(format!("{host}:{port}"));
    }
    let mut blocked = 0;
    for url in &urls {
        let error = pages.observe(wish(url), Arc::new(Steps::default())).await.unwrap_err();
        // Without a scheme some are read as names, which nobody has.
        let is_refused = matches!(error.kind, Kind::BlockedTarget | Kind::InvalidUrl)
            || (error.kind == Kind::DnsFailure && !url.contains("://"));
        assert!(is_refused, "{url}: {error}");
        assert!(!error.detail.contains("169.254") && !error.detail.contains("127."), "{error}");
        blocked += usize::from(error.kind == Kind::BlockedTarget);
    }
    assert!(blocked >= 200, "{blocked} of {} are blocked, not just malformed", urls.len());
    assert_eq!((canary.connects(), canary_six.connects(), site.connections()), (0, 0, 0));
    // An engineer may look at their own machine.
    let mut own = wish(&site.url(Door::Plain, "/"));
    own.allow_private = true;
    pages.observe(own, Arc::new(Steps::default())).await.unwrap();
}

#[tokio::test]
async fn a_2_redirects_are_followed_by_hand_and_checked_each() {
    let lab = lab().await;
    let canary = Canary::at("127.0.0.2:0").await;
    let inside = format!("http://{}/", canary.address);
    for status in [301, 302, 303, 307, 308] {
        let path = format!("/redirect-to?status={status}&url={inside}");
        for door in [Door::Plain, Door::Secure] {
            assert_eq!(lab.trouble(door, &path).await.0, Kind::BlockedTarget, "{status}");
        }
    }
    for url in [
        "file:///etc/passwd",
        "gopher://127.0.0.1:70/_x",
        "ftp://127.0.0.1/",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://user:password@127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "//[::ffff:169.254.169.254]/",
    ] {
        let trouble = lab.trouble(Door::Plain, &format!("/redirect-to?url={url}")).await;
        assert_eq!(trouble.0, Kind::BlockedTarget, "{url}: {}", trouble.1);
    }
    let five = lab.look(Door::Secure, "/redirect/4").await.unwrap();
    assert_eq!(five.hops.len(), 5);
    assert_eq!(five.page.url, lab.site.url(Door::Secure, "/"));
    assert_eq!(five.hops[4].location.as_deref(), Some(five.page.url.as_str()));
    for path in ["/redirect/5", "/redirect/20", "/loop"] {
        assert_eq!(lab.trouble(Door::Plain, path).await.0, Kind::TooManyRedirects, "{path}");
    }
    let asked = lab.site.count("/loop");
    assert_eq!(asked, 6, "the page and five redirects");
    assert_eq!(
        lab.trouble(Door::Plain, "/redirect-to?url=http://%20/").await.0,
        Kind::ProtocolError
    );
    assert_eq!(canary.connects(), 0);
}

/// The first answer is good, every later one leads inside.
struct Rebinding {
    asked: AtomicUsize,
}

#[async_trait]
impl Resolver for Rebinding {
    async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        let first = self.asked.fetch_add(1, Ordering::SeqCst) == 0;
        Ok(vec![if first { "127.0.0.1" } else { "127.0.0.2" }.parse().unwrap()])
    }
}

#[tokio::test]
async fn a_3_a_name_is_resolved_once_and_what_was_seen_is_connected_to() {
    let site = TestSite::start().await.unwrap();
    let port = site.port(Door::Plain);
    let canary = Canary::at(&format!("127.0.0.2:{port}")).await;
    let resolver = Arc::new(Rebinding { asked: AtomicUsize::new(0) });
    let guard = EgressGuard::with_resolver(only_the_site(), resolver.clone());
    let pages = HttpPages::new(options(&site, guard), Arc::new(RealClock::default())).unwrap();
    let mut rebound = wish(&site.url_at("rebind.test", Door::Plain, "/heavy/8"));
    rebound.obey_robots = false;
    let seen = pages.observe(rebound, Arc::new(Steps::default())).await.unwrap();
    // The page came over the first answer. What needed another connection met the second one.
    assert_eq!(seen.page.status, 200);
    let asked = resolver.asked.load(Ordering::SeqCst);
    assert!(asked > 1, "more connections were wanted");
    assert_eq!(site.connections(), 1, "one answer, one connection");
    assert!(seen.resources.iter().any(|part| reason(&part.answer).contains("blocked_target")));

    let mixed: [(&str, &[&str]); 2] =
        [("mixed.test", &["127.0.0.1", "127.0.0.2"]), ("alias.test", &["127.0.0.2"])];
    let (guard, _) = scripted(only_the_site(), &mixed);
    let pages = HttpPages::new(options(&site, guard), Arc::new(RealClock::default())).unwrap();
    for name in ["mixed.test", "alias.test"] {
        let wanted = wish(&site.url_at(name, Door::Plain, "/"));
        let error = pages.observe(wanted, Arc::new(Steps::default())).await.unwrap_err();
        assert_eq!(error.kind, Kind::BlockedTarget, "{name}");
    }
    let unknown = wish("https://nobody.test/");
    let error = pages.observe(unknown, Arc::new(Steps::default())).await.unwrap_err();
    assert_eq!(error.kind, Kind::DnsFailure);
    assert_eq!((canary.connects(), site.connections()), (0, 1));
}

#[tokio::test]
async fn what_a_page_refers_to_reaches_inside_no_more_than_the_page() {
    let lab = lab().await;
    let canary = Canary::at("127.0.0.2:0").await;
    let text =
        format!("Sitemap: http://{}/sitemap.xml\nSitemap: file:///etc/passwd", canary.address);
    lab.site.set_robots(RobotsRule::Text(text));
    lab.site.plain_leads_to(&format!("http://{}", canary.address));
    let path = format!("/inside?canary={}", canary.address);
    let seen = lab.look(Door::Secure, &path).await.unwrap();
    assert_eq!(seen.sitemaps.len(), 2);
    assert!(seen.sitemaps.iter().all(|sitemap| reason(sitemap).contains("blocked_target")));
    assert!(reason(&seen.plain_http).contains("blocked_target"));
    let is_blocked = |part: &&roundsman_core::audits::observed::Resource| {
        reason(&part.answer).contains("blocked_target")
    };
    assert_eq!(seen.resources.iter().filter(is_blocked).count(), 4, "{:?}", seen.resources);
    let robots = format!("http://{}/robots.txt", canary.address);
    lab.site.set_robots(RobotsRule::RedirectsTo(robots));
    assert_eq!(lab.trouble(Door::Secure, "/").await.0, Kind::BlockedTarget);
    assert_eq!(canary.connects(), 0);
}

#[tokio::test]
async fn what_is_no_address_is_said_at_once() {
    let Lab { pages, .. } = lab().await;
    for url in
        ["", "https://", "not a url", "ftp://a.test/", "javascript:alert(1)", "https://u:p@a.test/"]
    {
        let error = pages.observe(wish(url), Arc::new(Steps::default())).await.unwrap_err();
        assert_eq!(error.kind, Kind::InvalidUrl, "{url}: {error}");
    }
}
