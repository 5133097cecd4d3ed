//! What users are told of the ends of audits.

use serde_json::json;

use super::{AuditId, AuditState, RUN_KIND};
use crate::effects::Effects;
use crate::jobs::FinishedJob;
use crate::users::UserId;
use crate::webhooks::{WebhookEvent, event_id};

/// Whether this is the end of an audit that failed. Whoever ends jobs asks this of each, so it must cost
/// the others next to nothing.
pub fn is_failed_run(job: &FinishedJob) -> bool {
    job.facts.kind.as_str() == RUN_KIND && AuditState::error_of(&job.state).is_some()
}

/// Tells that an audit has failed, and is written in the transaction that ends its job: by an error, by
/// a worker that died for the last time, or because somebody cancelled it. One that is tried again by hand
/// may fail again, which is an event of its own; so the end's time is part of its id.
pub fn failed_event(
    audit: AuditId,
    user: UserId,
    website_url: &str,
    job: &FinishedJob,
) -> Option<Effects> {
    let error = AuditState::error_of(&job.state)?;
    let said = json!({ "audit": {
        "id": audit.get(),
        "website_url": website_url,
        "status": "failed",
        "error_code": error.code.as_str(),
        "error_message": error.message,
    }});
    let at = job.finished_at.as_micros().to_string();
    let event = event_id(&["audit", &audit.to_string(), "failed", &at]);
    let event = WebhookEvent::new(user, event, "audit.failed", said, job.finished_at);
    let mut effects = Effects::default();
    event.add_to(&mut effects, job.finished_at);
    Some(effects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::audits::run_wish;
    use crate::jobs::{CancelCause, FinishedState, JobError, JobId, Json, KindName, first_wait};

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn ended(state: FinishedState, finished_at: Timestamp) -> FinishedJob {
        let wish = run_wish(AuditId::new(7), UserId::new(3), 0, 3, at(0));
        let facts = first_wait(JobId::new(4), wish, at(0)).facts;
        FinishedJob { facts, state, finished_at, progress: None }
    }

    fn told(job: &FinishedJob) -> Option<Effects> {
        failed_event(AuditId::new(7), UserId::new(3), "https://example.org/", job)
    }

    #[test]
    fn whatever_is_no_completed_audit_is_told_with_its_reason() {
        let crashed = FinishedState::Failed { error: JobError::new("crashed", "gave up") };
        let cancelled = FinishedState::Cancelled { cause: CancelCause::Requested };
        for (state, code) in [(crashed, "crashed"), (cancelled, "cancelled")] {
            let job = ended(state, at(9));
            assert!(is_failed_run(&job));
            let effects = told(&job).unwrap();
            let event = &effects.webhooks[0];
            assert_eq!(
                (event.user_id, event.event_type.as_str()),
                (UserId::new(3), "audit.failed")
            );
            let body: serde_json::Value = serde_json::from_str(event.body.as_str()).unwrap();
            assert_eq!(body["audit"]["id"], 7);
            assert_eq!(body["audit"]["error_code"], code);
            assert_eq!(body["timestamp"], at(9).to_string());
            let wish = &effects.jobs[0];
            assert_eq!(wish.key.as_ref().unwrap().as_str(), event.event_id);
        }
    }

    #[test]
    fn each_end_is_an_event_of_its_own_and_success_is_none_of_these() {
        let failed = || FinishedState::Failed { error: JobError::new("timeout", "slow") };
        let id = |secs| told(&ended(failed(), at(secs))).unwrap().webhooks[0].event_id.clone();
        assert_eq!(id(9), id(9));
        assert_ne!(id(9), id(10), "it was tried again by hand");
        let done = ended(FinishedState::Completed { result: Json::null() }, at(9));
        assert!(!is_failed_run(&done));
        assert_eq!(told(&done), None);
        let mut other = ended(failed(), at(9));
        other.facts.kind = KindName::new("render").unwrap();
        assert!(!is_failed_run(&other));
    }
}
