//! Compares what was acknowledged with what is stored.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use roundsman_core::jobs::{CancelCause, FinishedJob, FinishedState, Job};
use roundsman_testkit::JsonClient;
use serde_json::Value;

use super::ledger::{Known, Ledger, OwnersWord, Sort, expect_none};
use super::producer::{count_markers, trigger};
use crate::site::{Node, Stored};

/// How many of the latest users and tokens are tried.
const ACCESS_TRIED_MAX: usize = 10;

/// Nothing acknowledged is lost or changed, nothing was done twice, and the store contradicts
/// itself nowhere.
pub(crate) fn verify(ledger: &Ledger, stored: &Stored) -> Result<()> {
    ensure!(stored.violations.is_empty(), "the store: {:?}", stored.violations);
    let rows: BTreeMap<i64, &Job> =
        stored.jobs.iter().map(|job| (job.facts().id.get(), job)).collect();
    ensure!(rows.len() == stored.jobs.len(), "a job is listed twice");
    let mut problems = Vec::new();
    {
        let entries = ledger.entries();
        for (id, known) in &entries.jobs {
            match rows.get(id) {
                None => problems.push(format!("job {id} is lost: {known:?}")),
                Some(job) => {
                    if let Err(problem) = compare(known, job, &rows) {
                        problems.push(format!("job {id}: {problem}; {known:?}; {job:?}"));
                    }
                }
            }
        }
    }
    problems.extend(doubles(&stored.jobs));
    expect_none(&problems)?;
    ledger.expect_no_problems()
}

/// After a drain: every job of the load has come to its end, but for those that wait for a day that
/// no test sees.
pub(crate) fn verify_drained(ledger: &Ledger, stored: &Stored) -> Result<()> {
    verify(ledger, stored)?;
    for job in &stored.jobs {
        let facts = job.facts();
        let kind = facts.kind.as_str();
        let scheduled_fickle = kind == Sort::Fickle.kind() && matches!(job, Job::Waiting(_));
        let ended = matches!(job, Job::Finished(_));
        let ours = Sort::ALL.iter().any(|sort| sort.kind() == kind);
        ensure!(!ours || ended || scheduled_fickle, "left over after the end: {job:?}");
    }
    let done = ledger.entries().jobs.values().filter(|known| known.done.is_some()).count();
    ensure!(done > 0, "a load in which nothing was completed proves nothing");
    Ok(())
}

/// Users are still there, tokens still work, and revoked ones still do not.
pub(crate) async fn verify_access(ledger: &Ledger, node: &Node) -> Result<()> {
    let (users, tokens) = {
        let entries = ledger.entries();
        let users: Vec<_> = entries.users.iter().rev().take(ACCESS_TRIED_MAX).cloned().collect();
        let tokens: Vec<_> = entries.tokens.iter().rev().take(ACCESS_TRIED_MAX).cloned().collect();
        (users, tokens)
    };
    let admin = node.admin()?;
    for (email, id) in users {
        let user = admin.get(&format!("/admin/users/email/{email}")).await?.expect_status(200)?;
        ensure!(user.body["id"] == id, "{email} was {id} and is {}", user.body["id"]);
    }
    for token in tokens {
        let Some(revoked) = token.revoked else { continue };
        let client = JsonClient::new(node.base_url())?.with_header("x-api-key", &token.text)?;
        let status = client.get("/jobs?limit=1").await?.status;
        let expected = if revoked { 401 } else { 200 };
        ensure!(status == expected, "token {} (revoked: {revoked}): {status}", token.id);
    }
    Ok(())
}

fn compare(known: &Known, job: &Job, rows: &BTreeMap<i64, &Job>) -> Result<(), String> {
    let facts = job.facts();
    let payload = facts.payload.to_value();
    if known.sort != Sort::Keyed && payload["marker"].as_str() != known.marker.as_deref() {
        return Err("it has the payload of another wish".to_owned());
    }
    if facts.max_attempts.is_some_and(|max| facts.attempt > max) {
        return Err("it was tried too often".to_owned());
    }
    if known.sort == Sort::Keyed {
        let last = end_of_folds(job, rows)?;
        if trigger(&last.facts().payload.to_value()) < known.trigger {
            return Err(format!("trigger {} is lost; {last:?}", known.trigger));
        }
    }
    match job {
        Job::Waiting(_) | Job::Running(_) => unfinished(known),
        Job::Finished(job) => finished(known, job),
    }
}

fn unfinished(known: &Known) -> Result<(), String> {
    if known.done.is_some() || known.failed {
        return Err("it had ended".to_owned());
    }
    if known.owners_word == OwnersWord::Cancelled {
        return Err("it had been cancelled".to_owned());
    }
    Ok(())
}

fn finished(known: &Known, job: &FinishedJob) -> Result<(), String> {
    match &job.state {
        FinishedState::Completed { result } => {
            let result = result.to_value();
            match &known.done {
                Some(acked) if *acked == result => Ok(()),
                Some(_) => Err("it has another result".to_owned()),
                None if known.maybe_done.contains(&result) => Ok(()),
                None => Err("nobody sent its result".to_owned()),
            }
        }
        _ if known.done.is_some() => Err("its completion was acknowledged".to_owned()),
        FinishedState::Failed { .. } => {
            let expected = known.failed || known.maybe_failed || job.facts.attempts_used_up();
            if expected { Ok(()) } else { Err("nobody gave it up".to_owned()) }
        }
        _ if known.failed => Err("its failure was acknowledged".to_owned()),
        FinishedState::Cancelled { cause: CancelCause::Folded { .. } } => match known.sort {
            Sort::Keyed => Ok(()),
            Sort::Plain | Sort::Fickle => Err("a job without a key was folded".to_owned()),
        },
        FinishedState::Cancelled { cause: CancelCause::Requested } => match known.owners_word {
            OwnersWord::Cancelled | OwnersWord::Unclear => Ok(()),
            _ if known.cancelled_by_worker => Ok(()),
            OwnersWord::Enqueued | OwnersWord::Retried => Err("nobody cancelled it".to_owned()),
        },
    }
}

/// A job that was folded lives on in another, which has all its triggers.
fn end_of_folds<'a>(job: &'a Job, rows: &BTreeMap<i64, &'a Job>) -> Result<&'a Job, String> {
    let mut last = job;
    while let Job::Finished(finished) = last {
        let FinishedState::Cancelled { cause: CancelCause::Folded { into } } = finished.state
        else {
            break;
        };
        last = rows.get(&into.get()).ok_or_else(|| format!("it was folded into {into:?}, gone"))?;
    }
    Ok(last)
}

/// Wishes that are stored more than once.
fn doubles(jobs: &[Job]) -> Vec<String> {
    let payloads: Vec<Value> = jobs.iter().map(|job| job.facts().payload.to_value()).collect();
    let markers = payloads.iter().filter_map(|payload| payload["marker"].as_str());
    let counts = count_markers(markers);
    let twice = counts.into_iter().filter(|(_, count)| *count > 1);
    twice.map(|(marker, count)| format!("{marker} is stored {count} times")).collect()
}
