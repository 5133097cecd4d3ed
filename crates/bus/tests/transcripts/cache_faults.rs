//! Redis goes away under the cache: calls fail within their limit, and a repair brings it back.

use std::collections::BTreeMap;
use std::time::Duration;

use roundsman_bus::conformance_cache::{Stored, line};
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::TranscriptCache;
use roundsman_core::transcripts::{Line, cache_value};
use roundsman_testkit::eventually;
use roundsman_testkit::proxy::Direction;

use super::lab::Lab;
use crate::support::{bounded, promptly};

const MEETING: MeetingId = MeetingId::new(7);

fn lines() -> Vec<Line> {
    (0..5).map(|number| line("s", number * 1000, "a")).collect()
}

async fn expect_unavailable(cache: &impl TranscriptCache) {
    assert!(promptly(cache.put_lines(MEETING, &lines())).await.is_err());
    assert!(promptly(cache.repair(MEETING, &lines())).await.is_err());
    assert!(promptly(cache.active(1)).await.is_err());
}

#[tokio::test]
async fn starts_without_redis_and_works_when_it_comes() {
    let (lab, proxy) = Lab::behind_a_proxy().await;
    proxy.partition().await.unwrap();
    lab.until_connected(false).await;
    let cache = lab.cache();
    expect_unavailable(&cache).await;
    proxy.heal().await.unwrap();
    lab.until_connected(true).await;
    bounded(cache.put_lines(MEETING, &lines())).await.unwrap();
    assert_eq!(cache.active(1).await.unwrap(), [MEETING]);
}

#[tokio::test]
async fn a_restart_loses_the_cache_and_a_repair_brings_it_back() {
    let mut lab = Lab::start().await;
    let cache = lab.cache();
    cache.put_lines(MEETING, &lines()).await.unwrap();
    let before = lab.keys().await;
    for _ in 0..2 {
        lab.redis.kill_9().await.unwrap();
        expect_unavailable(&cache).await;
        lab.until_connected(false).await;
        lab.redis.restart().await.unwrap();
        lab.until_connected(true).await;
        assert_eq!(lab.keys().await, BTreeMap::new());
        assert_eq!(bounded(cache.repair(MEETING, &lines())).await.unwrap(), 5);
        let after = lab.keys().await;
        assert_eq!(after["meeting:7:segments"].value, before["meeting:7:segments"].value);
        assert_eq!(after["active_meetings"], before["active_meetings"]);
    }
}

#[tokio::test]
async fn a_flush_in_the_middle_is_repaired() {
    let lab = Lab::start().await;
    let cache = lab.cache();
    cache.put_lines(MEETING, &lines()).await.unwrap();
    lab.redis.wipe().await.unwrap();
    cache.put_lines(MEETING, &lines()[..1]).await.unwrap();
    assert_eq!(cache.repair(MEETING, &lines()).await.unwrap(), 4);
    assert_eq!(cache.repair(MEETING, &lines()).await.unwrap(), 0);
}

/// A slow network lets another node write between the look of a repair and its corrections.
#[tokio::test]
async fn a_repair_leaves_what_was_written_after_its_look() {
    let (lab, proxy) = Lab::behind_a_proxy().await;
    let (slow, fast) = (lab.cache(), lab.direct_cache().await);
    let (stale, fresh, new) = (line("s", 0, "Hel"), line("s", 0, "Hello"), line("s", 5_000, "you"));
    fast.put_lines(MEETING, &lines()).await.unwrap();
    proxy.latency(Direction::ToServer, Duration::from_millis(700));
    let write = async {
        let looked = async || {
            let clients: String = lab.run("CLIENT LIST").await;
            clients.contains(" cmd=hgetall ").then_some(())
        };
        eventually(Duration::from_secs(20), looked).await.unwrap();
        fast.put_lines(MEETING, &[fresh.clone(), new.clone()]).await.unwrap();
    };
    let wanted = [&[stale][..], &lines()[1..4]].concat();
    let (repaired, ()) = tokio::join!(slow.repair(MEETING, &wanted), write);
    assert_eq!(repaired.unwrap(), 1, "only what nobody has written since");
    let keys = lab.keys().await;
    let Stored::Hash(fields) = &keys["meeting:7:segments"].value else { panic!() };
    assert_eq!(fields["s:0.000"], cache_value(&fresh));
    assert_eq!(fields["s:5.000"], cache_value(&new));
    assert!(!fields.contains_key("s:4.000"), "what is gone was removed");
}

/// The half-open connection: nothing is closed and nothing answers.
#[tokio::test]
async fn a_silent_network_hangs_nobody() {
    let (lab, proxy) = Lab::behind_a_proxy().await;
    let cache = lab.cache();
    cache.put_lines(MEETING, &lines()).await.unwrap();
    proxy.blackhole(Direction::Both);
    expect_unavailable(&cache).await;
    lab.until_connected(false).await;
    proxy.heal().await.unwrap();
    lab.until_connected(true).await;
    assert_eq!(bounded(cache.repair(MEETING, &lines())).await.unwrap(), 0);
}

#[tokio::test]
async fn a_frozen_server_hangs_nobody() {
    let lab = Lab::start().await;
    let cache = lab.cache();
    lab.redis.pause().unwrap();
    expect_unavailable(&cache).await;
    lab.until_connected(false).await;
    lab.redis.resume().unwrap();
    lab.until_connected(true).await;
    bounded(cache.put_lines(MEETING, &lines())).await.unwrap();
}

/// It goes on answering, so that only what it answers shows it.
#[tokio::test]
async fn a_server_that_became_a_replica_is_left() {
    let lab = Lab::start().await;
    let cache = lab.cache();
    let _: () = lab.run("REPLICAOF 127.0.0.1 1").await;
    let error = cache.put_lines(MEETING, &lines()).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("read"), "{error}");
    lab.until_connected(false).await;
    let _: () = lab.run("REPLICAOF NO ONE").await;
    lab.until_connected(true).await;
    bounded(cache.put_lines(MEETING, &lines())).await.unwrap();
}
