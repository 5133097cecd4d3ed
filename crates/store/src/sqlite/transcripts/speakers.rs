//! Who speaks in a session: what was heard of it, and the names that users gave.

use std::collections::{BTreeMap, HashMap};

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::{
    SPEAKER_EVENTS_PER_SESSION_MAX, SPEAKER_EVENTS_READ_MAX, SpeakerEvent, Speakers,
};
use rusqlite::{Connection, ToSql, params};

use crate::rows::transcripts::{latest_events, speaker_event};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

/// The meeting of events that came without one.
const NO_MEETING: i64 = 0;

pub(super) fn keep(
    conn: &Connection,
    events: &[(Option<MeetingId>, SpeakerEvent)],
    now: Timestamp,
) -> Result<()> {
    let mut insert = conn.prepare_cached(INSERT_EVENT)?;
    let mut kept: HashMap<(&str, i64), u32> = HashMap::new();
    for (meeting, event) in events {
        let meeting = meeting.map_or(NO_MEETING, MeetingId::get);
        let session = event.session_uid.as_str();
        let kept = match kept.entry((session, meeting)) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(unknown) => {
                let count = params![session, meeting];
                unknown.insert(conn.prepare_cached(COUNT)?.query_row(count, |row| row.get(0))?)
            }
        };
        if *kept >= SPEAKER_EVENTS_PER_SESSION_MAX {
            continue;
        }
        let inserted = insert.execute(params![
            session,
            meeting,
            event.at_ms,
            event.kind.as_str(),
            event.participant,
            event.name,
            At(now),
        ])?;
        *kept += u32::from(inserted > 0);
    }
    Ok(())
}

/// Who spoke, by what was heard up to a time within the session.
pub(super) fn speakers(
    conn: &Connection,
    meeting: MeetingId,
    session: Option<&str>,
    until_ms: i64,
) -> Result<Speakers> {
    let events = match session {
        Some(session) => events_between(conn, meeting, session, until_ms, until_ms)?,
        None => Vec::new(),
    };
    Ok(Speakers { events: latest_events(events), names: names(conn, meeting)? })
}

/// The latest events of a session up to the first of two times, and all between the two: with these
/// the latest up to any time between them are known.
pub(super) fn events_between(
    conn: &Connection,
    meeting: MeetingId,
    session: &str,
    first_ms: i64,
    last_ms: i64,
) -> Result<Vec<SpeakerEvent>> {
    let mut events = Vec::new();
    let mut read = |statement: &str, params: &[&dyn ToSql]| -> Result<()> {
        let mut statement = conn.prepare_cached(statement)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            let kind = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            let (participant, name) = (row.get(2)?, row.get(3)?);
            let event = speaker_event(session, row.get(0)?, kind, participant, name, meeting)?;
            events.push(event);
        }
        Ok(())
    };
    for of in [meeting.get(), NO_MEETING] {
        read(LATEST, &[&session, &of, &first_ms, &SPEAKER_EVENTS_READ_MAX])?;
        if first_ms < last_ms {
            read(BETWEEN, &[&session, &of, &first_ms, &last_ms])?;
        }
    }
    Ok(events)
}

/// The names that users gave to speakers of a meeting.
pub(super) fn names(conn: &Connection, meeting: MeetingId) -> Result<BTreeMap<String, String>> {
    let mut statement = conn.prepare_cached(NAMES)?;
    let rows = statement.query_map([meeting.get()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Makes the names of a meeting's speakers exactly these.
pub(super) fn put_names(
    conn: &Connection,
    meeting: MeetingId,
    names: &BTreeMap<String, String>,
) -> Result<()> {
    conn.prepare_cached(DELETE_NAMES)?.execute([meeting.get()])?;
    let mut insert = conn.prepare_cached(INSERT_NAME)?;
    for (name, shown_as) in names {
        insert.execute(params![meeting.get(), name, shown_as])?;
    }
    Ok(())
}

/// Deletes what was heard of a meeting, also what came without it in one of its sessions.
pub(super) fn forget(conn: &Connection, meeting: MeetingId, sessions: &[String]) -> Result<()> {
    conn.prepare_cached(DELETE_NAMES)?.execute([meeting.get()])?;
    conn.prepare_cached(DELETE_HEARD)?.execute([meeting.get()])?;
    let mut delete = conn.prepare_cached(DELETE_HEARD_IN)?;
    for session in sessions {
        delete.execute(params![session, NO_MEETING])?;
    }
    Ok(())
}

const INSERT_EVENT: &str = "-- insert_event
    INSERT INTO speaker_events (session_uid, meeting_id, at_ms, kind, participant, name, heard_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT DO NOTHING";

pub(super) const COUNT: &str = "-- count
    SELECT count(*) FROM speaker_events WHERE session_uid = ?1 AND meeting_id = ?2";

pub(super) const LATEST: &str = "-- latest
    SELECT at_ms, kind, participant, name FROM speaker_events
     WHERE session_uid = ?1 AND meeting_id = ?2 AND at_ms <= ?3
     ORDER BY at_ms DESC, kind DESC, participant DESC LIMIT ?4";

pub(super) const BETWEEN: &str = "-- between
    SELECT at_ms, kind, participant, name FROM speaker_events
     WHERE session_uid = ?1 AND meeting_id = ?2 AND at_ms > ?3 AND at_ms <= ?4";

pub(super) const NAMES: &str = "-- names
    SELECT name, shown_as FROM speaker_names WHERE meeting_id = ?1";

const DELETE_NAMES: &str = "-- delete_names
    DELETE FROM speaker_names WHERE meeting_id = ?1";

const INSERT_NAME: &str = "-- insert_name
    INSERT INTO speaker_names (meeting_id, name, shown_as) VALUES (?1, ?2, ?3)";

/// The second comparison is for the index, which leaves out those without a meeting.
pub(super) const DELETE_HEARD: &str = "-- delete_heard
    DELETE FROM speaker_events WHERE meeting_id = ?1 AND meeting_id <> 0";

pub(super) const DELETE_HEARD_IN: &str = "-- delete_heard_in
    DELETE FROM speaker_events WHERE session_uid = ?1 AND meeting_id = ?2";
