//! Holds the statements that run often, or over tables that grow, to the index they are made for.

use rusqlite::Connection;

use super::{create, read, recurring, result, told};
use crate::sqlite::schema;

/// Statements and what their plan must say.
const EXPECTED: &[(&str, &str)] = &[
    (create::EARLIER_REQUEST, "audit_records_request (user_id=? AND request_key=?)"),
    (create::UNFINISHED, "audit_records_unfinished (user_id=?)"),
    (read::ONE, "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)"),
    (read::ONE, "SEARCH q USING INTEGER PRIMARY KEY"),
    (read::ONE, "SEARCH r USING INTEGER PRIMARY KEY"),
    (read::LIST_ALL, "SEARCH a USING INTEGER PRIMARY KEY (rowid<?)"),
    (read::LIST_OF_USER, "audit_records_user (user_id=? AND id<?)"),
    (read::LIST_OF_URL, "audit_records_url (user_id=? AND website_url=? AND id<?)"),
    (read::LIST_OF_RECURRING, "audit_records_recurring (recurring_id=? AND id<?)"),
    (read::REPORT, "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)"),
    (read::PREVIOUS, "audit_records_url (user_id=? AND website_url=? AND id<?)"),
    (read::SCREENSHOT, "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)"),
    (told::OF_JOB, "USING INDEX sqlite_autoindex_audit_records_1 (job_id=?)"),
    (result::OLD, "audit_records_finished (finished_at<?)"),
    (recurring::ONE, "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)"),
    (recurring::COUNT, "recurring_audits_user (user_id=?)"),
    (recurring::LIST_ALL, "SEARCH c USING INTEGER PRIMARY KEY (rowid<?)"),
    (recurring::LIST_OF_USER, "recurring_audits_user (user_id=? AND id<?)"),
];

#[test]
fn statements_use_their_index() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn).unwrap();
    for (statement, part) in EXPECTED {
        let plan = plan_of(&conn, statement);
        assert!(plan.contains(part), "expected {part} in the plan of {statement}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{statement} sorts:\n{plan}");
        for table in ["a", "q", "r", "c", "s"] {
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
