//! What cannot be true of meetings in rooms.

use std::collections::BTreeMap;

use roundsman_core::effects::Violation;
use roundsman_core::ports::StoreError;
use rusqlite::Connection;

use super::columns::{presence_columns, read_presence, read_session, session_columns};
use crate::rows::check::{ROW_CONSISTENT, violation};
use crate::rows::presence::{PRESENCE, PresenceFacts, ROOM_ONCE, SESSIONS, check_presence};
use crate::sqlite::error::{Failure, Result};

/// Compares every meeting with its sessions, its row of `meetings` and the state that its log leads
/// to.
pub(in crate::sqlite) fn check(
    conn: &Connection,
    logged: &BTreeMap<(String, i64), String>,
) -> Result<Vec<Violation>> {
    let (mut found, facts) = facts(conn)?;
    found.extend(check_presence(&facts, logged));
    found.extend(sessions(conn)?);
    let mut statement = conn.prepare(ROOM_TWICE)?;
    let twice = statement.query_map([], |row| {
        Ok(violation(ROOM_ONCE, row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    found.extend(twice.collect::<rusqlite::Result<Vec<_>>>()?);
    Ok(found)
}

const ALL_PRESENCE: &str = concat!(
    "-- all_presence\nSELECT ",
    presence_columns!(),
    ", p.open, m.end_time IS NOT NULL,
           (SELECT count(*) FROM presence_sessions AS s
             WHERE s.meeting_id = p.meeting_id AND s.left_at IS NULL),
           m.platform = 'daily' AND coalesce(m.platform_specific_id, '') = p.room
      FROM presence AS p LEFT JOIN meetings AS m ON m.id = p.meeting_id
     ORDER BY p.meeting_id"
);

/// How many columns `presence_columns!` names.
const COLUMNS: usize = 20;

/// What is to be compared of every meeting, and those that cannot be read or are elsewhere.
fn facts(conn: &Connection) -> Result<(Vec<Violation>, Vec<PresenceFacts>)> {
    let mut statement = conn.prepare(ALL_PRESENCE)?;
    let mut rows = statement.query([])?;
    let (mut found, mut facts) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let meeting_id: i64 = row.get(0)?;
        let subject = || format!("{PRESENCE} {meeting_id}");
        let status: Option<String> = row.get(4)?;
        if status.is_some() {
            found.extend(unreadable(read_presence(row).err(), subject));
        }
        if row.get::<_, Option<bool>>(COLUMNS + 3)? == Some(false) {
            found.push(violation(ROW_CONSISTENT, subject(), "its meeting is in another room"));
        }
        facts.push(PresenceFacts {
            meeting_id,
            status,
            open: row.get(COLUMNS)?,
            ended: row.get(COLUMNS + 1)?,
            end_reason: row.get(10)?,
            num_clients: row.get(11)?,
            counted: row.get(COLUMNS + 2)?,
        });
    }
    Ok((found, facts))
}

const ALL_SESSIONS: &str = concat!(
    "-- all_sessions\nSELECT ",
    session_columns!(),
    ", coalesce(left_at < joined_at, FALSE),
           NOT EXISTS (SELECT 1 FROM presence AS p WHERE p.meeting_id = s.meeting_id)
      FROM presence_sessions AS s ORDER BY meeting_id, session_id"
);

fn sessions(conn: &Connection) -> Result<Vec<Violation>> {
    let mut statement = conn.prepare(ALL_SESSIONS)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (meeting_id, session_id): (i64, String) = (row.get(0)?, row.get(1)?);
        let subject = || format!("{SESSIONS} {meeting_id}/{session_id}");
        found.extend(unreadable(read_session(row).err(), subject));
        for (index, explanation) in [(7, "ends before it begins"), (8, "has no meeting")] {
            if row.get(index)? {
                found.push(violation(ROW_CONSISTENT, subject(), explanation));
            }
        }
    }
    Ok(found)
}

fn unreadable(failure: Option<Failure>, subject: impl Fn() -> String) -> Option<Violation> {
    let error = StoreError::from(failure?);
    Some(violation(ROW_CONSISTENT, subject(), error.to_string()))
}

const ROOM_TWICE: &str = "-- room_twice
    SELECT 'room ' || room, count(*) || ' meetings are open' FROM presence
     WHERE open = 1 GROUP BY room HAVING count(*) > 1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::check::LOG_MATCHES_STATE;
    use crate::rows::presence::CLIENTS_COUNTED;
    use crate::sqlite::{check, connection, schema};

    /// An open meeting with somebody in it, and one that is over: nothing is wrong with them.
    const SOUND: &str = "
        INSERT INTO users (id, email, created_at) VALUES (1, 'ada@example.org', 5);
        INSERT INTO meetings (id, user_id, platform, platform_specific_id, status, start_time,
            end_time, created_at, updated_at)
        VALUES (1, 1, 'daily', 'room', 'open', 6, NULL, 5, 6),
               (2, 1, 'daily', 'room', 'completed', 6, 9, 5, 9);
        INSERT INTO presence (meeting_id, user_id, room, open, created_at, end_reason, num_clients,
            last_left_at, look_no, failures)
        VALUES (1, 1, 'room', 1, 5, NULL, 1, 7, 3, 0),
               (2, 1, 'room', 0, 5, 'everyone_left', 0, 8, 2, 0);
        INSERT INTO presence_sessions (meeting_id, session_id, joined_at, left_at, closed_by)
        VALUES (1, 'a', 6, NULL, NULL), (1, 'b', 6, 7, 'event'), (2, 'c', 6, 8, 'poll');
        INSERT INTO transitions (entity, entity_id, from_state, to_state, cause, at)
        VALUES ('meeting', 1, NULL, 'open', 'user', 5), ('meeting', 2, NULL, 'open', 'user', 5),
               ('meeting', 2, 'open', 'completed', 'everyone_left', 9);";

    fn check_after(damage: &str) -> Vec<Violation> {
        let conn = connection::open_in_memory().unwrap();
        schema::migrate(&conn).unwrap();
        conn.execute_batch(SOUND).unwrap();
        conn.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        conn.execute_batch(damage).unwrap();
        conn.execute_batch("PRAGMA ignore_check_constraints = OFF").unwrap();
        check::check(&conn).unwrap()
    }

    #[test]
    fn nothing_is_wrong_with_what_is_sound() {
        assert_eq!(check_after(""), []);
    }

    #[test]
    fn every_rule_finds_what_breaks_it() {
        let second_in_room = "DROP INDEX presence_open_room;
            UPDATE presence SET open = 1;";
        let cases = [
            (CLIENTS_COUNTED, "UPDATE presence SET num_clients = 2"),
            (CLIENTS_COUNTED, "DELETE FROM presence_sessions"),
            (CLIENTS_COUNTED, "UPDATE presence_sessions SET left_at = NULL, closed_by = NULL"),
            (ROOM_ONCE, second_in_room),
            (ROW_CONSISTENT, "UPDATE presence SET open = 0"),
            (ROW_CONSISTENT, "UPDATE meetings SET status = 'completed'"),
            (ROW_CONSISTENT, "UPDATE meetings SET status = 'active' WHERE id = 1"),
            (ROW_CONSISTENT, "UPDATE meetings SET end_time = 9"),
            (ROW_CONSISTENT, "UPDATE meetings SET platform = 'zoom'"),
            (ROW_CONSISTENT, "UPDATE meetings SET platform_specific_id = 'other'"),
            (ROW_CONSISTENT, "UPDATE presence SET meeting_id = 3 WHERE meeting_id = 2"),
            (ROW_CONSISTENT, "UPDATE presence SET end_reason = NULL"),
            (ROW_CONSISTENT, "UPDATE presence SET end_reason = 'tired'"),
            (ROW_CONSISTENT, "UPDATE presence SET failures = -1"),
            (ROW_CONSISTENT, "UPDATE presence SET starts_at = 5"),
            (ROW_CONSISTENT, "UPDATE presence_sessions SET closed_by = 'cat'"),
            (ROW_CONSISTENT, "UPDATE presence_sessions SET closed_by = NULL"),
            (ROW_CONSISTENT, "UPDATE presence_sessions SET joined_at = 9"),
            (ROW_CONSISTENT, "UPDATE presence_sessions SET meeting_id = 3 WHERE meeting_id = 2"),
            (LOG_MATCHES_STATE, "DELETE FROM transitions WHERE entity_id = 1"),
            (LOG_MATCHES_STATE, "DELETE FROM transitions WHERE to_state = 'completed'"),
        ];
        for (rule, damage) in cases {
            let found = check_after(damage);
            assert!(found.iter().any(|one| one.rule == rule), "{damage}: {found:?}");
        }
    }
}
