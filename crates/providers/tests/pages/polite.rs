//! However many look at a host, it is asked politely.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::ports::{Clock, ObserveErrorKind as Kind, Pages};
use roundsman_providers::pages::Politeness;
use roundsman_testkit::RealClock;
use roundsman_testkit::site::Door;
use tokio::task::JoinSet;

use super::{Steps, lab_with, wish};

#[tokio::test]
async fn a_6_a_hundred_looks_ask_a_host_two_at_once() {
    let lab = lab_with(|options| {
        let no_delay = Politeness { host_delay: Duration::ZERO, ..Politeness::default() };
        assert_eq!(no_delay.host_concurrency_max, 2);
        options.politeness = no_delay;
    })
    .await;
    let mut looks = JoinSet::new();
    for _ in 0..100 {
        let pages = lab.pages.clone();
        let wish = wish(&lab.site.url(Door::Plain, "/delayed/2"));
        looks.spawn(async move { pages.observe(wish, Arc::new(Steps::default())).await });
    }
    while let Some(seen) = looks.join_next().await {
        let seen = seen.unwrap().unwrap();
        assert!(seen.resources.iter().all(|part| part.answer.as_option().is_some()));
    }
    assert_eq!(lab.site.count("/delayed/2"), 200, "each look asks twice, once as a stranger");
    assert_eq!(lab.site.at_once_max(), 2);
}

#[tokio::test]
async fn requests_to_a_host_are_not_sent_in_a_burst() {
    let delay = Duration::from_millis(40);
    let lab = lab_with(|options| options.politeness.host_delay = delay).await;
    let clock = RealClock::default();
    lab.look(Door::Plain, "/heavy/6").await.unwrap();
    let requests = u32::try_from(lab.site.requests().len()).unwrap();
    // The page, robots.txt, the sitemap, the page as a stranger, six images.
    assert_eq!(requests, 10);
    assert!(clock.monotonic() >= delay * (requests - 1), "{:?}", clock.monotonic());
}

#[tokio::test]
async fn who_waits_too_long_for_others_is_told() {
    let lab = lab_with(|options| {
        options.politeness.host_concurrency_max = 1;
        options.politeness.host_wait_max = Duration::from_millis(50);
    })
    .await;
    let pages = lab.pages.clone();
    let slow = wish(&lab.site.url(Door::Plain, "/delayed/20"));
    let mut looks = JoinSet::new();
    looks.spawn(async move { pages.observe(slow, Arc::new(Steps::default())).await });
    let begun = async || (lab.site.count("/delayed/20") > 0).then_some(());
    roundsman_testkit::eventually(Duration::from_secs(10), begun).await.unwrap();
    let error = lab.look(Door::Plain, "/").await.unwrap_err();
    assert_eq!(error.kind, Kind::Timeout);
    looks.join_next().await.unwrap().unwrap().unwrap();
    lab.look(Door::Plain, "/").await.unwrap();
}
