//! The smallest program that starts like `roundsman serve`: the testkit's own tests start, signal
//! and kill it, and send it requests, without depending on the program they are there to test.
//!
//! usage: stand-in-server serve --data FOLDER --listen ADDRESS [--fail]
//!
//! `/readyz` answers 200; `/missing` answers 404; everything else answers with what was asked.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const BODY_BYTES_MAX: usize = 64 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--fail") {
        log("this server was told to fail");
        return ExitCode::from(3);
    }
    let Err(error) = serve(&arguments).await;
    log(&format!("{error:#}"));
    ExitCode::FAILURE
}

async fn serve(arguments: &[String]) -> Result<std::convert::Infallible> {
    let address = value_of(arguments, "--listen")?;
    std::fs::create_dir_all(value_of(arguments, "--data")?)?;
    let listener = TcpListener::bind(address).await?;
    log(&format!("listening on {address}"));
    loop {
        let (stream, _) = listener.accept().await?;
        if let Err(error) = answer(stream).await {
            log(&format!("a request failed: {error:#}"));
        }
    }
}

async fn answer(stream: TcpStream) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request_line = String::new();
    stream.read_line(&mut request_line).await?;
    let mut words = request_line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());

    let (mut body_bytes, mut authorization) = (0, None);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => body_bytes = value.parse()?,
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    ensure!(body_bytes <= BODY_BYTES_MAX, "a body of {body_bytes} bytes is too large");
    let mut body = vec![0; body_bytes];
    stream.read_exact(&mut body).await?;

    let status = if path == "/missing" { "404 Not Found" } else { "200 OK" };
    let text = json!({
        "method": method,
        "path": path,
        "authorization": authorization,
        "body": serde_json::from_slice::<serde_json::Value>(&body).ok(),
    })
    .to_string();
    let head = format!("content-length: {}\r\nconnection: close\r\nx-stand-in: yes", text.len());
    stream.write_all(format!("HTTP/1.1 {status}\r\n{head}\r\n\r\n{text}").as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

fn value_of<'a>(arguments: &'a [String], name: &str) -> Result<&'a str> {
    let position = arguments.iter().position(|argument| argument == name);
    let value = position.and_then(|position| arguments.get(position + 1));
    value.map(String::as_str).with_context(|| format!("{name} is missing"))
}

fn log(line: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(std::io::stderr(), "{line}");
}
