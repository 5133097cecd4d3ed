//! Holds the statements that run often, or over tables that grow, to the index they are made for.

use rusqlite::Connection;

use super::{change, columns, read, sweep};
use crate::sqlite::schema;

/// Statements and what their plan must say.
const EXPECTED: &[(&str, &str)] = &[
    (columns::TASK, "SEARCH t USING INTEGER PRIMARY KEY"),
    (columns::UPDATE_TASK, "SEARCH tasks USING INTEGER PRIMARY KEY"),
    (change::SLOTS_TAKEN, "tasks_slots (external_service=?)"),
    (change::HINT, "tasks_external (external_service=? AND external_task_id=?)"),
    (read::OF_RESULT, "(result_key=?)"),
    (read::LIST_ALL, "SEARCH t USING INTEGER PRIMARY KEY (rowid<?)"),
    (read::LIST_OF_USER, "tasks_user (user_id=? AND no<?)"),
    (read::LIST_OF_PROJECT, "tasks_project (project_id=? AND no<?)"),
    (read::LOOKS, "tasks_active (project_id=?)"),
    (read::PENDING, "INDEX tasks_active (project_id=?)"),
    (sweep::UNFINISHED, "tasks_unfinished (no>?)"),
    (sweep::HAS_JOB, "job_queue_key (user_id=? AND kind=? AND key=?)"),
    (sweep::HAS_JOB, "job_running_key (user_id=? AND kind=? AND key=?)"),
    (sweep::OLD, "tasks_ended (completed_at<?)"),
    (sweep::FORGET_LOG, "transitions_entity (entity=? AND entity_id=?)"),
    (sweep::UNTOLD, "USING INDEX tasks_untold"),
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
