//! Links and batches as rows.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{BatchId, JobKey, JobState, Json, KindName, NewJob, OnFailure, Tenant};
use roundsman_core::ports::{Enqueued, StoreError};
use roundsman_core::users::UserId;
use serde::{Deserialize, Serialize};

use super::{CANCELLED, COMPLETED, FAILED, answer_from_text, answer_to_text, inconsistent};

/// `job_links.policy`.
pub(crate) fn policy_code(policy: OnFailure) -> i16 {
    match policy {
        OnFailure::Cancel => 0,
        OnFailure::Run => 1,
        OnFailure::Hold => 2,
    }
}

pub(crate) fn policy_of(code: i16) -> OnFailure {
    match code {
        1 => OnFailure::Run,
        2 => OnFailure::Hold,
        _ => OnFailure::Cancel,
    }
}

/// The place of a terminal state among [`JobState::ALL`].
pub(crate) fn place_of(state: i16) -> usize {
    match state {
        COMPLETED => 3,
        FAILED => 4,
        CANCELLED => 5,
        _ => 1,
    }
}

/// `job_finished.state` of a job that has ended.
pub(crate) fn ended_code(state: JobState) -> i16 {
    super::finished_state_code(state).unwrap_or(CANCELLED)
}

/// What the wish for a batch was answered, as `idempotency.answer` keeps it.
pub(crate) fn made_to_text(id: BatchId, jobs: &[Enqueued]) -> String {
    format!("{} {}", id.get(), answer_to_text(jobs))
}

pub(crate) fn made_from_text(text: &str) -> Result<(BatchId, Vec<Enqueued>), StoreError> {
    let parts = text.split_once(' ').and_then(|(id, jobs)| Some((id.parse().ok()?, jobs)));
    let (id, jobs) =
        parts.ok_or_else(|| inconsistent("idempotency", "answer", 0, text.to_owned()))?;
    Ok((BatchId::new(id), answer_from_text(jobs)?))
}

/// `job_batches.callback`.
#[derive(Debug, Serialize, Deserialize)]
struct CallbackText {
    user_id: i64,
    kind: String,
    key: Option<String>,
    /// JSON in JSON: kept to the letter.
    payload: String,
    priority: i16,
    max_attempts: Option<u32>,
    tenant: Option<String>,
}

pub(crate) fn callback_to_text(wish: &NewJob) -> String {
    let text = CallbackText {
        user_id: wish.user_id.get(),
        kind: wish.kind.as_str().to_owned(),
        key: wish.key.as_ref().map(|key| key.as_str().to_owned()),
        payload: wish.payload.as_str().to_owned(),
        priority: wish.priority,
        max_attempts: wish.max_attempts,
        tenant: wish.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
    };
    serde_json::to_string(&text).expect("a wish is plain data and always serialises")
}

/// The wish, due at once.
pub(crate) fn callback_from_text(
    text: &str,
    batch: i64,
    now: Timestamp,
) -> Result<NewJob, StoreError> {
    let bad = |reason: String| inconsistent("job_batches", "callback", batch, reason);
    let text: CallbackText = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
    let key = text.key.as_deref().map(JobKey::new).transpose();
    let tenant = text.tenant.as_deref().map(Tenant::new).transpose();
    Ok(NewJob {
        user_id: UserId::new(text.user_id),
        kind: KindName::new(&text.kind).map_err(|error| bad(error.to_string()))?,
        key: key.map_err(|error| bad(error.to_string()))?,
        payload: Json::from_stored(text.payload),
        priority: text.priority,
        run_at: now,
        max_attempts: text.max_attempts,
        tenant: tenant.map_err(|error| bad(error.to_string()))?,
    })
}
