//! A worker that renders reports page by page, and stops in the middle when it is told to.
//!
//!     cargo run -p roundsman-worker --example render -- http://127.0.0.1:8080 TOKEN

use std::time::Duration;

use roundsman_worker::{Context, Failure, Job, Summary, Worker};
use serde_json::{Value, json};

pub(crate) async fn run(
    url: &str,
    token: &str,
    shutdown: impl Future<Output = ()>,
) -> Result<Summary, roundsman_worker::Error> {
    let worker = Worker::new(url, token)?.named("example-rust").lease(Duration::from_secs(5));
    let worker = worker.wait(Duration::from_secs(1)).shutdown_grace(Duration::from_secs(1));
    Ok(worker.handle("reports.render", render).run(shutdown).await)
}

async fn render(job: Job, context: Context) -> Result<Value, Failure> {
    let pages = job.payload["pages"].as_u64().ok_or_else(|| Failure::fatal("pages is missing"))?;
    for page in 0..pages {
        context.report(json!({"page": page}));
        tokio::select! {
            reason = context.stopped() => return Err(Failure::new(format!("stopped: {reason:?}"))),
            () = one_page(&job) => {}
        }
    }
    Ok(json!({"pages": pages, "by": "rust"}))
}

/// Stands for the work.
async fn one_page(job: &Job) {
    let time = Duration::from_millis(job.payload["page_ms"].as_u64().unwrap_or(10));
    let forever = std::future::pending::<()>();
    let _ = tokio::time::timeout(time, forever).await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(token)) = (arguments.next(), arguments.next()) else {
        return Err("usage: render URL TOKEN".into());
    };
    let end = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    run(&url, &token, end).await?;
    Ok(())
}
