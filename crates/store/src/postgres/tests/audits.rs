//! Audits of a database that an older release has written.

use roundsman_core::audits::{AuditId, AuditStatus, RecurringId};
use roundsman_core::ports::{AuditStore, Database, EffectStore, Scope};

use super::upgrade::migrate_to;
use super::*;

/// The last step before recurring audits knew of time zones.
const BEFORE: u32 = 14;

const FILL: &str = "
INSERT INTO roundsman.audit_records
    (user_id, job_id, website_url, options, priority, created_at, ended_as, error_code, finished_at)
VALUES (1, 5, 'https://example.org/', '{}', 0, now(), 'failed', 'timeout', now());
INSERT INTO roundsman.recurring_audits
    (user_id, website_url, schedule, options, priority, created_at, started, skipped)
SELECT 1, 'https://example.org/', schedule, '{}', 0, now(), 0, 0
  FROM unnest(ARRAY['@weekly', 'every 6h', '30 6 * * 1']) AS schedule";

#[tokio::test]
async fn recurring_audits_keep_their_days_and_audits_their_numbers() {
    let database = TestDatabase::create().await.unwrap();
    let operator = database.connect().await.unwrap();
    migrate_to(&operator, BEFORE).await;
    operator.batch_execute(FILL).await.unwrap();
    let store = PostgresStore::connect(options(&database), catalog()).await.unwrap();
    let mut shown = Vec::new();
    for number in 1..=3 {
        let known = store.recurring(Scope::All, RecurringId::new(number)).await.unwrap().unwrap();
        let zone = known.schedule.time_zone().map(str::to_owned);
        shown.push((known.schedule.to_string(), zone));
    }
    let utc = || Some("UTC".to_owned());
    let expected = [("0 0 * * 1", utc()), ("every 6h", None), ("30 6 * * 1", utc())];
    assert_eq!(shown, expected.map(|(text, zone)| (text.to_owned(), zone)));
    let audit = store.audit(Scope::All, AuditId::new(1)).await.unwrap().unwrap();
    assert_eq!(audit.state.status, AuditStatus::Failed);
    assert_eq!(store.check().await.unwrap(), []);
    // Numbers go on where they were.
    operator.batch_execute(FILL.replace(", 5,", ", 6,").as_str()).await.unwrap();
    assert!(store.audit(Scope::All, AuditId::new(2)).await.unwrap().is_some());
    store.close().await;
}
