//! What producers send: transcripts that grow, told as transcribers tell them. Each message repeats
//! the last segments, of which few have changed.
//!
//! Invariant: it is known exactly how many segments were told and how many of them were changes,
//! because nothing but a change is ever told differently.

use std::collections::BTreeMap;

use roundsman_core::ports::Random;
use roundsman_testkit::SeededRandom;
use serde_json::{Value, json};

/// A message repeats so many segments, the changed ones among them.
const SEGMENTS_PER_MESSAGE: std::ops::RangeInclusive<u64> = 5..=10;
/// So many of the latest segments still change.
const OPEN_MAX: usize = 3;
/// How many segments a message changes, in percent: it is often one, and sometimes nothing.
const CHANGES_PERCENT: [(usize, u64); 4] = [(0, 15), (1, 60), (2, 20), (3, 5)];
const SEGMENT_MS: i64 = 4000;
/// Speakers take turns of this length.
const TURN_MS: i64 = 17_000;
const SESSION_START: &str = "2026-01-31T12:00:00.000000Z";
const WORDS: [&str; 16] = [
    "so", "when", "nobody", "has", "looked", "at", "this", "before", "we", "should", "say", "what",
    "follows", "from", "it", "today",
];

/// How much is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) meetings: usize,
    pub(crate) segments: usize,
    pub(crate) revisions: usize,
}

/// All that is sent.
pub(crate) struct Workload {
    pub(crate) meetings: Vec<Meeting>,
}

/// What is sent about one meeting.
pub(crate) struct Meeting {
    pub(crate) id: i64,
    pub(crate) uid: String,
    /// Goes ahead.
    pub(crate) session_start: String,
    pub(crate) speaker_events: Vec<Value>,
    /// Its messages, in their order.
    pub(crate) messages: Vec<String>,
    /// Segments in them.
    pub(crate) told: usize,
    /// Those of them that say something else than before.
    pub(crate) changes: usize,
    /// The last text of each segment, by its start in milliseconds.
    pub(crate) texts: BTreeMap<i64, String>,
}

impl Workload {
    pub(crate) fn new(size: Size, token: impl Fn(i64) -> String) -> Self {
        let ids = 1..=i64::try_from(size.meetings).unwrap_or(i64::MAX);
        Workload { meetings: ids.map(|id| Meeting::new(id, size, &token(id))).collect() }
    }

    pub(crate) fn messages(&self) -> usize {
        self.meetings.iter().map(|meeting| meeting.messages.len()).sum()
    }

    pub(crate) fn told(&self) -> usize {
        self.meetings.iter().map(|meeting| meeting.told).sum()
    }

    pub(crate) fn changes(&self) -> usize {
        self.meetings.iter().map(|meeting| meeting.changes).sum()
    }
}

/// The messages of several meetings as they would arrive: in turn, each in its own order.
pub(crate) fn in_turn<'a>(meetings: &[&'a Meeting]) -> Vec<&'a str> {
    let longest = meetings.iter().map(|meeting| meeting.messages.len()).max().unwrap_or(0);
    (0..longest)
        .flat_map(|place| meetings.iter().filter_map(move |meeting| meeting.messages.get(place)))
        .map(String::as_str)
        .collect()
}

impl Meeting {
    fn new(id: i64, size: Size, token: &str) -> Self {
        let uid = format!("session-{id}");
        let length_ms = i64::try_from(size.segments).unwrap_or(i64::MAX).saturating_mul(SEGMENT_MS);
        let mut teller = Teller::new(id, size);
        let (mut messages, mut told) = (Vec::new(), 0);
        while let Some(segments) = teller.next() {
            told += segments.len();
            let message = json!({
                "type": "transcription", "token": token, "platform": "teams",
                "meeting_id": id.to_string(), "uid": uid, "segments": segments,
            });
            messages.push(message.to_string());
        }
        let session_start = json!({
            "type": "session_start", "token": token, "platform": "teams",
            "meeting_id": id.to_string(), "uid": uid, "start_timestamp": SESSION_START,
        });
        Meeting {
            id,
            session_start: session_start.to_string(),
            speaker_events: speaker_events(&uid, token, length_ms),
            uid,
            messages,
            told,
            changes: teller.changes,
            texts: teller.texts(),
        }
    }
}

/// Ann and Bob in turn; all of it is told before the first segment, so that no repetition of a
/// segment has another speaker than the one before.
fn speaker_events(uid: &str, token: &str, length_ms: i64) -> Vec<Value> {
    let event = |kind: &str, name: &str, at_ms: i64| {
        json!({
            "event_type": kind, "participant_name": name, "participant_id_meet": name,
            "relative_client_timestamp_ms": at_ms, "uid": uid, "token": token,
        })
    };
    let turns = (0..=length_ms / TURN_MS).flat_map(|turn| {
        let name = if turn % 2 == 0 { "Ann" } else { "Bob" };
        let start_ms = turn * TURN_MS;
        [("SPEAKER_START", name, start_ms), ("SPEAKER_END", name, start_ms + TURN_MS)]
    });
    turns.map(|(kind, name, at_ms)| event(kind, name, at_ms)).collect()
}

/// A transcriber that hears better and better.
struct Teller {
    random: SeededRandom,
    /// How often each segment was revised; 0 if nothing was said yet.
    revisions: Vec<usize>,
    revisions_max: usize,
    changes: usize,
}

impl Teller {
    fn new(id: i64, size: Size) -> Self {
        Teller {
            random: SeededRandom::new(id.unsigned_abs()),
            revisions: vec![0; size.segments],
            revisions_max: size.revisions,
            changes: 0,
        }
    }

    /// The segments of the next message; `None` when everything was told.
    fn next(&mut self) -> Option<Vec<Value>> {
        let first_open = self.revisions.iter().position(|count| *count < self.revisions_max)?;
        let wanted = self.changes_of_a_message();
        let open = (first_open..self.revisions.len()).take(OPEN_MAX);
        let open: Vec<usize> =
            open.filter(|index| self.revisions[*index] < self.revisions_max).collect();
        for index in open.into_iter().take(wanted) {
            self.revisions[index] += 1;
            self.changes += 1;
        }
        let begun = self.revisions.iter().take_while(|count| **count > 0).count();
        let spread = SEGMENTS_PER_MESSAGE.end() - SEGMENTS_PER_MESSAGE.start() + 1;
        let length = SEGMENTS_PER_MESSAGE.start() + self.random.below(spread);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Some((begun.saturating_sub(length)..begun).map(|index| self.told(index)).collect())
    }

    fn changes_of_a_message(&self) -> usize {
        // A producer that has nothing to say yet sends nothing.
        if self.changes == 0 {
            return 1;
        }
        let mut drawn = self.random.below(100);
        for (changes, percent) in CHANGES_PERCENT {
            if drawn < percent {
                return changes;
            }
            drawn -= percent;
        }
        1
    }

    fn told(&self, index: usize) -> Value {
        let revision = self.revisions[index];
        let start_ms = start_of(index);
        let said = i64::try_from(revision).unwrap_or(1);
        let all = i64::try_from(self.revisions_max).unwrap_or(1);
        let end_ms = start_ms + SEGMENT_MS * said / (all + 1);
        json!({
            "start": seconds(start_ms), "end": seconds(end_ms), "text": self.text(index),
            "language": "en", "completed": revision == self.revisions_max,
        })
    }

    /// Each revision adds a word.
    fn text(&self, index: usize) -> String {
        let words = (0..=self.revisions[index]).map(|place| WORDS[(index + place) % WORDS.len()]);
        words.flat_map(|word| [" ", word]).collect()
    }

    fn texts(&self) -> BTreeMap<i64, String> {
        (0..self.revisions.len()).map(|index| (start_of(index), self.text(index))).collect()
    }
}

fn start_of(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX).saturating_mul(SEGMENT_MS) + 120
}

/// As `WhisperLive` writes it.
fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_what_differs_from_what_was_told_before() {
        let size = Size { meetings: 3, segments: 20, revisions: 10 };
        let workload = Workload::new(size, |id| format!("token-{id}"));
        assert_eq!(workload.changes(), 3 * 20 * 10);
        assert!(workload.told() > 4 * workload.changes(), "most of it is repetition");
        for meeting in &workload.meetings {
            let mut known: BTreeMap<String, Value> = BTreeMap::new();
            let mut changes = 0;
            for message in &meeting.messages {
                let message: Value = serde_json::from_str(message).unwrap();
                let segments = message["segments"].as_array().unwrap();
                assert!((1..=10).contains(&segments.len()));
                for segment in segments {
                    let start = segment["start"].as_str().unwrap().to_owned();
                    let before = known.insert(start, segment.clone());
                    changes += usize::from(before.as_ref() != Some(segment));
                }
            }
            assert_eq!(changes, meeting.changes);
            let last: Vec<&str> =
                known.values().map(|segment| segment["text"].as_str().unwrap()).collect();
            assert_eq!(last.len(), meeting.texts.len());
            assert!(meeting.texts.values().all(|text| last.contains(&text.as_str())));
        }
    }

    #[test]
    fn messages_of_meetings_take_turns_in_their_own_order() {
        let size = Size { meetings: 2, segments: 2, revisions: 2 };
        let workload = Workload::new(size, |id| id.to_string());
        let meetings: Vec<&Meeting> = workload.meetings.iter().collect();
        let all = in_turn(&meetings);
        assert_eq!(all.len(), workload.messages());
        assert_eq!(all[0], workload.meetings[0].messages[0]);
        assert_eq!(all[1], workload.meetings[1].messages[0]);
    }
}
