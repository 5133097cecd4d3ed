//! Holds the statements that run often, or over tables that grow, to the index they are made for.

use rusqlite::Connection;

use super::{columns, consent, forget, process, read};
use crate::sqlite::schema;

/// Statements and what their plan must say.
const EXPECTED: &[(&str, &str)] = &[
    (columns::RECORDING, "(recording_id=?)"),
    (columns::UPDATE_RECORDING, "SEARCH recordings USING INTEGER PRIMARY KEY"),
    (process::MEETINGS_NEAR, "presence_room (room=?)"),
    (process::MEETINGS_NEAR, "SEARCH m USING INTEGER PRIMARY KEY"),
    (process::OLDEST_FAILED, "recordings_unfinished (status=?)"),
    (consent::CONSENTS, "PRIMARY KEY (meeting_id=?)"),
    (consent::IS_DENIED, "PRIMARY KEY (meeting_id=?)"),
    (consent::TO_ERASE, "recordings_meeting (meeting_id=?)"),
    (consent::TO_ERASE, "SEARCH c USING PRIMARY KEY (meeting_id=?)"),
    (forget::OF_MEETING, "recordings_meeting (meeting_id=?)"),
    (forget::UNMATCHED_IN_ROOM, "recordings_unmatched (room=?)"),
    (read::LIST_OF_MEETING, "recordings_meeting (meeting_id=? AND no<?)"),
    (read::LIST_OF_USER, "recordings_user (user_id=? AND no<?)"),
    (read::LIST_UNFINISHED, "recordings_unfinished (status=? AND no<?)"),
    (read::LIST_ALL, "SEARCH r USING INTEGER PRIMARY KEY (rowid<?)"),
    (read::COUNTS, "COVERING INDEX recordings_unfinished"),
];

#[test]
fn statements_use_their_index() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn).unwrap();
    for (statement, part) in EXPECTED {
        let plan = plan_of(&conn, statement);
        assert!(plan.contains(part), "expected {part} in the plan of {statement}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{statement} sorts:\n{plan}");
        for table in ["recordings", "consents", "presence", "r", "c", "p", "m"] {
            let scans = plan.lines().any(|line| line.ends_with(&format!("SCAN {table}")));
            assert!(!scans, "{statement} walks all of {table}:\n{plan}");
        }
    }
}

fn plan_of(conn: &Connection, statement: &str) -> String {
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let unbound = vec![None::<i64>; explain.parameter_count()];
    let lines = explain
        .query_map(rusqlite::params_from_iter(unbound), |row| row.get::<_, String>(3))
        .unwrap();
    lines.map(Result::unwrap).collect::<Vec<_>>().join("\n")
}
