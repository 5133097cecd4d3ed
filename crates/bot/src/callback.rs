//! The reports of a bot, as they go over the wire, and the server's answer to each.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::ending::Ending;
use crate::transport::{Method, Request, Response};
use crate::wishes::Reconfigure;

/// One report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callback {
    /// The bot runs.
    Started,
    /// The bot is where it says.
    Status(Stage),
    /// The bot is in the meeting.
    Joined,
    Heartbeat {
        /// Grows while the bot hears the meeting.
        media_progress: Option<u64>,
        /// The newest configuration that the bot has applied.
        config_version: Option<u32>,
    },
    /// The last one.
    Exited(Ending),
}

/// The stages between the larger steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Joining,
    AwaitingAdmission,
    Stopping,
}

/// What the server says to every report that it accepts. Whatever it leaves out is as before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Answer {
    /// `run` or `leave`.
    #[serde(default)]
    pub wanted: Option<String>,
    #[serde(default)]
    pub config_version: Option<u32>,
    #[serde(default)]
    pub config: Option<WantedConfig>,
}

/// What the bot should do with what it hears.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct WantedConfig {
    #[serde(default)]
    pub language: Option<String>,
    #[serde(default)]
    pub task: Option<String>,
}

/// What follows from an answer, for whoever sent the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted(Answer),
    /// The meeting is over, or another attempt has taken this bot's place.
    Gone,
    /// This bot is not known here, or has no right to speak.
    Refused(u16),
    /// This report does not fit; the next one may.
    Rejected(u16),
    /// Nobody is able to say yet.
    TryAgain(u16),
}

impl Callback {
    /// The request for the bot with this `connection_id` in this meeting.
    pub fn request(&self, connection_id: &str, meeting_id: i64) -> Request {
        let (method, path, mut body) = match self {
            Callback::Started => {
                (Method::Post, "/callback/started", json!({"meeting_id": meeting_id}))
            }
            Callback::Joined => (Method::Post, "/callback/joined", json!({})),
            Callback::Status(stage) => {
                (Method::Patch, "/callback/status", json!({"status": stage.as_str()}))
            }
            Callback::Heartbeat { media_progress, config_version } => {
                let mut body = json!({});
                insert(&mut body, "media_progress", media_progress.map(Value::from));
                insert(&mut body, "config_version", config_version.map(Value::from));
                (Method::Post, "/callback/heartbeat", body)
            }
            Callback::Exited(ending) => (Method::Post, "/callback/exited", json!(ending)),
        };
        insert(&mut body, "connection_id", Some(connection_id.into()));
        Request { method, path, body }
    }
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Joining => "joining",
            Stage::AwaitingAdmission => "awaiting_admission",
            Stage::Stopping => "stopping",
        }
    }
}

impl Answer {
    pub(crate) fn wants_leave(&self) -> bool {
        self.wanted.as_deref() == Some("leave")
    }

    pub(crate) fn reconfigure(&self) -> Option<Reconfigure> {
        let WantedConfig { language, task } = self.config.clone()?;
        Some(Reconfigure { version: self.config_version?, language, task })
    }
}

impl Verdict {
    pub(crate) fn of(response: &Response) -> Self {
        match response.status {
            // A page of somebody's proxy is no answer of the server's, whatever its status.
            200..=299 => serde_json::from_slice(&response.body)
                .map_or(Verdict::TryAgain(response.status), Verdict::Accepted),
            410 => Verdict::Gone,
            status @ (401 | 403 | 404) => Verdict::Refused(status),
            status @ (408 | 425 | 429 | 500..) => Verdict::TryAgain(status),
            status => Verdict::Rejected(status),
        }
    }
}

fn insert(body: &mut Value, name: &str, value: Option<Value>) {
    if let (Some(object), Some(value)) = (body.as_object_mut(), value) {
        object.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(callback: &Callback) -> (Method, &'static str, Value) {
        let Request { method, path, body } = callback.request("c-1", 7);
        (method, path, body)
    }

    #[test]
    fn every_report_has_its_place_and_shape() {
        use Method::{Patch, Post};
        let ended = Ending::completed("left_alone_timeout").because("left_alone");
        let beat = Callback::Heartbeat { media_progress: Some(1200), config_version: Some(3) };
        let silent = Callback::Heartbeat { media_progress: None, config_version: None };
        let cases = [
            (
                Callback::Started,
                (Post, "/callback/started", json!({"connection_id": "c-1", "meeting_id": 7})),
            ),
            (Callback::Joined, (Post, "/callback/joined", json!({"connection_id": "c-1"}))),
            (
                Callback::Status(Stage::Stopping),
                (Patch, "/callback/status", json!({"connection_id": "c-1", "status": "stopping"})),
            ),
            (
                beat,
                (
                    Post,
                    "/callback/heartbeat",
                    json!({"connection_id": "c-1", "media_progress": 1200, "config_version": 3}),
                ),
            ),
            (silent, (Post, "/callback/heartbeat", json!({"connection_id": "c-1"}))),
            (
                Callback::Exited(ended),
                (
                    Post,
                    "/callback/exited",
                    json!({"connection_id": "c-1", "exit_code": 0, "reason": "left_alone_timeout",
                        "completion_reason": "left_alone"}),
                ),
            ),
        ];
        for (callback, expected) in cases {
            assert_eq!(sent(&callback), expected);
        }
    }

    #[test]
    fn answers_are_judged_by_status_and_body() {
        let judge = |status, body: &str| Verdict::of(&Response::new(status, body));
        let full = r#"{"status":"processed","meeting_id":7,"state":"active","wanted":"leave",
            "config_version":3,"config":{"language":"en","task":null}}"#;
        let Verdict::Accepted(answer) = judge(200, full) else { panic!("not accepted") };
        assert!(answer.wants_leave());
        let wanted = Reconfigure { version: 3, language: Some("en".to_owned()), task: None };
        assert_eq!(answer.reconfigure(), Some(wanted));

        assert_eq!(judge(200, "{}"), Verdict::Accepted(Answer::default()));
        assert_eq!(judge(200, "<html>"), Verdict::TryAgain(200));
        assert_eq!(judge(410, ""), Verdict::Gone);
        for status in [401, 403, 404] {
            assert_eq!(judge(status, "{}"), Verdict::Refused(status));
        }
        for status in [408, 429, 500, 502, 503, 504] {
            assert_eq!(judge(status, "{}"), Verdict::TryAgain(status));
        }
        for status in [302, 400, 409, 413, 422] {
            assert_eq!(judge(status, "{}"), Verdict::Rejected(status));
        }
    }
}
