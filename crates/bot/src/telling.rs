//! Tells the server what is said in the meeting.
//!
//! Invariants: what is told arrives in order; it is sent until the server has taken it or says that
//! it never will; whoever tells never waits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::backoff::Backoff;
use crate::browser::Event;
use crate::config::Secret;
use crate::random::Random;
use crate::time::Clock;
use crate::transport::{Method, Request, Transport};

const PATH: &str = "/ingest/transcription";
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LONGEST: Duration = Duration::from_secs(15);
/// What waits while the server is away; further events are dropped.
const EVENTS_QUEUED_MAX: usize = 10_000;
/// What is sent together.
const EVENTS_AT_ONCE_MAX: usize = 200;
/// How long a bot that ends waits until all is told.
const FINISH_LIMIT: Duration = Duration::from_secs(10);

/// The way to the server for what is said.
pub(crate) struct Teller {
    queue: mpsc::Sender<Value>,
    token: Secret,
    told: oneshot::Receiver<()>,
}

/// What telling needs of the world.
pub(crate) struct TellingParts {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
}

impl Teller {
    /// A queue, and the work of telling what is put into it.
    pub(crate) fn new(
        parts: TellingParts,
        token: Secret,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, events) = mpsc::channel(EVENTS_QUEUED_MAX);
        let (done, told) = oneshot::channel();
        let work = async move {
            parts.run(events).await;
            // Nobody has to wait for it.
            let _ = done.send(());
        };
        (Teller { queue, token, told }, work)
    }

    pub(crate) fn tell(&self, event: &Event) {
        let Ok(Value::Object(mut message)) = serde_json::to_value(event) else { return };
        message.insert("token".to_owned(), Value::from(self.token.expose()));
        if self.queue.try_send(Value::Object(message)).is_err() {
            tracing::warn!("too much waits to be told; something that was said is lost");
        }
    }

    /// Waits until everything is told, within a limit.
    pub(crate) async fn finish(self, clock: &dyn Clock) {
        let Teller { queue, told, .. } = self;
        drop(queue);
        tokio::select! {
            biased;
            _ = told => {}
            () = clock.pause(FINISH_LIMIT) => tracing::warn!("the end of what was said is not told"),
        }
    }
}

impl TellingParts {
    async fn run(&self, mut events: mpsc::Receiver<Value>) {
        let mut batch = Vec::new();
        while events.recv_many(&mut batch, EVENTS_AT_ONCE_MAX).await > 0 {
            self.deliver(std::mem::take(&mut batch)).await;
        }
    }

    async fn deliver(&self, batch: Vec<Value>) {
        let request = Request { method: Method::Post, path: PATH, body: Value::Array(batch) };
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            match self.transport.send(&request).await {
                Ok(response) if (200..300).contains(&response.status) => return,
                // Asking again will not change these.
                Ok(response) if (400..500).contains(&response.status) && response.status != 429 => {
                    let status = response.status;
                    tracing::warn!(status, "the server does not take what was said");
                    return;
                }
                Ok(response) => tracing::debug!(status = response.status, "not told yet"),
                Err(error) => tracing::debug!(%error, "not told yet"),
            }
            self.clock.pause(backoff.next(self.random.as_ref())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::browser::What;
    use crate::random::OsRandom;
    use crate::time::SystemClock;
    use crate::transport::{Response, Unreachable};

    /// Answers with these statuses, one after the other, then 200.
    struct Fussy {
        statuses: Mutex<Vec<Option<u16>>>,
        taken: Mutex<Vec<Value>>,
    }

    #[async_trait]
    impl Transport for Fussy {
        async fn send(&self, request: &Request) -> Result<Response, Unreachable> {
            assert_eq!(request.path, PATH);
            let next = self.statuses.lock().unwrap().pop().unwrap_or(Some(200));
            let status = next.ok_or_else(|| Unreachable("away".to_owned()))?;
            if status == 200 {
                let batch = request.body.as_array().unwrap().clone();
                self.taken.lock().unwrap().extend(batch);
            }
            Ok(Response { status, body: Vec::new(), retry_after: None })
        }
    }

    /// Time that passes at once.
    struct NoTime(SystemClock);

    #[async_trait]
    impl Clock for NoTime {
        fn monotonic(&self) -> Duration {
            self.0.monotonic()
        }

        fn wall(&self) -> std::time::SystemTime {
            self.0.wall()
        }

        async fn pause(&self, time: Duration) {
            // The limit of the end must not pass before the work is done.
            if time == FINISH_LIMIT {
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn tell(statuses: Vec<Option<u16>>, events: u64) -> Vec<Value> {
        let transport = Arc::new(Fussy { statuses: Mutex::new(statuses), taken: Mutex::default() });
        let clock = Arc::new(NoTime(SystemClock::start()));
        let parts = TellingParts {
            transport: transport.clone(),
            clock: clock.clone(),
            random: Arc::new(OsRandom),
        };
        let token: Secret = serde_json::from_value(json!("t")).unwrap();
        let (teller, work) = Teller::new(parts, token);
        for number in 0..events {
            let what = What::SessionEnd { end_timestamp: number.to_string() };
            let (uid, platform) = ("u".to_owned(), "p".to_owned());
            teller.tell(&Event { what, uid, platform, meeting_id: 7 });
        }
        tokio::join!(work, teller.finish(clock.as_ref()));
        let taken = transport.taken.lock().unwrap();
        taken.iter().map(|message| message["end_timestamp"].clone()).collect()
    }

    #[tokio::test]
    async fn what_is_said_arrives_in_order_through_an_outage() {
        let outage = vec![None, Some(503), Some(429), None];
        let expected: Vec<Value> = (0..500).map(|number| json!(number.to_string())).collect();
        assert_eq!(tell(outage, 500).await, expected);
    }

    #[tokio::test]
    async fn what_is_refused_is_not_sent_for_ever() {
        assert_eq!(tell(vec![Some(401)], 3).await.len(), 0);
    }
}
