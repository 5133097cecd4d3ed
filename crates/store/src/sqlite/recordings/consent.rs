//! What people say about being recorded, and what follows.

use roundsman_core::bots::MeetingId;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::Scope;
use roundsman_core::recordings::{Consent, Recording, erase_wish};
use rusqlite::{Connection, params};

use super::columns::{all, recording_columns};
use super::read::user_of;
use crate::rows::recordings::storable;
use crate::sqlite::effects;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn set(
    conn: &Connection,
    catalog: &KindCatalog,
    scope: Scope,
    meeting: MeetingId,
    consent: Consent,
) -> Result<bool> {
    if !conn.prepare_cached(IS_MEETING)?.exists(params![meeting.get(), user_of(scope)])? {
        return Ok(false);
    }
    let Consent { person, given, at } = consent;
    let word = params![meeting.get(), storable(person), given, At(at)];
    conn.prepare_cached(PUT_CONSENT)?.execute(word)?;
    if !given {
        let effects = Effects { jobs: vec![erase_wish(meeting, at)], ..Effects::default() };
        effects::apply(conn, catalog, effects, at)?;
    }
    Ok(true)
}

pub(super) fn list(conn: &Connection, meeting: MeetingId) -> Result<Vec<Consent>> {
    let mut statement = conn.prepare_cached(CONSENTS)?;
    let consents = statement.query_map([meeting.get()], |row| {
        let At(at) = row.get(2)?;
        Ok(Consent { person: row.get(0)?, given: row.get(1)?, at })
    })?;
    Ok(consents.collect::<rusqlite::Result<_>>()?)
}

/// Whether somebody does not agree.
pub(super) fn is_denied(conn: &Connection, meeting: MeetingId) -> Result<bool> {
    Ok(conn.prepare_cached(IS_DENIED)?.exists([meeting.get()])?)
}

pub(super) fn to_erase(conn: &Connection, meeting: MeetingId) -> Result<Vec<Recording>> {
    all(conn, TO_ERASE, [meeting.get()])
}

/// One that was anonymised has no room any more, and nobody says anything about it.
const IS_MEETING: &str = "-- is_meeting
    SELECT 1 FROM presence
     WHERE meeting_id = ?1 AND room <> '' AND (?2 IS NULL OR user_id = ?2)";

/// Of words that were said in another order than they come in, the last that was said counts.
const PUT_CONSENT: &str = "-- put_consent
    INSERT INTO consents (meeting_id, person, given, at) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (meeting_id, person) DO UPDATE SET given = excluded.given, at = excluded.at
     WHERE excluded.at >= at";

pub(super) const CONSENTS: &str = "-- consents
    SELECT person, given, at FROM consents WHERE meeting_id = ?1 ORDER BY person";

pub(super) const IS_DENIED: &str = "-- is_denied
    SELECT 1 FROM consents WHERE meeting_id = ?1 AND given = 0";

pub(super) const TO_ERASE: &str = concat!(
    "-- to_erase
    SELECT ",
    recording_columns!(),
    " FROM recordings AS r INDEXED BY recordings_meeting
     WHERE r.meeting_id = ?1 AND r.erased_at IS NULL
       AND (r.room = ''
            OR EXISTS (SELECT 1 FROM consents AS c WHERE c.meeting_id = ?1 AND c.given = 0))
     ORDER BY r.no"
);
