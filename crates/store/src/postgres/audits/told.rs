//! Telling users of audits that failed, whatever ended them.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::audits::{AuditId, failed_event, is_failed_run};
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{FinishedJob, KindCatalog};
use roundsman_core::users::UserId;

use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;

pub(super) const OF_JOBS: &str = "-- audits_of_jobs
SELECT job_id, id, user_id, website_url FROM roundsman.audit_records
 WHERE job_id = ANY ($1::bigint[])";

/// Writes the events of those of the jobs that were audits and have failed, in the transaction that ends
/// them. With none, nothing is asked.
pub(in crate::postgres) async fn tell_failed(
    session: &mut Session,
    jobs: &[FinishedJob],
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<(), Failure> {
    let failed: BTreeMap<i64, &FinishedJob> =
        jobs.iter().filter(|job| is_failed_run(job)).map(|job| (job.facts.id.get(), job)).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = failed.keys().copied().collect();
    let mut told: BTreeMap<i64, Effects> = BTreeMap::new();
    for row in session.query(OF_JOBS, &[&ids]).await? {
        let (job, user) = (row.try_get(0)?, UserId::new(row.try_get(2)?));
        let audit = AuditId::new(row.try_get(1)?);
        let event = |ended: &&FinishedJob| failed_event(audit, user, row.get(3), ended);
        if let Some(effects) = failed.get(&job).and_then(event) {
            told.insert(job, effects);
        }
    }
    // By number, so that events are told in one order on every database.
    let told: Vec<&Effects> = told.values().collect();
    write_effects(session, &told, catalog, now).await?;
    Ok(())
}
