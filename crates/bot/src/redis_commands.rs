//! Commands over Redis, the fast way to hear a wish.
//!
//! A message that is lost is no loss: the answer to the next heartbeat says the same. So a server
//! that is away is looked for again and again, and nothing else waits for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::Client;
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::backoff::Backoff;
use crate::random::Random;
use crate::time::Clock;
use crate::wishes::{LeaveCause, Reconfigure, Wishes};

const RECONNECT_FIRST: Duration = Duration::from_millis(200);
const RECONNECT_LONGEST: Duration = Duration::from_secs(15);
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// After so much silence the server is asked whether it is still there.
const SILENCE_MAX: Duration = Duration::from_secs(20);
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Listens for the commands to one bot.
pub(crate) struct RedisCommands {
    pub(crate) client: Client,
    pub(crate) connection_id: String,
    pub(crate) meeting_id: i64,
    pub(crate) wishes: Wishes,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    /// Makes the next heartbeat come now: what was said while nobody listened is in its answer.
    pub(crate) hurry: Arc<Notify>,
}

type Lost = Box<dyn std::error::Error + Send + Sync>;

/// A command as it is published; what is not for bots of this kind does not parse.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
enum Message {
    Leave {
        meeting_id: i64,
    },
    Reconfigure {
        meeting_id: i64,
        language: Option<String>,
        task: Option<String>,
        /// A command without it is not followed: nobody could tell whether it is old.
        config_version: u32,
    },
}

impl RedisCommands {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::new(RECONNECT_FIRST, RECONNECT_LONGEST);
        let mut listened_before = false;
        loop {
            let mut listened = false;
            let Err(lost) = self.listen(&mut listened, listened_before).await;
            listened_before |= listened;
            if listened {
                backoff.reset();
            }
            // One warning per outage.
            if backoff.failures() == 0 {
                tracing::warn!(reason = %lost, "commands over Redis are not heard; reconnecting");
            } else {
                tracing::debug!(reason = %lost, "commands over Redis are still not heard");
            }
            self.clock.pause(backoff.next(self.random.as_ref())).await;
        }
    }

    /// One connection from beginning to end, and why it ended. `listened` becomes true once the
    /// server has promised to deliver; `again` says that an earlier connection had been promised it.
    async fn listen(&self, listened: &mut bool, again: bool) -> Result<Infallible, Lost> {
        let connection = timeout(ANSWER_LIMIT, self.client.get_async_pubsub()).await??;
        let (mut sink, mut messages) = connection.split();
        let channels = [
            format!("bot_commands:{}", self.connection_id),
            format!("bot_commands:meeting:{}", self.meeting_id),
        ];
        let subscribing = timeout(ANSWER_LIMIT, sink.subscribe(&channels[..]));
        self.while_hearing(&mut messages, subscribing).await??;
        *listened = true;
        tracing::info!("listening for commands over Redis");
        if again {
            self.hurry.notify_one();
        }
        loop {
            match timeout(SILENCE_MAX, messages.next()).await {
                Ok(Some(message)) => self.hear(message.get_payload_bytes()),
                Ok(None) => return Err("the server closed the connection".into()),
                Err(_) => {
                    let ping = timeout(ANSWER_LIMIT, sink.ping::<redis::Value>());
                    self.while_hearing(&mut messages, ping).await??;
                }
            }
        }
    }

    /// An answer arrives only while the messages are read.
    async fn while_hearing<T>(
        &self,
        messages: &mut (impl StreamExt<Item = redis::Msg> + Unpin),
        answer: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(answer);
        loop {
            tokio::select! {
                answered = &mut answer => return answered,
                Some(message) = messages.next() => self.hear(message.get_payload_bytes()),
            }
        }
    }

    fn hear(&self, payload: &[u8]) {
        hear(&self.wishes, self.meeting_id, payload);
    }
}

fn hear(wishes: &Wishes, own: i64, payload: &[u8]) {
    if payload.len() > MESSAGE_BYTES_MAX {
        tracing::debug!(bytes = payload.len(), "a command is too large");
        return;
    }
    match serde_json::from_slice(payload) {
        Ok(Message::Leave { meeting_id }) if meeting_id == own => wishes.leave(LeaveCause::Asked),
        Ok(Message::Reconfigure { meeting_id, language, task, config_version })
            if meeting_id == own =>
        {
            wishes.reconfigure(Reconfigure { version: config_version, language, task });
        }
        Ok(_) => tracing::debug!("a command is for another meeting"),
        Err(error) => tracing::debug!(%error, "a command is not understood"),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::{Value, json};

    use super::*;
    use crate::wishes::Command;

    fn heard(messages: &[Value]) -> Vec<Command> {
        let wishes = Wishes::default();
        for message in messages {
            hear(&wishes, 7, message.to_string().as_bytes());
        }
        let mut commands = wishes.commands();
        std::iter::from_fn(|| commands.next().now_or_never()).collect()
    }

    #[test]
    fn commands_for_this_meeting_are_followed() {
        let leave = json!({"action": "leave", "meeting_id": 7, "reason": "x"});
        assert_eq!(heard(&[leave]), [Command::Leave(LeaveCause::Asked)]);
        let wanted = json!({"action": "reconfigure", "meeting_id": 7, "language": null,
            "task": "translate", "config_version": 3});
        let task = Some("translate".to_owned());
        let expected = Command::Reconfigure(Reconfigure { version: 3, language: None, task });
        assert_eq!(heard(&[wanted]), [expected]);
    }

    #[test]
    fn everything_else_is_ignored() {
        let others = [
            json!({"action": "leave", "meeting_id": 8}),
            json!({"action": "leave"}),
            json!({"action": "speak", "meeting_id": 7, "text": "hello"}),
            json!({"action": "reconfigure", "meeting_id": 7, "language": "en"}),
            json!({"action": "reconfigure", "meeting_id": 7, "config_version": -1}),
            json!(["leave"]),
            json!("leave"),
            json!({"action": "leave", "meeting_id": 7, "padding": "x".repeat(MESSAGE_BYTES_MAX)}),
        ];
        assert_eq!(heard(&others), []);
        hear(&Wishes::default(), 7, b"\xff{");
    }
}
