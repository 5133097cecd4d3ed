//! Messages of producers: who may send them, what they are to the store, what the producer learns.
//!
//! Invariants: the meeting is the token's, never the message's; nothing of a message is looked at
//! for whoever has no good token; what is told later has the higher version, whatever the clock does.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingGrant, MeetingId};
use roundsman_core::ports::{MessageAnswer, NewMessage, StoreError};
use roundsman_core::transcripts::{Message, MessageBody, RefusedMessage, RefusedSegment};

use super::Transcripts;

/// Meetings whose producers were named in the log; when there are more, it begins anew.
const MEETINGS_WARNED_MAX: usize = 1024;
/// A transcription without a session has no absolute times.
const NO_SESSION: &str = "missing_session_uid";

/// What became of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Segments that were understood, changed or not; for other messages 1.
    pub accepted: u32,
    pub changed: u32,
    pub refused: Vec<RefusedSegment>,
    /// The last frame that tells of the changes.
    pub seq: Option<i64>,
    pub warnings: Vec<&'static str>,
}

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The token is missing or not good; which of them is nobody's business.
    #[error("the meeting token is missing or not valid")]
    Unauthorized,
    #[error(transparent)]
    Refused(RefusedMessage),
    #[error("there is no such meeting")]
    NoSuchMeeting,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A message whose token was good.
pub(super) struct Admitted {
    pub(super) grant: MeetingGrant,
    pub(super) issued_at: Timestamp,
    pub(super) body: MessageBody,
}

impl Admitted {
    pub(super) fn into_message(self, version: i64, start_hint: Option<Timestamp>) -> NewMessage {
        NewMessage {
            meeting_id: self.grant.meeting_id,
            user_id: self.grant.user_id,
            token_issued_at: self.issued_at,
            version,
            start_hint,
            body: self.body,
        }
    }
}

impl Transcripts {
    /// Takes one message, as it came by HTTP or WebSocket. When this returns, what it says is stored.
    pub async fn ingest(&self, text: &str) -> Result<Ingested, IngestError> {
        self.ingest_beside(text, None).await
    }

    /// The same for a message that may have its token beside it; its own counts more.
    pub async fn ingest_beside(
        &self,
        text: &str,
        beside: Option<&str>,
    ) -> Result<Ingested, IngestError> {
        let now = self.clock().now();
        let admitted = self.admit_beside(text, beside, &[now])?;
        self.take_one(admitted, self.versions().next(now)).await
    }

    /// Checks a message's token as of these times, one of which must do.
    pub(super) fn admit(&self, text: &str, at: &[Timestamp]) -> Result<Admitted, IngestError> {
        self.admit_beside(text, None, at)
    }

    fn admit_beside(
        &self,
        text: &str,
        beside: Option<&str>,
        at: &[Timestamp],
    ) -> Result<Admitted, IngestError> {
        let admitted = self.admit_uncounted(text, beside, at);
        match &admitted {
            Err(IngestError::Unauthorized) => self.metrics().message_ingested("unauthorized"),
            Err(_) => self.metrics().message_ingested("refused"),
            Ok(_) => {}
        }
        admitted
    }

    fn admit_uncounted(
        &self,
        text: &str,
        beside: Option<&str>,
        at: &[Timestamp],
    ) -> Result<Admitted, IngestError> {
        if text.len() > self.limits().message_bytes_max {
            let refused = RefusedMessage::Field { field: "message", problem: "is too large" };
            return Err(IngestError::Refused(refused));
        }
        let Message { token, body } = Message::read(text);
        let verify =
            |token: &str| at.iter().find_map(|at| self.tokens().verify_issued(token, *at).ok());
        match (token.as_deref().or(beside).and_then(verify), body) {
            // There is no token in what cannot be read at all.
            (None, Err(refused @ RefusedMessage::NotJson(_))) | (Some(_), Err(refused)) => {
                Err(IngestError::Refused(refused))
            }
            (None, _) => Err(IngestError::Unauthorized),
            (Some((grant, issued_at)), Ok(body)) => Ok(Admitted { grant, issued_at, body }),
        }
    }

    pub(super) async fn take_one(
        &self,
        admitted: Admitted,
        version: i64,
    ) -> Result<Ingested, IngestError> {
        let mut ingested = Ingested { accepted: 1, ..Ingested::default() };
        let meeting = admitted.grant.meeting_id;
        let mut admitted = admitted;
        match &mut admitted.body {
            MessageBody::Speaker(event) => {
                self.speakers().try_submit((meeting, event.clone())).await?;
                self.metrics().message_ingested("speaker");
                return Ok(ingested);
            }
            MessageBody::Transcription { uid, segments, refused } => {
                ingested.accepted = u32::try_from(segments.len()).unwrap_or(u32::MAX);
                ingested.refused = std::mem::take(refused);
                if uid.is_none() {
                    ingested.warnings.push(NO_SESSION);
                    self.warned().warn(meeting);
                }
            }
            MessageBody::SessionStart { .. } | MessageBody::SessionEnd { .. } => {}
        }
        match self.messages().try_submit(admitted.into_message(version, None)).await {
            Ok(MessageAnswer::Taken(taken)) => {
                ingested.changed = taken.changed;
                ingested.seq = taken.frames.last().map(|frame| frame.seq);
                Ok(ingested)
            }
            Ok(MessageAnswer::NoSuchMeeting) => Err(IngestError::NoSuchMeeting),
            Err(error) => {
                self.metrics().message_ingested("failed");
                Err(error.into())
            }
        }
    }
}

/// Numbers for messages: the time, and always more than the one before.
#[derive(Debug, Default)]
pub(super) struct Versions(AtomicI64);

impl Versions {
    pub(super) fn next(&self, now: Timestamp) -> i64 {
        let next = |last: i64| Some((last + 1).max(now.as_micros()));
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        // The update never refuses; either way this is the number it came from.
        let last = last.unwrap_or_else(|last| last);
        (last + 1).max(now.as_micros())
    }
}

/// Producers that do not say which session they tell of: each is named once.
#[derive(Debug, Default)]
pub(super) struct Warned(Mutex<HashSet<MeetingId>>);

impl Warned {
    pub(super) fn warn(&self, meeting: MeetingId) {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() >= MEETINGS_WARNED_MAX {
            warned.clear();
        }
        if warned.insert(meeting) {
            tracing::warn!(meeting = meeting.get(), "a transcription names no session: no times");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_grow_whatever_the_clock_does() {
        let versions = Versions::default();
        let at = Timestamp::from_micros;
        let given = [at(10), at(10), at(3), at(100), at(50)].map(|now| versions.next(now));
        assert_eq!(given, [10, 11, 12, 100, 101]);
    }
}
