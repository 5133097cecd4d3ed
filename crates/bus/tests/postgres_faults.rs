//! PostgreSQL goes away in every way we know of: the bus delays, says `Gap`, and hangs nobody.

use std::net::SocketAddr;

use bytes::Bytes;
use roundsman_bus::PostgresBus;
use roundsman_core::ports::{Bus, BusError, BusSubscription};
use roundsman_testkit::proxy::Direction;
use roundsman_testkit::{FaultProxy, env};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::support::{
    bounded, expect_body, expect_gap, gap_before, promptly, quick_limits, test_random, unique_name,
    until_connected, until_disconnected,
};

/// A bus with a name of its own on the shared server, and the topic that this test uses.
struct Node {
    bus: PostgresBus,
    name: String,
}

impl Node {
    async fn start(mut config: Config) -> Self {
        let name = unique_name();
        config.application_name(&name);
        let random = test_random();
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let started = PostgresBus::start(config, quick_limits(), &random, &tasks, &shutdown);
        Self { bus: bounded(started).await, name }
    }

    async fn subscribe(&self, topic: &str) -> Box<dyn BusSubscription> {
        promptly(self.bus.subscribe(&self.topic(topic))).await.expect("subscribed")
    }

    async fn publish(&self, topic: &str, body: &'static str) {
        promptly(self.bus.publish(&self.topic(topic), Bytes::from(body))).await.expect("published");
    }

    async fn expect_unavailable(&self) {
        let published = promptly(self.bus.publish(&self.topic("wake"), Bytes::new())).await;
        assert!(matches!(published, Err(BusError::Unavailable(_))), "{published:?}");
    }

    fn topic(&self, topic: &str) -> String {
        format!("{}-{topic}", self.name)
    }
}

/// A connection beside those of the bus.
struct Operator {
    client: Client,
    _driver: AbortOnDropHandle<()>,
}

impl Operator {
    async fn connect() -> Self {
        let (client, connection) = bounded(config().connect(NoTls)).await.expect("connected");
        let driver = TaskTracker::new().spawn(async move { connection.await.expect("it stays") });
        Self { client, _driver: AbortOnDropHandle::new(driver) }
    }

    /// Ends one of the two connections of a node.
    async fn terminate(&self, node: &Node, role: &str) {
        let name = format!("{} {role}", node.name);
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE application_name = $1";
        let ended = bounded(self.client.query(end, &[&name])).await.expect("terminated");
        assert_eq!(ended.len(), 1, "{name}");
    }
}

fn config() -> Config {
    env::postgres_url()
        .expect("a shared PostgreSQL")
        .parse()
        .expect("the URL of the test server is valid")
}

/// A network to the shared server that can be broken, and the settings that lead through it.
async fn proxied() -> (FaultProxy, Config) {
    let config = config();
    let [Host::Tcp(host)] = config.get_hosts() else {
        panic!("the test server is one host, reached over TCP");
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let mut found =
        bounded(tokio::net::lookup_host((host.as_str(), port))).await.expect("the host is known");
    let server: SocketAddr = found.next().expect("the host has an address");
    let proxy = FaultProxy::start(server).await.expect("a proxy");
    let mut through = Config::new();
    through.host(proxy.addr().ip().to_string()).port(proxy.addr().port());
    if let Some(user) = config.get_user() {
        through.user(user);
    }
    if let Some(password) = config.get_password() {
        through.password(password);
    }
    if let Some(database) = config.get_dbname() {
        through.dbname(database);
    }
    (proxy, through)
}

#[tokio::test]
async fn a_terminated_listener_is_a_gap() {
    let operator = Operator::connect().await;
    let node = Node::start(config()).await;
    let mut first = node.subscribe("first").await;
    let mut second = node.subscribe("second").await;
    for _ in 0..3 {
        operator.terminate(&node, "listen").await;
        expect_gap(&mut first).await;
        expect_gap(&mut second).await;
        until_connected(&mut node.bus.status()).await;
        node.publish("first", "one").await;
        node.publish("second", "two").await;
        expect_body(&mut first, "one").await;
        expect_body(&mut second, "two").await;
    }
}

#[tokio::test]
async fn a_terminated_publisher_costs_the_listeners_nothing() {
    let operator = Operator::connect().await;
    let node = Node::start(config()).await;
    let mut listener = node.subscribe("wake").await;
    let mut status = node.bus.status();
    operator.terminate(&node, "notify").await;
    // Found by the next ping, without anybody publishing.
    bounded(status.wait_for(|status| !status.can_publish)).await.expect("the bus lives");
    until_connected(&mut status).await;
    node.publish("wake", "after").await;
    expect_body(&mut listener, "after").await;
}

#[tokio::test]
async fn starts_without_postgres_and_connects_when_it_comes() {
    let (proxy, config) = proxied().await;
    proxy.partition().await.unwrap();
    let node = Node::start(config).await;
    assert!(!node.bus.connected());
    node.expect_unavailable().await;
    let mut listener = node.subscribe("wake").await;

    proxy.heal().await.unwrap();
    until_connected(&mut node.bus.status()).await;
    expect_gap(&mut listener).await;
    node.publish("wake", "hello").await;
    expect_body(&mut listener, "hello").await;
}

#[tokio::test]
async fn survives_lost_servers_with_many_topics() {
    let (proxy, config) = proxied().await;
    let node = Node::start(config).await;
    let topics: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let mut listeners = Vec::new();
    for topic in &topics {
        listeners.push(node.subscribe(topic).await);
    }
    for _ in 0..2 {
        proxy.partition().await.unwrap();
        node.expect_unavailable().await;
        until_disconnected(&mut node.bus.status()).await;
        node.expect_unavailable().await;

        proxy.heal().await.unwrap();
        until_connected(&mut node.bus.status()).await;
        for (topic, listener) in topics.iter().zip(&mut listeners) {
            node.publish(topic, "again").await;
            expect_gap(listener).await;
            expect_body(listener, "again").await;
        }
    }
    assert_eq!(proxy.open_connections(), 2, "one to publish and one to listen");
}

/// The half-open connection: nothing is closed and nothing answers.
#[tokio::test]
async fn a_silent_network_is_noticed_and_hangs_nobody() {
    let (proxy, config) = proxied().await;
    let node = Node::start(config).await;
    let mut listener = node.subscribe("wake").await;
    proxy.blackhole(Direction::Both);
    node.expect_unavailable().await;
    let mut listener_from_silence = node.subscribe("other").await;
    until_disconnected(&mut node.bus.status()).await;
    node.expect_unavailable().await;

    proxy.heal().await.unwrap();
    until_connected(&mut node.bus.status()).await;
    node.publish("wake", "after").await;
    assert!(gap_before(&mut listener, "after").await);
    node.publish("other", "after").await;
    assert!(gap_before(&mut listener_from_silence, "after").await);
}

#[tokio::test]
async fn a_notification_by_hand_makes_listeners_look() {
    let operator = Operator::connect().await;
    let node = Node::start(config()).await;
    let mut listener = node.subscribe("wake").await;
    let notify = format!("NOTIFY \"roundsman:{}\"", node.topic("wake"));
    bounded(operator.client.batch_execute(&notify)).await.unwrap();
    expect_gap(&mut listener).await;
}
