//! Measurements in the real Chromium.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::audits::observed::{BrowserSeen, Observed};
use roundsman_core::ports::{ObserveWish, Pages};
use roundsman_providers::pages::HttpPages;
use roundsman_testkit::site::Door;
use roundsman_testkit::{RealClock, TestSite, eventually};
use tokio::net::UdpSocket;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{Canary, Lab, Steps, lab, lab_with, only_the_site, options, reason, wish};
use crate::egress::scripted;

const LIMIT: Duration = Duration::from_secs(60);
/// One at a time: each counts the browsers of its process.
static ALONE: Mutex<()> = Mutex::const_new(());

fn in_browser(url: &str) -> ObserveWish {
    ObserveWish { in_browser: true, time_max: LIMIT, ..wish(url) }
}

impl Lab {
    async fn measured(&self, door: Door, path: &str) -> BrowserSeen {
        let seen = self.look_as(in_browser(&self.site.url(door, path))).await.unwrap();
        assert!(seen.browser.as_option().is_some(), "{path}: {}", reason(&seen.browser));
        seen.browser.as_option().unwrap().clone()
    }
}

#[tokio::test]
async fn a_page_is_measured_as_it_is_painted() {
    let _alone = ALONE.lock().await;
    let lab = lab_with(|options| options.browser.time_max = LIMIT).await;
    assert!(lab.pages.has_browser(), "Chromium is missing: run `scripts/test`, which installs it");
    // Encrypted, by the authority that we were told to trust, and without defects.
    let clean = lab.measured(Door::Secure, "/").await;
    assert!(clean.first_contentful_paint.unwrap() > Duration::ZERO);
    assert!(clean.largest_contentful_paint >= clean.first_contentful_paint);
    assert!(clean.load >= clean.dom_content_loaded && clean.load.is_some());
    assert!(clean.layout_shift < 0.1, "{}", clean.layout_shift);
    assert_eq!(clean.console_errors, [""; 0]);
    assert!((5..=7).contains(&clean.requests), "{}", clean.requests);
    assert!(clean.transfer_bytes > 1000, "{}", clean.transfer_bytes);
    let png = clean.screenshot_png.as_ref().unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() < 2 * 1024 * 1024);
    assert_eq!((clean.viewport_width_px, clean.viewport_height_px), (1280, 800));
    assert!(clean.browser.contains("Chrom"), "{}", clean.browser);

    let busy = lab.measured(Door::Plain, "/busy").await;
    assert!(busy.layout_shift > 0.1, "{}", busy.layout_shift);
    assert!(busy.blocking_time >= Duration::from_millis(100), "{:?}", busy.blocking_time);
    assert_eq!(busy.largest_element.as_deref(), Some("h1#largest"));
    for words in ["a complaint", "undefinedFunction", "404"] {
        let found = busy.console_errors.iter().any(|error| error.contains(words));
        assert!(found, "{words}: {:?}", busy.console_errors);
    }
    assert_eq!(browser_processes(), 0, "none is left");
}

#[tokio::test]
async fn a_browser_reaches_inside_no_more_than_anybody() {
    let _alone = ALONE.lock().await;
    let site = TestSite::start().await.unwrap();
    let inside: [(&str, &[&str]); 2] =
        [("rebind.test", &["127.0.0.2"]), ("mixed.test", &["127.0.0.1", "127.0.0.2"])];
    let (guard, resolver) = scripted(only_the_site(), &inside);
    let mut options = options(&site, guard);
    options.browser.time_max = LIMIT;
    let pages = HttpPages::new(options, Arc::new(RealClock::default())).unwrap();
    let canary = Canary::at("127.0.0.2:0").await;
    let port = canary.address.port();
    // What the site's own address is allowed for must not be reached by another name either.
    let canary_six = Canary::at(&format!("[::1]:{port}")).await;
    let udp = UdpSocket::bind(canary.address).await.unwrap();
    let url = site.url(Door::Plain, &format!("/inside?canary={}", canary.address));
    let seen: Observed = pages.observe(in_browser(&url), Arc::new(Steps::default())).await.unwrap();
    let browser = seen.browser.as_option().unwrap_or_else(|| panic!("{}", reason(&seen.browser)));
    assert!(browser.requests > 5, "it tried: {}", browser.requests);
    assert!(resolver.asked.lock().unwrap().contains(&"rebind.test".to_owned()), "we resolve");
    assert_eq!((canary.connects(), canary_six.connects()), (0, 0));
    let mut packet = [0; 1500];
    let came = timeout(Duration::from_millis(100), udp.recv_from(&mut packet)).await;
    assert!(came.is_err(), "a datagram came: {came:?}");
    assert_eq!(browser_processes(), 0);
}

#[tokio::test]
async fn without_a_browser_or_time_or_memory_the_look_says_so() {
    let _alone = ALONE.lock().await;
    let none = lab_with(|options| options.browser.search_path = "/nowhere".to_owned()).await;
    assert!(!none.pages.has_browser());
    let url = |lab: &Lab| lab.site.url(Door::Plain, "/busy");
    let seen = none.look_as(in_browser(&url(&none))).await.unwrap();
    assert_eq!(reason(&seen.browser), "there is no Chromium on this machine");

    let hasty = lab_with(|options| options.browser.time_max = Duration::from_millis(400)).await;
    let seen = hasty.look_as(in_browser(&url(&hasty))).await.unwrap();
    assert!(reason(&seen.browser).contains("not done within"), "{}", reason(&seen.browser));

    let poor = lab_with(|options| {
        options.browser.time_max = LIMIT;
        options.browser.memory_bytes_max = 1024 * 1024;
    })
    .await;
    let seen = poor.look_as(in_browser(&url(&poor))).await.unwrap();
    assert!(reason(&seen.browser).contains("of memory"), "{}", reason(&seen.browser));
    no_browser_is_left().await;
}

#[tokio::test]
async fn a_look_that_is_given_up_takes_its_browser_with_it() {
    let _alone = ALONE.lock().await;
    let lab = lab().await;
    let url = lab.site.url(Door::Plain, "/busy");
    let looking = lab.look_as(in_browser(&url));
    let started = eventually(LIMIT, async || (browser_processes() > 1).then_some(()));
    tokio::select! {
        biased;
        started = started => started.unwrap(),
        seen = looking => panic!("it ended before it was given up: {seen:?}"),
    }
    no_browser_is_left().await;
}

async fn no_browser_is_left() {
    let gone = eventually(LIMIT, async || (browser_processes() == 0).then_some(()));
    gone.await.unwrap_or_else(|error| panic!("{} are left: {error}", browser_processes()));
}

/// Processes of this process's browsers: the shell that leads each is our child, and they are its group.
fn browser_processes() -> usize {
    let fields = |entry: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace().map(str::to_owned);
        let (state, parent, group) = (fields.next()?, fields.next()?, fields.next()?);
        let pid = entry.file_name().into_string().ok()?;
        (state != "Z").then_some((pid, parent, group))
    };
    let all: Vec<_> = std::fs::read_dir("/proc").unwrap().flatten().filter_map(fields).collect();
    let me = std::process::id().to_string();
    let leaders: Vec<&String> =
        all.iter().filter(|(_, parent, _)| *parent == me).map(|(pid, _, _)| pid).collect();
    all.iter().filter(|(_, _, group)| leaders.contains(&group)).count()
}
