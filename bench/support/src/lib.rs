//! What measurements share: the real server as a process, a database with meetings in it, a client
//! that costs little, figures and how they are shown.

pub mod apart;
pub mod http;
pub mod machine;
pub mod meetings;
pub mod place;
pub mod process;
pub mod rooms;
pub mod sched;
pub mod server;
pub mod table;
pub mod websocket;

use std::io::Write;
use std::time::Duration;

use roundsman_engine::wake;
use tokio_util::sync::CancellationToken;

/// Tells whoever watches how far it is.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// So many things in that time, per second.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 52 bits")]
pub fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// The value below which this share of a sorted list lies.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an index into a list that fits into memory"
)]
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

pub async fn pause(time: Duration) {
    wake::rest(time, &CancellationToken::new()).await;
}

#[expect(clippy::disallowed_methods, reason = "every task is awaited where it is made")]
pub fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}
