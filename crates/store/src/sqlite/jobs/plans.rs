//! Holds the statements that run often, or over tables that grow, to the index they are made for.

use rusqlite::Connection;

use super::{batches, bulk, claim, depths, enqueue, gated, prune, read};
use crate::sqlite::schema;

#[test]
fn statements_use_their_index() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn).unwrap();
    let expected = [
        (claim::CANDIDATES, "job_queue_ready"),
        (claim::CANDIDATES, "job_running_key"),
        (gated::NEXT_LANE_FROM, "job_queue_ready"),
        (gated::NEXT_LANE_AFTER, "job_queue_ready"),
        (gated::COUNT_CLAIMABLE, "job_queue_ready"),
        (gated::LANES_RUNNING, "job_running_lane"),
        (claim::PROMOTE, "job_queue_due"),
        (claim::NEXT_DUE, "job_queue_due"),
        (enqueue::SELECT_WAITING_KEY, "job_queue_key"),
        (read::LIST_WAITING_OF_USER, "job_queue_user"),
        (read::LIST_FINISHED_OF_USER, "job_finished_user"),
        (read::LIST_DEAD_OF_USER, "job_finished_dead_user"),
        (read::LIST_DEAD_OF_ALL, "job_finished_dead"),
        (batches::PRUNE, "job_batches_finished"),
        (bulk::NEXT_DEAD_KIND, "job_finished_dead_kind"),
        (bulk::COUNT_DEAD, "job_finished_dead_kind"),
        (bulk::PRUNE_DEAD, "job_finished_dead_kind"),
        (prune::PRUNE_JOBS, "job_finished_at"),
        (prune::PRUNE_IDEMPOTENCY, "idempotency_created"),
        (prune::PRUNE_FRAMES, "frames_at"),
        (depths::NEXT_LANE, "job_queue_ready"),
        (depths::COUNT_LANE, "job_queue_ready"),
        (depths::OLDEST_OF_LANE, "job_queue_ready"),
        (depths::NEXT_SCHEDULED_KIND, "job_queue_scheduled"),
        (depths::COUNT_SCHEDULED, "job_queue_scheduled"),
        (depths::COUNT_DUE, "job_queue_scheduled"),
    ];
    for (statement, index) in expected {
        let plan = plan_of(&conn, statement);
        assert!(plan.contains(index), "expected {index} in the plan of {statement}\n{plan}");
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
