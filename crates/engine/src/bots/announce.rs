//! Telling whoever listens: frames for clients, commands for bots, wake-ups for workers.
//!
//! Invariants: nobody waits for the bus, so a callback is answered while it hangs; what one process
//! announces goes out in the order it was announced; a message that is not sent is counted and
//! forgotten, because the database has what it said.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use roundsman_core::bots::{BotRecord, FINISH_KIND, MeetingId, SUPERVISE_KIND};
use roundsman_core::jobs::{KindName, Lane};
use roundsman_core::ports::{Announced, Bus};
use roundsman_core::users::UserId;
use roundsman_core::webhooks::DELIVER_KIND;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::metrics::Metrics;
use crate::wake::Wakes;

/// Messages that wait for the bus; further ones are dropped and counted.
const MESSAGES_QUEUED_MAX: usize = 4096;

/// Publishes and wakes. Cheap to clone.
#[derive(Clone)]
pub(super) struct Announcer {
    inner: Arc<Inner>,
}

struct Inner {
    bus: Arc<dyn Bus>,
    wakes: Wakes,
    metrics: Metrics,
    tasks: TaskTracker,
    outgoing: Mutex<Outgoing>,
}

#[derive(Default)]
struct Outgoing {
    messages: VecDeque<(String, Bytes)>,
    /// A task is sending them.
    sending: bool,
}

impl Announcer {
    pub(super) fn new(
        bus: Arc<dyn Bus>,
        wakes: Wakes,
        metrics: Metrics,
        tasks: TaskTracker,
    ) -> Self {
        let outgoing = Mutex::default();
        Announcer { inner: Arc::new(Inner { bus, wakes, metrics, tasks, outgoing }) }
    }

    /// Rows have changed: shows their frames and wakes those who have work from it.
    pub(super) fn announce(&self, announced: &Announced) {
        let Announced { record, frames } = announced;
        for frame in frames {
            let topic = format!("bm:meeting:{}:status", record.meeting.id);
            self.publish(topic, Bytes::from(frame.body.as_str().to_owned()));
        }
        // Every frame has an event for the user's endpoint beside it.
        self.wake(DELIVER_KIND, frames.len());
        if record.status.is_over() {
            self.inner.metrics.bot_ended(record.status);
            self.wake(SUPERVISE_KIND, 1);
            self.wake(FINISH_KIND, 1);
        }
    }

    /// Tells a bot to leave.
    pub(super) fn command_leave(&self, record: &BotRecord) {
        let id = record.meeting.id;
        self.command(record, &json!({ "action": "leave", "meeting_id": id }));
    }

    /// Tells a bot its newest configuration.
    pub(super) fn command_reconfigure(&self, record: &BotRecord) {
        let config = &record.bot.config;
        let command = json!({
            "action": "reconfigure",
            "meeting_id": record.meeting.id,
            "language": config.language,
            "task": config.task,
            "config_version": config.version,
        });
        self.command(record, &command);
    }

    /// There are new jobs of a built-in kind.
    pub(super) fn wake(&self, kind: &'static str, jobs: usize) {
        self.inner.wakes.signal([(lane(kind), jobs)]);
    }

    /// On the channel of the connection, which is ours, and on that of the meeting, which is Vexa's.
    fn command(&self, record: &BotRecord, command: &Value) {
        let body = Bytes::from(command.to_string());
        let connection = record.bot.connection_id.as_str();
        self.publish(format!("bot_commands:{connection}"), body.clone());
        self.publish(meeting_commands(record.meeting.id), body);
    }

    fn publish(&self, topic: String, body: Bytes) {
        let mut outgoing = self.outgoing();
        if outgoing.messages.len() >= MESSAGES_QUEUED_MAX {
            self.inner.metrics.bus_failed();
            return;
        }
        outgoing.messages.push_back((topic, body));
        if !std::mem::replace(&mut outgoing.sending, true) {
            self.inner.tasks.spawn(self.clone().send_all());
        }
    }

    /// Sends what waits and ends, so that a shutdown can wait for it.
    async fn send_all(self) {
        while let Some((topic, body)) = self.next() {
            if let Err(error) = self.inner.bus.publish(&topic, body).await {
                self.inner.metrics.bus_failed();
                tracing::debug!(%error, "a message was not sent; the database has what it said");
            }
        }
    }

    fn next(&self) -> Option<(String, Bytes)> {
        let mut outgoing = self.outgoing();
        let next = outgoing.messages.pop_front();
        outgoing.sending = next.is_some();
        next
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.inner.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn meeting_commands(id: MeetingId) -> String {
    format!("bot_commands:meeting:{id}")
}

/// Built-in kinds have one lane for all users.
fn lane(kind: &'static str) -> Lane {
    let kind = KindName::new(kind).expect("a built-in kind has a valid name");
    Lane::of(UserId::SYSTEM, &kind)
}
