//! Works off jobs of a Roundsman server, from any Rust program.
//!
//! ```no_run
//! use roundsman_worker::{Context, Failure, Job, Worker};
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), roundsman_worker::Error> {
//! Worker::new("http://127.0.0.1:8080", "rmu_…")?
//!     .named("renderer-2")
//!     .concurrency(8)
//!     .handle("reports.render", |job: Job, context: Context| async move {
//!         let page = job.payload["page"].as_u64().ok_or_else(|| Failure::fatal("page is missing"))?;
//!         context.report(json!({"percent": 50}));
//!         Ok(json!({"rendered": page}))
//!     })
//!     .run(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
//!     .await;
//! # Ok(()) }
//! ```
//!
//! Leases are kept in the background while a handler runs. A handler whose lease is lost, whose job was
//! cancelled, or whose worker has to end is told through its [`Context`]; if it does not end within
//! [`Worker::stop_grace`] it is dropped at its next `await`.
//!
//! Invariant: nothing is said about a job whose lease may be over. The server would refuse it; not asking
//! keeps a worker that was cut off from doing for long what somebody else does again.

mod api;
mod error;
mod job;
mod keep;
mod life;
mod time;
mod worker;

pub use error::{Error, Failure};
pub use job::{Context, Handler, Job, StopReason};
pub use worker::{Summary, Worker};
