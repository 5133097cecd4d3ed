//! Producers of transcripts in the hands of a test.

use std::time::Duration;

use roundsman_core::bots::{MeetingGrant, MeetingId};
use roundsman_core::ports::{BotStore, Clock};
use serde_json::{Value, json};

use crate::app::{Answer, App, Client};
use crate::app_bots::{MEET, TestBot};

/// When the sessions of these tests start.
pub(crate) const STARTED: &str = "2026-01-31T12:00:00Z";
pub(crate) const AT_MEET: &str = "/transcripts/google_meet/abc-defg-hij";
pub(crate) const NOT_FOUND: &str = "Meeting not found for platform google_meet and ID abc-defg-hij";

/// Tells what is said in one meeting.
pub(crate) struct Producer {
    pub(crate) client: Client,
    pub(crate) token: String,
    pub(crate) meeting_id: i64,
    pub(crate) uid: String,
}

impl App {
    /// A token for a meeting, as its bot would have it.
    pub(crate) async fn meeting_token(&self, meeting_id: i64) -> String {
        let grant = self.grant(meeting_id).await;
        let now = self.clock.now();
        self.meeting_tokens.sign(&grant, now, now + Duration::from_secs(7200), "jti")
    }

    pub(crate) async fn grant(&self, meeting_id: i64) -> MeetingGrant {
        let record = self.store.bot(MeetingId::new(meeting_id)).await.unwrap().unwrap();
        MeetingGrant {
            meeting_id: record.meeting.id,
            user_id: record.meeting.user_id,
            platform: record.meeting.platform,
            native_meeting_id: record.meeting.native_id.unwrap_or_default(),
        }
    }

    /// Whoever tells what is said in a bot's meeting.
    pub(crate) async fn producer(&self, bot: &TestBot) -> Producer {
        Producer {
            client: self.client(),
            token: self.meeting_token(bot.meeting_id).await,
            meeting_id: bot.meeting_id,
            uid: bot.connection_id.clone(),
        }
    }

    /// A user, their meeting, and a producer whose session has started.
    pub(crate) async fn meeting_of(&self, email: &str) -> (Client, TestBot, Producer) {
        let user = self.user(email).await;
        let bot = self.start_bot(&user, MEET).await;
        let producer = self.producer(&bot).await;
        producer.start().await;
        (user, bot, producer)
    }
}

impl Producer {
    /// The session starts.
    pub(crate) async fn start(&self) {
        let message = json!({"type": "session_start", "start_timestamp": STARTED});
        self.send(message).await.expect(200);
    }

    /// A message about its session, with its token.
    pub(crate) fn message(&self, mut message: Value) -> Value {
        if message.get("uid").is_none() {
            message["uid"] = json!(self.uid);
        }
        message["token"] = json!(self.token);
        message
    }

    pub(crate) async fn send(&self, message: Value) -> Answer {
        self.client.post("/ingest/transcription", self.message(message)).await
    }

    /// Segments were said.
    pub(crate) async fn say(&self, segments: &[Value]) -> Value {
        let answer = self.send(json!({"type": "transcription", "segments": segments})).await;
        answer.expect(200).body
    }
}

/// One segment.
pub(crate) fn said(start: f64, speaker: &str, text: &str) -> Value {
    json!({"start": start, "end": start + 1.5, "text": text, "speaker": speaker, "language": "en"})
}

pub(crate) fn texts(transcript: &Value) -> Vec<&str> {
    let segments = transcript["segments"].as_array().unwrap();
    segments.iter().map(|segment| segment["text"].as_str().unwrap()).collect()
}
