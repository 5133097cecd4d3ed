//! Real connections: their limits, and how they end.

use std::net::SocketAddr;
use std::time::Duration;

use roundsman_web::{ServeOptions, serve};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::app::App;

/// Far more than anything here takes.
const SOON: Duration = Duration::from_secs(20);

struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    server: AbortOnDropHandle<()>,
}

async fn start(app: &App, options: ServeOptions) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let task = serve(listener, app.router.clone(), shutdown.clone(), options);
    let server = AbortOnDropHandle::new(TaskTracker::new().spawn(task));
    Running { address, shutdown, server }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn ended(self) {
        timeout(SOON, self.server).await.expect("the server ends").unwrap();
    }
}

/// Reads until the server closes.
async fn rest_of(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    timeout(SOON, stream.read_to_string(&mut text)).await.expect("the server closes").unwrap();
    text
}

/// Reads one answer of a known ending.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains(end) {
        let mut chunk = [0u8; 1024];
        let count = timeout(SOON, stream.read(&mut chunk)).await.unwrap().unwrap();
        assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let app = App::new();
    let running = start(&app, ServeOptions::default()).await;
    let mut stream = running.connect().await;
    for _ in 0..2 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert!(read_until(&mut stream, "}").await.starts_with("HTTP/1.1 200"));
    }
    stream
        .write_all(b"GET /nowhere HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let answer = rest_of(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("not_found"), "{answer}");
    let length: usize = answer
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(length, answer.split_once("\r\n\r\n").unwrap().1.len());
}

#[tokio::test]
async fn huge_headers_are_refused() {
    let app = App::new();
    let options = ServeOptions { header_bytes_max: 8192, ..ServeOptions::default() };
    let running = start(&app, options).await;
    for request in [
        format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(9000)),
        format!("GET /healthz?{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(9000)),
        format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(200)),
    ] {
        let mut stream = running.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_until(&mut stream, "\r\n").await;
        assert!(
            answer.starts_with("HTTP/1.1 431") || answer.starts_with("HTTP/1.1 414"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_headers_is_dropped() {
    let app = App::new();
    let options =
        ServeOptions { header_read_max: Duration::from_millis(50), ..ServeOptions::default() };
    let running = start(&app, options).await;
    let mut silent = running.connect().await;
    let mut slow = running.connect().await;
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost").await.unwrap();
    rest_of(&mut silent).await;
    rest_of(&mut slow).await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_their_turn() {
    let app = App::new();
    let running = start(&app, ServeOptions { connections_max: 1, ..ServeOptions::default() }).await;
    let mut first = running.connect().await;
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    read_until(&mut first, "}").await;
    let mut second = running.connect().await;
    second
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut byte = [0u8; 1];
    let early = timeout(Duration::from_millis(50), second.read(&mut byte)).await;
    assert!(early.is_err(), "the only place is taken");
    drop(first);
    assert!(rest_of(&mut second).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_is_given_up() {
    let app = App::new();
    let options = ServeOptions {
        connections_max: 1,
        write_stalled_max: Duration::from_millis(50),
        ..ServeOptions::default()
    };
    let running = start(&app, options).await;
    let mut greedy = running.connect().await;
    // More than the buffers between the two can hold.
    for _ in 0..20 {
        let request = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: x\r\n\r\n";
        greedy.write_all(request).await.unwrap();
    }
    let mut next = running.connect().await;
    next.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(rest_of(&mut next).await.starts_with("HTTP/1.1 200"), "the only place is free again");
}

#[tokio::test]
async fn shutting_down_answers_what_was_asked_and_accepts_no_more() {
    let app = App::new();
    let token = app.token("ada@example.org", &[]).await;
    // Nothing but the shutdown closes an idle connection here.
    let options =
        ServeOptions { header_read_max: Duration::from_mins(10), ..ServeOptions::default() };
    let running = start(&app, options).await;
    let (mut idle, mut busy) = (running.connect().await, running.connect().await);
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    read_until(&mut idle, "}").await;
    let body = json!({"worker": "w", "kinds": ["work"], "wait_secs": 20}).to_string();
    let request = format!(
        "POST /jobs/claim HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\
         expect: 100-continue\r\n\r\n",
        body.len()
    );
    busy.write_all(request.as_bytes()).await.unwrap();
    // The server asks for the body when the request has reached its handler.
    assert!(read_until(&mut busy, "\r\n\r\n").await.starts_with("HTTP/1.1 100"));
    busy.write_all(body.as_bytes()).await.unwrap();
    let ada = app.client().header("x-api-key", &token);
    running.shutdown.cancel();
    assert_eq!(rest_of(&mut idle).await, "", "an idle connection is closed");
    let id = ada.enqueue(json!({"kind": "work"})).await;
    let answer = rest_of(&mut busy).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains(&format!("\"id\":{id}")),
        "{answer}"
    );
    let address = running.address;
    running.ended().await;
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn what_does_not_finish_within_the_grace_is_cut_off() {
    let app = App::new();
    let token = app.token("ada@example.org", &[]).await;
    let options = ServeOptions { grace: Duration::from_millis(50), ..ServeOptions::default() };
    let running = start(&app, options).await;
    let mut stuck = running.connect().await;
    let head = format!(
        "POST /jobs HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n"
    );
    stuck.write_all(head.as_bytes()).await.unwrap();
    // The handler has asked for a body that never comes.
    assert!(read_until(&mut stuck, "\r\n\r\n").await.starts_with("HTTP/1.1 100"));
    running.shutdown.cancel();
    assert_eq!(rest_of(&mut stuck).await, "");
    running.ended().await;
}
