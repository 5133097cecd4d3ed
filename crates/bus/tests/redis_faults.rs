//! Redis goes away in every way we know of: the bus delays, says `Gap`, and never hangs anybody.

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use roundsman_bus::RedisBus;
use roundsman_core::ports::{Bus, BusError, BusSubscription};
use roundsman_testkit::RedisServer;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{
    bounded, expect_body, expect_gap, gap_before, promptly, quick_limits, test_random,
    until_connected, until_disconnected,
};

async fn server() -> RedisServer {
    RedisServer::start().await.expect("a private Redis server")
}

async fn bus(redis: &RedisServer) -> RedisBus {
    let (url, random) = (redis.url(), test_random());
    let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
    let started = RedisBus::start(&url, quick_limits(), &random, &tasks, &shutdown);
    bounded(started).await.expect("the URL is valid")
}

async fn subscribe(bus: &RedisBus, topic: &str) -> Box<dyn BusSubscription> {
    promptly(bus.subscribe(topic)).await.expect("subscribed")
}

async fn publish(bus: &RedisBus, topic: &str, body: &'static str) {
    promptly(bus.publish(topic, Bytes::from(body))).await.expect("published");
}

async fn expect_unavailable(bus: &RedisBus) {
    let published = promptly(bus.publish("wake", Bytes::new())).await;
    assert!(matches!(published, Err(BusError::Unavailable(_))), "{published:?}");
}

/// A connection beside those of the bus.
async fn operator(redis: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(redis.url()).expect("a valid URL");
    bounded(client.get_multiplexed_async_connection()).await.expect("the server accepts")
}

async fn operator_runs(operator: &mut MultiplexedConnection, command: &str) -> redis::Value {
    let mut words = command.split(' ');
    let mut built = redis::cmd(words.next().expect("a command"));
    words.for_each(|word| {
        built.arg(word);
    });
    bounded(built.query_async(operator)).await.expect("the command works")
}

#[tokio::test]
async fn starts_without_redis_and_connects_when_it_comes() {
    let mut redis = server().await;
    redis.stop().await.unwrap();
    let bus = bus(&redis).await;
    assert!(!bus.connected());
    expect_unavailable(&bus).await;
    let mut listener = subscribe(&bus, "wake").await;

    redis.restart().await.unwrap();
    until_connected(&mut bus.status()).await;
    expect_gap(&mut listener).await;
    publish(&bus, "wake", "hello").await;
    expect_body(&mut listener, "hello").await;
}

#[tokio::test]
async fn survives_restarts_with_many_topics() {
    let mut redis = server().await;
    let bus = bus(&redis).await;
    let topics: Vec<String> = (0..1000).map(|number| format!("topic-{number}")).collect();
    let mut listeners = Vec::new();
    for topic in &topics {
        listeners.push(subscribe(&bus, topic).await);
    }
    for _ in 0..2 {
        redis.kill_9().await.unwrap();
        expect_unavailable(&bus).await;
        until_disconnected(&mut bus.status()).await;
        expect_unavailable(&bus).await;
        assert!(!bus.connected());

        redis.restart().await.unwrap();
        until_connected(&mut bus.status()).await;
        for (topic, listener) in topics.iter().zip(&mut listeners) {
            publish(&bus, topic, "again").await;
            expect_gap(listener).await;
            expect_body(listener, "again").await;
        }
    }
    // All of that on one connection for listening, which forgets what nobody listens on.
    let mut operator = operator(&redis).await;
    let clients = operator_runs(&mut operator, "CLIENT LIST TYPE pubsub").await;
    let clients: String = redis::from_redis_value(clients).expect("text");
    assert_eq!(clients.lines().count(), 1, "{clients}");
    assert!(clients.contains(" sub=1000 "), "{clients}");
    drop(listeners);
    bounded(bus.status().wait_for(|status| status.topics == 0)).await.expect("the bus lives");
    let channels = operator_runs(&mut operator, "PUBSUB CHANNELS *").await;
    assert_eq!(channels, redis::Value::Array(Vec::new()));
}

#[tokio::test]
async fn uses_the_names_that_other_programs_know() {
    let redis = server().await;
    let bus = bus(&redis).await;
    let mut ours = subscribe(&bus, "wake").await;
    let mut theirs = subscribe(&bus, "bot_commands:42").await;
    let mut operator = operator(&redis).await;
    operator_runs(&mut operator, "PUBLISH roundsman:wake one").await;
    operator_runs(&mut operator, "PUBLISH bot_commands:42 two").await;
    expect_body(&mut ours, "one").await;
    expect_body(&mut theirs, "two").await;
}

#[tokio::test]
async fn a_flushed_server_changes_nothing() {
    let redis = server().await;
    let bus = bus(&redis).await;
    let mut listener = subscribe(&bus, "wake").await;
    redis.wipe().await.unwrap();
    publish(&bus, "wake", "after").await;
    expect_body(&mut listener, "after").await;
}

#[tokio::test]
async fn a_short_pause_only_delays() {
    let redis = server().await;
    let bus = bus(&redis).await;
    let mut listener = subscribe(&bus, "wake").await;
    operator_runs(&mut operator(&redis).await, "CLIENT PAUSE 700 ALL").await;
    publish(&bus, "wake", "late").await;
    expect_body(&mut listener, "late").await;
}

#[tokio::test]
async fn a_long_pause_hangs_nobody() {
    let redis = server().await;
    let bus = bus(&redis).await;
    let mut listener = subscribe(&bus, "wake").await;
    operator_runs(&mut operator(&redis).await, "CLIENT PAUSE 6000 ALL").await;
    expect_unavailable(&bus).await;
    let mut listener_from_pause = subscribe(&bus, "other").await;
    until_disconnected(&mut bus.status()).await;
    expect_unavailable(&bus).await;

    until_connected(&mut bus.status()).await;
    publish(&bus, "wake", "after").await;
    assert!(gap_before(&mut listener, "after").await);
    publish(&bus, "other", "after").await;
    assert!(gap_before(&mut listener_from_pause, "after").await);
}

/// The half-open connection: nothing is closed and nothing answers.
#[tokio::test]
async fn a_frozen_server_is_noticed_and_hangs_nobody() {
    let redis = server().await;
    let bus = bus(&redis).await;
    let mut listener = subscribe(&bus, "wake").await;
    redis.pause().unwrap();
    expect_unavailable(&bus).await;
    until_disconnected(&mut bus.status()).await;
    expect_unavailable(&bus).await;

    redis.resume().unwrap();
    until_connected(&mut bus.status()).await;
    publish(&bus, "wake", "after").await;
    assert!(gap_before(&mut listener, "after").await);
}

#[tokio::test]
async fn a_killed_listener_connection_is_a_gap() {
    let redis = server().await;
    let bus = bus(&redis).await;
    let mut listener = subscribe(&bus, "wake").await;
    let mut operator = operator(&redis).await;
    for _ in 0..3 {
        operator_runs(&mut operator, "CLIENT KILL TYPE pubsub").await;
        expect_gap(&mut listener).await;
        until_connected(&mut bus.status()).await;
        publish(&bus, "wake", "after").await;
        expect_body(&mut listener, "after").await;
    }
}

#[tokio::test]
async fn a_killed_publishing_connection_costs_the_listeners_nothing() {
    let redis = server().await;
    let bus = bus(&redis).await;
    let mut listener = subscribe(&bus, "wake").await;
    let mut operator = operator(&redis).await;
    let mut status = bus.status();
    operator_runs(&mut operator, "CLIENT KILL TYPE normal SKIPME yes").await;
    // Found by the next ping, without anybody publishing.
    bounded(status.wait_for(|status| !status.can_publish)).await.expect("the bus lives");
    until_connected(&mut status).await;
    publish(&bus, "wake", "after").await;
    expect_body(&mut listener, "after").await;
}
