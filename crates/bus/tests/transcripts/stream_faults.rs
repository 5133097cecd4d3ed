//! Redis goes away under a stream: nothing hangs, and what is left of it is read on.

use std::slice;
use std::time::Duration;

use roundsman_bus::RedisIngestStream;
use roundsman_core::ports::{IngestStream, StreamEntry};
use roundsman_testkit::eventually;
use roundsman_testkit::proxy::Direction;
use roundsman_testkit::redis::Persistence;
use tokio::time::timeout;

use super::lab::{Lab, STREAM, until_a_read_waits};
use crate::support::{bounded, promptly};

/// Reads until something comes, past any errors of an outage.
async fn read_past_errors(stream: &RedisIngestStream) -> Vec<StreamEntry> {
    let reading = async {
        loop {
            match stream.read(10).await {
                Ok(entries) if !entries.is_empty() => return entries,
                _ => {}
            }
        }
    };
    bounded(reading).await
}

/// Reads until the server is heard again.
async fn until_heard(stream: &RedisIngestStream) {
    bounded(async { while stream.read(10).await.is_err() {} }).await;
}

/// Every call fails in its time: the limit of an answer, and for a read also that of its wait, of
/// its pause and of a connection.
async fn expect_unavailable(stream: &RedisIngestStream) {
    let read = timeout(Duration::from_secs(6), stream.read(10)).await.expect("no caller hangs");
    assert!(read.is_err());
    assert!(promptly(stream.claim(0, 10)).await.is_err());
    assert!(promptly(stream.acknowledge(&["1-1".to_owned()])).await.is_err());
    assert!(promptly(stream.trim(0, 0)).await.is_err());
}

#[tokio::test]
async fn starts_without_redis_and_reads_when_it_comes() {
    let (lab, proxy) = Lab::behind_a_proxy().await;
    proxy.partition().await.unwrap();
    lab.until_connected(false).await;
    let stream = lab.consumer("g", "a");
    expect_unavailable(&stream).await;
    let id = lab.add("1").await;
    proxy.heal().await.unwrap();
    lab.until_connected(true).await;
    assert_eq!(read_past_errors(&stream).await[0].id, id);
    stream.acknowledge(&[id]).await.unwrap();
    assert_eq!(stream.trim(0, 0).await.unwrap().pending, 0);
}

#[tokio::test]
async fn a_flush_while_reading_is_survived() {
    let lab = Lab::start().await;
    let stream = lab.consumer_waiting("g", "a", 20_000);
    for round in 0..3 {
        let flush = async {
            until_a_read_waits(&lab).await;
            lab.redis.wipe().await.unwrap();
            lab.add(&round.to_string()).await
        };
        let (read, id) = tokio::join!(read_past_errors(&stream), flush);
        assert_eq!(read[0].id, id, "round {round}");
        assert_eq!(read[0].field("payload"), Some(&*round.to_string()));
        stream.acknowledge(&[id]).await.unwrap();
    }
}

#[tokio::test]
async fn a_destroyed_group_is_made_again() {
    let lab = Lab::start().await;
    let stream = lab.consumer("g", "a");
    let id = lab.add("1").await;
    stream.read(10).await.unwrap();
    let _: () = lab.run(&format!("XGROUP DESTROY {STREAM} g")).await;
    assert_eq!(stream.claim(0, 10).await.unwrap(), []);
    assert_eq!(bounded(stream.read(10)).await.unwrap()[0].id, id, "the new group reads it all");
    let _: () = lab.run(&format!("XGROUP DESTROY {STREAM} g")).await;
    assert_eq!(bounded(stream.read(10)).await.unwrap()[0].id, id);
}

#[tokio::test]
async fn what_was_given_out_survives_restarts() {
    let mut lab = Lab::start_with(Persistence::EveryWrite).await;
    let stream = lab.consumer("g", "a");
    let added = [lab.add("1").await, lab.add("2").await, lab.add("3").await];
    assert_eq!(stream.read(2).await.unwrap().len(), 2);
    lab.redis.kill_9().await.unwrap();
    expect_unavailable(&stream).await;
    lab.until_connected(false).await;
    lab.redis.restart().await.unwrap();
    lab.until_connected(true).await;
    stream.acknowledge(&added[..1]).await.unwrap();
    assert_eq!(read_past_errors(&stream).await[0].id, added[2]);
    let claimed = stream.claim(0, 10).await.unwrap();
    let claimed: Vec<_> = claimed.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(claimed, [&added[1], &added[2]]);
}

/// The entry is given out while the network swallows the answer. Nobody else would be given it for
/// as long as it seems to be in good hands.
#[tokio::test]
async fn an_entry_whose_answer_was_lost_is_read_again_at_once() {
    let (lab, proxy) = Lab::behind_a_proxy().await;
    let stream = lab.consumer_waiting("g", "a", 500);
    assert_eq!(stream.read(10).await.unwrap(), []);
    proxy.blackhole(Direction::ToClient);
    let (read, id) = tokio::join!(stream.read(10), lab.add("1"));
    assert!(read.is_err());
    let pending: (u64, redis::Value, redis::Value, redis::Value) =
        lab.run(&format!("XPENDING {STREAM} g")).await;
    assert_eq!(pending.0, 1, "the server has given it out");
    proxy.partition().await.unwrap();
    proxy.heal().await.unwrap();
    lab.until_connected(true).await;
    let entries = read_past_errors(&stream).await;
    assert_eq!(entries[0].id, id);
    assert_eq!(entries[0].deliveries, 2, "it counts as given out twice");
    let next = lab.add("2").await;
    assert_eq!(read_past_errors(&stream).await[0].id, next);
}

/// The half-open connection: nothing is closed and nothing answers.
#[tokio::test]
async fn a_silent_network_hangs_nobody() {
    let (lab, proxy) = Lab::behind_a_proxy().await;
    let stream = lab.consumer("g", "a");
    assert_eq!(stream.read(10).await.unwrap(), []);
    proxy.blackhole(Direction::Both);
    expect_unavailable(&stream).await;
    expect_unavailable(&stream).await;
    proxy.heal().await.unwrap();
    lab.until_connected(true).await;
    let id = lab.add("1").await;
    assert_eq!(read_past_errors(&stream).await[0].id, id);
}

#[tokio::test]
async fn a_frozen_server_hangs_nobody() {
    let lab = Lab::start().await;
    let stream = lab.consumer("g", "a");
    assert_eq!(stream.read(10).await.unwrap(), []);
    lab.redis.pause().unwrap();
    expect_unavailable(&stream).await;
    lab.redis.resume().unwrap();
    lab.until_connected(true).await;
    until_heard(&stream).await;
    let id = lab.add("1").await;
    // A read from before the pause may have been given it; then it is this consumer's and claimed.
    let found = async {
        loop {
            let mut entries = stream.read(10).await.unwrap_or_default();
            entries.extend(stream.claim(0, 10).await.unwrap_or_default());
            if entries.iter().any(|entry| entry.id == id) {
                return;
            }
        }
    };
    bounded(found).await;
}

#[tokio::test]
async fn killed_connections_are_replaced() {
    let lab = Lab::start().await;
    let stream = lab.consumer("g", "a");
    for _ in 0..3 {
        assert!(stream.read(10).await.is_ok());
        lab.redis.drop_clients().await.unwrap();
        let id = lab.add("1").await;
        assert_eq!(read_past_errors(&stream).await[0].id, id);
        let acknowledged = async || stream.acknowledge(slice::from_ref(&id)).await.ok();
        eventually(Duration::from_secs(20), acknowledged).await.unwrap();
    }
}

/// A failover leaves the address with a server that only copies another one's data: it is no use to a
/// reader until it is in charge again, and what was given out before is not lost by it.
#[tokio::test]
async fn a_server_that_became_a_replica_is_read_when_it_is_in_charge_again() {
    let lab = Lab::start().await;
    let stream = lab.consumer("g", "a");
    let added = [lab.add("1").await, lab.add("2").await];
    assert_eq!(stream.read(1).await.unwrap()[0].id, added[0]);
    // Of a primary that is not there, so that it keeps its own data.
    let _: () = lab.run("REPLICAOF 127.0.0.1 1").await;
    for _ in 0..3 {
        assert!(bounded(stream.read(10)).await.is_err());
        assert!(promptly(stream.claim(0, 10)).await.is_err());
        assert!(promptly(stream.acknowledge(&added[..1])).await.is_err());
    }
    let _: () = lab.run("REPLICAOF NO ONE").await;
    lab.until_connected(true).await;
    let acknowledged = async || stream.acknowledge(&added[..1]).await.ok();
    eventually(Duration::from_secs(20), acknowledged).await.unwrap();
    assert_eq!(read_past_errors(&stream).await[0].id, added[1]);
    stream.acknowledge(&added[1..]).await.unwrap();
    assert_eq!(stream.trim(0, 0).await.unwrap().pending, 0);
}
