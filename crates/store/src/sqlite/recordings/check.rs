//! What cannot be true of recordings.

use std::collections::BTreeMap;

use roundsman_core::effects::Violation;
use roundsman_core::ports::StoreError;
use rusqlite::Connection;

use super::columns::{COLUMNS, read_recording, recording_columns};
use crate::rows::check::{ROW_CONSISTENT, violation};
use crate::rows::recordings::{RECORDINGS, RecordingFacts, check_recordings};
use crate::sqlite::error::Result;

/// Compares every recording with its meeting, its transcript and the state that its log leads to.
pub(in crate::sqlite) fn check(
    conn: &Connection,
    logged: &BTreeMap<(String, i64), String>,
) -> Result<Vec<Violation>> {
    let mut statement = conn.prepare(ALL_RECORDINGS)?;
    let mut rows = statement.query([])?;
    let (mut found, mut facts) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let no: i64 = row.get(0)?;
        match read_recording(row) {
            Ok(recording) => {
                let (owner, said) = (row.get(COLUMNS)?, row.get(COLUMNS + 1)?);
                facts.push(RecordingFacts { recording, owner, said });
            }
            Err(failure) => {
                let reason = StoreError::from(failure).to_string();
                found.push(violation(ROW_CONSISTENT, format!("{RECORDINGS} {no}"), reason));
            }
        }
    }
    found.extend(check_recordings(&facts, logged));
    let mut statement = conn.prepare(CONSENT_OF_NONE)?;
    let lost = statement.query_map([], |row| {
        Ok(violation(ROW_CONSISTENT, row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    found.extend(lost.collect::<rusqlite::Result<Vec<_>>>()?);
    Ok(found)
}

const ALL_RECORDINGS: &str = concat!(
    "-- all_recordings\nSELECT ",
    recording_columns!(),
    ", p.user_id,
           (SELECT count(*) FROM kept_segments AS k
             WHERE k.meeting_id = r.meeting_id AND k.session_uid = 'recording:' || r.recording_id)
      FROM recordings AS r LEFT JOIN presence AS p ON p.meeting_id = r.meeting_id
     ORDER BY r.no"
);

const CONSENT_OF_NONE: &str = "-- consent_of_none
    SELECT 'consents ' || c.meeting_id, 'there is no such meeting'
      FROM consents AS c
     WHERE NOT EXISTS (SELECT 1 FROM presence AS p WHERE p.meeting_id = c.meeting_id)
     GROUP BY c.meeting_id";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::check::LOG_MATCHES_STATE;
    use crate::rows::recordings::TRANSCRIPT_ONCE;
    use crate::sqlite::{check, connection, schema};

    /// A meeting that is over, a recording of it in each state and one that is of none: nothing is
    /// wrong with them.
    const SOUND: &str = "
        INSERT INTO users (id, email, created_at) VALUES (1, 'ada@example.org', 5);
        INSERT INTO meetings (id, user_id, platform, platform_specific_id, status, start_time,
            end_time, created_at, updated_at)
        VALUES (1, 1, 'daily', 'room', 'completed', 6, 9, 5, 9);
        INSERT INTO presence (meeting_id, user_id, room, open, created_at, end_reason, num_clients,
            last_left_at, look_no, failures)
        VALUES (1, 1, 'room', 0, 5, 'everyone_left', 0, 8, 2, 0);
        INSERT INTO recordings (no, recording_id, meeting_id, user_id, room, kind, started_at,
            duration_ms, tracks, media, status, error, repeats, segments, announced_at, updated_at,
            completed_at)
        VALUES (1, 'a', NULL, NULL, 'room', 'cloud', 6, 5, '[]', '[]', 'pending', NULL, 0, 0, 6, 6,
                NULL),
               (2, 'b', 1, 1, 'room', 'cloud', 6, 5, '[]', '[]', 'processing', NULL, 0, 0, 6, 6,
                NULL),
               (3, 'c', 1, 1, 'room', 'cloud', 6, 5, '[]', '[]', 'completed', NULL, 0, 1, 6, 6, 7),
               (4, 'd', 1, 1, 'room', 'cloud', 6, 5, '[]', '[]', 'failed', 'broken', 0, 0, 6, 6,
                NULL);
        INSERT INTO frame_streams (stream, last_seq) VALUES ('meeting:1', 1);
        INSERT INTO transcriptions (id, meeting_id, start_time, end_time, text, created_at,
            session_uid)
        VALUES (1, 1, 0, 1, 'hello', 7, 'recording:c');
        INSERT INTO kept_segments (transcription_id, meeting_id, session_uid, field, start_ms,
            end_ms, speaker_status, version, updated_at, seq)
        VALUES (1, 1, 'recording:c', '0.000#1', 0, 1000, 'UNKNOWN', 1, 7, 1);
        INSERT INTO consents (meeting_id, person, given, at) VALUES (1, 'ada', 1, 6);
        INSERT INTO transitions (entity, entity_id, from_state, to_state, cause, at)
        VALUES ('meeting', 1, NULL, 'open', 'user', 5),
               ('meeting', 1, 'open', 'completed', 'everyone_left', 9),
               ('recording', 1, NULL, 'pending', 'event', 6),
               ('recording', 2, NULL, 'processing', 'event', 6),
               ('recording', 3, NULL, 'completed', 'event', 6),
               ('recording', 4, NULL, 'failed', 'event', 6);";

    fn check_after(damage: &str) -> Vec<Violation> {
        let conn = connection::open_in_memory().unwrap();
        schema::migrate(&conn).unwrap();
        conn.execute_batch(SOUND).unwrap();
        conn.execute_batch(damage).unwrap();
        check::check(&conn).unwrap()
    }

    #[test]
    fn nothing_is_wrong_with_what_is_sound() {
        assert_eq!(check_after(""), []);
    }

    #[test]
    fn every_rule_finds_what_breaks_it() {
        let cases = [
            (LOG_MATCHES_STATE, "UPDATE recordings SET status = 'pending' WHERE no = 2"),
            (LOG_MATCHES_STATE, "DELETE FROM transitions WHERE entity = 'recording'"),
            (TRANSCRIPT_ONCE, "UPDATE recordings SET segments = 0"),
            (TRANSCRIPT_ONCE, "UPDATE kept_segments SET session_uid = 'recording:b'"),
            (ROW_CONSISTENT, "UPDATE recordings SET status = 'tired' WHERE no = 1"),
            (ROW_CONSISTENT, "UPDATE recordings SET kind = 'film'"),
            (ROW_CONSISTENT, "UPDATE recordings SET tracks = '{'"),
            (ROW_CONSISTENT, "UPDATE recordings SET media = '[1]'"),
            (ROW_CONSISTENT, "UPDATE recordings SET repeats = -1"),
            (ROW_CONSISTENT, "UPDATE recordings SET segments = 1 WHERE no = 2"),
            (ROW_CONSISTENT, "UPDATE recordings SET recording_id = '' WHERE no = 1"),
            (ROW_CONSISTENT, "UPDATE recordings SET meeting_id = NULL WHERE no = 2"),
            (ROW_CONSISTENT, "UPDATE recordings SET meeting_id = 2 WHERE no = 4"),
            (ROW_CONSISTENT, "UPDATE recordings SET user_id = 2 WHERE no = 4"),
            (ROW_CONSISTENT, "UPDATE recordings SET user_id = 1 WHERE no = 1"),
            (ROW_CONSISTENT, "UPDATE recordings SET room = '' WHERE no = 1"),
            (ROW_CONSISTENT, "UPDATE recordings SET error = NULL WHERE no = 4"),
            (ROW_CONSISTENT, "UPDATE recordings SET error = 'x' WHERE no = 3"),
            (ROW_CONSISTENT, "UPDATE recordings SET completed_at = NULL"),
            (ROW_CONSISTENT, "UPDATE recordings SET completed_at = 9"),
            (ROW_CONSISTENT, "UPDATE recordings SET erased_at = 9, erase_error = 'x'"),
            (ROW_CONSISTENT, "UPDATE consents SET meeting_id = 2"),
        ];
        for (rule, damage) in cases {
            let found = check_after(damage);
            assert!(found.iter().any(|one| one.rule == rule), "{damage}: {found:?}");
        }
    }
}
