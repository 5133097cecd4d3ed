//! What a bot hears and sees in a meeting, as the events of a transcript.
//!
//! The shapes are those of a `WhisperLive` stream: speaker activity and transcription, with times
//! relative to the `session_start` of the session `uid`.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::page::{Caption, Participant};

/// Captions whose beginning is remembered; the oldest is forgotten first.
const CAPTIONS_KEPT_MAX: usize = 256;

/// Where events go.
pub trait Events: Send + Sync {
    fn emit(&self, event: &Event);
}

/// One event of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    #[serde(flatten)]
    pub what: What,
    /// The session: the bot's `connectionId`.
    pub uid: String,
    pub platform: String,
    pub meeting_id: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum What {
    SessionStart { start_timestamp: String },
    SpeakerActivity(SpeakerEvent),
    Transcription { segments: Vec<Segment> },
    SessionEnd { end_timestamp: String },
}

/// Somebody begins or ends to speak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpeakerEvent {
    /// `SPEAKER_START` or `SPEAKER_END`.
    pub event_type: &'static str,
    pub participant_name: String,
    pub participant_id_meet: String,
    pub relative_client_timestamp_ms: u64,
}

/// Something that was said. A later one with the same `start` replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// Seconds, with three decimals.
    pub start: String,
    pub end: String,
    pub text: String,
    pub language: Option<String>,
    pub completed: bool,
    pub speaker: Option<String>,
}

/// Turns what the page shows into events.
pub(super) struct Minutes<'a> {
    sink: &'a dyn Events,
    uid: String,
    platform: String,
    meeting_id: i64,
    /// What is spoken, as far as anybody said.
    pub(super) language: Option<String>,
    began: Option<Duration>,
    /// Name by id.
    speaking: BTreeMap<String, String>,
    /// Oldest first.
    captions: Vec<Shown>,
}

struct Shown {
    caption: Caption,
    start_ms: u64,
    end_ms: u64,
}

impl<'a> Minutes<'a> {
    pub(super) fn new(config: &crate::config::BotConfig, sink: &'a dyn Events) -> Self {
        Minutes {
            sink,
            uid: config.connection_id.clone(),
            platform: config.platform.clone(),
            meeting_id: config.meeting_id,
            language: config.language.clone(),
            began: None,
            speaking: BTreeMap::new(),
            captions: Vec::new(),
        }
    }

    /// The bot is in the meeting: from now on times are counted.
    pub(super) fn begin(&mut self, now: Duration, wall: SystemTime) {
        self.began = Some(now);
        self.emit(What::SessionStart { start_timestamp: timestamp(wall) });
    }

    /// How long the bot has been in the meeting.
    pub(super) fn elapsed_ms(&self, now: Duration) -> u64 {
        let elapsed = now.saturating_sub(self.began.unwrap_or(now));
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Who is there, and who of them speaks.
    pub(super) fn participants(&mut self, participants: &[Participant], now: Duration) {
        let others = participants.iter().filter(|participant| !participant.is_self);
        let speaking: BTreeMap<String, String> = others
            .filter(|participant| participant.is_speaking)
            .map(|participant| (participant.id.clone(), participant.name.clone()))
            .collect();
        let before = std::mem::replace(&mut self.speaking, speaking.clone());
        for (id, name) in before.iter().filter(|(id, _)| !speaking.contains_key(*id)) {
            self.speaker("SPEAKER_END", id, name, now);
        }
        for (id, name) in speaking.iter().filter(|(id, _)| !before.contains_key(*id)) {
            self.speaker("SPEAKER_START", id, name, now);
        }
    }

    /// A caption is new, has grown, or will not change any more.
    pub(super) fn caption(&mut self, caption: Caption, now: Duration) {
        let now_ms = self.elapsed_ms(now);
        let known = self.captions.iter().position(|shown| shown.caption.id == caption.id);
        let index = known.unwrap_or_else(|| {
            if self.captions.len() == CAPTIONS_KEPT_MAX {
                self.captions.remove(0);
            }
            let (start_ms, end_ms) = (now_ms, now_ms);
            self.captions.push(Shown { caption: caption.clone(), start_ms, end_ms });
            self.captions.len() - 1
        });
        let shown = &mut self.captions[index];
        // That it is complete is known later than it was said.
        if known.is_none() || shown.caption.text != caption.text {
            shown.end_ms = now_ms;
        }
        shown.caption = caption;
        let segment = self.captions[index].segment(self.language.clone());
        self.emit(What::Transcription { segments: vec![segment] });
    }

    /// Nothing more will be heard: what is open is closed.
    pub(super) fn end(&mut self, now: Duration, wall: SystemTime) {
        if self.began.is_none() {
            return;
        }
        self.participants(&[], now);
        let language = self.language.clone();
        let open = self.captions.iter_mut().filter(|shown| !shown.caption.is_completed);
        let segments: Vec<Segment> = open
            .map(|shown| {
                shown.caption.is_completed = true;
                shown.segment(language.clone())
            })
            .collect();
        if !segments.is_empty() {
            self.emit(What::Transcription { segments });
        }
        self.emit(What::SessionEnd { end_timestamp: timestamp(wall) });
        self.began = None;
    }

    fn speaker(&self, event_type: &'static str, id: &str, name: &str, now: Duration) {
        self.emit(What::SpeakerActivity(SpeakerEvent {
            event_type,
            participant_name: name.to_owned(),
            participant_id_meet: id.to_owned(),
            relative_client_timestamp_ms: self.elapsed_ms(now),
        }));
    }

    fn emit(&self, what: What) {
        let (uid, platform) = (self.uid.clone(), self.platform.clone());
        self.sink.emit(&Event { what, uid, platform, meeting_id: self.meeting_id });
    }
}

impl Shown {
    fn segment(&self, language: Option<String>) -> Segment {
        let Caption { text, speaker, is_completed, .. } = self.caption.clone();
        Segment {
            start: seconds(self.start_ms),
            end: seconds(self.end_ms),
            text,
            language,
            completed: is_completed,
            speaker: (!speaker.is_empty()).then_some(speaker),
        }
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

pub(crate) fn timestamp(wall: SystemTime) -> String {
    jiff::Timestamp::try_from(wall).map(|moment| format!("{moment:.6}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::{Value, json};

    use super::*;
    use crate::config::BotConfig;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Value>>);

    impl Events for Kept {
        fn emit(&self, event: &Event) {
            self.0.lock().unwrap().push(serde_json::to_value(event).unwrap());
        }
    }

    impl Kept {
        fn take(&self) -> Vec<Value> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    fn minutes(kept: &Kept) -> Minutes<'_> {
        let config = json!({"meeting_id": 7, "connectionId": "c-1", "platform": "teams",
            "language": "en", "roundsman": {"callbackUrl": "http://x", "callbackToken": "t"}});
        let mut minutes = Minutes::new(&BotConfig::from_json(&config.to_string()).unwrap(), kept);
        minutes.begin(Duration::from_secs(100), SystemTime::UNIX_EPOCH);
        minutes
    }

    fn at(ms: u64) -> Duration {
        Duration::from_secs(100) + Duration::from_millis(ms)
    }

    fn person(id: &str, is_speaking: bool) -> Participant {
        Participant { id: id.to_owned(), name: format!("Name {id}"), is_self: false, is_speaking }
    }

    fn said(id: &str, text: &str, is_completed: bool) -> Caption {
        let (id, text) = (id.to_owned(), text.to_owned());
        Caption { id, speaker: "Ann".to_owned(), text, is_completed }
    }

    #[test]
    fn a_session_has_a_beginning_and_an_end_on_the_calendar() {
        let kept = Kept::default();
        minutes(&kept).end(at(1), SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        let expected = [
            json!({"type": "session_start", "start_timestamp": "1970-01-01T00:00:00.000000Z",
                "uid": "c-1", "platform": "teams", "meeting_id": 7}),
            json!({"type": "session_end", "end_timestamp": "1970-01-01T00:00:01.000000Z",
                "uid": "c-1", "platform": "teams", "meeting_id": 7}),
        ];
        assert_eq!(kept.take(), expected);
    }

    #[test]
    fn speakers_begin_and_end_once() {
        let kept = Kept::default();
        let mut minutes = minutes(&kept);
        kept.take();
        let own = Participant { is_self: true, ..person("me", true) };
        minutes.participants(&[own.clone(), person("a", true), person("b", false)], at(10));
        minutes.participants(&[own, person("a", true), person("b", true)], at(20));
        minutes.participants(&[person("b", true)], at(30));
        minutes.end(at(40), SystemTime::UNIX_EPOCH);
        let events: Vec<(Value, Value, Value)> = kept
            .take()
            .into_iter()
            .filter(|event| event["type"] == "speaker_activity")
            .map(|mut event| {
                let time = event["relative_client_timestamp_ms"].take();
                (event["event_type"].take(), event["participant_id_meet"].take(), time)
            })
            .collect();
        let expected = [
            (json!("SPEAKER_START"), json!("a"), json!(10)),
            (json!("SPEAKER_START"), json!("b"), json!(20)),
            (json!("SPEAKER_END"), json!("a"), json!(30)),
            (json!("SPEAKER_END"), json!("b"), json!(40)),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn a_caption_keeps_its_start_while_it_grows() {
        let kept = Kept::default();
        let mut minutes = minutes(&kept);
        minutes.caption(said("1", "Good", false), at(1_500));
        minutes.caption(said("1", "Good morning", false), at(2_250));
        minutes.caption(said("1", "Good morning", true), at(9_000));
        minutes.language = Some("de".to_owned());
        minutes.caption(said("2", "Hallo", false), at(9_500));
        kept.take().drain(..).for_each(drop);
        minutes.caption(said("2", "Hallo Welt", false), at(9_750));
        let growing = json!({"start": "9.500", "end": "9.750", "text": "Hallo Welt",
            "language": "de", "completed": false, "speaker": "Ann"});
        assert_eq!(kept.take()[0]["segments"], json!([growing]));
        minutes.end(at(10_000), SystemTime::UNIX_EPOCH);
        let mut closed = growing;
        closed["completed"] = json!(true);
        assert_eq!(kept.take()[0]["segments"], json!([closed]), "the finished one is not repeated");
    }
}
