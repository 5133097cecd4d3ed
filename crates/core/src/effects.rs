//! What must happen together with a state change: written in the same transaction or not at all.

use crate::Timestamp;
use crate::audits::AuditResult;
use crate::jobs::{Json, NewJob};
pub use crate::webhooks::WebhookEvent;

/// Everything a state change brings with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    pub jobs: Vec<NewJob>,
    pub frames: Vec<NewFrame>,
    pub transitions: Vec<Transition>,
    pub webhooks: Vec<WebhookEvent>,
    /// What audits have found: written with the end of their jobs.
    pub audits: Vec<AuditResult>,
}

impl Effects {
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
            && self.frames.is_empty()
            && self.transitions.is_empty()
            && self.webhooks.is_empty()
            && self.audits.is_empty()
    }
}

/// One step of one entity, as the log keeps it. Replaying the steps of an entity gives its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// What kind of thing changed: `token`, `meeting`.
    pub entity: &'static str,
    pub entity_id: i64,
    /// `None` for the step that made it.
    pub from_state: Option<String>,
    pub to_state: String,
    /// Who or what caused it: `admin`, `callback`, `sweeper`.
    pub cause: String,
    /// Anything a person would want to know later, as JSON.
    pub detail: Option<Json>,
}

/// A step as it was logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedTransition {
    pub id: i64,
    pub entity: String,
    pub entity_id: i64,
    pub from_state: Option<String>,
    pub to_state: String,
    pub cause: String,
    pub detail: Option<Json>,
    pub at: Timestamp,
}

/// Something for the listeners of a stream. Its place in the stream is given when it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFrame {
    /// The stream's name, such as `meeting:7`.
    pub stream: String,
    pub body: Json,
}

/// A frame with its place: numbers within a stream grow by one without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub stream: String,
    pub seq: i64,
    pub body: Json,
    pub at: Timestamp,
}

impl Frame {
    /// As listeners get it: the body with its place in the stream.
    pub fn wire(&self) -> String {
        with_seq(self.body.as_str(), self.seq)
    }

    /// Where whoever listens outside hears it.
    pub fn channel(&self) -> FrameChannel {
        #[derive(serde::Deserialize)]
        struct Typed<'a> {
            #[serde(rename = "type", borrow, default)]
            name: std::borrow::Cow<'a, str>,
        }
        match serde_json::from_str::<Typed<'_>>(self.body.as_str()) {
            Ok(typed) if typed.name.starts_with("transcript.") => FrameChannel::Transcript,
            _ => FrameChannel::Status,
        }
    }
}

/// What a frame of a meeting is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameChannel {
    /// How the meeting and its bot are.
    Status,
    /// What is said.
    Transcript,
}

/// The body of a frame, which is a JSON object, with its place added.
pub fn with_seq(body: &str, seq: i64) -> String {
    match body.strip_prefix('{') {
        Some("}") => format!("{{\"seq\":{seq}}}"),
        Some(members) => format!("{{\"seq\":{seq},{members}"),
        None => body.to_owned(),
    }
}

/// Replays the steps of one entity: each must begin where the one before it ended. Returns the
/// state they lead to.
pub fn replay<'a>(
    steps: impl IntoIterator<Item = &'a LoggedTransition>,
) -> Result<Option<&'a str>, BrokenLog> {
    let mut state: Option<&str> = None;
    for step in steps {
        if step.from_state.as_deref() != state {
            return Err(BrokenLog {
                transition_id: step.id,
                expected: state.map(ToOwned::to_owned),
                found: step.from_state.clone(),
            });
        }
        state = Some(&step.to_state);
    }
    Ok(state)
}

/// A step that does not begin where the one before it ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("transition {transition_id} begins in {found:?}, the one before it ended in {expected:?}")]
pub struct BrokenLog {
    pub transition_id: i64,
    pub expected: Option<String>,
    pub found: Option<String>,
}

/// A disagreement between what is recorded and what its log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule that is broken, such as `log_matches_state`.
    pub rule: &'static str,
    pub subject: String,
    pub explanation: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: i64, from: Option<&str>, to: &str) -> LoggedTransition {
        LoggedTransition {
            id,
            entity: "token".to_owned(),
            entity_id: 1,
            from_state: from.map(ToOwned::to_owned),
            to_state: to.to_owned(),
            cause: "test".to_owned(),
            detail: None,
            at: Timestamp::EPOCH,
        }
    }

    #[test]
    fn a_sound_log_leads_to_its_last_state() {
        let log = [step(1, None, "active"), step(2, Some("active"), "revoked")];
        assert_eq!(replay(&log), Ok(Some("revoked")));
        assert_eq!(replay(&[]), Ok(None));
    }

    #[test]
    fn a_frame_shows_its_place_and_belongs_to_a_channel() {
        let frame = |body: &str| Frame {
            stream: "meeting:7".to_owned(),
            seq: 3,
            body: Json::from_stored(body.to_owned()),
            at: Timestamp::EPOCH,
        };
        let said = frame(r#"{"type":"transcript.mutable","ts":"x"}"#);
        assert_eq!(said.wire(), r#"{"seq":3,"type":"transcript.mutable","ts":"x"}"#);
        assert_eq!(said.channel(), FrameChannel::Transcript);
        let status = frame(r#"{"meeting":{},"type":"meeting.status"}"#);
        assert_eq!(status.channel(), FrameChannel::Status);
        assert_eq!(frame("{}").wire(), r#"{"seq":3}"#);
        assert_eq!(frame("1").wire(), "1");
    }

    #[test]
    fn a_gap_in_the_log_is_found() {
        let log = [step(1, None, "active"), step(2, Some("expired"), "revoked")];
        assert_eq!(replay(&log).unwrap_err().transition_id, 2);
    }
}
