//! Serves the page, what its buttons do, and a stream of what it should show.
//!
//! `GET /` is the page; `POST /join` with a name answers with a number; `GET /events/NUMBER` streams
//! what that guest sees, from now on; `POST /leave/NUMBER` says goodbye.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::model::{GuestState, Meeting};

const PAGE: &str = include_str!("page.html");
const BODY_BYTES_MAX: usize = 64 * 1024;

type Connection = BufReader<TcpStream>;

struct Request {
    method: String,
    path: String,
    body: Value,
}

pub(super) async fn serve(
    listener: TcpListener,
    meeting: watch::Sender<Meeting>,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    let accepting = async {
        while let Ok((stream, _)) = listener.accept().await {
            let (meeting, stop) = (meeting.clone(), stop.clone());
            tasks.spawn(async move {
                let answering = answer(BufReader::new(stream), meeting);
                // A request that fails ends its connection, and the page sees that.
                let _ = stop.run_until_cancelled(answering).await;
            });
        }
    };
    stop.run_until_cancelled(accepting).await;
}

async fn answer(mut stream: Connection, meeting: watch::Sender<Meeting>) -> Result<()> {
    let request = read(&mut stream).await?;
    let (place, number) = request.path[1..].split_once('/').unwrap_or((&request.path[1..], ""));
    match (request.method.as_str(), place) {
        ("GET", "") => reply(&mut stream, "200 OK", "text/html; charset=utf-8", PAGE).await,
        ("POST", "join") => {
            let name = request.body["name"].as_str().context("a name")?;
            let mut number = 0;
            meeting.send_modify(|meeting| number = meeting.ask(name));
            let body = json!({"number": number}).to_string();
            reply(&mut stream, "200 OK", "application/json", &body).await
        }
        ("POST", "leave") => {
            let number = number.parse()?;
            meeting.send_modify(|meeting| meeting.guest_is(number, GuestState::Left));
            reply(&mut stream, "200 OK", "application/json", "{}").await
        }
        ("GET", "events") => stream_events(stream, meeting, number.parse()?).await,
        _ => reply(&mut stream, "404 Not Found", "text/plain", "").await,
    }
}

/// Runs until the page goes away, which makes its guest vanish.
async fn stream_events(
    mut stream: Connection,
    meeting: watch::Sender<Meeting>,
    number: usize,
) -> Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n";
    stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await?;
    let mut changes = meeting.subscribe();
    let showing = async {
        loop {
            let seen = changes.borrow_and_update().seen_by(number);
            stream.write_all(format!("data: {seen}\n\n").as_bytes()).await?;
            tokio::select! {
                // The page has nothing more to say here: whatever it is, it is the end.
                _ = stream.read_u8() => break,
                changed = changes.changed() => changed?,
            }
        }
        Ok(())
    };
    let shown = showing.await;
    meeting.send_modify(|meeting| meeting.guest_is(number, GuestState::Vanished));
    shown
}

async fn read(stream: &mut Connection) -> Result<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().context("a method")?, words.next().context("a path")?);
    ensure!(path.starts_with('/'), "a path begins with a slash");
    let mut body_bytes = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("content-length") {
            body_bytes = value.parse()?;
        }
    }
    ensure!(body_bytes <= BODY_BYTES_MAX, "a body of {body_bytes} bytes is too large");
    let mut body = vec![0; body_bytes];
    stream.read_exact(&mut body).await?;
    Ok(Request { method, path, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

async fn reply(stream: &mut Connection, status: &str, kind: &str, body: &str) -> Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close",
        body.len()
    );
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}
