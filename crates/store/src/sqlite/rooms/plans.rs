//! Holds the statements that run often, or over tables that grow, to the index they are made for.

use rusqlite::Connection;

use super::{append, compact, presence, prune, read, tokens, versions};
use crate::sqlite::schema;

/// Statements and what their plan must say.
const EXPECTED: &[(&str, &str)] = &[
    (read::ROOM, "SEARCH rooms USING PRIMARY KEY (project_id=?)"),
    (read::OF_USER, "rooms_user (user_id=? AND project_id>?)"),
    (read::SNAPSHOT, "(project_id=?)"),
    (read::UPDATES, "SEARCH room_updates USING PRIMARY KEY (project_id=? AND seq>?)"),
    (append::UPDATE, "SEARCH rooms USING PRIMARY KEY (project_id=?)"),
    (compact::DELETE, "SEARCH room_updates USING PRIMARY KEY (project_id=? AND seq<?)"),
    (compact::WEIGHT, "SEARCH room_updates USING PRIMARY KEY (project_id=?)"),
    (versions::LIST, "SEARCH room_versions USING PRIMARY KEY (project_id=? AND seq<?)"),
    (tokens::LIST, "room_tokens_project (project_id=?)"),
    (presence::KEPT, "(project_id=?)"),
    (presence::VERSION, "(project_id=?)"),
    (prune::TOKENS, "room_tokens_expires (expires_at<?)"),
];

#[test]
fn statements_use_their_index() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn).unwrap();
    for (statement, part) in EXPECTED {
        let plan = plan_of(&conn, statement);
        assert!(plan.contains(part), "expected {part} in the plan of {statement}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{statement} sorts:\n{plan}");
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
