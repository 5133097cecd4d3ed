//! Recordings between rows and the types of `roundsman_core`, and the small decisions about them that
//! both adapters must make alike.

use std::collections::{BTreeMap, HashMap};

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::{Effects, Violation};
use roundsman_core::ports::{AnnounceAnswer, StoreError};
use roundsman_core::presence::RoomName;
use roundsman_core::recordings::{
    Announced, Announcement, MATCH_WITHIN, Media, RECORDING_ENTITY, Recording, RecordingId,
    RecordingKind, RecordingStatus, SpokenSegment, Track, announce, session_uid,
};
use roundsman_core::transcripts::{
    LANGUAGE_CHARS_MAX, Line, NAME_CHARS_MAX, Segment, SegmentContent, SegmentKey, SpeakerStatus,
    TEXT_BYTES_MAX, field_of,
};
use roundsman_core::users::UserId;

use super::check::{LOG_MATCHES_STATE, ROW_CONSISTENT, violation};
use super::inconsistent;

pub(crate) const RECORDINGS: &str = "recordings";

/// A recording with more segments than its transcript has.
pub(crate) const TRANSCRIPT_ONCE: &str = "transcript_once";

/// A row of `recordings`.
#[derive(Debug)]
pub(crate) struct RecordingColumns {
    pub(crate) no: i64,
    pub(crate) recording_id: String,
    pub(crate) meeting_id: Option<i64>,
    pub(crate) user_id: Option<i64>,
    pub(crate) room: String,
    pub(crate) kind: String,
    pub(crate) started_at: Timestamp,
    pub(crate) duration_ms: i64,
    pub(crate) tracks: String,
    pub(crate) media: String,
    pub(crate) status: String,
    pub(crate) error: Option<String>,
    pub(crate) repeats: i64,
    pub(crate) segments: i64,
    pub(crate) announced_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) completed_at: Option<Timestamp>,
    pub(crate) erased_at: Option<Timestamp>,
    pub(crate) erase_error: Option<String>,
}

impl RecordingColumns {
    pub(crate) fn into_recording(self) -> Result<Recording, StoreError> {
        let row = self.no;
        let wrong = |column, text: &str| inconsistent(RECORDINGS, column, row, format!("{text:?}"));
        let id = id_from_text(&self.recording_id, row)?;
        let kind = RecordingKind::parse(&self.kind).ok_or_else(|| wrong("kind", &self.kind))?;
        let status = RecordingStatus::parse(&self.status);
        let status = status.ok_or_else(|| wrong("status", &self.status))?;
        Ok(Recording {
            no: row,
            id,
            meeting_id: self.meeting_id.map(MeetingId::new),
            user_id: self.user_id.map(UserId::new),
            room: RoomName::from_stored(self.room),
            kind,
            started_at: self.started_at,
            duration_ms: self.duration_ms,
            tracks: list("tracks", row, serde_json::from_str(&self.tracks))?,
            media: list("media", row, serde_json::from_str(&self.media))?,
            status,
            error: self.error,
            repeats: count("repeats", row, self.repeats)?,
            segments: count("segments", row, self.segments)?,
            announced_at: self.announced_at,
            updated_at: self.updated_at,
            completed_at: self.completed_at,
            erased_at: self.erased_at,
            erase_error: self.erase_error,
        })
    }
}

/// The provider's name for a recording. `row` only names the row if it cannot be read.
pub(crate) fn id_from_text(text: &str, row: i64) -> Result<RecordingId, StoreError> {
    let unfit = || inconsistent(RECORDINGS, "recording_id", row, format!("{text:?}"));
    RecordingId::new(text).ok_or_else(unfit)
}

pub(crate) fn tracks_to_text(tracks: &[Track]) -> String {
    serde_json::to_string(tracks).expect("words and numbers can be written")
}

pub(crate) fn media_to_text(media: &[Media]) -> String {
    serde_json::to_string(media).expect("words and numbers can be written")
}

/// What was read of a column with a list.
fn list<T>(
    column: &'static str,
    row: i64,
    read: serde_json::Result<Vec<T>>,
) -> Result<Vec<T>, StoreError> {
    read.map_err(|error| inconsistent(RECORDINGS, column, row, error.to_string()))
}

fn count(column: &'static str, row: i64, value: i64) -> Result<u32, StoreError> {
    u32::try_from(value)
        .map_err(|_| inconsistent(RECORDINGS, column, row, format!("{value} is no count")))
}

/// Text without NUL, for which not every database has a place.
pub(crate) fn storable(mut text: String) -> String {
    text.retain(|c| c != '\0');
    text
}

/// From when to when a meeting began that a recording may be of.
pub(crate) fn match_window(started_at: Timestamp) -> (Timestamp, Timestamp) {
    let within = i64::try_from(MATCH_WITHIN.as_micros()).unwrap_or(i64::MAX);
    let moved = |by: i64| {
        let at = started_at.as_micros().saturating_add(by);
        Timestamp::from_micros(at.clamp(0, Timestamp::MAX.as_micros()))
    };
    (moved(-within), moved(within))
}

/// Announcements that came together, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Announcing {
    announcements: Vec<Announcement>,
    now: Timestamp,
}

/// What announcements come to.
#[derive(Debug)]
pub(crate) struct AnnouncedAll {
    /// In the order of the announcements.
    pub(crate) answers: Vec<AnnounceAnswer>,
    /// Each recording as it is in the end, if that is not how it was.
    pub(crate) changed: Vec<Recording>,
    pub(crate) effects: Effects,
}

impl Announcing {
    pub(crate) fn new(announcements: Vec<Announcement>, now: Timestamp) -> Self {
        Announcing { announcements, now }
    }

    /// The rows of those that nobody may know yet, each once, in the order of the announcements.
    /// They have no numbers.
    pub(crate) fn rows(&self) -> Vec<Recording> {
        let mut seen = std::collections::HashSet::new();
        let firsts = self.announcements.iter().filter(|given| seen.insert(given.id.clone()));
        firsts.map(|given| announce(None, given.clone(), self.now).recording).collect()
    }

    /// What they come to, when these recordings were known and the others were made with these
    /// numbers: every announcement finds one or the other.
    pub(crate) fn take(
        &self,
        known: Vec<Recording>,
        made: &HashMap<RecordingId, i64>,
    ) -> AnnouncedAll {
        let mut known: HashMap<RecordingId, Recording> =
            known.into_iter().map(|recording| (recording.id.clone(), recording)).collect();
        let mut changed: BTreeMap<i64, Recording> = BTreeMap::new();
        let mut effects = Effects::default();
        let mut answers = Vec::with_capacity(self.announcements.len());
        for given in &self.announcements {
            let before = known.remove(&given.id);
            let is_repeated = before.is_some();
            let announced = announce(before, given.clone(), self.now);
            let Announced { mut recording, effects: brought, .. } = announced;
            if is_repeated {
                changed.insert(recording.no, recording.clone());
            } else {
                recording.no = made.get(&given.id).copied().unwrap_or_default();
            }
            effects.jobs.extend(brought.jobs);
            for mut step in brought.transitions {
                step.entity_id = recording.no;
                effects.transitions.push(step);
            }
            known.insert(given.id.clone(), recording.clone());
            answers.push(AnnounceAnswer { recording, is_repeated });
        }
        AnnouncedAll { answers, changed: changed.into_values().collect(), effects }
    }
}

/// The transcript of a recording as final lines, in the order given. They have no places yet.
pub(crate) fn recorded_lines(
    recording: &Recording,
    spoken: &[SpokenSegment],
    names: &BTreeMap<String, String>,
    now: Timestamp,
) -> Vec<Line> {
    let uid = session_uid(&recording.id);
    let mut lines = Vec::with_capacity(spoken.len());
    for spoken in spoken {
        let speaker = spoken.speaker.as_ref().map(|name| shortened(name, NAME_CHARS_MAX));
        let speaker = speaker.map(|name| names.get(&name).cloned().unwrap_or(name));
        let language = spoken.language.as_ref().map(|code| shortened(code, LANGUAGE_CHARS_MAX));
        let start_ms = spoken.start_ms.max(0);
        let end_ms = spoken.end_ms.max(start_ms);
        let text = storable(spoken.text.clone());
        let pieces = pieces_of(&text);
        let count = pieces.len();
        for (place, piece) in pieces.into_iter().enumerate() {
            let number = lines.len() + 1;
            let (from, to) = (start_ms, end_ms);
            let start_ms = between(from, to, place, count);
            let end_ms = between(from, to, place + 1, count);
            let status = match speaker {
                Some(_) => SpeakerStatus::ProducerLabeled,
                None => SpeakerStatus::NoSpeakerEvents,
            };
            let segment = Segment {
                // Several may speak at once, and a field is one segment's.
                key: SegmentKey {
                    session_uid: Some(uid.clone()),
                    field: format!("{}#{number}", field_of(start_ms)),
                },
                segment_id: Some(number.to_string()),
                start_ms,
                content: SegmentContent {
                    text: piece.to_owned(),
                    speaker: speaker.clone(),
                    language: language.clone(),
                    end_ms,
                },
                speaker_status: status,
                completed: Some(true),
                version: 1,
                created_at: now,
                updated_at: now,
                seq: 0,
            };
            lines.push(Line { segment, session_start: Some(recording.started_at), kept: true });
        }
    }
    lines
}

/// A text that is longer than a segment may have, in pieces that end with a word where there are
/// any: a transcriber that knows no times says everything at once.
fn pieces_of(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > TEXT_BYTES_MAX {
        let within = &rest[..rest.floor_char_boundary(TEXT_BYTES_MAX)];
        let end = within.rfind(char::is_whitespace).filter(|end| *end > 0).unwrap_or(within.len());
        pieces.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// Where one of several equal parts of a time begins.
fn between(start_ms: i64, end_ms: i64, place: usize, count: usize) -> i64 {
    let (place, count) = (place as i128, count.max(1) as i128);
    let part = i128::from(end_ms - start_ms) * place / count;
    start_ms + i64::try_from(part).unwrap_or(0)
}

fn shortened(text: &str, chars_max: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(chars_max).collect()
}

/// What `check` looks at of a recording, apart from its row.
#[derive(Debug)]
pub(crate) struct RecordingFacts {
    pub(crate) recording: Recording,
    /// Whose its meeting is, if that is in a room.
    pub(crate) owner: Option<i64>,
    /// How many final segments its session has.
    pub(crate) said: i64,
}

/// Compares recordings with the states that their logs lead to, and the columns that follow from
/// others with them.
pub(crate) fn check_recordings(
    recordings: &[RecordingFacts],
    logged: &BTreeMap<(String, i64), String>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for facts in recordings {
        let recording = &facts.recording;
        let subject = format!("{RECORDING_ENTITY} {}", recording.no);
        if let Some(explanation) = contradiction(facts) {
            violations.push(violation(ROW_CONSISTENT, subject.clone(), explanation));
        }
        if facts.said > i64::from(recording.segments) {
            let explanation = format!("{} segments, {} are said", recording.segments, facts.said);
            violations.push(violation(TRANSCRIPT_ONCE, subject.clone(), explanation));
        }
        let status = recording.status.as_str();
        let from_log = logged.get(&(RECORDING_ENTITY.to_owned(), recording.no));
        if from_log.map(String::as_str) != Some(status) {
            let from_log = from_log.map_or("nothing", String::as_str);
            let explanation = format!("the row says {status}, the log {from_log}");
            violations.push(violation(LOG_MATCHES_STATE, subject, explanation));
        }
    }
    violations
}

/// What does not fit the status or the meeting, if anything.
fn contradiction(RecordingFacts { recording, owner, .. }: &RecordingFacts) -> Option<String> {
    let Recording { status, error, meeting_id, user_id, .. } = recording;
    let fits = match status {
        RecordingStatus::Pending => true,
        RecordingStatus::Processing | RecordingStatus::Completed => {
            meeting_id.is_some() && error.is_none()
        }
        RecordingStatus::Failed => error.is_some(),
    };
    let is_completed = *status == RecordingStatus::Completed;
    let is_ended = recording.completed_at.is_some() == is_completed
        && (is_completed || recording.segments == 0);
    let is_owned = match meeting_id {
        Some(_) => user_id.is_some() && user_id.map(UserId::get) == *owner,
        None => user_id.is_none() && !recording.is_anonymous(),
    };
    let is_erased = recording.erased_at.is_none() || recording.erase_error.is_none();
    (!(fits && is_ended && is_owned && is_erased)).then(|| {
        format!(
            "is {}, of meeting {meeting_id:?} of user {user_id:?} ({owner:?}), error {error:?}, \
             completed at {:?}, erased at {:?}",
            status.as_str(),
            recording.completed_at,
            recording.erased_at
        )
    })
}

#[cfg(test)]
mod tests;
