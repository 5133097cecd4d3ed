//! Sends events to where the webhook says.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::http::Reply;
use super::webhooks::{Refused, Target};
use crate::real_time;

/// How long an answer is waited for.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(8);
/// How often somebody looks whether an event is due that is sent later.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PING: &str = r#"{"test":"test"}"#;

/// Sends events as they happen, until it is told to stop.
pub(super) async fn pump(shared: Arc<Shared>, stop: CancellationToken) {
    let pumping = async {
        loop {
            let happened = shared.happened.notified();
            shared.deliver().await;
            let waits = shared.state().webhooks.next_due().is_some();
            tokio::select! {
                () = happened => {}
                () = real_time::pause(LOOK_EVERY), if waits => {}
            }
        }
    };
    stop.run_until_cancelled(pumping).await;
}

impl Shared {
    /// Sends everything that is due, one after the other; how many that were.
    pub(super) async fn deliver(&self) -> usize {
        let _alone = self.delivering.lock().await;
        let mut count = 0;
        loop {
            let due = self.state().webhooks.take_due(&self.random, self.clock.now());
            if due.is_empty() {
                return count;
            }
            for message in due {
                // It may have been switched off by the one before.
                let Some(target) = self.state().webhooks.target() else { continue };
                let status = self.post(&target, message.body.clone()).await;
                self.state().webhooks.report(message, status, self.clock.now());
                count += 1;
            }
        }
    }

    /// Makes or changes the webhook, if somebody answers there.
    pub(super) async fn set_webhook(&self, uuid: Option<&str>, wish: &Value) -> Reply {
        let invalid = |info: &str| Reply::error(400, "invalid-request-error", info);
        let now = self.clock.now();
        let draft = self.state().webhooks.draft(uuid, wish, &self.random, now);
        let (hook, target) = match draft {
            Ok(draft) => draft,
            Err(Refused("not found")) => return Reply::error(404, "not-found", "no such webhook"),
            Err(Refused(info)) => return invalid(info),
        };
        if self.post(&target, PING.to_owned()).await != Some(200) {
            return invalid("non-200 status code returned from webhook endpoint");
        }
        let hook = self.state().webhooks.set(hook);
        Reply::json(&hook)
    }

    /// The status of the answer, if there is one.
    async fn post(&self, target: &Target, body: String) -> Option<u16> {
        let timestamp = (self.clock.now().as_micros() / 1000).to_string();
        let signature = target.secret.sign(&timestamp, body.as_bytes());
        let request = self
            .client
            .post(&target.url)
            .header("content-type", "application/json")
            .header("x-webhook-timestamp", timestamp)
            .header("x-webhook-signature", signature)
            .body(body);
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        // Read to its end, so that the connection can be used again.
        response.bytes().await.ok()?;
        Some(status)
    }
}
