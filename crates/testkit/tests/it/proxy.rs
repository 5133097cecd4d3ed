//! Every fault of the proxy is seen by a client and a server, and so is its end.

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::time::Duration;

use roundsman_testkit::FaultProxy;
use roundsman_testkit::proxy::Direction;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Long enough for anything that is going to happen on loopback.
const SOON: Duration = Duration::from_secs(10);
/// How long nothing must happen.
const A_WHILE: Duration = Duration::from_millis(150);
/// Timers may fire a little early, by the granularity of the runtime.
const ALMOST: Duration = Duration::from_millis(2);

/// A client and a server that are connected through a proxy.
struct Pair {
    proxy: FaultProxy,
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

impl Pair {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = FaultProxy::start(listener.local_addr().unwrap()).await.unwrap();
        let client = TcpStream::connect(proxy.addr()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        Pair { proxy, listener, client, server }
    }

    async fn client_hears(&mut self, expected: &str) {
        hears(&mut self.client, expected).await;
    }

    async fn server_hears(&mut self, expected: &str) {
        hears(&mut self.server, expected).await;
    }
}

async fn hears(stream: &mut TcpStream, expected: &str) {
    let mut buffer = vec![0; expected.len()];
    timeout(SOON, stream.read_exact(&mut buffer)).await.expect("silence").expect("an end");
    assert_eq!(String::from_utf8(buffer).unwrap(), expected);
}

async fn hears_nothing(stream: &mut TcpStream) {
    let mut byte = [0];
    let heard = timeout(A_WHILE, stream.read(&mut byte)).await;
    assert!(heard.is_err(), "heard {heard:?}");
}

async fn is_reset(stream: &mut TcpStream) {
    let mut byte = [0];
    let ended = timeout(SOON, stream.read(&mut byte)).await.expect("still open");
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn without_faults_everything_arrives_and_ends_in_good_order() {
    let mut pair = Pair::new().await;
    assert_eq!(pair.proxy.open_connections(), 1);
    let large = "x".repeat(3_000_000);
    let Pair { client, server, .. } = &mut pair;
    tokio::join!(async { client.write_all(large.as_bytes()).await.unwrap() }, async {
        hears(server, &large).await;
    });
    pair.client.shutdown().await.unwrap();
    assert_eq!(pair.server.read(&mut [0]).await.unwrap(), 0);
    // Half of the connection is closed; the other half still works.
    pair.server.write_all(b"bye").await.unwrap();
    pair.client_hears("bye").await;
    assert_eq!(pair.proxy.bytes_forwarded(Direction::ToServer), 3_000_000);
    assert_eq!(pair.proxy.bytes_forwarded(Direction::ToClient), 3);
    drop(pair.server);
    assert_eq!(pair.client.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn latency_delays_one_direction_and_does_not_add_up() {
    let mut pair = Pair::new().await;
    let latency = Duration::from_millis(300);
    pair.proxy.latency(Direction::ToServer, latency);
    let watch = Stopwatch::start();
    for _ in 0..5 {
        pair.client.write_all(b"ping ").await.unwrap();
        tokio::task::yield_now().await;
    }
    pair.server_hears("ping ping ping ping ping ").await;
    assert!(watch.elapsed() >= latency.saturating_sub(ALMOST), "{:?}", watch.elapsed());
    assert!(watch.elapsed() < 3 * latency, "{:?}", watch.elapsed());

    let watch = Stopwatch::start();
    pair.server.write_all(b"pong").await.unwrap();
    pair.client_hears("pong").await;
    assert!(watch.elapsed() < latency, "{:?}", watch.elapsed());
}

#[tokio::test]
async fn a_healed_network_releases_what_it_held() {
    let mut pair = Pair::new().await;
    pair.proxy.latency(Direction::Both, Duration::from_hours(1));
    pair.client.write_all(b"late").await.unwrap();
    hears_nothing(&mut pair.server).await;
    pair.proxy.heal().await.unwrap();
    pair.server_hears("late").await;
}

#[tokio::test]
async fn a_black_hole_swallows_data_and_endings_until_it_is_healed() {
    let mut pair = Pair::new().await;
    pair.proxy.blackhole(Direction::Both);
    pair.client.write_all(b"request").await.unwrap();
    pair.server.write_all(b"push").await.unwrap();
    pair.server.shutdown().await.unwrap();
    hears_nothing(&mut pair.server).await;
    hears_nothing(&mut pair.client).await;
    // A new connection is accepted by the network and never reaches the server.
    let mut second = TcpStream::connect(pair.proxy.addr()).await.unwrap();
    assert!(timeout(A_WHILE, pair.listener.accept()).await.is_err());
    assert_eq!(pair.proxy.open_connections(), 2);

    pair.proxy.heal().await.unwrap();
    pair.server_hears("request").await;
    pair.client_hears("push").await;
    assert_eq!(pair.client.read(&mut [0]).await.unwrap(), 0);
    let (mut second_server, _) = timeout(SOON, pair.listener.accept()).await.unwrap().unwrap();
    second_server.write_all(b"hello").await.unwrap();
    hears(&mut second, "hello").await;
}

#[tokio::test]
async fn a_black_hole_may_act_in_one_direction() {
    let mut pair = Pair::new().await;
    pair.proxy.blackhole(Direction::ToClient);
    pair.client.write_all(b"request").await.unwrap();
    pair.server_hears("request").await;
    pair.server.write_all(b"answer").await.unwrap();
    hears_nothing(&mut pair.client).await;
}

#[tokio::test]
async fn a_cut_resets_both_sides_and_lets_new_connections_in() {
    let mut pair = Pair::new().await;
    pair.proxy.cut().await.unwrap();
    assert_eq!(pair.proxy.open_connections(), 0);
    is_reset(&mut pair.client).await;
    is_reset(&mut pair.server).await;
    let mut client = TcpStream::connect(pair.proxy.addr()).await.unwrap();
    let (mut server, _) = timeout(SOON, pair.listener.accept()).await.unwrap().unwrap();
    server.write_all(b"again").await.unwrap();
    hears(&mut client, "again").await;
}

#[tokio::test]
async fn a_cut_ends_what_hangs_in_a_black_hole() {
    let mut pair = Pair::new().await;
    pair.proxy.blackhole(Direction::Both);
    pair.client.write_all(b"lost").await.unwrap();
    pair.proxy.cut().await.unwrap();
    is_reset(&mut pair.client).await;
    is_reset(&mut pair.server).await;
}

#[tokio::test]
async fn refusing_closes_the_port_and_leaves_open_connections_alone() {
    let mut pair = Pair::new().await;
    pair.proxy.refuse().await.unwrap();
    let refused = TcpStream::connect(pair.proxy.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    pair.client.write_all(b"still here").await.unwrap();
    pair.server_hears("still here").await;

    pair.proxy.partition().await.unwrap();
    is_reset(&mut pair.client).await;
    assert!(TcpStream::connect(pair.proxy.addr()).await.is_err());
    pair.proxy.heal().await.unwrap();
    TcpStream::connect(pair.proxy.addr()).await.unwrap();
}

#[tokio::test]
async fn bandwidth_is_capped() {
    let mut pair = Pair::new().await;
    pair.proxy.bandwidth(Direction::ToClient, NonZeroU32::new(100_000).unwrap());
    let large = "x".repeat(40_000);
    let watch = Stopwatch::start();
    pair.server.write_all(large.as_bytes()).await.unwrap();
    pair.client_hears(&large).await;
    let took = watch.elapsed();
    // 20 slices of 20 ms, of which the first leaves at once.
    assert!(took >= Duration::from_millis(360), "{took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn the_end_of_the_server_process_is_passed_on_as_a_reset() {
    let mut pair = Pair::new().await;
    pair.server.set_zero_linger().unwrap();
    drop(pair.server);
    is_reset(&mut pair.client).await;
    // With nobody behind the proxy, a connection is opened and broken.
    drop(pair.listener);
    let mut client = TcpStream::connect(pair.proxy.addr()).await.unwrap();
    is_reset(&mut client).await;
}

#[tokio::test]
async fn dropping_the_proxy_cuts_everything() {
    let mut pair = Pair::new().await;
    let address = pair.proxy.addr();
    drop(pair.proxy);
    is_reset(&mut pair.client).await;
    is_reset(&mut pair.server).await;
    roundsman_testkit::eventually(SOON, async || TcpStream::connect(address).await.err())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_url_is_led_through_the_proxy() {
    let pair = Pair::new().await;
    let direct = format!("postgres://me@{}/db", pair.listener.local_addr().unwrap());
    assert_eq!(pair.proxy.url(&direct), format!("postgres://me@{}/db", pair.proxy.addr()));
}

/// Real time, because the delays of a network are what is measured here.
struct Stopwatch(tokio::time::Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "the delays of the proxy are real")]
    fn start() -> Self {
        Stopwatch(tokio::time::Instant::now())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
