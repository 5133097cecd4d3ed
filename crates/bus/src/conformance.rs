//! What every adapter of the bus must do, as one suite.
//!
//! An adapter provides a [`BusCluster`] and calls
//! [`bus_conformance_suite!`](crate::bus_conformance_suite), which makes one test per case. Cases
//! assume a healthy transport; what happens when it fails is tested per adapter, because each
//! fails in its own way.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use roundsman_core::ports::{Bus, BusError, BusMessage, BusSubscription, MESSAGE_BYTES_MAX};
use tokio::time::timeout;

/// A case that waits longer for anything has failed.
const WAIT_SECS_MAX: u64 = 20;

/// Two nodes on one fresh or shared transport.
#[async_trait]
pub trait BusCluster: Send + Sync {
    /// Node 0 or 1. On a bus within one process both are the same.
    fn node(&self, index: usize) -> Arc<dyn Bus>;

    /// A topic that no other test uses.
    fn topic(&self, name: &str) -> String;

    /// How many undelivered messages and bytes a listener may have.
    fn listener_limits(&self) -> (usize, usize);

    /// Cancels the token that both nodes were started with and waits for their tasks.
    async fn shut_down(&self);

    /// Returns once the transport delivers exactly this many topics to the node.
    async fn until_topics(&self, index: usize, topics: usize);
}

/// Makes one test of every case. `$cluster` is an expression that is awaited in each.
#[macro_export]
macro_rules! bus_conformance_suite {
    ($cluster:expr) => {
        $crate::bus_conformance_suite!($cluster;
            delivers_to_every_listener_on_every_node
            keeps_the_order_of_each_publisher
            keeps_topics_apart
            misses_nothing_after_subscribe_returned
            a_dropped_wait_loses_nothing
            carries_any_bytes
            refuses_what_is_over_its_limit
            dropping_the_last_listener_frees_the_topic
            closes_on_shutdown
            a_dropped_bus_closes_its_listeners
            a_slow_listener_gets_a_gap
            carries_ten_thousand_messages
        );
    };
    ($cluster:expr; $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::conformance::$case($cluster.await).await;
            }
        )*
    };
}

pub async fn delivers_to_every_listener_on_every_node(cluster: impl BusCluster) {
    let topic = cluster.topic("all");
    let mut listeners = Vec::new();
    for node in [0, 1, 1, 0] {
        listeners.push(subscribe(&cluster, node, &topic).await);
    }
    for (node, body) in [(0, "from the first"), (1, "from the second")] {
        publish(&cluster, node, &topic, body).await;
        for listener in &mut listeners {
            assert_eq!(body_of(listener).await, body);
        }
    }
}

pub async fn keeps_the_order_of_each_publisher(cluster: impl BusCluster) {
    const MESSAGES: usize = 400;
    let topic = cluster.topic("order");
    let mut listeners =
        [subscribe(&cluster, 0, &topic).await, subscribe(&cluster, 1, &topic).await];
    let publish_all = async |node: usize| {
        for number in 0..MESSAGES {
            publish(&cluster, node, &topic, &format!("{node} {number}")).await;
        }
    };
    tokio::join!(publish_all(0), publish_all(1));
    for listener in &mut listeners {
        let mut next = [0; 2];
        for _ in 0..2 * MESSAGES {
            let body = body_of(listener).await;
            let body = std::str::from_utf8(&body).expect("the body is text");
            let (node, number) = body.split_once(' ').expect("the body has two parts");
            let node: usize = node.parse().expect("the node is a number");
            assert_eq!(number, next[node].to_string(), "out of order from node {node}");
            next[node] += 1;
        }
    }
}

pub async fn keeps_topics_apart(cluster: impl BusCluster) {
    let long = "long".repeat(40);
    let names = [
        "a",
        "A",
        "ab",
        "a b",
        "a*",
        "a\"b",
        "a'b",
        "a;b",
        "a\\b",
        "ä",
        "a:b",
        "a:b:mutable",
        &long,
    ];
    let long_too = format!("{long}!");
    let topics: Vec<String> =
        names.into_iter().chain([&*long_too]).map(|name| cluster.topic(name)).collect();
    let mut listeners = Vec::new();
    for topic in &topics {
        listeners.push(subscribe(&cluster, 1, topic).await);
    }
    for topic in &topics {
        publish(&cluster, 0, topic, topic).await;
    }
    // The second round shows that the first brought nothing else than was expected.
    for topic in &topics {
        publish(&cluster, 0, topic, "end").await;
    }
    for (topic, listener) in topics.iter().zip(&mut listeners) {
        assert_eq!(body_of(listener).await, topic);
        assert_eq!(body_of(listener).await, "end", "topic {topic}");
    }
}

pub async fn misses_nothing_after_subscribe_returned(cluster: impl BusCluster) {
    // The same topic again and again: each subscription races with the end of the one before.
    let topic = cluster.topic("at-once");
    for round in 0..100 {
        let mut listener = subscribe(&cluster, 1, &topic).await;
        publish(&cluster, 0, &topic, &round.to_string()).await;
        assert_eq!(body_of(&mut listener).await, round.to_string());
    }
    // Many topics at once.
    let one = async |number: usize| {
        let topic = cluster.topic(&format!("at-once-{number}"));
        let mut listener = subscribe(&cluster, 1, &topic).await;
        publish(&cluster, 0, &topic, &topic).await;
        assert_eq!(body_of(&mut listener).await, topic);
    };
    join_all((0..300).map(one)).await;
}

pub async fn a_dropped_wait_loses_nothing(cluster: impl BusCluster) {
    let topic = cluster.topic("cancel");
    let mut listener = subscribe(&cluster, 1, &topic).await;
    for number in 0..100 {
        assert_eq!(listener.next().now_or_never(), None);
        publish(&cluster, 0, &topic, &number.to_string()).await;
        // Polled once and dropped, with and without a message that is already there.
        if let Some(message) = listener.next().now_or_never() {
            assert_eq!(message, BusMessage::Body(number.to_string().into()));
        } else {
            assert_eq!(body_of(&mut listener).await, number.to_string());
        }
    }
}

pub async fn carries_any_bytes(cluster: impl BusCluster) {
    let topic = cluster.topic("bytes");
    let mut listener = subscribe(&cluster, 1, &topic).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let bodies: [&[u8]; 7] =
        [b"", b"\0", b"t", b"x", "grüße, 世界".as_bytes(), b"\xff\xfe", &every_byte];
    for body in bodies {
        let body = Bytes::copy_from_slice(body);
        cluster.node(0).publish(&topic, body.clone()).await.expect("published");
        assert_eq!(body_of(&mut listener).await, body);
    }
}

pub async fn refuses_what_is_over_its_limit(cluster: impl BusCluster) {
    let topic = cluster.topic("size");
    let mut listener = subscribe(&cluster, 1, &topic).await;
    for byte in [b'a', 0xff] {
        let body = |bytes: usize| Bytes::from(vec![byte; bytes]);
        let refused = cluster.node(0).publish(&topic, body(MESSAGE_BYTES_MAX + 1)).await;
        let Err(BusError::TooLarge { bytes, bytes_max }) = refused else {
            panic!("expected a refusal, got {refused:?}");
        };
        assert_eq!(bytes, MESSAGE_BYTES_MAX + 1);
        let refused = cluster.node(0).publish(&topic, body(bytes_max + 1)).await;
        assert!(matches!(refused, Err(BusError::TooLarge { .. })), "{refused:?}");
        cluster.node(0).publish(&topic, body(bytes_max)).await.expect("at the limit");
        assert_eq!(body_of(&mut listener).await, body(bytes_max));
    }
}

pub async fn dropping_the_last_listener_frees_the_topic(cluster: impl BusCluster) {
    let topics: Vec<String> = (0..20).map(|number| cluster.topic(&number.to_string())).collect();
    for _ in 0..3 {
        let mut listeners = Vec::new();
        for topic in &topics {
            listeners.push(subscribe(&cluster, 1, topic).await);
            listeners.push(subscribe(&cluster, 1, topic).await);
        }
        bounded(cluster.until_topics(1, topics.len())).await;
        // One of two listeners gone: the topic stays, and the other one still receives.
        for index in (0..listeners.len()).rev().step_by(2) {
            drop(listeners.remove(index));
        }
        for (topic, listener) in topics.iter().zip(&mut listeners) {
            publish(&cluster, 0, topic, "still here").await;
            assert_eq!(body_of(listener).await, "still here");
        }
        bounded(cluster.until_topics(1, topics.len())).await;
        drop(listeners);
        bounded(cluster.until_topics(1, 0)).await;
    }
}

pub async fn closes_on_shutdown(cluster: impl BusCluster) {
    let topic = cluster.topic("shutdown");
    let mut waiting = subscribe(&cluster, 0, &topic).await;
    let mut later = subscribe(&cluster, 1, &topic).await;
    assert!(cluster.node(0).connected());
    let (message, ()) = tokio::join!(bounded(waiting.next()), bounded(cluster.shut_down()));
    assert_eq!(message, BusMessage::Closed);
    for _ in 0..2 {
        assert_eq!(bounded(waiting.next()).await, BusMessage::Closed);
        assert_eq!(bounded(later.next()).await, BusMessage::Closed);
    }
    let node = cluster.node(0);
    assert!(!node.connected());
    let published = bounded(node.publish(&topic, Bytes::new())).await;
    assert!(matches!(published, Err(BusError::Unavailable(_))), "{published:?}");
    let subscribed = bounded(node.subscribe(&topic)).await;
    assert!(matches!(subscribed.err(), Some(BusError::Unavailable(_))));
}

pub async fn a_dropped_bus_closes_its_listeners(cluster: impl BusCluster) {
    let topic = cluster.topic("dropped");
    let mut listener = subscribe(&cluster, 1, &topic).await;
    drop(cluster);
    assert_eq!(bounded(listener.next()).await, BusMessage::Closed);
}

pub async fn a_slow_listener_gets_a_gap(cluster: impl BusCluster) {
    let (messages_max, bytes_max) = cluster.listener_limits();
    let topic = cluster.topic("slow");
    let mut slow = subscribe(&cluster, 1, &topic).await;
    let mut fast = subscribe(&cluster, 1, &topic).await;
    // Small bodies overflow the limit in messages, larger ones the limit in bytes.
    for padding in [0, 7_000] {
        let count = 2 * messages_max + 1;
        for number in 0..count {
            let body = format!("{number}{}", " ".repeat(padding));
            publish(&cluster, 0, &topic, &body).await;
            assert_eq!(body_of(&mut fast).await, body);
        }
        let last = format!("{}{}", count - 1, " ".repeat(padding));
        let (mut gaps, mut messages, mut bytes) = (0, 0, 0);
        loop {
            match bounded(slow.next()).await {
                BusMessage::Gap => gaps += 1,
                BusMessage::Closed => panic!("closed without a shutdown"),
                BusMessage::Body(body) => {
                    assert_eq!(gaps, 1, "the gap comes before what followed it");
                    messages += 1;
                    bytes += body.len();
                    if body == last {
                        break;
                    }
                }
            }
        }
        assert!(messages <= messages_max, "{messages} messages were kept");
        assert!(bytes <= bytes_max, "{bytes} bytes were kept");
    }
}

pub async fn carries_ten_thousand_messages(cluster: impl BusCluster) {
    const MESSAGES: usize = 10_000;
    const WINDOW: usize = 500;
    let topic = cluster.topic("many");
    let mut listeners =
        [subscribe(&cluster, 0, &topic).await, subscribe(&cluster, 1, &topic).await];
    // A window smaller than a listener's queue: every message must arrive, none may be a gap.
    for start in (0..MESSAGES).step_by(WINDOW) {
        for number in start..start + WINDOW {
            publish(&cluster, 0, &topic, &number.to_string()).await;
        }
        for listener in &mut listeners {
            for number in start..start + WINDOW {
                assert_eq!(body_of(listener).await, number.to_string());
            }
        }
    }
}

async fn subscribe(
    cluster: &impl BusCluster,
    node: usize,
    topic: &str,
) -> Box<dyn BusSubscription> {
    bounded(cluster.node(node).subscribe(topic)).await.expect("subscribed")
}

async fn publish(cluster: &impl BusCluster, node: usize, topic: &str, body: &str) {
    let body = Bytes::copy_from_slice(body.as_bytes());
    bounded(cluster.node(node).publish(topic, body)).await.expect("published");
}

async fn body_of(listener: &mut Box<dyn BusSubscription>) -> Bytes {
    match bounded(listener.next()).await {
        BusMessage::Body(body) => body,
        other => panic!("expected a message, got {other:?}"),
    }
}

async fn bounded<T>(waits: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(WAIT_SECS_MAX), waits).await.expect("within the time limit")
}
