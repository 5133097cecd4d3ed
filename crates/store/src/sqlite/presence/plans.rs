//! Holds the statements that run often, or over tables that grow, to the index they are made for.

use rusqlite::Connection;

use super::{columns, forget, inbox, joining, open, prune, read};
use crate::sqlite::schema;

/// Statements and what their plan must say.
const EXPECTED: &[(&str, &str)] = &[
    (columns::PRESENCE, "SEARCH p USING INTEGER PRIMARY KEY"),
    (columns::PRESENCE, "SEARCH m USING INTEGER PRIMARY KEY"),
    (columns::UPDATE_PRESENCE, "SEARCH presence USING INTEGER PRIMARY KEY"),
    (columns::UPDATE_MEETING, "SEARCH meetings USING INTEGER PRIMARY KEY"),
    (columns::OPEN_SESSIONS, "presence_sessions_open (meeting_id=?)"),
    (columns::SESSION, "PRIMARY KEY (meeting_id=? AND session_id=?)"),
    (columns::COUNT_OPEN, "INDEX presence_sessions_open (meeting_id=?)"),
    (open::OPEN_IN, "presence_open_room (room=?)"),
    (read::LATEST_IN, "presence_room (room=?)"),
    (read::OPEN_PRESENCES, "presence_open (meeting_id>?)"),
    (read::OPEN_IDS, "INDEX presence_sessions_open (meeting_id=?)"),
    (read::EMPTY_PRESENCES, "INDEX presence_empty (meeting_id>?)"),
    (read::COUNTS, "USING INDEX presence_open"),
    (read::LIST_IN_ROOM, "presence_room (room=? AND meeting_id<?)"),
    (read::LIST_IN_ROOM, "SEARCH m USING INTEGER PRIMARY KEY"),
    (read::LIST_OPEN, "presence_open (meeting_id<?)"),
    (read::LIST_OF_USER, "presence_user (user_id=? AND meeting_id<?)"),
    (read::LIST_ALL, "SEARCH p USING INTEGER PRIMARY KEY (rowid<?)"),
    (
        read::LIST_SESSIONS,
        "presence_sessions_joined (meeting_id=? AND (joined_at,session_id)>(?,?))",
    ),
    (joining::EXPECTED_UNTIL, "PRIMARY KEY (meeting_id=?)"),
    (inbox::LIST, "SEARCH inbox USING INTEGER PRIMARY KEY (rowid<?)"),
    (inbox::LIST_OF_ROOM, "inbox_room (room=? AND id<?)"),
    (inbox::LIST_BY_OUTCOME, "inbox_outcome (outcome=? AND id<?)"),
    (forget::FORGET_EVENTS, "inbox_room (room=?)"),
    (prune::PRUNE_INBOX, "COVERING INDEX inbox_at (at<?)"),
    (prune::PRUNE_JOINING, "COVERING INDEX presence_joining_until (until<?)"),
];

#[test]
fn statements_use_their_index() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn).unwrap();
    for (statement, part) in EXPECTED {
        let plan = plan_of(&conn, statement);
        assert!(plan.contains(part), "expected {part} in the plan of {statement}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{statement} sorts:\n{plan}");
        for table in ["presence", "presence_sessions", "presence_joining", "inbox", "p", "m"] {
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
