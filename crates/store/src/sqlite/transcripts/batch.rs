//! A batch of messages, taken one after the other: what several of them need is read once, and what
//! several of them change is written once.
//!
//! Invariants: what is held of a meeting is what its rows say, but for what is still to be written,
//! so whoever changes these rows in another way calls [`Batch::leave`] first; frames are stored at
//! once, before the rows that they tell of.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::{Frame, NewFrame};
use roundsman_core::ports::NewMessage;
use roundsman_core::transcripts::{
    Known, Line, MessageBody, Place, Reach, SpeakerEvent, Speakers, ToldSegment, collect, reach_of,
};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension};

use super::segments::{put_segment, read_within, set_active};
use super::sessions::start_of;
use super::speakers::{events_between, names};
use super::stream::Stream;
use crate::rows::told::{Segments, events_until, heard_until, known_within, place_of};
use crate::rows::transcripts::in_known_order;
use crate::sqlite::error::Result;

pub(super) struct Batch<'a> {
    conn: &'a Connection,
    now: Timestamp,
    told: BTreeMap<SessionName<'a>, Told>,
    meetings: BTreeMap<MeetingId, Heard<'a>>,
}

type SessionName<'a> = (MeetingId, Option<&'a str>);

/// What all messages of the batch tell of one session.
#[derive(Default)]
struct Told {
    reaches: Vec<Reach>,
    /// Up to when events may say who spoke: for the first of them, and for the last.
    heard_until: Option<(i64, i64)>,
}

/// What is known of a meeting.
struct Heard<'a> {
    /// Whose it is. `None` if there is no such meeting or nobody may speak of it.
    user: Option<UserId>,
    names: Option<BTreeMap<String, String>>,
    stream: Option<Stream>,
    sessions: BTreeMap<Option<&'a str>, Session>,
}

/// What is known of a session.
struct Session {
    start: Option<Timestamp>,
    /// Those that messages of the batch may be about. Without them nothing was told yet.
    segments: Option<Segments<Entry>>,
    events: Vec<SpeakerEvent>,
    speakers: Speakers,
    /// How many of the events are among the speakers'.
    events_heard: Option<usize>,
}

struct Entry {
    known: Known,
    /// It is not written yet.
    is_new: bool,
}

impl AsRef<Known> for Entry {
    fn as_ref(&self) -> &Known {
        &self.known
    }
}

impl<'a> Batch<'a> {
    pub(super) fn new(conn: &'a Connection, messages: &'a [NewMessage], now: Timestamp) -> Self {
        let mut told: BTreeMap<SessionName<'a>, Told> = BTreeMap::new();
        for message in messages {
            if let MessageBody::Transcription { uid, segments, .. } = &message.body
                && let Some(reach) = reach_of(segments)
            {
                let told = told.entry((message.meeting_id, uid.as_deref())).or_default();
                told.reaches.push(reach);
                if let Some(until) = heard_until(segments) {
                    let (first, last) = told.heard_until.unwrap_or((until, until));
                    told.heard_until = Some((first.min(until), last.max(until)));
                }
            }
        }
        Batch { conn, now, told, meetings: BTreeMap::new() }
    }

    /// Whether this is a meeting of this user that may be spoken of.
    pub(super) fn hears(&mut self, meeting: MeetingId, user: UserId) -> Result<bool> {
        Ok(self.heard(meeting)?.user == Some(user))
    }

    /// When a session started.
    pub(super) fn start(
        &mut self,
        meeting: MeetingId,
        uid: Option<&'a str>,
    ) -> Result<Option<Timestamp>> {
        Ok(self.session(meeting, uid)?.start)
    }

    /// What a message changes. Nothing is changed by asking.
    pub(super) fn changed(
        &mut self,
        meeting: MeetingId,
        uid: Option<&'a str>,
        told: &[ToldSegment],
        version: i64,
    ) -> Result<Vec<Known>> {
        let Some(reach) = reach_of(told) else { return Ok(Vec::new()) };
        self.read(meeting, uid)?;
        let now = self.now;
        let session = self.session(meeting, uid)?;
        session.listen(heard_until(told));
        let known = session.segments.as_ref().map(|segments| known_within(segments, &reach));
        let known = in_known_order(known.unwrap_or_default());
        Ok(collect(uid, told, known, &session.speakers, version, now))
    }

    /// Gives frames of a meeting their places.
    pub(super) fn append(
        &mut self,
        meeting: MeetingId,
        frames: Vec<NewFrame>,
    ) -> Result<Vec<Frame>> {
        let (conn, now) = (self.conn, self.now);
        let stream = match &mut self.heard(meeting)?.stream {
            Some(stream) => stream,
            unknown => unknown.insert(Stream::open(conn, meeting)?),
        };
        frames.into_iter().map(|frame| stream.append(conn, frame, now)).collect()
    }

    /// These lines of a session are as given from now on.
    pub(super) fn put(
        &mut self,
        meeting: MeetingId,
        uid: Option<&'a str>,
        lines: &[Line],
    ) -> Result<()> {
        let segments = self.session(meeting, uid)?.segments.get_or_insert_default();
        for line in lines {
            let place = if line.kept { Place::Kept } else { Place::Live };
            let known = Known { segment: line.segment.clone(), place };
            segments.insert(place_of(&known), Entry { known, is_new: true });
        }
        Ok(())
    }

    /// Writes what is to be written of a meeting, and forgets what is known of it: its rows are
    /// changed in another way.
    pub(super) fn leave(&mut self, meeting: MeetingId) -> Result<()> {
        match self.meetings.remove(&meeting) {
            Some(heard) => heard.write(self.conn, meeting),
            None => Ok(()),
        }
    }

    /// Writes all that is to be written.
    pub(super) fn write(self) -> Result<()> {
        let Batch { conn, meetings, .. } = self;
        meetings.into_iter().try_for_each(|(meeting, heard)| heard.write(conn, meeting))
    }

    fn heard(&mut self, meeting: MeetingId) -> Result<&mut Heard<'a>> {
        use std::collections::btree_map::Entry;
        match self.meetings.entry(meeting) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => {
                let mut statement = self.conn.prepare_cached(OPEN_MEETING)?;
                let user = statement.query_row([meeting.get()], |row| row.get(0)).optional()?;
                Ok(unknown.insert(Heard {
                    user: user.map(UserId::new),
                    names: None,
                    stream: None,
                    sessions: BTreeMap::new(),
                }))
            }
        }
    }

    fn session(&mut self, meeting: MeetingId, uid: Option<&'a str>) -> Result<&mut Session> {
        use std::collections::btree_map::Entry;
        let conn = self.conn;
        match self.heard(meeting)?.sessions.entry(uid) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => {
                let start = match uid {
                    Some(uid) => start_of(conn, meeting, uid)?,
                    None => None,
                };
                Ok(unknown.insert(Session {
                    start,
                    segments: None,
                    events: Vec::new(),
                    speakers: Speakers::default(),
                    events_heard: None,
                }))
            }
        }
    }

    /// Reads what messages of the batch may be about in a session, once.
    fn read(&mut self, meeting: MeetingId, uid: Option<&'a str>) -> Result<()> {
        if self.session(meeting, uid)?.segments.is_some() {
            return Ok(());
        }
        let conn = self.conn;
        let mut segments = Segments::new();
        let mut events = Vec::new();
        if let Some(told) = self.told.get(&(meeting, uid)) {
            for known in read_within(conn, meeting, uid, &told.reaches)? {
                segments.insert(place_of(&known), Entry { known, is_new: false });
            }
            if let (Some(uid), Some((first, last))) = (uid, told.heard_until) {
                events = events_between(conn, meeting, uid, first, last)?;
            }
        }
        let known_names = &mut self.heard(meeting)?.names;
        let names = match known_names {
            Some(names) => names.clone(),
            None => known_names.insert(names(conn, meeting)?).clone(),
        };
        let session = self.session(meeting, uid)?;
        session.segments = Some(segments);
        session.events = events;
        session.speakers = Speakers { events: Vec::new(), names };
        session.events_heard = Some(0);
        Ok(())
    }
}

impl Session {
    /// Lets the speakers be those that were heard up to then.
    fn listen(&mut self, until_ms: Option<i64>) {
        let until_ms = until_ms.unwrap_or(i64::MIN);
        let heard = self.events.iter().filter(|event| event.at_ms <= until_ms).count();
        // As many are the same ones, which is how it mostly is.
        if self.events_heard != Some(heard) {
            self.speakers.events = events_until(&self.events, until_ms);
            self.events_heard = Some(heard);
        }
    }
}

impl Heard<'_> {
    fn write(self, conn: &Connection, meeting: MeetingId) -> Result<()> {
        if let Some(stream) = self.stream {
            stream.close(conn)?;
        }
        let segments = self.sessions.into_values().filter_map(|session| session.segments);
        let new = segments.flat_map(Segments::into_values).filter(|entry| entry.is_new);
        let mut is_active = false;
        for Entry { known, .. } in new {
            put_segment(conn, meeting, &known)?;
            is_active |= known.place != Place::Kept;
        }
        if is_active {
            set_active(conn, meeting)?;
        }
        Ok(())
    }
}

/// One that was anonymised has no address any more, and hears nothing.
pub(super) const OPEN_MEETING: &str = "-- open_meeting
    SELECT user_id FROM meetings WHERE id = ?1 AND platform_specific_id IS NOT NULL";
