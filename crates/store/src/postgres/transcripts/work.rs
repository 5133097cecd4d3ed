//! A batch of messages, taken one after the other in memory: what a message changes is what the ones
//! after it find.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::{Frame, NewFrame};
use roundsman_core::ports::{MessageAnswer, NewMessage};
use roundsman_core::transcripts::{
    Known, Line, MessageBody, Place, SpeakerEvent, Speakers, ToldSegment, collect, mutable_frames,
    reach_of,
};
use roundsman_core::users::UserId;

use super::known::KnownRow;
use super::sessions::{HeardMeeting, SessionBook};
use super::speakers::Names;
use crate::rows::told::{Segments, events_until, heard_until, known_within, place_of};
use crate::rows::transcripts::{
    SessionStarts, changed_lines, in_known_order, only_moved, session_to_column, taken, told_by,
};

/// What a batch has to know, and what it has changed so far.
pub(super) struct Work<'a> {
    pub(super) meetings: BTreeMap<MeetingId, HeardMeeting>,
    pub(super) book: SessionBook,
    pub(super) names: Names,
    pub(super) events: BTreeMap<(MeetingId, &'a str), Vec<SpeakerEvent>>,
    segments: BTreeMap<(MeetingId, String), Segments<Entry>>,
    answers: Vec<Pending>,
    frames: Vec<NewFrame>,
    now: Timestamp,
}

/// A segment of the working set.
pub(super) struct Entry {
    /// Of its row in `public.transcriptions`, if it is final.
    pub(super) id: Option<i64>,
    pub(super) known: Known,
    /// The message that changed it last.
    told_in: Option<usize>,
    /// Not only the start of its session.
    pub(super) revised: bool,
}

/// The answer to a message until its frames have their places.
enum Pending {
    NoSuchMeeting,
    Taken { lines: Vec<Line>, frames: usize, session_start: Option<Timestamp> },
}

/// A segment that is to be written.
pub(super) struct Changed<'w> {
    pub(super) meeting: MeetingId,
    pub(super) user: UserId,
    pub(super) entry: &'w Entry,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        meetings: BTreeMap<MeetingId, HeardMeeting>,
        book: SessionBook,
        names: Names,
        events: BTreeMap<(MeetingId, &'a str), Vec<SpeakerEvent>>,
        now: Timestamp,
    ) -> Self {
        Work {
            meetings,
            book,
            names,
            events,
            segments: BTreeMap::new(),
            answers: Vec::new(),
            frames: Vec::new(),
            now,
        }
    }

    /// Adds segments that the database knows.
    pub(super) fn learn(&mut self, rows: Vec<KnownRow>) {
        for row in rows {
            let place = (row.meeting, row.session().to_owned());
            let entry = Entry { id: row.id, known: row.known, told_in: None, revised: false };
            self.segments.entry(place).or_default().insert(place_of(&entry.known), entry);
        }
    }

    /// Takes the next message.
    pub(super) fn take(&mut self, message: &'a NewMessage) {
        if !is_heard(&self.meetings, message) {
            self.answers.push(Pending::NoSuchMeeting);
            return;
        }
        let meeting = message.meeting_id;
        let before = self.book.hear(message);
        let (uid, changed) = match &message.body {
            MessageBody::Transcription { uid, segments, .. } => {
                let uid = uid.as_deref();
                (uid, self.tell(meeting, uid, segments, message.version))
            }
            MessageBody::SessionStart { uid, .. } | MessageBody::SessionEnd { uid } => {
                (Some(uid.as_str()), Vec::new())
            }
            MessageBody::Speaker(_) => (None, Vec::new()),
        };
        let session_start = self.book.start(meeting, uid);
        self.put(meeting, uid, &changed);
        let mut lines = changed_lines(changed, session_start);
        if let Some(before) = before {
            let moved = self.moved(meeting, &before);
            lines.extend(only_moved(moved, &lines));
        }
        let frames = mutable_frames(meeting, &lines, self.now);
        self.answers.push(Pending::Taken { lines, frames: frames.len(), session_start });
        self.frames.extend(frames);
    }

    /// What a message about segments changes.
    fn tell(
        &mut self,
        meeting: MeetingId,
        uid: Option<&str>,
        told: &[ToldSegment],
        version: i64,
    ) -> Vec<Known> {
        let Some(reach) = reach_of(told) else {
            return Vec::new();
        };
        let session = session_to_column(uid);
        let near = match self.segments.get(&(meeting, session.to_owned())) {
            Some(segments) => in_known_order(known_within(segments, &reach)),
            None => Vec::new(),
        };
        let heard = self.events.get(&(meeting, session)).map_or(&[][..], Vec::as_slice);
        let speakers = Speakers {
            events: match heard_until(told) {
                Some(until) => events_until(heard, until),
                None => Vec::new(),
            },
            names: self.names.get(&meeting).cloned().unwrap_or_default(),
        };
        collect(uid, told, near, &speakers, version, self.now)
    }

    /// Keeps what the message that is being taken has changed.
    fn put(&mut self, meeting: MeetingId, uid: Option<&str>, changed: &[Known]) {
        if changed.is_empty() {
            return;
        }
        let place = (meeting, session_to_column(uid).to_owned());
        let segments = self.segments.entry(place).or_default();
        for known in changed {
            let place = place_of(known);
            let id = segments.get(&place).and_then(|entry| entry.id);
            let (known, told_in) = (known.clone(), Some(self.answers.len()));
            segments.insert(place, Entry { id, known, told_in, revised: true });
        }
    }

    /// The lines whose absolute times are others since the starts of sessions are not those of
    /// `before`.
    fn moved(&mut self, meeting: MeetingId, before: &SessionStarts) -> Vec<Line> {
        let Some(after) = self.book.starts_of(meeting) else {
            return Vec::new();
        };
        let mut moved = Vec::new();
        let of_meeting = (meeting, String::new())..;
        let sessions = self.segments.range_mut(of_meeting);
        for ((_, session), segments) in sessions.take_while(|((of, _), _)| *of == meeting) {
            let uid = (!session.is_empty()).then_some(session.as_str());
            let start = after.of(uid);
            if before.of(uid) == start {
                continue;
            }
            let shown = segments.values_mut().filter(|entry| entry.known.place != Place::Dropped);
            for entry in shown {
                entry.told_in = Some(self.answers.len());
                moved.push(entry.known.clone());
            }
        }
        let line = |known: Known| match known.place {
            Place::Kept => after.kept_line(known.segment),
            Place::Live | Place::Dropped => after.live_line(known.segment),
        };
        moved.into_iter().map(line).collect()
    }

    /// The frames of the whole batch, in order.
    pub(super) fn frames(&self) -> Vec<&NewFrame> {
        self.frames.iter().collect()
    }

    /// Gives everything its place in its stream, and answers the messages in order.
    pub(super) fn answers(&mut self, frames: Vec<Frame>) -> Vec<MessageAnswer> {
        let mut frames = frames.into_iter();
        let mut last_seq: Vec<Option<i64>> = Vec::with_capacity(self.answers.len());
        let mut answers = Vec::with_capacity(self.answers.len());
        for pending in std::mem::take(&mut self.answers) {
            let Pending::Taken { mut lines, frames: count, session_start } = pending else {
                answers.push(MessageAnswer::NoSuchMeeting);
                last_seq.push(None);
                continue;
            };
            let frames: Vec<Frame> = frames.by_ref().take(count).collect();
            last_seq.push(frames.last().map(|frame| frame.seq));
            told_by(&mut lines, &frames);
            answers.push(taken(lines, frames, session_start));
        }
        for entry in self.segments.values_mut().flat_map(BTreeMap::values_mut) {
            if let Some(seq) = entry.told_in.and_then(|message| last_seq[message]) {
                entry.known.segment.seq = seq;
            }
        }
        answers
    }

    /// The segments that are different now, each once.
    pub(super) fn changed(&self) -> Vec<Changed<'_>> {
        let mut changed = Vec::new();
        for ((meeting, _), segments) in &self.segments {
            // Only segments of meetings that are there are ever told.
            let Some(HeardMeeting { user, .. }) = self.meetings.get(meeting).copied() else {
                continue;
            };
            let told = segments.values().filter(|entry| entry.told_in.is_some());
            changed.extend(told.map(|entry| Changed { meeting: *meeting, user, entry }));
        }
        changed
    }
}

impl AsRef<Known> for Entry {
    fn as_ref(&self) -> &Known {
        &self.known
    }
}

/// Whether the meeting of a message is there, is the one its token was made for, and was not
/// anonymised.
pub(super) fn is_heard(meetings: &BTreeMap<MeetingId, HeardMeeting>, message: &NewMessage) -> bool {
    meetings
        .get(&message.meeting_id)
        .is_some_and(|meeting| meeting.has_address && meeting.user == message.user_id)
}
