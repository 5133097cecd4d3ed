//! Sessions of meetings: when they started, who said so, and what a message changes about that.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::NewMessage;
use roundsman_core::transcripts::{KnownStart, MessageBody, bare_uid, declare_start};
use roundsman_core::users::UserId;
use tokio_postgres::Row;

use super::known::{KnownRow, Near, SessionPlace};
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::transcripts::SessionStarts;

/// Whose the meetings are, whether they can be spoken of, and whether they have live segments.
pub(super) const MEETINGS_HEARD: &str = "-- meetings_heard
SELECT m.id::bigint, m.user_id::bigint, m.platform_specific_id IS NOT NULL,
       EXISTS (SELECT FROM roundsman.active_transcripts a WHERE a.meeting_id = m.id)
  FROM public.meetings m
 WHERE m.id = ANY ($1::bigint[])";

pub(super) const STARTS: &str = "-- starts
SELECT meeting_id::bigint, session_uid::text, session_start_time
  FROM public.meeting_sessions
 WHERE meeting_id = ANY ($1::bigint[])";

pub(super) const SESSION_FACTS: &str = "-- session_facts
SELECT meeting_id, session_uid, declared_by, ended_at IS NOT NULL
  FROM roundsman.transcript_sessions
 WHERE meeting_id = ANY ($1::bigint[])";

/// Reads the rows of [`STARTS`].
pub(super) fn starts(rows: &[Row]) -> Result<BTreeMap<MeetingId, SessionStarts>, Failure> {
    let mut by_meeting: BTreeMap<MeetingId, Vec<(String, Timestamp)>> = BTreeMap::new();
    for row in rows {
        let mut reader = Reader::new(row);
        let meeting = MeetingId::new(reader.value()?);
        let start = (reader.value()?, reader.time()?);
        by_meeting.entry(meeting).or_default().push(start);
    }
    Ok(by_meeting.into_iter().map(|(meeting, rows)| (meeting, SessionStarts::new(rows))).collect())
}

/// When the sessions of one meeting started.
pub(super) async fn starts_of(
    session: &mut Session,
    meeting: MeetingId,
) -> Result<SessionStarts, Failure> {
    let rows = session.query(STARTS, &[&vec![meeting.get()]]).await?;
    Ok(starts(&rows)?.remove(&meeting).unwrap_or_default())
}

/// The texts are compared here, because their columns are sorted in different ways.
pub(super) const SESSIONS_OF: &str = "-- sessions_of
SELECT session_uid::text FROM public.meeting_sessions WHERE meeting_id = $1::bigint
UNION ALL
SELECT session_uid FROM roundsman.transcript_sessions WHERE meeting_id = $1
UNION ALL
SELECT session_uid FROM roundsman.live_segments WHERE meeting_id = $1
UNION ALL
SELECT session_uid::text FROM public.transcriptions
 WHERE meeting_id = $1::bigint AND session_uid IS NOT NULL";

/// The names of all sessions that a meeting was ever told of, in order.
pub(super) async fn sessions_of(
    session: &mut Session,
    meeting: MeetingId,
) -> Result<Vec<String>, Failure> {
    let mut names = BTreeSet::new();
    for row in session.query(SESSIONS_OF, &[&meeting.get()]).await? {
        let name: &str = row.try_get(0)?;
        if !name.is_empty() && !names.contains(name) {
            names.insert(name.to_owned());
        }
    }
    Ok(names.into_iter().collect())
}

/// A start that moves changes every segment of its session, under whichever of its names.
pub(super) async fn whole_sessions(
    session: &mut Session,
    moved: &BTreeSet<SessionPlace<'_>>,
) -> Result<Vec<KnownRow>, Failure> {
    let mut names: BTreeSet<(MeetingId, String)> = BTreeSet::new();
    for &(meeting, uid) in moved {
        let all = sessions_of(session, meeting).await?;
        let same = all.into_iter().filter(|name| bare_uid(name) == bare_uid(uid));
        names.extend(same.map(|name| (meeting, name)));
    }
    let places = names.iter().map(|(meeting, name)| (*meeting, name.as_str()));
    Near::whole(places).read(session).await
}

/// A meeting that messages are about.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeardMeeting {
    pub(super) user: UserId,
    /// It was not anonymised.
    pub(super) has_address: bool,
    /// It is known to have live segments.
    pub(super) active: bool,
}

/// Reads the rows of [`MEETINGS_HEARD`].
pub(super) fn meetings_heard(rows: &[Row]) -> Result<BTreeMap<MeetingId, HeardMeeting>, Failure> {
    let meeting = |row: &Row| {
        let mut reader = Reader::new(row);
        let id = MeetingId::new(reader.value()?);
        let user = UserId::new(reader.value()?);
        Ok((id, HeardMeeting { user, has_address: reader.value()?, active: reader.value()? }))
    };
    rows.iter().map(meeting).collect()
}

/// What is known of the sessions of all meetings of a batch, and what of it has changed.
#[derive(Debug, Default)]
pub(super) struct SessionBook {
    starts: BTreeMap<MeetingId, SessionStarts>,
    sessions: BTreeMap<(MeetingId, String), SessionEntry>,
}

#[derive(Debug, Default)]
struct SessionEntry {
    /// The row with exactly this name.
    start: Option<Timestamp>,
    declared_by: Option<Timestamp>,
    ended: bool,
    start_changed: bool,
    facts_changed: bool,
}

impl SessionBook {
    /// From the rows of [`STARTS`] and [`SESSION_FACTS`].
    pub(super) fn new(start_rows: &[Row], fact_rows: &[Row]) -> Result<Self, Failure> {
        let mut book = SessionBook { starts: starts(start_rows)?, sessions: BTreeMap::new() };
        for row in start_rows {
            let mut reader = Reader::new(row);
            let place = (MeetingId::new(reader.value()?), reader.value()?);
            book.sessions.entry(place).or_default().start = Some(reader.time()?);
        }
        for row in fact_rows {
            let mut reader = Reader::new(row);
            let place = (MeetingId::new(reader.value()?), reader.value()?);
            let entry = book.sessions.entry(place).or_default();
            entry.declared_by = reader.time_opt()?;
            entry.ended = reader.value()?;
        }
        Ok(book)
    }

    pub(super) fn start(&self, meeting: MeetingId, uid: Option<&str>) -> Option<Timestamp> {
        self.starts.get(&meeting)?.of(uid)
    }

    /// The starts of a meeting's sessions.
    pub(super) fn starts_of(&self, meeting: MeetingId) -> Option<&SessionStarts> {
        self.starts.get(&meeting)
    }

    /// Takes what a message says of its session. If a start is another one from now on, returns the
    /// starts as they were before.
    pub(super) fn hear(&mut self, message: &NewMessage) -> Option<SessionStarts> {
        let meeting = message.meeting_id;
        match &message.body {
            MessageBody::SessionStart { uid, start } => {
                self.declare(meeting, uid, *start, message.token_issued_at)
            }
            MessageBody::Transcription { uid: Some(uid), .. } => {
                // A start that only the cache knows is now everybody's.
                let hint = message.start_hint.filter(|_| self.start(meeting, Some(uid)).is_none());
                hint.map(|hint| self.set_start(meeting, uid, hint))
            }
            MessageBody::SessionEnd { uid } => {
                let entry = self.entry(meeting, uid);
                entry.facts_changed |= !entry.ended;
                entry.ended = true;
                None
            }
            MessageBody::Transcription { uid: None, .. } | MessageBody::Speaker(_) => None,
        }
    }

    fn declare(
        &mut self,
        meeting: MeetingId,
        uid: &str,
        start: Timestamp,
        token_issued_at: Timestamp,
    ) -> Option<SessionStarts> {
        let entry = self.entry(meeting, uid);
        let declared_by = entry.declared_by;
        let known = entry.start.map(|start| KnownStart { start, declared_by });
        let declared = declare_start(known, start, token_issued_at)?;
        entry.declared_by = declared.declared_by;
        entry.facts_changed = true;
        let is_other = entry.start != Some(declared.start);
        is_other.then(|| self.set_start(meeting, uid, declared.start))
    }

    /// Returns the starts as they were before.
    fn set_start(&mut self, meeting: MeetingId, uid: &str, start: Timestamp) -> SessionStarts {
        let entry = self.entry(meeting, uid);
        entry.start = Some(start);
        entry.start_changed = true;
        let starts = self.starts.entry(meeting).or_default();
        let after = starts.with(uid, start);
        std::mem::replace(starts, after)
    }

    fn entry(&mut self, meeting: MeetingId, uid: &str) -> &mut SessionEntry {
        self.sessions.entry((meeting, uid.to_owned())).or_default()
    }

    /// The sessions for which these messages bring another start.
    pub(super) fn moved<'a>(
        mut self,
        messages: impl Iterator<Item = &'a NewMessage>,
    ) -> BTreeSet<SessionPlace<'a>> {
        let mut moved = BTreeSet::new();
        for message in messages {
            let (MessageBody::SessionStart { uid, .. }
            | MessageBody::Transcription { uid: Some(uid), .. }) = &message.body
            else {
                continue;
            };
            if self.hear(message).is_some() {
                moved.insert((message.meeting_id, uid.as_str()));
            }
        }
        moved
    }

    /// Writes what has changed.
    pub(super) async fn write(&self, session: &mut Session, now: Timestamp) -> Result<(), Failure> {
        self.write_starts(session).await?;
        self.write_facts(session, now).await
    }

    async fn write_starts(&self, session: &mut Session) -> Result<(), Failure> {
        let (mut meetings, mut uids, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for ((meeting, uid), entry) in &self.sessions {
            if let Some(start) = entry.start.filter(|_| entry.start_changed) {
                meetings.push(meeting.get());
                uids.push(uid.as_str());
                starts.push(Time(start));
            }
        }
        if !meetings.is_empty() {
            session.execute(FIRST_STARTS, &[&meetings, &uids, &starts]).await?;
            session.execute(MOVE_STARTS, &[&meetings, &uids, &starts]).await?;
        }
        Ok(())
    }

    async fn write_facts(&self, session: &mut Session, now: Timestamp) -> Result<(), Failure> {
        let (mut meetings, mut uids) = (Vec::new(), Vec::new());
        let (mut declared, mut ended) = (Vec::new(), Vec::new());
        for ((meeting, uid), entry) in &self.sessions {
            if entry.facts_changed {
                meetings.push(meeting.get());
                uids.push(uid.as_str());
                declared.push(entry.declared_by.map(Time));
                ended.push(entry.ended.then_some(Time(now)));
            }
        }
        if !meetings.is_empty() {
            session.execute(PUT_FACTS, &[&meetings, &uids, &declared, &ended]).await?;
        }
        Ok(())
    }
}

/// Writes when a session started, whatever was known of it.
pub(super) async fn put_start(
    session: &mut Session,
    meeting: MeetingId,
    uid: &str,
    start: Timestamp,
) -> Result<(), Failure> {
    let (meetings, uids, starts) = (vec![meeting.get()], vec![uid], vec![Time(start)]);
    session.execute(FIRST_STARTS, &[&meetings, &uids, &starts]).await?;
    session.execute(MOVE_STARTS, &[&meetings, &uids, &starts]).await?;
    Ok(())
}

/// The table may be somebody else's, without a unique index. A row that somebody else makes while we
/// look is found by the second statement, or its unique index makes us try again.
const FIRST_STARTS: &str = "-- first_starts
INSERT INTO public.meeting_sessions (meeting_id, session_uid, session_start_time)
SELECT x.meeting_id, x.session_uid, x.start
  FROM unnest($1::bigint[], $2::text[], $3::timestamptz[]) AS x(meeting_id, session_uid, start)
 WHERE NOT EXISTS (SELECT FROM public.meeting_sessions known
                    WHERE known.meeting_id = x.meeting_id AND known.session_uid = x.session_uid)";

const MOVE_STARTS: &str = "-- move_starts
UPDATE public.meeting_sessions s
   SET session_start_time = x.start
  FROM unnest($1::bigint[], $2::text[], $3::timestamptz[]) AS x(meeting_id, session_uid, start)
 WHERE s.meeting_id = x.meeting_id AND s.session_uid = x.session_uid
   AND s.session_start_time <> x.start";

/// A session ends once.
const PUT_FACTS: &str = "-- put_facts
INSERT INTO roundsman.transcript_sessions AS known (meeting_id, session_uid, declared_by, ended_at)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::timestamptz[])
ON CONFLICT (meeting_id, session_uid) DO UPDATE
   SET declared_by = excluded.declared_by, ended_at = coalesce(known.ended_at, excluded.ended_at)";
