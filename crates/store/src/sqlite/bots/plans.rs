//! Holds the statements that run often, or over tables that grow, to the index they are made for.

use rusqlite::Connection;

use super::{adopt, event, finish, heartbeat, launch, read, reserve, sweep, wishes};
use crate::sqlite::{schema, webhooks};

#[test]
fn statements_use_their_index() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn).unwrap();
    let expected = [
        (reserve::COUNT_LIVE, "COVERING INDEX meetings_live"),
        (reserve::LIVE_AT, "INDEX"),
        (heartbeat::HEAR, "SEARCH bots USING INTEGER PRIMARY KEY"),
        (heartbeat::TOUCH, "SEARCH meetings USING INTEGER PRIMARY KEY"),
        (event::SEEN, "SEARCH bots USING INTEGER PRIMARY KEY"),
        (launch::NAME_CONTAINER, "SEARCH meetings USING INTEGER PRIMARY KEY"),
        (sweep::CLOCKS, "INDEX bots_live"),
        (sweep::CLOCKS, "SEARCH m USING INTEGER PRIMARY KEY"),
        (read::LIVE_BOTS, "SEARCH b USING INDEX bots_live"),
        (read::LATEST_MEETING_AT, "ix_meeting_user_platform_native_id_created_at"),
        (read::LIST_MEETINGS, "ix_meetings_user_id"),
        (read::LIST_LIVE_MEETINGS, "SEARCH m USING INDEX meetings_live (user_id=? AND id<?)"),
        (wishes::LIVE_AT_ADDRESS, "INDEX"),
        (adopt::ORPHANS, "COVERING INDEX meetings_live"),
        (finish::SAID, "ix_transcription_meeting_start"),
        (webhooks::EVENTS_OF, "webhook_events_user"),
        (webhooks::DELIVERIES_OF, "webhook_deliveries_event"),
        (webhooks::PRUNE_EVENTS, "webhook_events_created"),
    ];
    for (statement, part) in expected {
        let plan = plan_of(&conn, statement);
        assert!(plan.contains(part), "expected {part} in the plan of {statement}\n{plan}");
        // Who spoke is grouped after a meeting, once; nothing else may sort.
        let sorts = plan.contains("TEMP B-TREE") && statement != finish::SAID;
        assert!(!sorts, "{statement} sorts:\n{plan}");
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
