//! What the reference keeps of what was said, and the steps of its operations on it.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::{Effects, Frame, FrameChannel, NewFrame};
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{DeadLetter, Share};
use roundsman_core::transcripts::{
    Known, Line, Place, Published, SPEAKER_EVENT_SLACK_MS, SPEAKER_EVENTS_READ_MAX, Segment,
    SegmentContent, SegmentKey, SpeakerEvent, SpeakerEventKind, SpeakerStatus, Speakers,
    TIME_MS_MAX, bare_uid, field_of, millis_of, mutable_frames, seconds_of,
};
use roundsman_store::conformance::Said;

use super::State;

/// Everything about speech that is not a meeting's row or a frame.
#[derive(Default)]
pub(super) struct Speech {
    pub(super) live: BTreeMap<(MeetingId, SegmentKey), Known>,
    pub(super) rows: Vec<Row>,
    pub(super) last_row: i64,
    /// Rows up to here were looked at, whoever wrote them.
    pub(super) indexed_upto: i64,
    /// When the token was made that declared the start of a session.
    pub(super) declared_by: BTreeMap<(MeetingId, String), Timestamp>,
    /// Sessions of which the end was told.
    pub(super) ended: BTreeSet<(MeetingId, String)>,
    pub(super) events: BTreeMap<EventKey, (String, Timestamp)>,
    pub(super) names: BTreeMap<(MeetingId, String), String>,
    pub(super) last_share: i64,
    pub(super) shares: Vec<(Share, [u8; 32])>,
    pub(super) last_letter: i64,
    pub(super) letters: Vec<DeadLetter>,
    pub(super) published: BTreeMap<String, Published>,
}

/// Session, meeting if one was named, time, what happened, whose it was: unique.
pub(super) type EventKey = (String, Option<MeetingId>, i64, SpeakerEventKind, String);

/// A row of `transcriptions`.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) meeting_id: MeetingId,
    pub(super) said: Said,
    pub(super) created_at: Timestamp,
    /// Rows without it are somebody else's.
    pub(super) kept: Option<Segment>,
    pub(super) is_searchable: bool,
}

impl Row {
    /// The segment that the row is. Of rows that somebody else wrote, only the columns are known.
    pub(super) fn segment(&self) -> Segment {
        if let Some(segment) = &self.kept {
            return segment.clone();
        }
        let start_ms = foreign_millis(self.said.start);
        let said = self.said.clone();
        let mapped = said.speaker.is_some();
        Segment {
            key: SegmentKey { session_uid: said.session_uid, field: field_of(start_ms) },
            segment_id: None,
            start_ms,
            content: SegmentContent {
                text: said.text,
                speaker: said.speaker,
                language: said.language,
                end_ms: foreign_millis(said.end),
            },
            speaker_status: if mapped { SpeakerStatus::Mapped } else { SpeakerStatus::Unknown },
            completed: None,
            version: 0,
            created_at: self.created_at,
            updated_at: self.created_at,
            seq: 0,
        }
    }

    /// Writes a segment to the columns that everybody knows.
    pub(super) fn keep(&mut self, segment: Segment) {
        self.said = Said {
            start: seconds_of(segment.start_ms),
            end: seconds_of(segment.content.end_ms),
            text: segment.content.text.clone(),
            speaker: segment.content.speaker.clone(),
            language: segment.content.language.clone(),
            session_uid: segment.key.session_uid.clone(),
        };
        self.kept = Some(segment);
    }
}

/// Whatever somebody else wrote is a time within a day, the closest there is.
fn foreign_millis(seconds: f64) -> i64 {
    millis_of(seconds).unwrap_or(if seconds > 0.0 { TIME_MS_MAX } else { 0 })
}

impl State {
    /// When a session started: by its own name, else by the names without a platform before them.
    pub(super) fn start_of(&self, meeting: MeetingId, uid: Option<&str>) -> Option<Timestamp> {
        let uid = uid?;
        let alike = self
            .sessions
            .iter()
            .filter(|(id, known, _)| *id == meeting && bare_uid(known) == bare_uid(uid));
        let first = alike.min_by_key(|(_, known, _)| known).map(|(_, _, start)| *start);
        self.session_start(meeting, uid).or(first)
    }

    pub(super) fn session_start(&self, meeting: MeetingId, uid: &str) -> Option<Timestamp> {
        let mut sessions = self.sessions.iter();
        sessions.find(|(id, known, _)| *id == meeting && known == uid).map(|(_, _, start)| *start)
    }

    pub(super) fn set_start(&mut self, meeting: MeetingId, uid: &str, start: Timestamp) {
        self.sessions.retain(|(id, known, _)| *id != meeting || known != uid);
        self.sessions.push((meeting, uid.to_owned(), start));
    }

    /// All segments of a meeting that somebody reads or may tell again, by time.
    pub(super) fn known(&self, meeting: MeetingId) -> Vec<Known> {
        let live = self.speech.live.iter().filter(|((id, _), _)| *id == meeting);
        let live = live.map(|(_, known)| known.clone());
        let rows = self.speech.rows.iter().filter(|row| row.meeting_id == meeting);
        let kept = rows.filter_map(|row| row.kept.clone());
        let kept = kept.map(|segment| Known { segment, place: Place::Kept });
        let mut known: Vec<Known> = live.chain(kept).collect();
        known.sort_by(|a, b| {
            let starts = a.segment.start_ms.cmp(&b.segment.start_ms);
            starts.then_with(|| a.segment.key.field.cmp(&b.segment.key.field))
        });
        known
    }

    /// Who speaks in a session, by what was told up to a little after `end_ms`.
    pub(super) fn speakers(&self, meeting: MeetingId, uid: Option<&str>, end_ms: i64) -> Speakers {
        let heard = self.speech.events.iter().filter(|((session, about, at_ms, _, _), _)| {
            Some(session.as_str()) == uid
                && about.is_none_or(|about| about == meeting)
                && *at_ms <= end_ms + SPEAKER_EVENT_SLACK_MS
        });
        let event = |(key, (name, _)): (&EventKey, &(String, Timestamp))| SpeakerEvent {
            session_uid: key.0.clone(),
            kind: key.3,
            participant: key.4.clone(),
            name: name.clone(),
            at_ms: key.2,
        };
        let mut events: Vec<SpeakerEvent> = heard.map(event).collect();
        events.sort_by(|a, b| {
            let order = |event: &SpeakerEvent| (event.at_ms, event.kind);
            order(b).cmp(&order(a)).then_with(|| b.participant.cmp(&a.participant))
        });
        events.truncate(SPEAKER_EVENTS_READ_MAX as usize);
        let names = self.speech.names.iter().filter(|((id, _), _)| *id == meeting);
        let names = names.map(|((_, name), shown)| (name.clone(), shown.clone())).collect();
        Speakers { events, names }
    }

    pub(super) fn line(&self, meeting: MeetingId, segment: Segment, kept: bool) -> Line {
        let session_start = self.start_of(meeting, segment.key.session_uid.as_deref());
        Line { segment, session_start, kept }
    }

    pub(super) fn live_lines(&self, meeting: MeetingId) -> Vec<Line> {
        let live = self
            .speech
            .live
            .iter()
            .filter(|((id, _), known)| *id == meeting && known.place == Place::Live);
        live.map(|(_, known)| self.line(meeting, known.segment.clone(), false)).collect()
    }

    /// Everything that can be read of a meeting.
    pub(super) fn lines(&self, meeting: MeetingId) -> Vec<Line> {
        let rows = self.speech.rows.iter().filter(|row| row.meeting_id == meeting);
        let kept = rows.map(|row| self.line(meeting, row.segment(), true));
        self.live_lines(meeting).into_iter().chain(kept).collect()
    }

    pub(super) fn append(
        &mut self,
        rules: &KindCatalog,
        frames: Vec<NewFrame>,
        now: Timestamp,
    ) -> Vec<Frame> {
        self.apply(rules, Effects { frames, ..Effects::default() }, now)
    }

    /// Tells of changed segments and keeps them with the place of the last frame about them.
    /// Returns the frames and those that are live.
    pub(super) fn publish(
        &mut self,
        rules: &KindCatalog,
        meeting: MeetingId,
        changed: Vec<Known>,
        now: Timestamp,
    ) -> (Vec<Frame>, Vec<Line>) {
        let line =
            |known: &Known| self.line(meeting, known.segment.clone(), known.place == Place::Kept);
        let lines: Vec<Line> = changed.iter().map(line).collect();
        let frames = self.append(rules, mutable_frames(meeting, &lines, now), now);
        let seq = frames.last().map_or(0, |frame| frame.seq);
        let mut live = Vec::new();
        for mut known in changed {
            known.segment.seq = seq;
            if known.place == Place::Live {
                live.push(self.line(meeting, known.segment.clone(), false));
            }
            self.store(meeting, known);
        }
        (frames, live)
    }

    /// Writes a segment where it is.
    pub(super) fn store(&mut self, meeting: MeetingId, known: Known) {
        let key = known.segment.key.clone();
        if known.place != Place::Kept {
            self.speech.live.insert((meeting, key), known);
            return;
        }
        let is_it = |row: &&mut Row| {
            row.meeting_id == meeting && row.kept.as_ref().is_some_and(|kept| kept.key == key)
        };
        let row = self.speech.rows.iter_mut().find(is_it).expect("it was read from there");
        row.keep(known.segment);
    }

    /// The names of a meeting's sessions.
    pub(super) fn session_uids(&self, meeting: MeetingId) -> Vec<String> {
        let declared = self.sessions.iter().filter(|(id, _, _)| *id == meeting);
        let mut uids: BTreeSet<String> = declared.map(|(_, uid, _)| uid.clone()).collect();
        let known = self.known(meeting);
        uids.extend(known.into_iter().filter_map(|known| known.segment.key.session_uid));
        uids.into_iter().collect()
    }

    /// Forgets all that was said in a meeting.
    pub(super) fn forget(&mut self, meeting: MeetingId) {
        let mut uids = self.session_uids(meeting);
        let ended = self.speech.ended.iter().filter(|(id, _)| *id == meeting);
        uids.extend(ended.map(|(_, uid)| uid.clone()));
        let rows = self.speech.rows.iter().filter(|row| row.meeting_id == meeting);
        uids.extend(rows.filter_map(|row| row.said.session_uid.clone()));
        let speech = &mut self.speech;
        speech.live.retain(|(id, _), _| *id != meeting);
        speech.rows.retain(|row| row.meeting_id != meeting);
        speech.declared_by.retain(|(id, _), _| *id != meeting);
        speech.ended.retain(|(id, _)| *id != meeting);
        speech.names.retain(|(id, _), _| *id != meeting);
        speech.shares.retain(|(share, _)| share.meeting_id != meeting);
        speech.events.retain(|(session, about, _, _, _), _| {
            *about != Some(meeting) && (about.is_some() || !uids.contains(session))
        });
        // Nothing that told of it stays, nor anything before, so that the rest has no hole.
        let stream = roundsman_core::bots::stream_of(meeting);
        let mine = self.frames.iter().filter(|frame| frame.stream == stream);
        let told = mine.filter(|frame| frame.channel() == FrameChannel::Transcript);
        let last = told.map(|frame| frame.seq).max().unwrap_or(0);
        self.frames.retain(|frame| frame.stream != stream || frame.seq > last);
    }

    /// Where a word is found.
    pub(super) fn traces(&self, word: &str) -> Vec<String> {
        let speech = &self.speech;
        let tables = [
            ("live_segments", format!("{:?}", speech.live)),
            ("transcriptions", format!("{:?}", speech.rows)),
            ("speaker_events", format!("{:?}", speech.events)),
            ("speaker_names", format!("{:?}", speech.names)),
            ("transcript_sessions", format!("{:?}", speech.declared_by)),
            ("frames", format!("{:?}", self.frames)),
            ("meeting_sessions", format!("{:?}", self.sessions)),
            ("meetings", format!("{:?}", self.meetings)),
            ("webhook_events", format!("{:?}", self.webhooks)),
        ];
        let tables = tables.into_iter().chain(self.rooms.tables()).chain(self.recorded.tables());
        let found = tables.filter(|(_, text)| text.to_lowercase().contains(word));
        found.map(|(table, _)| table.to_owned()).collect()
    }
}
