//! Between rows and the types of `roundsman_core`: what both adapters must read and write alike.
//!
//! Invariant: nothing here knows a dialect. An adapter reads its columns into one of the `…Columns`
//! structs (times already as [`Timestamp`]) and gets a checked core type, or
//! [`StoreError::Inconsistent`] naming the column that does not say what the schema promises.

pub(crate) mod alarms;
pub(crate) mod audits;
pub(crate) mod batches;
pub(crate) mod bots;
pub(crate) mod check;
pub(crate) mod gates;
pub(crate) mod presence;
pub(crate) mod recordings;
pub(crate) mod rooms;
pub(crate) mod schedules;
pub(crate) mod tasks;
pub(crate) mod told;
pub(crate) mod transcripts;
pub(crate) mod webhooks;

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::effects::Transition;
use roundsman_core::jobs::{
    CancelCause, ErrorCode, FinishedJob, FinishedState, JobError, JobFacts, JobId, JobKey,
    JobState, Json, KindName, Lane, Lease, LeaseNo, LeaseOwner, Progress, Run, RunLog, RunOutcome,
    RunningJob, WaitingJob, WorkerName,
};
use roundsman_core::ports::{Enqueued, StoreError};
use roundsman_core::users::{TokenHash, TokenScope, UserId};

pub(crate) const QUEUE: &str = "job_queue";
pub(crate) const RUNNING: &str = "job_running";
pub(crate) const FINISHED: &str = "job_finished";

/// The entity under which tokens are logged.
pub(crate) const TOKEN_ENTITY: &str = "token";

/// `job_queue.state` of a job whose time is yet to come.
pub(crate) const SCHEDULED: i16 = 0;
/// `job_queue.state` of a job that may be claimed.
pub(crate) const PENDING: i16 = 1;
/// `job_finished.state`, by how the job ended.
pub(crate) const COMPLETED: i16 = 3;
pub(crate) const FAILED: i16 = 4;
pub(crate) const CANCELLED: i16 = 5;

/// The columns that all three job tables have.
#[derive(Debug)]
pub(crate) struct FactColumns {
    pub(crate) id: i64,
    pub(crate) user_id: i64,
    pub(crate) kind: String,
    pub(crate) key: Option<String>,
    pub(crate) payload: String,
    pub(crate) priority: i16,
    pub(crate) run_at: Timestamp,
    pub(crate) triggered_at: Timestamp,
    pub(crate) created_at: Timestamp,
    pub(crate) attempt: i64,
    pub(crate) max_attempts: Option<i64>,
    pub(crate) runs: Option<String>,
    /// Of running and finished jobs: only if it tells more than user and kind do.
    pub(crate) lane: Option<String>,
    pub(crate) linked: bool,
}

/// A row of `job_queue`. State, lane, due time and rank follow from these and are not read back.
#[derive(Debug)]
pub(crate) struct WaitingColumns {
    pub(crate) facts: FactColumns,
    pub(crate) not_before: Option<Timestamp>,
}

/// A row of `job_running`.
#[derive(Debug)]
pub(crate) struct RunningColumns {
    pub(crate) facts: FactColumns,
    pub(crate) lease_no: i64,
    pub(crate) lease_until: Timestamp,
    pub(crate) lease_ttl_us: i64,
    pub(crate) owner_process: Option<i64>,
    pub(crate) claimed_at: Timestamp,
    pub(crate) heartbeat_at: Timestamp,
    pub(crate) deadline_at: Option<Timestamp>,
    pub(crate) cancel_requested: bool,
    pub(crate) worker: String,
    pub(crate) progress: Option<String>,
}

/// A row of `job_finished`.
#[derive(Debug)]
pub(crate) struct FinishedColumns {
    pub(crate) facts: FactColumns,
    pub(crate) state: i16,
    pub(crate) finished_at: Timestamp,
    pub(crate) lease_no: Option<i64>,
    pub(crate) claimed_at: Option<Timestamp>,
    pub(crate) worker: Option<String>,
    pub(crate) error_code: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) folded_into: Option<i64>,
    pub(crate) result: Option<String>,
    pub(crate) progress: Option<String>,
}

/// How a job ended, as the columns of `job_finished` spell it; borrowed from the job to be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EndColumns<'a> {
    pub(crate) state: i16,
    pub(crate) result: Option<&'a str>,
    pub(crate) error_code: Option<&'a str>,
    pub(crate) error_message: Option<&'a str>,
    pub(crate) folded_into: Option<i64>,
}

impl FactColumns {
    pub(crate) fn into_facts(self, table: &'static str) -> Result<JobFacts, StoreError> {
        let row = self.id;
        let bad = |column, reason: String| inconsistent(table, column, row, reason);
        let count = |column, value: i64| {
            u32::try_from(value).map_err(|_| bad(column, format!("{value} is no count")))
        };
        Ok(JobFacts {
            id: JobId::new(row),
            user_id: UserId::new(self.user_id),
            kind: KindName::new(&self.kind).map_err(|e| bad("kind", e.to_string()))?,
            key: match self.key {
                Some(key) => Some(JobKey::new(&key).map_err(|e| bad("key", e.to_string()))?),
                None => None,
            },
            payload: Json::from_stored(self.payload),
            priority: self.priority,
            run_at: self.run_at,
            triggered_at: self.triggered_at,
            created_at: self.created_at,
            attempt: count("attempt", self.attempt)?,
            max_attempts: match self.max_attempts {
                Some(max) => Some(count("max_attempts", max)?),
                None => None,
            },
            tenant: self.lane.and_then(|lane| Lane::from_stored(lane).tenant()),
            linked: self.linked,
            runs: runs_from_text(self.runs.as_deref(), table, row)?,
        })
    }
}

impl WaitingColumns {
    pub(crate) fn into_job(self) -> Result<WaitingJob, StoreError> {
        Ok(WaitingJob { facts: self.facts.into_facts(QUEUE)?, not_before: self.not_before })
    }
}

impl RunningColumns {
    pub(crate) fn into_job(self) -> Result<RunningJob, StoreError> {
        let ttl_us = u64::try_from(self.lease_ttl_us).map_err(|_| {
            inconsistent(RUNNING, "lease_ttl_us", self.facts.id, "is negative".to_owned())
        })?;
        let lease = Lease {
            lease_no: LeaseNo::new(self.lease_no),
            until: self.lease_until,
            ttl: Duration::from_micros(ttl_us),
            worker: WorkerName::new(&self.worker),
            owner: owner_from_column(self.owner_process),
            claimed_at: self.claimed_at,
            heartbeat_at: self.heartbeat_at,
            deadline_at: self.deadline_at,
        };
        Ok(RunningJob {
            facts: self.facts.into_facts(RUNNING)?,
            lease,
            progress: progress_from_text(self.progress),
            cancel_requested: self.cancel_requested,
        })
    }
}

impl FinishedColumns {
    pub(crate) fn into_job(self) -> Result<FinishedJob, StoreError> {
        let row = self.facts.id;
        let state = end_from_columns(
            row,
            self.state,
            self.result,
            self.error_code,
            self.error_message,
            self.folded_into,
        )?;
        let mut facts = self.facts.into_facts(FINISHED)?;
        if let (Some(lease_no), Some(claimed_at)) = (self.lease_no, self.claimed_at) {
            facts.runs.push(Run {
                attempt: facts.attempt,
                lease_no: LeaseNo::new(lease_no),
                worker: WorkerName::new(self.worker.as_deref().unwrap_or_default()),
                started_at: claimed_at,
                // As `jobs::settle` writes it: a wall clock may have been set back in between.
                ended_at: self.finished_at.max(claimed_at),
                outcome: RunOutcome::Done,
                error: None,
            });
        }
        Ok(FinishedJob {
            facts,
            state,
            finished_at: self.finished_at,
            progress: progress_from_text(self.progress),
        })
    }
}

/// How a job ended, as columns. The run that is kept in `lease_no`, `claimed_at` and `worker` is
/// only ever written by the adapters' own copy from `job_running`; a job written from its core
/// type has all its runs in `runs` and NULL in those three.
pub(crate) fn end_columns(state: &FinishedState) -> EndColumns<'_> {
    let none = EndColumns {
        state: COMPLETED,
        result: None,
        error_code: None,
        error_message: None,
        folded_into: None,
    };
    match state {
        FinishedState::Completed { result } => EndColumns { result: Some(result.as_str()), ..none },
        FinishedState::Failed { error } => EndColumns {
            state: FAILED,
            error_code: Some(error.code.as_str()),
            error_message: Some(&error.message),
            ..none
        },
        FinishedState::Cancelled { cause } => EndColumns {
            state: CANCELLED,
            folded_into: match cause {
                CancelCause::Requested => None,
                CancelCause::Folded { into } => Some(into.get()),
            },
            ..none
        },
    }
}

/// `job_queue.state` and its name for a job that is written at `now`.
pub(crate) fn waiting_state(job: &WaitingJob, now: Timestamp) -> (i16, JobState) {
    if job.due_at() <= now {
        (PENDING, JobState::Pending)
    } else {
        (SCHEDULED, JobState::Scheduled)
    }
}

/// The name of a `job_finished.state`.
pub(crate) fn finished_state_name(row: i64, state: i16) -> Result<JobState, StoreError> {
    match state {
        COMPLETED => Ok(JobState::Completed),
        FAILED => Ok(JobState::Failed),
        CANCELLED => Ok(JobState::Cancelled),
        other => Err(inconsistent(FINISHED, "state", row, format!("{other} is no state"))),
    }
}

/// The `job_finished.state` of a terminal state, `None` for the others.
pub(crate) fn finished_state_code(state: JobState) -> Option<i16> {
    match state {
        JobState::Completed => Some(COMPLETED),
        JobState::Failed => Some(FAILED),
        JobState::Cancelled => Some(CANCELLED),
        JobState::Scheduled | JobState::Pending | JobState::Processing => None,
    }
}

/// A waiting job that a person wants now: its backoff is over and its time has come.
pub(crate) fn hasten(mut job: WaitingJob, now: Timestamp) -> WaitingJob {
    job.facts.run_at = job.facts.run_at.min(now);
    job.not_before = None;
    job
}

/// The log of runs as text; NULL when it is empty, because most jobs run once and at most one run
/// fits into columns.
pub(crate) fn runs_to_text(runs: &RunLog) -> Option<String> {
    if runs.is_empty() {
        return None;
    }
    Some(serde_json::to_string(runs).expect("a run log is plain data and always serialises"))
}

pub(crate) fn runs_from_text(
    text: Option<&str>,
    table: &'static str,
    row: i64,
) -> Result<RunLog, StoreError> {
    match text {
        None => Ok(RunLog::default()),
        Some(text) => serde_json::from_str(text)
            .map_err(|error| inconsistent(table, "runs", row, error.to_string())),
    }
}

pub(crate) fn owner_to_column(owner: LeaseOwner) -> Option<i64> {
    match owner {
        LeaseOwner::Process(number) => Some(number),
        LeaseOwner::Outside => None,
    }
}

pub(crate) fn owner_from_column(process: Option<i64>) -> LeaseOwner {
    process.map_or(LeaseOwner::Outside, LeaseOwner::Process)
}

/// The lane of a finished job, if it tells more than user and kind do.
pub(crate) fn lane_to_keep(facts: &JobFacts) -> Option<String> {
    facts.tenant.as_ref().map(|_| facts.lane().as_str().to_owned())
}

/// A duration as stored: whole microseconds, saturating.
pub(crate) fn duration_to_us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The kind that waits in a lane: see [`roundsman_core::jobs::Lane::of`].
pub(crate) fn kind_of_lane(lane: &str) -> Result<KindName, StoreError> {
    KindName::new(Lane::from_stored(lane.to_owned()).kind())
        .map_err(|_| inconsistent(QUEUE, "lane", 0, format!("{lane:?} is no lane")))
}

/// What an enqueue request was answered, as `idempotency.answer` keeps it.
pub(crate) fn answer_to_text(answer: &[Enqueued]) -> String {
    let pairs: Vec<(i64, bool)> = answer.iter().map(|one| (one.id.get(), one.coalesced)).collect();
    serde_json::to_string(&pairs).expect("pairs of numbers and flags always serialise")
}

pub(crate) fn answer_from_text(text: &str) -> Result<Vec<Enqueued>, StoreError> {
    let pairs: Vec<(i64, bool)> = serde_json::from_str(text)
        .map_err(|error| inconsistent("idempotency", "answer", 0, error.to_string()))?;
    let enqueued = |(id, coalesced)| Enqueued { id: JobId::new(id), coalesced };
    Ok(pairs.into_iter().map(enqueued).collect())
}

/// Scopes as words joined by commas; empty for all.
pub(crate) fn scopes_to_text(scopes: &[TokenScope]) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",")
}

pub(crate) fn scopes_from_text(text: &str, row: i64) -> Result<Vec<TokenScope>, StoreError> {
    text.split(',')
        .filter(|word| !word.is_empty())
        .map(|word| {
            TokenScope::parse(word)
                .map_err(|error| inconsistent("api_tokens", "scopes", row, error.to_string()))
        })
        .collect()
}

pub(crate) fn hash_from_bytes(bytes: &[u8], row: i64) -> Result<TokenHash, StoreError> {
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| {
        inconsistent("api_tokens", "secret_hash", row, format!("has {} bytes", bytes.len()))
    })?;
    Ok(TokenHash::from_stored(bytes))
}

/// The step that a token's making is logged as.
pub(crate) fn token_made(id: i64) -> Transition {
    Transition {
        entity: TOKEN_ENTITY,
        entity_id: id,
        from_state: None,
        to_state: check::token_state(false).to_owned(),
        cause: "created".to_owned(),
        detail: None,
    }
}

/// The step that a token's revoking is logged as.
pub(crate) fn token_revoked(id: i64, cause: &str) -> Transition {
    Transition {
        entity: TOKEN_ENTITY,
        entity_id: id,
        from_state: Some(check::token_state(false).to_owned()),
        to_state: check::token_state(true).to_owned(),
        cause: cause.to_owned(),
        detail: None,
    }
}

pub(crate) fn inconsistent(
    table: &'static str,
    column: &'static str,
    row: i64,
    reason: String,
) -> StoreError {
    StoreError::Inconsistent { table, column, row, reason }
}

fn progress_from_text(text: Option<String>) -> Option<Progress> {
    text.map(|text| Progress(Json::from_stored(text)))
}

fn end_from_columns(
    row: i64,
    state: i16,
    result: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
    folded_into: Option<i64>,
) -> Result<FinishedState, StoreError> {
    let missing =
        |column| inconsistent(FINISHED, column, row, "is NULL against the state".to_owned());
    match finished_state_name(row, state)? {
        JobState::Completed => {
            let result = Json::from_stored(result.ok_or_else(|| missing("result"))?);
            Ok(FinishedState::Completed { result })
        }
        JobState::Failed => {
            let code = ErrorCode::new(&error_code.ok_or_else(|| missing("error_code"))?);
            let message = error_message.unwrap_or_default();
            Ok(FinishedState::Failed { error: JobError { code, message } })
        }
        _ => {
            let cause = match folded_into {
                Some(into) => CancelCause::Folded { into: JobId::new(into) },
                None => CancelCause::Requested,
            };
            Ok(FinishedState::Cancelled { cause })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn facts() -> FactColumns {
        FactColumns {
            id: 9,
            user_id: 1,
            kind: "render".to_owned(),
            key: None,
            payload: "null".to_owned(),
            priority: 0,
            run_at: at(1),
            triggered_at: at(1),
            created_at: at(1),
            attempt: 1,
            max_attempts: Some(3),
            runs: None,
            lane: None,
            linked: false,
        }
    }

    fn completed() -> FinishedColumns {
        FinishedColumns {
            facts: facts(),
            state: COMPLETED,
            finished_at: at(5),
            lease_no: Some(4),
            claimed_at: Some(at(2)),
            worker: Some("w".to_owned()),
            error_code: None,
            error_message: None,
            folded_into: None,
            result: Some("7".to_owned()),
            progress: None,
        }
    }

    #[test]
    fn a_run_kept_in_columns_reads_as_any_other() {
        let job = completed().into_job().unwrap();
        assert_eq!(job.facts.runs.total, 1);
        let run = &job.facts.runs.runs[0];
        assert_eq!((run.started_at, run.ended_at, run.outcome), (at(2), at(5), RunOutcome::Done));
        // Written back it is an entry of the log, and nothing is lost on the way.
        let text = runs_to_text(&job.facts.runs);
        assert_eq!(runs_from_text(text.as_deref(), FINISHED, 9).unwrap(), job.facts.runs);
    }

    #[test]
    fn a_row_that_breaks_its_promise_is_named() {
        let cases = [
            (FinishedColumns { result: None, ..completed() }, "result"),
            (FinishedColumns { state: FAILED, ..completed() }, "error_code"),
            (FinishedColumns { state: 2, ..completed() }, "state"),
            (
                FinishedColumns {
                    facts: FactColumns { kind: "No Kind".to_owned(), ..facts() },
                    ..completed()
                },
                "kind",
            ),
            (
                FinishedColumns {
                    facts: FactColumns { runs: Some("{".to_owned()), ..facts() },
                    ..completed()
                },
                "runs",
            ),
        ];
        for (columns, expected) in cases {
            match columns.into_job() {
                Err(StoreError::Inconsistent { column, row: 9, .. }) => {
                    assert_eq!(column, expected);
                }
                other => panic!("{expected}: {other:?}"),
            }
        }
    }

    #[test]
    fn lanes_name_their_kind() {
        assert_eq!(kind_of_lane("presence.poll").unwrap().as_str(), "presence.poll");
        assert_eq!(kind_of_lane("17/render").unwrap().as_str(), "render");
        assert!(kind_of_lane("17/").is_err());
    }

    #[test]
    fn answers_and_scopes_survive_storage() {
        let answer = vec![
            Enqueued { id: JobId::new(3), coalesced: false },
            Enqueued { id: JobId::new(3), coalesced: true },
        ];
        assert_eq!(answer_to_text(&answer), "[[3,false],[3,true]]");
        assert_eq!(answer_from_text("[[3,false],[3,true]]").unwrap(), answer);
        let scopes = vec![TokenScope::Read, TokenScope::Work];
        assert_eq!(scopes_from_text(&scopes_to_text(&scopes), 1).unwrap(), scopes);
        assert_eq!(scopes_from_text("", 1).unwrap(), vec![]);
    }
}
