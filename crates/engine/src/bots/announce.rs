//! Telling whoever listens: frames for clients, commands for bots, wake-ups for workers.
//!
//! Invariant: nobody waits for the bus, so a callback is answered while it hangs.

use std::sync::Arc;

use bytes::Bytes;
use roundsman_core::bots::{BotRecord, FINISH_KIND, MeetingId, SUPERVISE_KIND};
use roundsman_core::effects::FrameChannel;
use roundsman_core::jobs::{KindName, Lane};
use roundsman_core::ports::{Announced, Bus};
use roundsman_core::users::UserId;
use roundsman_core::webhooks::DELIVER_KIND;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::metrics::Metrics;
use crate::outgoing::{Message, Outgoing};
use crate::transcripts::Transcripts;
use crate::wake::Wakes;

/// Publishes and wakes. Cheap to clone.
#[derive(Clone)]
pub(super) struct Announcer {
    wakes: Wakes,
    metrics: Metrics,
    transcripts: Transcripts,
    commands: Outgoing<()>,
}

impl Announcer {
    pub(super) fn new(
        bus: Arc<dyn Bus>,
        wakes: Wakes,
        metrics: Metrics,
        transcripts: Transcripts,
        tasks: TaskTracker,
    ) -> Self {
        let commands = Outgoing::new(bus, metrics.clone(), tasks);
        Announcer { wakes, metrics, transcripts, commands }
    }

    /// Rows have changed: shows their frames and wakes those who have work from it.
    pub(super) fn announce(&self, announced: &Announced) {
        let Announced { record, frames } = announced;
        self.transcripts.announce(record.meeting.id, frames);
        // Every frame about a status has an event for the user's endpoint beside it.
        let statuses = frames.iter().filter(|frame| frame.channel() == FrameChannel::Status);
        self.wake(DELIVER_KIND, statuses.count());
        if record.status.is_over() {
            self.metrics.bot_ended(record.status);
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
        self.wakes.signal([(lane(kind), jobs)]);
    }

    /// On the channel of the connection, which is ours, and on that of the meeting, which is Vexa's.
    fn command(&self, record: &BotRecord, command: &Value) {
        let body = Bytes::from(command.to_string());
        let connection = record.bot.connection_id.as_str();
        self.send(format!("bot_commands:{connection}"), body.clone());
        self.send(meeting_commands(record.meeting.id), body);
    }

    fn send(&self, topic: String, body: Bytes) {
        self.commands.send(Message { topic, body, cargo: () });
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
