//! Schedules as rows.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    JobKey, Json, KindName, Missed, Rhythm, Schedule, ScheduleId, ScheduleSpec, ScheduledJob,
    Tenant,
};
use roundsman_core::ports::StoreError;
use roundsman_core::users::UserId;
use serde::{Deserialize, Serialize};

use super::inconsistent;

/// A row of `schedules`.
#[derive(Debug)]
pub(crate) struct ScheduleColumns {
    pub(crate) id: i64,
    pub(crate) user_id: i64,
    pub(crate) spec: String,
    pub(crate) paused: bool,
    pub(crate) next_at: Option<Timestamp>,
    pub(crate) last_at: Option<Timestamp>,
    pub(crate) fired: i64,
    pub(crate) missed: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// `schedules.spec`.
#[derive(Debug, Serialize, Deserialize)]
struct SpecText {
    name: String,
    rhythm: Rhythm,
    missed: Missed,
    kind: String,
    key: Option<String>,
    /// JSON in JSON: kept to the letter.
    payload: String,
    priority: i16,
    max_attempts: Option<u32>,
    #[serde(default)]
    tenant: Option<String>,
}

impl ScheduleColumns {
    pub(crate) fn into_schedule(self) -> Result<Schedule, StoreError> {
        let id = self.id;
        let bad = |reason: String| inconsistent("schedules", "spec", id, reason);
        let text: SpecText =
            serde_json::from_str(&self.spec).map_err(|error| bad(error.to_string()))?;
        let key = text.key.as_deref().map(JobKey::new).transpose();
        let tenant = text.tenant.as_deref().map(Tenant::new).transpose();
        let job = ScheduledJob {
            kind: KindName::new(&text.kind).map_err(|error| bad(error.to_string()))?,
            key: key.map_err(|error| bad(error.to_string()))?,
            payload: Json::from_stored(text.payload),
            priority: text.priority,
            max_attempts: text.max_attempts,
            tenant: tenant.map_err(|error| bad(error.to_string()))?,
        };
        let spec = ScheduleSpec { name: text.name, rhythm: text.rhythm, missed: text.missed, job };
        Ok(Schedule {
            id: ScheduleId::new(id),
            user_id: UserId::new(self.user_id),
            spec,
            paused: self.paused,
            next_at: self.next_at,
            last_at: self.last_at,
            fired: u64::try_from(self.fired).unwrap_or(0),
            missed: u64::try_from(self.missed).unwrap_or(0),
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

pub(crate) fn spec_to_text(spec: &ScheduleSpec) -> String {
    let text = SpecText {
        name: spec.name.clone(),
        rhythm: spec.rhythm.clone(),
        missed: spec.missed,
        kind: spec.job.kind.as_str().to_owned(),
        key: spec.job.key.as_ref().map(|key| key.as_str().to_owned()),
        payload: spec.job.payload.as_str().to_owned(),
        priority: spec.job.priority,
        max_attempts: spec.job.max_attempts,
        tenant: spec.job.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
    };
    serde_json::to_string(&text).expect("a schedule is plain data and always serialises")
}

/// A count as a column holds it.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
