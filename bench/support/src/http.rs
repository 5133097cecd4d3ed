//! As little of HTTP as the measurements need, so that the client takes little from the server's
//! processors: requests that are ready as bytes, answers of a known length.

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A connection that is kept open.
pub struct Connection {
    stream: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

impl Connection {
    pub async fn open(address: &str) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream), line: String::new(), body: Vec::new() })
    }

    /// Sends a request made by [`request`] and returns the status; the body is in [`Self::body`].
    pub async fn call(&mut self, request: &[u8]) -> anyhow::Result<u16> {
        self.stream.write_all(request).await?;
        let status = self.read_line().await?.split(' ').nth(1).and_then(|text| text.parse().ok());
        let status = status.context("no status line")?;
        let mut length = 0;
        loop {
            let line = self.read_line().await?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
            if name.eq_ignore_ascii_case("transfer-encoding") {
                bail!("the length of an answer is not known");
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body).await?;
        Ok(status)
    }

    pub fn body(&self) -> &[u8] {
        &self.body
    }

    async fn read_line(&mut self) -> anyhow::Result<&str> {
        self.line.clear();
        if self.stream.read_line(&mut self.line).await? == 0 {
            bail!("the server closed the connection");
        }
        Ok(self.line.trim_end())
    }
}

/// A request as bytes. `headers` are whole lines without their ends.
pub fn request(method: &str, path: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let length = format!("content-length: {}", body.len());
    let first = format!("{method} {path} HTTP/1.1");
    let mut lines: Vec<&str> = vec![&first, "host: bench"];
    lines.extend(headers);
    if !body.is_empty() {
        lines.push("content-type: application/json");
    }
    lines.extend([length.as_str(), "", body]);
    lines.join("\r\n").into_bytes()
}
