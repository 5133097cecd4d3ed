//! What an answer costs at least with the parts that the server is made of: hyper and tokio, one task for each
//! connection, and the same two bytes for whatever is asked. No routes, no headers of our own, no counting,
//! no limits, and nothing beside it.
//!
//! usage: `bench-webhooks-bare`; prints the address it listens on.

use std::convert::Infallible;
use std::io::Write;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        bench_support::spawn(async move {
            // Whoever hangs up has had their answers.
            let service = service_fn(answer);
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"ok"))))
}
