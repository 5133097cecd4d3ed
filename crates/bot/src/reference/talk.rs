//! A conversation that a scripted bot hears: segments that grow word by word, as a live
//! transcription tells them, with those that begin and end to speak.

use std::time::{Duration, SystemTime};

use crate::browser::{Event, Segment, SpeakerEvent, What, timestamp};
use crate::config::BotConfig;

/// Who speaks, and what they say. Said again from the start when it is over.
const LINES: [(&str, &str); 10] = [
    ("Ada", "Good morning everybody, shall we begin with the numbers of last week?"),
    ("Grace", "Yes please, I have them open. Sign-ups went up by twelve percent."),
    ("Ada", "That is more than we expected. Do we know where they came from?"),
    ("Edsger", "Mostly from the new guide, as far as I can tell from the logs."),
    ("Grace", "We should write two more of those then, one for each of the larger systems."),
    ("Ada", "Agreed. Edsger, can you have a draft ready by Thursday?"),
    ("Edsger", "Thursday works, if somebody reviews it on Friday morning."),
    ("Grace", "I will do that. The other open point is the incident from Monday."),
    ("Edsger", "It was a lock that nobody held any more. The report is in the usual place."),
    ("Ada", "Thank you. Then that is everything for today, have a good week."),
];

/// Words that are heard in one step.
const WORDS_PER_STEP: usize = 2;
/// Earlier segments that every message repeats.
const REPEATED: usize = 4;

/// How far the conversation is.
#[derive(Debug)]
pub(super) struct Talk {
    uid: String,
    platform: String,
    meeting_id: i64,
    language: Option<String>,
    line: usize,
    words: usize,
    segments: Vec<Segment>,
    start_ms: u64,
}

impl Talk {
    /// The conversation begins; the first event says when.
    pub(super) fn begin(config: &BotConfig, wall: SystemTime) -> (Self, Event) {
        let talk = Talk {
            uid: config.connection_id.clone(),
            platform: config.platform.clone(),
            meeting_id: config.meeting_id,
            language: config.language.clone().or_else(|| Some("en".to_owned())),
            line: 0,
            words: 0,
            segments: Vec::new(),
            start_ms: 0,
        };
        let start = talk.event(What::SessionStart { start_timestamp: timestamp(wall) });
        (talk, start)
    }

    /// What is heard up to `elapsed`.
    pub(super) fn step(&mut self, elapsed: Duration) -> Vec<Event> {
        let now_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let (speaker, text) = LINES[self.line % LINES.len()];
        let mut events = Vec::new();
        if self.words == 0 {
            self.start_ms = now_ms;
            events.push(self.speaker("SPEAKER_START", speaker, now_ms));
        }
        let words: Vec<&str> = text.split(' ').collect();
        self.words = (self.words + WORDS_PER_STEP).min(words.len());
        let is_over = self.words == words.len();
        let segment = Segment {
            start: seconds(self.start_ms),
            end: seconds(now_ms.max(self.start_ms + 1)),
            text: words[..self.words].join(" "),
            language: self.language.clone(),
            completed: is_over,
            speaker: None,
        };
        let heard = self.segments.iter().rev().take(REPEATED).rev().cloned();
        let told: Vec<Segment> = heard.chain([segment.clone()]).collect();
        events.push(self.event(What::Transcription { segments: told }));
        if is_over {
            events.push(self.speaker("SPEAKER_END", speaker, now_ms));
            self.segments.push(segment);
            let surplus = self.segments.len().saturating_sub(REPEATED);
            self.segments.drain(..surplus);
            (self.line, self.words) = (self.line + 1, 0);
        }
        events
    }

    pub(super) fn end(&self, wall: SystemTime) -> Event {
        self.event(What::SessionEnd { end_timestamp: timestamp(wall) })
    }

    fn speaker(&self, event_type: &'static str, name: &str, now_ms: u64) -> Event {
        self.event(What::SpeakerActivity(SpeakerEvent {
            event_type,
            participant_name: name.to_owned(),
            participant_id_meet: name.to_lowercase(),
            relative_client_timestamp_ms: now_ms,
        }))
    }

    fn event(&self, what: What) -> Event {
        Event {
            what,
            uid: self.uid.clone(),
            platform: self.platform.clone(),
            meeting_id: self.meeting_id,
        }
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_grows_until_it_is_said_and_the_next_one_follows() {
        let text = r#"{"meeting_id":7,"connectionId":"c","roundsman":
            {"callbackUrl":"http://x","callbackToken":"t"}}"#;
        let config = BotConfig::from_json(text).unwrap();
        let (mut talk, start) = Talk::begin(&config, SystemTime::UNIX_EPOCH);
        assert!(matches!(start.what, What::SessionStart { .. }));
        let mut texts = Vec::new();
        for step in 1..=20u64 {
            for event in talk.step(Duration::from_millis(step * 500)) {
                if let What::Transcription { segments } = event.what {
                    texts.push(segments.last().unwrap().clone());
                }
            }
        }
        assert_eq!(texts[0].text, "Good morning");
        assert_eq!(texts[1].text, "Good morning everybody, shall");
        assert_eq!(texts[0].start, texts[1].start);
        let whole = texts.iter().find(|segment| segment.completed).unwrap();
        assert_eq!(whole.text, LINES[0].1);
        assert!(texts.iter().any(|segment| LINES[1].1.starts_with(&segment.text)));
    }
}
