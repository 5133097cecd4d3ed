//! Recurring audits of a database that an older release has written.

use roundsman_core::ports::Scope;
use rusqlite::Connection;

use super::recurring;
use crate::migrations::MIGRATIONS;

/// The last step before recurring audits knew of time zones.
const BEFORE: u32 = 14;

const FILL: &str = "
INSERT INTO recurring_audits
    (user_id, website_url, schedule, options, priority, created_at, started, skipped)
SELECT 1, 'https://example.org/', value, '{}', 0, 0, 0, 0
  FROM json_each('[\"@weekly\", \"every 6h\", \"30 6 * * 1\"]')";

#[test]
fn recurring_audits_keep_their_days() {
    let conn = Connection::open_in_memory().unwrap();
    for migration in MIGRATIONS {
        if migration.number == BEFORE + 1 {
            conn.execute_batch(FILL).unwrap();
        }
        conn.execute_batch(migration.sqlite).unwrap();
    }
    let known = recurring::list(&conn, Scope::All, None, 10).unwrap();
    let shown: Vec<_> =
        known.iter().rev().map(|it| (it.schedule.as_str(), it.schedule.time_zone())).collect();
    assert_eq!(
        shown,
        [("0 0 * * 1", Some("UTC")), ("every 6h", None), ("30 6 * * 1", Some("UTC"))]
    );
}
